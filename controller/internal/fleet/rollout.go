package fleet

import (
	"fmt"
	"maps"
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// RolloutOrder is what somebody decides about a rollout: a rollout.Pause, Resume or Abort; answered under Ticket.
type RolloutOrder struct {
	Ticket uint64
	Who    string
	Order  rollout.Event
}

func (RolloutOrder) event() {}

// Rollouts are those that go on, and the newest that have ended, for those who look at them.
func (f *Fleet) Rollouts() *rollout.Set { return f.rollouts }

// RolledOut is what a rollout brings to the nodes; false: there is none of that ID.
func (f *Fleet) RolledOut(id string) (kind.Rollout, bool) {
	if r := f.rolled[id]; r != nil {
		return *r, true
	}
	return kind.Rollout{}, false
}

// rolloutOrder has the rollout judge an order. Who it is from is set here, so that nobody orders in another's name.
func (s *step) rolloutOrder(ev RolloutOrder) {
	order, id := ev.Order, ""
	switch o := order.(type) {
	case rollout.Pause:
		o.Who, id = ev.Who, o.ID
		order = o
	case rollout.Resume:
		o.Who, id = ev.Who, o.ID
		order = o
	case rollout.Abort:
		o.Who, id = ev.Who, o.ID
		order = o
	default:
		panic("fleet: no order about a rollout") // the shell has them of their types
	}
	if err := s.rollout(order); err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	r := view.Result{State: "accepted", Rollout: id, Epoch: s.opt.Epoch, Mode: wire.ModeApply}
	r.Version = s.rolled[id].Version.Version
	s.effect(Answer{Ticket: ev.Ticket, Result: r})
}

// rollout gives an event to the rollouts, makes records of what they decide, and does what follows from these.
func (s *step) rollout(ev rollout.Event) *wire.Error {
	return s.rolloutWith(ev, nil)
}

// rolloutWith is rollout with the document that the event begins to roll out.
func (s *step) rolloutWith(ev rollout.Event, doc *kind.Rollout) *wire.Error {
	var out rollout.Out
	if err := s.rollouts.Step(s.now.UTC(), s.seq, ev, &out); err != nil {
		return err
	}
	var done []string
	for _, r := range out.Records {
		data := record.OfRollout(r)
		if data.Begun != nil {
			data.Document = doc
		} else {
			doc = s.rolled[r.ID]
		}
		rec := record.Record{Type: record.Rollout, Kind: string(doc.Source), Who: data.Who(), Data: record.Encode(data)}
		s.emit(rec, rolled{data, true})
		if data.Ended != nil && data.Ended.Phase == rollout.Done {
			done = append(done, r.ID)
		}
	}
	for _, e := range out.Effects {
		if e.Look {
			s.ask(wire.MethodReport, named(e.Nodes), nil)
		} else {
			s.issueRollout(e)
		}
	}
	slices.Sort(done)
	for _, id := range done {
		s.rolloutDone(s.source(s.rolled[id].Source))
	}
	return nil
}

func named(nodes []rollout.NodeHash) (all []string) {
	for _, n := range nodes {
		all = append(all, n.Node)
	}
	return all
}

// rolloutDone has the rest of the unit follow: what was rolled out is the installed document from now on.
func (s *step) rolloutDone(src *source) {
	if src.Copied {
		s.effect(WriteCopy{})
	}
	for _, n := range s.sorted() {
		for _, o := range s.madeFrom(src) {
			if n.Up { // those who are away get it when they come
				s.supply(n, o)
			}
		}
	}
}

// issueRollout issues to nodes what a rollout says. Those that have had it issued already are left out: after a restart
// it is said again.
func (s *step) issueRollout(e rollout.Effect) {
	src := s.source(s.rolled[e.ID].Source)
	if src.State.Rollout == nil || src.State.Rollout.ID != e.ID {
		return // it has ended, and issues nothing more
	}
	o := s.madeFrom(src)[0]
	of, ok := s.offered(o)
	if !ok {
		return // issueMissing does when something is distributed again
	}
	reason := "rollout " + e.ID
	if e.Back {
		reason = "taken back by rollout " + e.ID
	}
	by := map[string][]*Node{}
	for _, nh := range e.Nodes {
		n := s.nodes[nh.Node]
		if n == nil || !s.takesDocuments(n) {
			continue
		}
		if d := n.kind(o.Name).Desired; d == nil || d.Of != nh.Hash || d.Rev < e.Rev || d.Epoch != s.opt.Epoch {
			by[nh.Hash] = append(by[nh.Hash], n)
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(by)) {
		of.of = hash
		s.issue(of, by[hash], false, reason)
	}
}

// issueMissing issues what rollouts have said while nothing was distributed.
func (s *step) issueMissing() {
	for _, src := range s.sources {
		r := src.State.Rollout
		if r == nil {
			continue
		}
		o := s.madeFrom(src)[0]
		var issued, back []rollout.NodeHash
		for _, n := range s.sorted() {
			hash, ok := s.rollouts.Hash(r.ID, n.Name)
			if k := n.Kinds[o.Name]; !ok || k == nil || k.Desired != nil && k.Desired.Of == hash {
				continue
			}
			switch status, _ := s.rollouts.Status(r.ID, n.Name); status {
			case rollout.Issued:
				issued = append(issued, rollout.NodeHash{Node: n.Name, Hash: hash})
			case rollout.Back:
				back = append(back, rollout.NodeHash{Node: n.Name, Hash: hash})
			}
		}
		s.issueRollout(rollout.Effect{ID: r.ID, Nodes: issued})
		s.issueRollout(rollout.Effect{ID: r.ID, Back: true, Nodes: back})
	}
}

// againstRollout says why a submission cannot be rolled out, or while a rollout goes on not be accepted; nil: it can.
func (s *step) againstRollout(src *source, ev *Submit) *wire.Error {
	refuse := func(code wire.Code, path, text string) *wire.Error { return wire.New(code, path, text) }
	if r := src.State.Rollout; r != nil {
		return refuse(wire.CodeWrongState, "", fmt.Sprintf("the rollout %s of version %s goes on, and one %s has one "+
			"at a time; abort it, or wait for its end", r.ID, r.Version.Version, src.Noun))
	}
	if ev.Plan == nil {
		return nil
	}
	switch {
	case ev.Sub.Mode == wire.ModeTry:
		return refuse(wire.CodeInvalidArgument, "/rollout", "a rollout is not tried unit-wide: its first wave is the "+
			"trial; submit it with one of the two")
	case len(s.madeFrom(src)) != 1:
		return refuse(wire.CodeNotSupported, "/rollout", "the "+src.Title+" makes several kinds of documents, which "+
			"are not rolled out")
	case src.Trial != nil:
		return refuse(wire.CodeWrongState, "/rollout", "version "+src.Trial.Version+" is on trial: confirm it, or "+
			"wait for its end")
	case src.State.State == kind.Failed:
		return refuse(wire.CodeWrongState, "/rollout", "the "+src.Title+" is failed: nothing is sent to the nodes; "+
			"restore it first")
	case ev.Hash == src.Hash:
		return refuse(wire.CodeAlreadyExists, "/rollout", "version "+src.Version+" with this content is installed: "+
			"there is nothing to roll out; retry sends it to those who failed")
	}
	return nil
}

// acceptRollout begins to roll an accepted document out.
func (s *step) acceptRollout(p *pending, v *record.Verdict) {
	src := p.src
	v.Rollout = fmt.Sprintf("%s-%d", src.Name, s.seq+1)
	s.acceptance(p, v)
	doc := &kind.Rollout{ID: v.Rollout, Source: src.Name, Who: p.Sub.Who, Rev: s.seq + 1,
		Version: kind.Version{Hash: p.Hash, Version: v.Version}}
	s.answer(p, "accepted", v, s.beginRollout(src, doc, p.Content, p.Plan))
}

// beginRollout begins to roll out what a record says that was accepted, and returns how many documents were issued.
func (s *step) beginRollout(src *source, doc *kind.Rollout, c kind.Content, p *plan.Plan) (issued int) {
	o := s.madeFrom(src)[0]
	s.tellAll()
	src.keep(doc.Version, c)
	targets := map[string]string{}
	for _, n := range s.nodes {
		targets[n.Name] = s.aim(n, o, doc)
		n.kind(o.Name).aim = aim{doc.ID, targets[n.Name]}
	}
	before := s.seq
	if err := s.rolloutWith(rollout.Begin{
		ID: doc.ID, Who: doc.Who, Salt: fmt.Sprintf("%s %d", doc.ID, s.now.UnixNano()), Kind: o.Name, Plan: p,
		Targets: targets,
	}, doc); err != nil {
		panic("fleet: a rollout that was checked cannot begin: " + err.Error())
	}
	for _, n := range s.nodes {
		if k := n.Kinds[o.Name]; k.Desired != nil && k.Desired.Rev > before {
			issued++
		}
	}
	return issued
}
