package fleet

import (
	"cmp"
	"slices"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// View returns a node as operators see it.
func (n *Node) View() view.Node {
	v := view.Node{
		Node: n.Name, Type: n.Type(), Online: n.Up, Since: n.Since, FirstSeen: n.FirstSeen, InSync: true,
		Info: n.Info, Boot: n.Boot, Session: n.Session, Events: n.EventSeq, Health: n.health(),
	}
	for kind, k := range n.Kinds {
		if kind == wire.KindInfo || kind != wire.KindConfig && k.Desired == nil && k.Running == nil && k.Last == nil {
			continue
		}
		d := k.view()
		if v.Documents == nil {
			v.Documents = map[wire.Kind]view.Document{}
		}
		v.Documents[kind] = d
		v.InSync = v.InSync && d.InSync
	}
	return v
}

func (k *KindState) view() view.Document {
	d := view.Document{Running: k.Running, Last: k.Last, InSync: k.InStep(), ReportedAt: k.At}
	if k.Desired != nil {
		d.Desired = &view.Desired{DocRef: k.Desired.DocRef, Mode: k.Desired.Mode, Issued: k.Desired.Issued}
	}
	return d
}

// Views returns every node in the order of names.
func (f *Fleet) Views() []view.Node {
	all := make([]view.Node, 0, len(f.nodes))
	for _, n := range f.sorted() {
		all = append(all, n.View())
	}
	return all
}

// maxLaggards bounds the laggards that are named in a Progress.
const maxLaggards = 100

// Status returns the unit configuration's state and how far the nodes have come with it.
func (f *Fleet) Status() view.ConfigStatus {
	c := f.config
	s := view.ConfigStatus{
		State: c.State, Version: c.Version, Rev: c.Rev, Since: c.Since, Error: c.Error, Attempted: c.Attempted,
		Progress: f.progress(wire.KindConfig),
	}
	if t := c.Trial; t != nil {
		s.Trial = &view.Trial{Version: t.Version, Rev: t.Rev, Deadline: t.Deadline}
	}
	return s
}

// progress counts how far the nodes have come with their documents of a kind. Every node is to have a
// unit configuration; of other kinds only those count that have a document.
func (f *Fleet) progress(kind wire.Kind) view.Progress {
	p := view.Progress{}
	var late laggards
	for _, n := range f.nodes {
		k := n.Kinds[kind]
		there := k != nil && k.Desired != nil
		if kind == wire.KindConfig || there {
			p.Nodes++
			if n.Up {
				p.Online++
			}
		}
		if !there {
			continue
		}
		if k.InStep() {
			p.Installed++
			continue
		}
		if k.Settled() {
			p.Failed++
		} else if n.Up {
			p.OnlineMissing++
		}
		late.add(n, k)
	}
	p.Missing, p.Omitted = late.first, late.omitted
	return p
}

// laggards keeps the first maxLaggards of any number, in order: asking costs a pass over the nodes,
// not a sort of them.
type laggards struct {
	first   []view.Laggard
	omitted int
}

func (l *laggards) add(n *Node, k *KindState) {
	g := view.Laggard{Node: n.Name, Online: n.Up}
	if k.Last != nil && k.Last.Stamp() == k.Desired.Stamp() {
		g.State, g.Error = k.Last.State, k.Last.Error
	}
	full := len(l.first) == maxLaggards
	if full {
		l.omitted++
		if byPresence(l.first[maxLaggards-1], g) <= 0 {
			return
		}
		l.first = l.first[:maxLaggards-1]
	}
	at, _ := slices.BinarySearchFunc(l.first, g, byPresence)
	l.first = slices.Insert(l.first, at, g)
}

// byPresence puts online nodes first, then goes by name.
func byPresence(a, b view.Laggard) int {
	if a.Online != b.Online {
		if a.Online {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.Node, b.Node)
}
