package rollout

import (
	"slices"
	"time"

	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// Step takes one event and adds what follows from it to out. The numbers of its records come after seq, without a gap.
// An error refuses an order, of which nothing was done.
func (s *Set) Step(now time.Time, seq uint64, ev Event, out *Out) *wire.Error {
	st := &step{s, now, seq, out}
	if err := st.take(ev); err != nil {
		return err
	}
	for again := !s.stale; again; {
		again = false
		for _, r := range s.open {
			again = st.drive(r) || again
		}
	}
	s.close()
	return nil
}

// close drops rollouts that have ended and have nothing in flight any more.
func (s *Set) close() {
	s.open = slices.DeleteFunc(s.open, func(r *Rollout) bool {
		if !r.ended() || r.flying > 0 || len(r.settled) > 0 {
			return false
		}
		s.leave(r)
		return true
	})
}

// leave has nodes know nothing more of a rollout.
func (s *Set) leave(r *Rollout) {
	for _, p := range r.parts {
		p.parts = slices.DeleteFunc(p.parts, func(o *part) bool { return o == p })
	}
	r.timers = nil
}

// take does what an event says; what follows for rollouts comes afterwards.
func (s *step) take(ev Event) *wire.Error {
	switch ev := ev.(type) {
	case Facts:
		for i := range ev {
			n := s.node(ev[i].Node)
			n.Fact = ev[i]
			if n.holder != nil && n.Revoked {
				n.holder = nil
			}
			n.refresh(s.now)
		}
	case Doc:
		n := s.node(ev.Node)
		n.docs[ev.Kind] = ev
		n.refresh(s.now)
	case Target:
		if r := s.all[ev.ID]; r != nil && slices.Contains(s.open, r) {
			r.part(s.node(ev.Node)).aim(s.now, ev.Hash)
		}
	case Begin:
		return s.begin(ev)
	case Pause:
		return s.pauseOrder(ev)
	case Resume:
		return s.resumeOrder(ev)
	case Abort:
		return s.abortOrder(ev)
	case Supersede:
		r, err := s.going(ev.ID)
		if err != nil {
			return err
		}
		s.emit(r, EndedData{Phase: Superseded, By: ev.By})
	case Opened:
		s.restarted()
	case Tick:
	default:
		panic("rollout: unknown event")
	}
	return nil
}

// aim sets what a node should get. One that should get something else than it was issued is issued to again.
func (p *part) aim(now time.Time, hash string) {
	p.target = hash
	p.refresh(now)
}

// begin journals a rollout. Nodes that have what they should get are not planned.
func (s *step) begin(ev Begin) *wire.Error {
	if s.all[ev.ID] != nil {
		return wire.New(wire.CodeAlreadyExists, "", "the rollout "+ev.ID+" has begun already")
	}
	if _, err := ev.Plan.Open(s.zones); err != nil {
		return wire.New(wire.CodeBadValue, "/windows", err.Error())
	}
	var names []string
	for name, hash := range ev.Targets {
		if n := s.node(name); hash != "" && n.docs[ev.Kind].Installed.Hash != hash && !n.Revoked {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	data := BegunData{Kind: ev.Kind, Who: ev.Who, Salt: ev.Salt, Plan: ev.Plan, Nodes: names}
	r := s.all[s.recordBegun(ev.ID, data).ID]
	for _, name := range names {
		r.parts[name].aim(s.now, ev.Targets[name])
	}
	return nil
}

func (s *step) recordBegun(id string, data BegunData) Record {
	s.seq++
	rec := Record{s.seq, s.now, id, data}
	s.out.Records = append(s.out.Records, rec)
	s.apply(rec)
	return rec
}

// going returns a rollout that has not ended.
func (s *step) going(id string) (*Rollout, *wire.Error) {
	r := s.all[id]
	switch {
	case r == nil:
		return nil, wire.New(wire.CodeNotFound, "", "there is no rollout "+id)
	case r.ended():
		return nil, wire.New(wire.CodeWrongState, "", "the rollout "+id+" has ended: it is "+string(r.phase))
	}
	return r, nil
}

func (s *step) pauseOrder(ev Pause) *wire.Error {
	r, err := s.going(ev.ID)
	if err != nil {
		return err
	}
	if r.phase == Paused {
		return wire.New(wire.CodeWrongState, "", "the rollout "+ev.ID+" is paused already")
	}
	s.emit(r, PausedData{Cause: CauseOrder, Who: ev.Who, Text: ev.Reason})
	return nil
}

func (s *step) resumeOrder(ev Resume) *wire.Error {
	r, err := s.going(ev.ID)
	if err != nil {
		return err
	}
	if r.phase != Paused {
		return wire.New(wire.CodeWrongState, "", "the rollout "+ev.ID+" is not paused")
	}
	s.settle(r) // what has failed before is known to who resumes
	s.emit(r, ResumedData{Who: ev.Who})
	return nil
}

func (s *step) abortOrder(ev Abort) *wire.Error {
	r, err := s.going(ev.ID)
	if err != nil {
		return err
	}
	how := ev.How
	if how == "" {
		how = r.plan.OnAbort
	}
	if how == plan.TakeBack && !r.revert {
		s.settle(r)
		s.emit(r, RevertingData{Who: ev.Who, Now: ev.Now})
		return nil
	}
	if how == plan.TakeBack {
		return wire.New(wire.CodeWrongState, "", "the rollout "+ev.ID+" is being taken back already")
	}
	s.emit(r, EndedData{Phase: Aborted, Who: ev.Who})
	return nil
}

// restarted takes every node as offline, gives nodes time to be heard, and has documents published that their nodes
// may never have got.
func (s *step) restarted() {
	s.stale = false
	for _, n := range s.nodes {
		if n.Online {
			n.Online, n.Since = false, s.now
		}
	}
	for _, r := range s.open {
		r.notBefore = s.now.Add(min(grace, r.plan.Deadline.Std()))
		byRev := map[uint64][]NodeHash{}
		back := map[uint64]bool{}
		for _, p := range r.parts {
			if p.status.inFlight() && !p.installed() && !p.Revoked {
				byRev[p.rev] = append(byRev[p.rev], NodeHash{p.Node, p.hash})
				back[p.rev] = p.status == Back
			}
		}
		for _, rev := range sortedKeys(byRev) {
			e := Effect{ID: r.id, Rev: rev, Back: back[rev], Nodes: sortedNodes(byRev[rev])}
			s.out.Effects = append(s.out.Effects, e)
		}
		r.refreshAll(s.now)
	}
}

// NextDeadline is when Step wants to be called with Tick; zero: never.
func (s *Set) NextDeadline() (at time.Time) {
	first := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, r := range s.open {
		if len(r.timers) > 0 {
			first(r.timers[0].due)
		}
		if !r.ended() {
			first(r.windowUntil)
		}
	}
	return at
}
