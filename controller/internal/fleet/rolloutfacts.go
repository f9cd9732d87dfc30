package fleet

import (
	"maps"
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// What rollouts are told of nodes. To them a document is the one that was submitted: its hash stands for what each node
// gets of it, so that a body that is made anew for another reason is no other version.

// aim is what a rollout was told last that a node should get.
type aim struct{ id, hash string }

// touch remembers that something of a node has changed that rollouts look at, or lists show.
func (f *Fleet) touch(node string) {
	f.changes.add(node)
	if node != "" && f.rollouts.Going() {
		f.touched[node] = true
	}
}

// tellRollouts tells the rollouts what has changed, until nothing follows from it any more.
func (s *step) tellRollouts() {
	for s.rollouts.Going() && len(s.touched) > 0 {
		names := slices.Sorted(maps.Keys(s.touched))
		clear(s.touched)
		s.tell(names)
	}
	clear(s.touched)
}

// tell tells the rollouts what is known of nodes.
func (s *step) tell(names []string) {
	facts := make(rollout.Facts, 0, len(names))
	for _, name := range names {
		facts = append(facts, s.fact(name))
	}
	s.must(facts)
	for _, name := range names {
		n := s.nodes[name]
		if n == nil {
			continue
		}
		for _, o := range s.outputs {
			if o.main == nil || o.main.Fold != nil && o.main.Hash == "" {
				continue // nothing of it was ever rolled out, or all have the same by now
			}
			if d, ok := s.doc(n, o); ok {
				s.must(d)
			}
			s.retarget(n, o)
		}
	}
}

// must is rollout with an event that is no order, and so is never refused.
func (s *step) must(ev rollout.Event) {
	if err := s.rollout(ev); err != nil {
		panic("fleet: a rollout refuses a fact: " + err.Error())
	}
}

// tellAll tells everything, before a rollout begins.
func (s *step) tellAll() {
	s.rollouts.Blank()
	clear(s.touched)
	s.tell(s.names())
}

func (s *step) names() (all []string) {
	for _, n := range s.sorted() {
		all = append(all, n.Name)
	}
	return all
}

// rolloutsOpened tells the rollouts of a journal that was read what is known, and has them go on.
func (s *step) rolloutsOpened() {
	if s.rollouts.Going() {
		names := append(s.names(), s.rollouts.Nodes()...) // also of nodes that were forgotten
		slices.Sort(names)
		clear(s.touched)
		s.tell(slices.Compact(names))
	}
	for _, id := range s.rollouts.IDs() {
		v, _ := s.rollouts.Show(s.now, id)
		src := s.source(s.rolled[id].Source)
		if r := src.State.Rollout; v.Ended.IsZero() && (r == nil || r.ID != id) {
			s.endRollout(src, s.rolled[id], "") // what it brings was disabled, or removed, and then it was killed
		}
	}
	s.must(rollout.Opened{}) // also if none goes on: until then nothing is decided
}

// fact is what rollouts are told of a node; one that is not known has gone.
func (f *Fleet) fact(name string) rollout.Fact {
	n := f.nodes[name]
	if n == nil {
		return rollout.Fact{Node: name, Revoked: true}
	}
	fact := rollout.Fact{
		Node: name, Type: n.Type(), Labels: f.labels(n), Revoked: f.isRevoked(name), Online: n.Up, Since: n.Since,
		Boot: n.Boot, Behind: n.EventSeq < n.liveEvents,
	}
	for _, a := range n.Alerts {
		fact.Health.Troubles = append(fact.Health.Troubles,
			rollout.Trouble{Aspect: plan.Alerts, Name: a.Tag + " " + a.Parameter})
	}
	for _, o := range f.outputs {
		v := f.as(n, o.Name)
		if v.Document == nil || v.Detail == nil {
			continue
		}
		if o.Troubles != nil {
			fact.Health.Troubles = append(fact.Health.Troubles, o.Troubles(v.Detail)...)
		}
		if o.Quiet == nil {
			continue
		}
		if q := o.Quiet(v.Detail); q != nil {
			h := &fact.Health
			fact.Heard, h.Boot, h.Revs = v.At, v.Document.Boot, q.Revs
			h.Alerts, h.Checks, h.Restarts, h.Workloads = q.Alerts.Std(), q.Checks.Std(), q.Restarts.Std(),
				q.Workloads.Std()
		}
	}
	return fact
}

// labels are those that a node should have.
func (f *Fleet) labels(n *Node) (all []string) {
	for _, o := range f.outputs {
		if o.main == nil || o.main.Fold != nil {
			continue
		}
		if c, ok := o.variantOf(o.side(n)).content.(kind.Labelled); ok {
			all = append(all, c.Labels(n.facts(o.Looks))...)
		}
	}
	return all
}

// doc is what rollouts are told of a node's document; false: it has not said what it has.
func (f *Fleet) doc(n *Node, o *output) (d rollout.Doc, ok bool) {
	if o.main.Fold != nil {
		return f.elementDoc(n, o), true
	}
	k := n.Kinds[o.Name]
	d = rollout.Doc{Node: n.Name, Kind: o.Name}
	switch {
	case k == nil || k.Desired == nil:
		// Nothing was issued to it. If nothing should be, it has what it should.
		if v := o.variantOf(o.side(n)); v.content != nil && v.content.For(n.facts(o.Looks)) == nil {
			d.Installed.Hash = v.of
			return d, true
		}
		return d, k != nil && k.Boot != ""
	case k.Boot == "":
		return d, false
	case k.Running != nil:
		d.Installed = rollout.Ref{Rev: k.Running.Rev, Hash: o.main.orInstalled(k.has())}
		if d.Installed.Rev > k.Desired.Rev {
			d.Installed.Rev = 0 // of an epoch before, of a journal that was lost
		}
	}
	if err := k.wrong(); err != nil {
		d.Failed = &rollout.Failure{
			Ref:    rollout.Ref{Rev: k.Desired.Rev, Hash: o.main.orInstalled(k.Desired.Of)},
			Reason: err.Error(),
		}
	}
	return d, true
}

// wrong says what a node has against its newest document; nil: nothing.
func (k *KindState) wrong() *wire.Error {
	switch {
	case k.Fork() != nil:
		return k.Fork()
	case !k.Failed() && !k.Drifted():
		return nil
	case k.Last.Error == nil:
		return wire.New(wire.CodeApplyFailed, "", "it is "+string(k.Last.State)+", and gave no reason")
	case k.Last.Error.Code == wire.CodeInterrupted:
		return nil // it tries again by itself: that is no verdict on the document (ADR 006), and deadlines count
	}
	return k.Last.Error
}

// aim is the document that a node should get in a rollout, by its hash; "": it is not concerned.
func (s *step) aim(n *Node, o *output, doc *kind.Rollout) string {
	next := o.variantOf(doc.Hash)
	if !s.takesDocuments(n) || next.content == nil {
		return ""
	}
	if o.Everyone {
		return doc.Hash
	}
	body := func(v variant) string {
		if v.content == nil {
			return ""
		}
		if b := v.content.For(n.facts(o.Looks)); b != nil {
			return b.Hash
		}
		return ""
	}
	old := o.side(n)
	if old == doc.Hash {
		return doc.Hash // it has it already
	}
	was, is := body(o.variantOf(old)), body(next)
	if was == is || is == "" && o.Empty == nil {
		return ""
	}
	return doc.Hash
}

// retarget tells a rollout what a node should get now, where that has changed.
func (s *step) retarget(n *Node, o *output) {
	doc := o.main.State.Rollout
	if doc == nil {
		return
	}
	k := n.kind(o.Name)
	if now := (aim{doc.ID, s.aim(n, o, doc)}); k.aim != now {
		k.aim = now
		s.must(rollout.Target{ID: doc.ID, Node: n.Name, Hash: now.hash})
	}
}
