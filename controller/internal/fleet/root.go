package fleet

import (
	"strconv"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/signing"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/wire"
)

// RootOrder brings lists of CAs and keys that a root key has signed; answered under Ticket.
type RootOrder struct {
	Ticket uint64
	signing.RootOrder
}

func (RootOrder) event() {}

// Root returns what a root key has said; it must not be changed.
func (f *Fleet) Root() record.RootData { return f.root }

// rootOrder has package signing decide, and makes what is kept a record.
func (s *step) rootOrder(ev RootOrder) {
	data, err := signing.ImportRoot(s.now, s.root.Lists, ev.RootOrder)
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	s.emit(record.Record{Type: record.Root, Who: ev.Who}, data)
	s.effect(CAsChanged{})
	s.promptAll()
	s.effect(Answer{Ticket: ev.Ticket})
}

// RootView returns the newest list that a root key has signed as operators see it, nil if there is none; now are the
// CAs and keys of the unit.
func (f *Fleet) RootView(now *rootlist.List) *view.Root {
	if f.root.Number == 0 {
		return nil
	}
	l, err := rootlist.Parse(f.root.Lists[len(f.root.Lists)-1].List)
	if err != nil { // it was checked when it came
		return nil
	}
	v := &view.Root{Number: l.Number, Time: l.Time(), By: f.root.By, Behind: signing.Behind(l, now)}
	if keys, err := rootlist.ParseRoots(l.Roots); err == nil {
		for _, id := range keys.IDs() {
			v.Keys = append(v.Keys, string(id))
		}
	}
	for _, n := range f.nodes {
		if n.Info != nil && n.Info.Attributes[wire.AttributeRoot] == strconv.FormatUint(l.Number, 10) {
			v.Nodes++
		}
	}
	return v
}
