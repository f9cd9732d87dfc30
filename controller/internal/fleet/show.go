package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// View returns a node as a list shows it.
func (f *Fleet) View(n *Node) (v view.Node) {
	f.viewInto(&v, n)
	return v
}

// viewInto is View, into a node whose map of documents is used again.
func (f *Fleet) viewInto(v *view.Node, n *Node) {
	clear(v.Documents)
	*v = view.Node{
		Node: n.Name, Type: n.Type(), Online: n.Up, Since: n.Since, FirstSeen: n.FirstSeen, InSync: true,
		Info: n.Info, Boot: n.Boot, Session: n.Session, Events: n.EventSeq, Documents: v.Documents,
	}
	for name, k := range n.Kinds {
		o := f.output(name)
		everyone := o != nil && o.Everyone
		if o != nil && len(o.from) == 0 || !everyone && k.Desired == nil && k.Running == nil && k.Last == nil {
			continue
		}
		d := k.Document.View()
		if everyone && k.Desired == nil && (k.Running != nil || k.Last != nil) && !f.isRevoked(n.Name) {
			d.InSync = false // it has, or has tried, what the unit has not; a trial that ran out is no arrival
		}
		if n.unheard(k) {
			d.InSync, d.Error = false, cmp.Or(d.Error, errUnheard)
		}
		if v.Documents == nil {
			v.Documents = map[wire.Kind]view.Document{}
		}
		v.Documents[name] = d
		v.InSync = v.InSync && d.InSync
	}
	for _, o := range f.outputs {
		if o.Brief != nil {
			o.Brief(f.as(n, o.Name), v)
		}
	}
}

// Show returns all that is known of one node; false: it was never heard of.
func (f *Fleet) Show(name string) (view.Node, bool) {
	n := f.nodes[name]
	if n == nil {
		return view.Node{}, false
	}
	v := f.View(n)
	v.Raised = n.Alerts
	for _, o := range f.outputs {
		if o.Show != nil {
			o.Show(f, f.as(n, o.Name), &v)
		}
	}
	return v, true
}

// InError returns the nodes that are in error, as they told, in the order of names; at most kind.MaxNamed, and
// how many more there are.
func (f *Fleet) InError() (all []view.NodeError, omitted int) {
	revoked := f.revoked()
	for _, n := range f.sorted() {
		if err := n.inError(); err != nil && !revoked[n.Name] {
			all = append(all, view.NodeError{Node: n.Name, Errors: []*wire.Error{err}})
		}
	}
	return all, kind.Clip(&all, kind.MaxNamed)
}

// maxErrorsTold bounds the nodes in error that the unit's trouble describes.
const maxErrorsTold = 5

// errorTrouble says in words which nodes are in error.
func (f *Fleet) errorTrouble() (all []string) {
	nodes, more := f.InError()
	for i, n := range nodes {
		if i == maxErrorsTold {
			return append(all, kind.Many(len(nodes)-i+more, "more node")+" in error")
		}
		all = append(all, "node "+n.Node+" is in error: "+n.Errors[0].Error())
	}
	return all
}

// offlineTrouble says in words how many nodes are offline.
func (f *Fleet) offlineTrouble() []string {
	revoked, nodes, offline := f.revoked(), 0, 0
	for _, n := range f.nodes {
		if revoked[n.Name] {
			continue
		}
		nodes++
		if !n.Up {
			offline++
		}
	}
	switch {
	case offline == 0:
		return nil
	case offline == 1:
		return []string{"1 of " + kind.Many(nodes, "node") + " is offline"}
	}
	return []string{fmt.Sprintf("%d of %s are offline", offline, kind.Many(nodes, "node"))}
}

// Trouble says in words what operators should look at.
func (f *Fleet) Trouble() (all []string) {
	all = append(f.errorTrouble(), f.offlineTrouble()...)
	for _, o := range f.outputs {
		if o.Trouble != nil {
			all = append(all, o.Trouble(f)...)
		}
	}
	return all
}

// Views returns the nodes whose names are wanted, in the order of names.
func (f *Fleet) Views(wanted func(name string) bool) []view.Node {
	all := make([]view.Node, 0, len(f.nodes))
	for _, n := range f.sorted() {
		if wanted(n.Name) {
			all = append(all, f.View(n))
		}
	}
	return all
}

// maxLaggards bounds the laggards that are named in a Progress.
const maxLaggards = 100

// Status returns how the unit stands with a source, as operators see it.
func (f *Fleet) Status(name wire.Kind) view.SourceStatus {
	src := f.source(name)
	st := src.State
	v := view.SourceStatus{
		State: st.State, Version: st.Version, Rev: st.Rev, Since: st.Since, Who: st.Who, Error: st.Error,
		Trial: st.Trial.View(), Attempted: st.Attempted, Progress: f.progress(f.madeFrom(src)),
	}
	if err := f.damage(src); err != nil && v.Error == nil {
		v.State, v.Error = kind.Failed, err
	}
	if src.Show != nil {
		src.Show(f, &v)
	}
	return v
}

// Progress counts how far the nodes have come with their documents of a kind. Of a kind that not every node is
// to have only those count that have a document.
func (f *Fleet) Progress(name wire.Kind) view.Progress {
	if o := f.output(name); o != nil {
		return f.progress([]*output{o})
	}
	return view.Progress{}
}

// progress is Progress for several kinds together: a node has to have its documents of each. Revoked nodes do not
// count.
func (f *Fleet) progress(of []*output) view.Progress {
	p := view.Progress{}
	everyone := slices.ContainsFunc(of, func(o *output) bool { return o.Everyone })
	var late laggards
	revoked := f.revoked()
	for _, n := range f.nodes {
		if revoked[n.Name] {
			continue
		}
		k, there := n.furthest(of)
		if everyone || there {
			p.Nodes++
			if n.Up {
				p.Online++
			}
		}
		if !there {
			continue
		}
		unheard := n.unheard(k)
		if k.InStep() && !unheard {
			p.Installed++
			continue
		}
		if k.Settled() && !unheard {
			p.Failed++
		} else if n.Up {
			p.OnlineMissing++
		}
		late.add(n, k)
	}
	p.Missing, p.Omitted = late.first, late.omitted
	return p
}

// furthest returns the kind, of some, with which a node has the longest way to go: one that is under way, else one
// that has failed. False: it is to have none of them.
func (n *Node) furthest(of []*output) (worst *KindState, there bool) {
	for _, o := range of {
		k := n.Kinds[o.Name]
		if k == nil || k.Desired == nil {
			continue
		}
		if worst == nil || worst.InStep() || worst.Settled() && !k.Settled() {
			worst = k
		}
	}
	return worst, worst != nil
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
	if err := k.Fork(); err != nil {
		g.Error = err
	} else if n.unheard(k) {
		g.Error = errUnheard
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

// Type returns the node's type, "" while it has not told.
func (n *Node) Type() string {
	if n.Info == nil {
		return ""
	}
	return n.Info.Type
}
