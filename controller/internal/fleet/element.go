package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// A collection is rolled out by its elements, one at a time: the document is the whole collection, once with the
// element as it was, once as the rollout brings it. What else is changed is changed in both.

// sideOf names a collection by the version of an element that it has, a rev; 0: the one that there was before.
func sideOf(element string, rev uint64) string { return element + "@" + strconv.FormatUint(rev, 10) }

// element is that of which nodes have different versions; "": there is none.
func (src *source) element() string {
	if len(src.versions) == 0 {
		return ""
	}
	return src.versions[0].Element
}

// newest is the collection with the element that is rolled out, or else the installed one.
func (src *source) newest() kind.Content {
	if r := src.State.Rollout; r != nil && r.Element != "" {
		return src.contents[r.Hash]
	}
	return src.installed
}

// unite has all nodes get the same of a source again.
func (f *Fleet) unite(src *source) {
	src.split, src.versions, src.contents, src.Hash = false, nil, nil, ""
	for _, o := range f.madeFrom(src) {
		o.variants = nil
	}
}

// weigh says why a change of a collection is refused, or that it changes nothing, or how it comes to the nodes.
func (f *Fleet) weigh(src *source, data any, now time.Time) (w kind.Waves, same bool, err *wire.Error) {
	c := src.installed
	e, _ := data.(kind.ElementChange)
	going := src.State.Rollout
	own := going != nil && e.Element() == going.Element
	if own {
		c = src.newest()
	}
	if err = src.Fold.Judge(c, data); err != nil && (own || !src.endsLeft(e, data)) {
		return w, false, err
	}
	if err == nil && src.Fold.Same != nil && src.Fold.Same(c, data) {
		return w, true, nil
	}
	if src.Fold.Waves != nil {
		w = src.Fold.Waves(c, data)
	}
	if own && !w.Ends {
		return w, false, wire.New(wire.CodeWrongState, "", fmt.Sprintf("the rollout %s of %s %s goes on: abort it, "+
			"or wait for its end; to disable or remove the %[2]s ends it, too", going.ID, src.Noun, going.Element))
	}
	if w.Plan != nil {
		if err = f.againstWaves(src, e.Element(), w, now); err != nil {
			return w, false, err
		}
	}
	if src.Fold.Weigh == nil {
		return w, false, nil
	}
	return w, false, src.Fold.Weigh(f, c, data)
}

// endsLeft reports whether a change ends what an aborted rollout of its element has left on nodes: that can be said of
// it even if there is nothing to be said of the element as it was before.
func (src *source) endsLeft(e kind.ElementChange, data any) bool {
	if e == nil || !src.split || e.Element() != src.element() {
		return false
	}
	return slices.ContainsFunc(src.versions, func(v kind.Version) bool {
		c := src.contents[v.Hash]
		return c != nil && src.Fold.Judge(c, data) == nil && src.Fold.Waves(c, data).Ends
	})
}

// againstWaves says why an element cannot be rolled out now; nil: it can.
func (f *Fleet) againstWaves(src *source, element string, w kind.Waves, now time.Time) *wire.Error {
	if r := src.State.Rollout; r != nil {
		return wire.New(wire.CodeWrongState, "/rollout", fmt.Sprintf("the rollout %s of %s %s goes on, and one is "+
			"rolled out at a time: abort it, or wait for its end", r.ID, src.Noun, r.Element))
	}
	if was := src.element(); src.split && was != element {
		return wire.New(wire.CodeWrongState, "/rollout", fmt.Sprintf("nodes have different versions of %s %s, whose "+
			"rollout was aborted: apply, disable or remove that first", src.Noun, was))
	}
	if _, err := w.Plan.Open(f.opt.Zones); err != nil {
		return wire.New(wire.CodeBadValue, "/rollout/windows", err.Error())
	}
	late := latest(now, w.Start).Add(w.Over) // the subtraction of times would be bounded
	if !late.Before(now.Add(w.Plan.Deadline.Std() - w.Plan.Gate.Soak.Std())) {
		return wire.New(wire.CodeBadValue, "/rollout/deadline", fmt.Sprintf("a node that gets it now may begin as "+
			"late as %s, and has to be in good health for %s then: the deadline %s is too short for it to pass",
			late.UTC().Format(time.RFC3339), w.Plan.Gate.Soak, w.Plan.Deadline))
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Against says why a change of a collection would be refused now; nil: it would not.
func (f *Fleet) Against(source wire.Kind, data any, now time.Time) *wire.Error {
	_, _, err := f.weigh(f.source(source), data, now)
	return err
}

// rollOut makes a change a record, and begins to roll out what it brings.
func (s *step) rollOut(src *source, ev *Change, p *plan.Plan) {
	rev := s.seq + 1
	id := fmt.Sprintf("%s-%d", src.Name, rev)
	e := ev.Data.(kind.ElementChange)
	data := e.ByRollout(id)
	s.emit(record.Record{Type: record.Settings, Who: ev.Who, Kind: string(src.Name), Data: record.Encode(data)},
		change{data})
	doc := &kind.Rollout{ID: id, Source: src.Name, Who: ev.Who, Rev: s.seq + 1, Version: kind.Version{
		Hash: sideOf(e.Element(), rev), Version: strconv.FormatUint(rev, 10), Element: e.Element()}}
	issued := s.beginRollout(src, doc, src.next, p)
	s.effect(Answer{Ticket: ev.Ticket, Result: view.Result{
		State: "accepted", Rev: rev, Epoch: s.opt.Epoch, Issued: issued, Rollout: id,
	}})
}

// prepare keeps what a rollout brings that begins with the next record.
func (src *source) prepare(e kind.ElementChange, at kind.Change) {
	if src.installed == nil {
		empty, err := src.Fold.Load(jsontext.Value("{}"))
		if err != nil {
			panic("fleet: no collection is empty: " + err.Error())
		}
		src.installed = empty
		src.State = kind.State{State: kind.Installed, Version: "0", Since: at.At}
	}
	src.next = src.Fold.Apply(src.installed, at, e)
	if src.Hash == "" {
		src.Hash = sideOf(e.Element(), 0)
	}
}

// endRollout ends the rollout of an element that nothing acts on any more. Nobody waits for the nodes that have got it.
func (s *step) endRollout(src *source, r *kind.Rollout, who string) {
	s.must(rollout.Abort{ID: r.ID, Who: who, How: plan.Leave})
	o := s.madeFrom(src)[0]
	why := "the " + src.Noun + " " + r.Element + " was disabled or removed"
	for _, n := range s.sorted() {
		status, _ := s.rollouts.Status(r.ID, n.Name)
		hash, _ := s.rollouts.Hash(r.ID, n.Name)
		if status == rollout.Issued || status == rollout.Back {
			over := &rollout.Failure{Ref: rollout.Ref{Rev: s.seq, Hash: hash}, Reason: why}
			s.must(rollout.Doc{Node: n.Name, Kind: o.Name, Failed: over})
		}
	}
}

// touchAll remembers that what nodes should get of a source may be something else by now.
func (s *step) touchAll(src *source) {
	for _, o := range s.madeFrom(src) {
		if o.main != nil && o.main.State.Rollout != nil {
			for name := range s.nodes {
				s.touch(name)
			}
		}
	}
}

// elementDoc is doc of a collection: a node has an element when it is at an end with it, not when it knows it.
func (f *Fleet) elementDoc(n *Node, o *output) rollout.Doc {
	main, k := o.main, n.Kinds[o.Name]
	d := rollout.Doc{Node: n.Name, Kind: o.Name, Installed: rollout.Ref{Hash: main.Hash}}
	if k == nil || k.Desired == nil || k.Running == nil {
		return d
	}
	d.Installed.Hash = main.orInstalled(k.has())
	element := main.element()
	if v := main.find(d.Installed.Hash); v.Element != "" {
		element = v.Element
	}
	st := o.Standing(o.variantOf(d.Installed.Hash).content, n.facts(o.Looks), k.Detail, element)
	has := st.Done || st.Idle && d.Installed.Hash == main.Hash
	if has && k.Running.Rev <= k.Desired.Rev { // else of an epoch before
		d.Installed.Rev = k.Running.Rev
	}
	if err := k.wrong(); err != nil {
		ref := rollout.Ref{Rev: k.Desired.Rev, Hash: main.orInstalled(k.Desired.Of)}
		d.Failed = &rollout.Failure{Ref: ref, Reason: err.Error()}
	} else if st.Error != nil {
		ref := rollout.Ref{Rev: k.Running.Rev, Hash: d.Installed.Hash}
		d.Failed = &rollout.Failure{Ref: ref, Reason: st.Error.Error()}
	}
	return d
}
