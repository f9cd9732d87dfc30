package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// drive does what is due in a rollout, and reports whether it has journaled anything.
func (s *step) drive(r *Rollout) bool {
	before := s.seq
	r.expire(s.now)
	s.settle(r)
	s.look(r)
	if !r.ended() {
		r.lookAtWindow(s.now)
	}
	switch r.currentPhase() {
	case Running:
		s.proceed(r)
	case Reverting:
		s.takeBack(r)
	}
	return s.seq != before
}

// currentPhase is the phase, with Waiting.
func (r *Rollout) currentPhase() Phase {
	if r.phase == Running && r.wave < 0 && r.behind() != nil {
		return Waiting
	}
	return r.phase
}

// lookAtWindow keeps whether a window is open.
func (r *Rollout) lookAtWindow(now time.Time) {
	if r.windowUntil.IsZero() && r.windowOpen || !r.windowUntil.IsZero() && now.Before(r.windowUntil) {
		return
	}
	r.windowOpen, r.windowUntil = r.windows.At(now)
}

// settle journals what has become of nodes.
func (s *step) settle(r *Rollout) {
	var d SettledData
	for _, p := range r.settled {
		if p.settling = false; p.judge(s.now) {
			d.Nodes = append(d.Nodes, SettledNode{p.Node, p.outcome.status, p.outcome.reason})
		}
	}
	r.settled = r.settled[:0]
	if len(d.Nodes) > 0 {
		slices.SortFunc(d.Nodes, func(a, b SettledNode) int { return strings.Compare(a.Node, b.Node) })
		s.emit(r, d)
	}
}

// look has nodes asked how they are that may have passed by now.
func (s *step) look(r *Rollout) {
	if len(r.looks) == 0 {
		return
	}
	e := Effect{ID: r.id, Look: true}
	for _, p := range r.looks {
		if p.looking = false; p.soaks() && p.Online {
			e.Nodes = append(e.Nodes, NodeHash{p.Node, p.hash})
		}
	}
	r.looks = r.looks[:0]
	if len(e.Nodes) > 0 {
		sortedNodes(e.Nodes)
		s.out.Effects = append(s.out.Effects, e)
	}
}

// proceed goes on with a running rollout: it stops, opens waves, closes them, and issues.
func (s *step) proceed(r *Rollout) {
	for r.phase == Running {
		switch {
		case s.tooManyFailed(r):
		case !r.waveOpen && r.lastWave():
			s.emit(r, EndedData{Phase: Done})
		case !r.waveOpen:
			s.openWave(r)
		case r.pending > 0:
			s.issue(r)
			return
		case s.standIns(r), s.canaryWithoutPass(r):
		default:
			s.emit(r, WavePassedData{Wave: r.wave})
		}
	}
}

// tooManyFailed pauses a rollout whose failure budget is used up. In the canary wave there is none.
func (s *step) tooManyFailed(r *Rollout) bool {
	budget := r.plan.FailureBudget.Of(r.planned)
	if r.waveOpen && r.canary() {
		budget = 0
	}
	if r.counted <= budget {
		return false
	}
	s.pause(r, CauseBudget, func(p *part) bool { return p.has.counted })
	return true
}

// pause stops a rollout because of nodes.
func (s *step) pause(r *Rollout, cause PauseCause, because func(*part) bool) {
	d := PausedData{Cause: cause}
	for _, p := range r.parts {
		if because(p) {
			d.Nodes = append(d.Nodes, p.Node)
		}
	}
	slices.Sort(d.Nodes)
	s.emit(r, d)
}

// canaryWithoutPass pauses a rollout after a canary wave in which no node has passed.
func (s *step) canaryWithoutPass(r *Rollout) bool {
	if !r.canary() || r.override {
		return false
	}
	for _, p := range r.parts {
		if p.wave == r.wave && p.status == Passed && !p.Revoked {
			return false
		}
	}
	s.pause(r, CauseCanary, func(p *part) bool { return p.wave == r.wave })
	return true
}

// standIns has the next nodes by order stand in for those of the canary wave that are absent, or were revoked before
// they were issued to.
func (s *step) standIns(r *Rollout) bool {
	if !r.canary() || r.lastWave() {
		return false
	}
	missing := r.canaries
	for _, p := range r.parts {
		if p.wave == r.wave && (p.status != Queued || !p.has.absent && !p.Revoked) {
			missing--
		}
	}
	names := r.choose(r.wave, max(0, missing))
	if len(names) == 0 {
		return false
	}
	s.emit(r, WaveOpenedData{Wave: r.wave, Nodes: names})
	return true
}

// openWave opens the next wave; one without nodes is passed over.
func (s *step) openWave(r *Rollout) {
	i := r.wave + 1
	names := r.members(i)
	if len(names) == 0 && i < len(r.plan.Waves)-1 {
		s.emit(r, WavePassedData{Wave: i, Empty: true})
		return
	}
	s.emit(r, WaveOpenedData{Wave: i, Nodes: names})
}

// issue issues to as many nodes as the limits and the window allow.
func (s *step) issue(r *Rollout) {
	if !r.windowOpen {
		return
	}
	var d IssuedData
	rec := Record{Seq: s.seq + 1, At: s.now, ID: r.id}
	for p := r.next(); p != nil; p = r.next() {
		n := IssuedNode{NodeHash: NodeHash{p.Node, p.target}, Before: p.docs[r.kind].Installed.Hash}
		if p.again() {
			n.Before, n.Again = p.before, p.replaced()
		}
		if p.fresh() {
			n.Baseline = slices.Clone(p.Health.Troubles)
		}
		d.Nodes = append(d.Nodes, n)
		r.issued(rec, r.wave, n)
	}
	if len(d.Nodes) == 0 {
		return
	}
	d.Wave, s.seq = r.wave, rec.Seq
	rec.Data = d
	s.out.Records = append(s.out.Records, rec)
	e := Effect{ID: r.id, Rev: rec.Seq}
	for _, n := range d.Nodes {
		e.Nodes = append(e.Nodes, n.NodeHash)
	}
	s.out.Effects = append(s.out.Effects, e)
}

func sortedKeys[V any](m map[uint64]V) []uint64 { return slices.Sorted(maps.Keys(m)) }

func sortedNodes(all []NodeHash) []NodeHash {
	slices.SortFunc(all, func(a, b NodeHash) int { return cmp.Compare(a.Node, b.Node) })
	return all
}
