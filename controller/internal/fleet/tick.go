package fleet

import (
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/shared/wire"
)

// tick does what is due: the end of a check, the end of a trial, questions to nodes.
func (s *step) tick() {
	if p := s.pending; p != nil && !s.now.Before(p.deadline) {
		s.judge()
	}
	s.expireTrials()
	s.maintenance.expire(s)
	s.questions.expire(s)
	s.releaseHeld()
	var report []string
	for len(s.agenda) > 0 && !s.agenda[0].due.After(s.now) {
		n := s.agenda[0]
		d := s.needs(n)
		if !d.any() {
			s.agenda.remove(n)
			continue
		}
		n.retries++
		s.changes.add(n.Name) // what it owes may count as withheld now
		n.heardOffline = n.heardOffline && n.retries < maxCalls
		s.agenda.set(n, s.now.Add(s.pause(n, d.grace)))
		if d.report {
			s.askAboutClaims(n)
			report = append(report, n.Name)
			for _, k := range n.Kinds {
				k.asked = true
			}
		}
		if d.events {
			s.chaseEvents(n)
		}
		if d.confirm {
			for _, o := range s.outputs {
				if k := n.Kinds[o.Name]; s.confirmedMeanwhile(o, k) {
					s.askConfirm(o, []string{n.Name}, k.Desired.Stamp())
				}
			}
		}
	}
	if len(report) > 0 {
		s.ask(wire.MethodReport, report, nil)
	}
	if at := s.rollouts.NextDeadline(); !at.IsZero() && !s.now.Before(at) {
		s.rollout(rollout.Tick{})
	}
}

// NextDeadline returns when the next Tick is due; false: nothing is.
func (f *Fleet) NextDeadline() (time.Time, bool) {
	next, _ := f.limiter.deadline()
	next = earlier(next, earlier(f.maintenance.deadline(), f.questions.deadline()))
	next = earlier(next, f.rollouts.NextDeadline())
	if f.pending != nil {
		next = earlier(next, f.pending.deadline)
	}
	for _, src := range f.sources {
		if src.Trial != nil {
			next = earlier(next, src.Trial.Deadline)
		}
	}
	if len(f.agenda) > 0 {
		next = earlier(next, f.agenda[0].due)
	}
	return next, !next.IsZero()
}

// earlier is the earlier one of two times, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
