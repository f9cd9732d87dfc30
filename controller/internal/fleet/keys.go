package fleet

import (
	"slices"
	"strings"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/signing"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// KeyOrder changes the list of the unit's signing keys; answered under Ticket.
type KeyOrder struct {
	Ticket uint64
	signing.Order
}

func (KeyOrder) event() {}

// KeysChanged says that Keys is new: the beacon tells it, and if another key signs, everything is
// sealed anew.
type KeysChanged struct{}

func (KeysChanged) effect() {}

// Keys returns the unit's signing keys; it must not be changed.
func (f *Fleet) Keys() record.SigningKeys { return f.keys }

// keyOrder has package signing decide, and makes the new list a record.
func (s *step) keyOrder(ev KeyOrder) {
	data, err := signing.Change(s.now, s.keys, ev.Order, s.unaware)
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	s.emit(record.Record{Type: record.Keys, Who: ev.Who}, data)
	s.effect(KeysChanged{})
	s.effect(Answer{Ticket: ev.Ticket})
}

// believes reports whether a node has said that it believes what a key signs.
func (n *Node) believes(k record.SigningKey) bool {
	return n.Info != nil && slices.Contains(n.Info.Keys, k.ID)
}

// unaware names the nodes that are not known to believe a key, in order. Those that were revoked do
// not count; those that have joined since it was announced have been given it.
func (f *Fleet) unaware(k record.SigningKey) []string {
	var names []string
	for name, n := range f.nodes {
		if !n.believes(k) {
			names = append(names, name)
		}
	}
	f.enrolled.Each(func(sub *enrol.Subject) {
		if name, ok := strings.CutPrefix(sub.Name, nodePrefix); ok && f.nodes[name] == nil && len(sub.Serials()) > 0 &&
			f.forgotten[name].Time.IsZero() {
			names = append(names, name) // it has joined, and was not heard yet
		}
	})
	names = slices.DeleteFunc(names, func(name string) bool {
		sub := f.enrolled.Lookup(nodePrefix + name)
		return sub != nil && (!sub.Revoked.IsZero() || sub.Joined.After(k.Announced))
	})
	slices.Sort(names)
	return names
}

// KeysView returns the keys as operators see them; first is the one that signs while there is no list.
func (f *Fleet) KeysView(first wire.Key) view.Keys {
	return signing.View(f.keys, first, func(k record.SigningKey) (believe int, missing []string) {
		for _, n := range f.nodes {
			if n.believes(k) {
				believe++
			}
		}
		return believe, f.unaware(k)
	})
}
