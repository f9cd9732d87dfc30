package rollout

import (
	"slices"
	"time"

	"tandem.internal/controller/internal/rollout/plan"
)

// hold takes or frees the claim on the node, and counts the node anew in every rollout.
func (p *part) hold(now time.Time) {
	if p.status.inFlight() && !p.Revoked {
		p.holder = p.of
	} else if p.holder == p.of {
		p.holder = nil
	}
	p.node.refresh(now)
}

// refresh counts a node anew in every open rollout.
func (n *node) refresh(now time.Time) {
	for _, p := range n.parts {
		p.refresh(now)
	}
}

// refreshAll counts all parts anew.
func (r *Rollout) refreshAll(now time.Time) {
	for _, p := range r.parts {
		p.refresh(now)
	}
}

// refreshMembers counts the parts anew that the newest wave may have.
func (r *Rollout) refreshMembers(now time.Time) {
	for _, p := range r.parts {
		if p.wave == r.wave {
			p.refresh(now)
		}
	}
}

// refresh finds out what follows for one part from facts, records and time: its outcome, what it adds to the counts,
// where it waits, and when to look again.
func (p *part) refresh(now time.Time) {
	r := p.of
	has := p.share(now)
	if has != p.has {
		r.add(&p.has, -1)
		p.has = has
		r.add(&p.has, 1)
	}
	p.enqueue()
	switch {
	case !has.sick || !p.Online || p.status != Passed || p.again() || r.ended():
		p.sickSince = time.Time{}
	case p.sickSince.IsZero():
		p.sickSince = now
	}
	if p.judge(now) && !p.settling {
		p.settling = true
		r.settled = append(r.settled, p)
	}
	if at := p.askAt(); !at.IsZero() && !now.Before(at) && !p.settling && !p.looking {
		p.looking, p.asked = true, now
		r.looks = append(r.looks, p)
	}
	p.setTimer(p.nextLook(now))
}

// soaks reports whether the node has what was issued to it, and may pass yet.
func (p *part) soaks() bool {
	return (p.status == Issued || p.status == Failed || p.status == Silent) && p.installed()
}

// askAt is when a soaking node may have passed, and is to be asked; zero: not by time alone.
func (p *part) askAt() (at time.Time) {
	g := &p.of.plan.Gate
	if !p.soaks() || !p.fresh() || p.sick() || p.Heard.IsZero() || p.gatePassed() {
		return at
	}
	if p.Health.Revs[p.of.kind] >= p.rev {
		at = p.Heard.Add(g.Soak.Std() - p.Health.quiet(g.Healthy))
	} else {
		at = p.Heard // it has not spoken since it was installed
	}
	pause := askEvery
	if p.Heard.After(p.asked) && p.Health.Revs[p.of.kind] >= p.rev {
		pause = askSoon // it has answered: it is asked when its soak time is over
	}
	if next := p.asked.Add(pause); !p.asked.IsZero() && at.Before(next) {
		at = next
	}
	return at
}

// share is what a part adds to the counts now.
func (p *part) share(now time.Time) share {
	r := p.of
	s := share{mask: 1}
	for i, g := range r.plan.Groups {
		if plan.Selects(g.Label, g.Type, p.Type, p.Labels) {
			s.mask |= 2 << i
		}
	}
	if p.Revoked {
		return share{mask: s.mask}
	}
	s.sick = p.sick()
	s.flying = p.status.inFlight()
	s.absent = p.absentAt(now)
	unheard := p.unheard()
	// One that was silent has come back with what it was to have: to be taken back, it is made unavailable once more.
	came := r.revert && p.status == Silent && p.installed()
	p.cleared = p.cleared && !s.flying ||
		(p.status == Failed || p.status == Stuck || came) && p.Online && !s.sick && !unheard
	broken := (p.status == Silent || p.status == Failed || p.status == Stuck) && !p.cleared
	s.ours = s.flying || broken && !s.absent
	s.size = !s.absent
	s.unavailable = !s.absent && (!p.Online || unheard || s.sick || s.ours || p.holder != nil ||
		p.status != Passed && p.ill(nil))
	s.counted = !r.revert && !p.excused && (p.status == Failed || p.status == Silent)
	s.pending = p.member() && (p.status == Issued || p.wants() && !s.absent)
	return s
}

// add adds a share to the counts, sign times.
func (r *Rollout) add(s *share, sign int) {
	one := func(b bool) int {
		if b {
			return sign
		}
		return 0
	}
	for i := range r.groups {
		if s.mask&(1<<i) != 0 {
			g := &r.groups[i]
			g.size += one(s.size)
			g.unavailable += one(s.unavailable)
			g.ours += one(s.ours)
		}
	}
	r.counted += one(s.counted)
	r.pending += one(s.pending)
	r.flying += one(s.flying)
}

// sick reports whether the node tells of a trouble that is not one of before it was issued to.
func (p *part) sick() bool {
	return p.ill(p.baseline)
}

// ill reports whether the node tells of a trouble, other than these, of an aspect that counts.
func (p *part) ill(but []Trouble) bool {
	return p.fresh() && slices.ContainsFunc(p.Health.Troubles, func(t Trouble) bool {
		return slices.Contains(p.of.plan.Gate.Healthy, t.Aspect) && !slices.Contains(but, t)
	})
}

// fresh reports whether what the node has said of its health is of the boot that it is online with.
func (n *node) fresh() bool {
	return n.Online && !n.Behind && n.Health.Boot != "" && n.Health.Boot == n.Boot
}

// unheard reports whether the node is online with another boot than the one of which it has told its health, or has
// told more than has arrived: it may be ill. It is not issued to: how it is follows in a moment.
func (n *node) unheard() bool {
	return n.Online && (n.Behind || n.Health.Boot != "" && n.Health.Boot != n.Boot)
}

// absentAt reports whether the node was offline for so long, and nothing is under way there, that nobody waits for it.
func (p *part) absentAt(now time.Time) bool {
	return p.mayBeAbsent() && !now.Before(p.Since.Add(p.of.plan.AbsentAfter.Std()))
}

func (p *part) mayBeAbsent() bool {
	if p.Online || p.status.inFlight() {
		return false
	}
	return p.of.revert || p.status != Silent && p.status != Failed && p.status != Stuck
}

// gatePassed reports whether the node has what was issued to it, and was in good health for the whole soak time since.
func (p *part) gatePassed() bool {
	g := &p.of.plan.Gate
	return p.installed() && p.fresh() && p.Health.Revs[p.of.kind] >= p.rev && !p.sick() &&
		p.Health.quiet(g.Healthy) >= g.Soak.Std()
}

// judge sets the outcome of a part, and reports whether it has changed what the records say.
func (p *part) judge(now time.Time) bool {
	p.outcome = outcome{}
	if p.Revoked {
		return false
	}
	p.outcome = p.verdict(now)
	o := p.outcome
	return o.status != "" && (o.status != p.status || o.reason != p.reason)
}

// verdict returns what has become of a part; zero: nothing new.
func (p *part) verdict(now time.Time) outcome {
	r := p.of
	late := !now.Before(p.deadline())
	switch {
	case p.status == Back:
		switch f := p.failure(); {
		case p.installed():
			return outcome{status: Restored}
		case f != nil:
			return outcome{Stuck, f.Reason}
		case late:
			return outcome{Stuck, "it was not taken back by its deadline"}
		}
	case p.status != Issued && r.ended():
	case p.status == Queued, p.status == Restored, p.status == Stuck, p.status == Passed && p.again():
	case p.status == Passed:
		f := p.failure()
		switch {
		case f != nil:
			return outcome{Failed, f.Reason}
		case !p.sickSince.IsZero() && !now.Before(p.sickSince.Add(r.plan.Gate.Soak.Std())):
			return outcome{Failed, "it passed, and was not in good health for the soak time after that"}
		}
	case p.failure() != nil:
		return outcome{Failed, p.failure().Reason}
	case p.gatePassed():
		return outcome{status: Passed}
	case p.status == Issued && late && p.Online:
		return outcome{Failed, "it has not passed by its deadline"}
	case p.status == Issued && late:
		return outcome{Silent, "it is offline, and has not passed by its deadline"}
	}
	return outcome{}
}

// deadline is when a node that is in flight has to be at an end.
func (p *part) deadline() time.Time {
	at := p.issuedAt.Add(p.of.plan.Deadline.Std())
	if at.Before(p.of.notBefore) {
		return p.of.notBefore
	}
	return at
}

// nextLook is when time alone may change something; zero: it does not.
func (p *part) nextLook(now time.Time) (at time.Time) {
	if p.Revoked {
		return at
	}
	first := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if p.status.inFlight() && !p.settling {
		first(p.deadline())
	}
	if p.mayBeAbsent() && !p.has.absent {
		first(p.Since.Add(p.of.plan.AbsentAfter.Std()))
	}
	if ask := p.askAt(); !ask.IsZero() && !p.settling {
		first(ask)
	}
	if !p.sickSince.IsZero() && !p.settling {
		first(p.sickSince.Add(p.of.plan.Gate.Soak.Std()))
	}
	return at
}
