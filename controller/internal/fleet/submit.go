package fleet

import (
	"tandem.internal/controller/internal/accept"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// Submit is a document on its way in, parsed by the shell with its source; answered under Ticket.
type Submit struct {
	Ticket uint64
	Sub    view.Submission
	Hash   string     // of Sub.Document
	Plan   *plan.Plan // that plan.Parse returned; nil: no rollout
	kind.Parsed
}

func (Submit) event() {}

// maxWaiting bounds the submissions behind the one under way.
const maxWaiting = 16

// submit judges what can be judged here, then asks the online nodes (seed 000, Check).
func (s *step) submit(ev Submit) {
	if s.pending != nil {
		if len(s.waiting) >= maxWaiting {
			err := wire.New(wire.CodeUnavailable, "", "too many submissions are waiting; try again in a few seconds")
			s.effect(Answer{Ticket: ev.Ticket, Err: err})
			return
		}
		s.waiting = append(s.waiting, ev)
		return
	}
	s.expireTrials()
	if ev.Sub.Mode == "" {
		ev.Sub.Mode = wire.ModeApply
	}
	src := s.source(ev.Sub.Kind)
	if src == nil || src.Parse == nil {
		panic("fleet: a submission of kind " + string(ev.Sub.Kind)) // the shell refuses it by its name
	}
	s.name(src, &ev)
	p := &pending{Submit: ev, src: src, open: map[string]*owed{}}
	if src.Compare != nil && ev.Content != nil {
		p.placed = src.Compare(s, ev.Content)
	}
	if err := s.rule(src, &ev); err != nil {
		s.refuse(p, err, ev.Problems)
		return
	}
	s.pending = p
	s.consult(p)
}

// name gives a document without a version the next one, or that of the installed one if it is the same
// (ADR 023).
func (s *step) name(src *source, ev *Submit) {
	if src.Next == nil || ev.Sub.Version != "" || ev.Content == nil {
		return
	}
	ev.Version = src.Next(src.Version)
	if s.again(src, ev) {
		ev.Version = src.Version
	}
}

// again reports whether a document was submitted without a version and is the installed one.
func (s *step) again(src *source, ev *Submit) bool {
	return src.Next != nil && src.Version != "" && ev.Sub.Version == "" && ev.Hash == src.Hash && s.damage(src) == nil
}

// rule is what the controller alone can say.
func (s *step) rule(src *source, ev *Submit) *wire.Error {
	if len(ev.Problems) > 0 {
		return ev.Problems[0]
	}
	if err := s.againstRollout(src, ev); err != nil {
		return err
	}
	if src.NoTrial == nil {
		if err := accept.Trial(ev.Sub.Mode, ev.Sub.ConfirmWithin); err != nil {
			return err
		}
	} else if ev.Sub.Mode != wire.ModeApply || ev.Sub.ConfirmWithin != 0 {
		return src.NoTrial
	}
	if !s.again(src, ev) {
		if err := s.rises(src, ev); err != nil {
			return err
		}
	}
	if ev.Sub.DryRun { // which tells of it
		return nil
	}
	return s.failedBefore(src, ev)
}

// rises says why a version may not follow what there is.
func (s *step) rises(src *source, ev *Submit) *wire.Error {
	c := accept.Current{Installed: src.State.State == kind.Installed && s.damage(src) == nil, Version: src.Version}
	if src.Trial != nil {
		c.Trial = src.Trial.Version
	}
	return accept.Version(c, ev.Version)
}

// judge ends the check under way: any node's refusal refuses; silence does not.
func (s *step) judge() {
	p := s.pending
	s.pending = nil
	for name := range p.open {
		if n := s.nodes[name]; n != nil {
			n.quiet = true
		}
	}
	s.expireTrials()
	if len(p.refused) > 0 {
		s.refuse(p, p.refused[0].Errors[0], nil)
	} else if err := s.rule(p.src, &p.Submit); err != nil { // the unit may have changed since it was asked
		s.refuse(p, err, nil)
	} else {
		s.accept(p)
	}
	for s.pending == nil && len(s.waiting) > 0 {
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.submit(next)
	}
}

func (p *pending) verdict() record.Verdict {
	v := record.Verdict{
		ID: p.Sub.ID, Via: p.Sub.Via, Version: p.Version, Hash: p.Hash, Mode: p.Sub.Mode, Checks: p.checks(),
		Forced: p.Sub.Force, Signed: p.Sub.Signed, Plan: p.Sub.PlanHash(),
	}
	if v.Mode == wire.ModeTry {
		v.Within = duration.Duration(p.Sub.ConfirmWithin)
	}
	return v
}

func (s *step) refuse(p *pending, err *wire.Error, problems []*wire.Error) {
	v := p.verdict()
	v.Error, v.Problems = err, problems
	if !p.Sub.DryRun {
		s.emit(record.Record{Type: record.Refused, Who: p.Sub.Who, Kind: string(p.Sub.Kind)}, v)
	}
	s.answer(p, "refused", &v, 0)
}

func (s *step) accept(p *pending) {
	v := p.verdict()
	if p.Sub.DryRun {
		s.answer(p, "acceptable", &v, 0)
		return
	}
	if p.Plan != nil {
		s.acceptRollout(p, &v)
		return
	}
	src, reason := p.src, "accepted "+v.Version
	switch {
	case s.again(src, &p.Submit): // no new version: those who have failed at it get it again
		reason = "applied again"
	case v.Mode == wire.ModeTry:
		s.acceptance(p, &v)
		src.trying = p.Content
	default:
		s.acceptance(p, &v)
		src.installed, src.trying = p.Content, nil
		if src.Copied {
			s.effect(WriteCopy{Document: p.Sub.Document})
		}
	}
	issued := 0
	for _, o := range s.madeFrom(src) {
		issued += s.spread(o, reason)
	}
	s.answer(p, "accepted", &v, issued)
}

// acceptance makes an accepted submission a record.
func (s *step) acceptance(p *pending, v *record.Verdict) {
	s.out.Bodies = append(s.out.Bodies, p.Sub.Document)
	delete(s.damaged, p.Hash)
	s.emit(record.Record{Type: record.Accepted, Who: p.Sub.Who, Kind: string(p.Sub.Kind)}, *v)
}

func (s *step) answer(p *pending, state string, v *record.Verdict, issued int) {
	r := view.Result{
		ID: v.ID, State: state, Version: v.Version, Epoch: s.opt.Epoch, Mode: v.Mode,
		Error: v.Error, Problems: v.Problems, Checks: v.Checks, Issued: issued, Placed: p.placed, Warnings: p.Warnings,
	}
	if v.Rollout != "" {
		r.Rollout, r.Rev = v.Rollout, s.rolled[v.Rollout].Rev
	} else if state == "accepted" {
		r.Rev = p.src.Rev
		if t := p.src.Trial; v.Mode == wire.ModeTry {
			r.Rev, r.Deadline = t.Rev, t.Deadline
		}
	}
	if state == "acceptable" {
		r.Quarantined = s.failedBefore(p.src, &p.Submit)
	}
	s.effect(Answer{Ticket: p.Ticket, Result: r})
}
