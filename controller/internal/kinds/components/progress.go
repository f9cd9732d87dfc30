package components

import (
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// show adds how far the components have come: those that have their versions are completed.
func show(u kind.Unit, s *view.SourceStatus) {
	p := &view.SlotProgress{}
	s.Slots = p
	list, ok := u.Content(wire.KindComponents).(*Placement)
	if !ok {
		return
	}
	unknown := map[string]bool{}
	for i := range list.all {
		e := &list.all[i]
		n, known := u.Node(wire.KindComponents, e.Node)
		if !known && !unknown[e.Node] && len(s.Unknown) < kind.MaxNamed {
			unknown[e.Node] = true
			s.Unknown = append(s.Unknown, e.Node)
		}
		count(p, e, &n)
	}
	kind.ClipMissing(p)
}

// count adds a component to what is counted of them.
func count(p *view.SlotProgress, e *Entry, n *kind.Node) {
	s := view.Slot{Slot: e.Name + "@" + e.Node, Node: e.Node, Online: n.Up, Desired: e.Item + " " + e.Version,
		State: view.SlotWaiting, At: n.At}
	p.Slots++
	c := Of(n, e.Name, e.Item, e.Version)
	if c != nil {
		s.State = string(c.State)
		if c.Error != nil {
			s.Why = c.Error.Message
		}
	}
	refused := n.Document != nil && n.Document.Failed()
	switch {
	case c != nil && c.State == wire.ComponentInstalled:
		p.Completed++
		return
	case c != nil && c.State == wire.ComponentFailed && c.Again.IsZero():
		p.Failed++
	case n.Up && !refused:
		p.OnlineMissing++
	}
	p.Missing = append(p.Missing, s)
}

// Of is what a node has told of a component that is to have this version; nil: nothing yet.
func Of(n *kind.Node, name, item, version string) *wire.ComponentStatus {
	r, ok := n.Detail.(*wire.ComponentsReport)
	if !ok {
		return nil
	}
	at := slices.IndexFunc(r.Components, func(s wire.ComponentStatus) bool {
		return s.Name == name && s.Item == item && s.Version == version
	})
	if at < 0 {
		return nil
	}
	return &r.Components[at]
}
