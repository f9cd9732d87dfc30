package rollout

import (
	"cmp"
	"slices"
	"time"
)

// reverting begins to take nodes back: first those that have failed, then those in flight, then those that have passed,
// the newest first. What a node had before is its own last good document; one that had nothing keeps what it has.
func (r *Rollout) reverting(at time.Time, d RevertingData) {
	r.phase, r.revert, r.now, r.waveOpen = Reverting, true, d.Now, false
	r.pause, r.pausedAt, r.by = PausedData{}, time.Time{}, d.Who
	class := map[Status]int{Failed: 1, Silent: 1, Issued: 2, Passed: 3}
	r.back, r.first = nil, 0
	for _, p := range r.parts {
		if class[p.status] > 0 && p.before != "" {
			r.back = append(r.back, p)
		}
	}
	slices.SortFunc(r.back, func(a, b *part) int {
		return cmp.Or(cmp.Compare(class[a.status], class[b.status]),
			-cmp.Compare(max(a.rev, a.ended), max(b.rev, b.ended)), -byRank(a, b))
	})
	r.refreshAll(at)
}

// toTakeBack reports whether the node has still to be taken back, and whether somebody waits for it.
func (p *part) toTakeBack() (todo, waits bool) {
	switch {
	case p.restored():
		return false, false
	case p.status == Back:
		return false, true
	}
	return true, p.Online || !p.has.absent
}

// restored reports whether nothing is to be done about the node any more.
func (p *part) restored() bool { return p.Revoked || p.status == Restored || p.status == Stuck }

// takeBack takes as many nodes back as the limits allow, and ends when there is none left.
func (s *step) takeBack(r *Rollout) {
	if slices.ContainsFunc(r.back, func(p *part) bool { return p.status == Stuck && !p.excused }) {
		s.pause(r, CauseTakeBack, func(p *part) bool { return p.status == Stuck && !p.excused })
		return
	}
	var d TakenBackData
	rec := Record{Seq: s.seq + 1, At: s.now, ID: r.id}
	waits := false
	for r.first < len(r.back) && r.back[r.first].restored() {
		r.first++
	}
	for _, p := range r.back[r.first:] {
		todo, waiting := p.toTakeBack()
		waits = waits || waiting
		if !todo || !p.Online || p.unheard() || !r.windowOpen && !r.now || p.holder != nil && p.holder != r {
			continue
		}
		if !p.room() {
			if p.has.mask == 1 && p.status == Passed {
				break // nobody behind has room either
			}
			continue
		}
		n := NodeHash{p.Node, p.before}
		d.Nodes = append(d.Nodes, n)
		r.takenBack(rec, n)
	}
	if len(d.Nodes) > 0 {
		s.seq, rec.Data = rec.Seq, d
		s.out.Records = append(s.out.Records, rec)
		s.out.Effects = append(s.out.Effects, Effect{ID: r.id, Rev: rec.Seq, Back: true, Nodes: d.Nodes})
	} else if !waits {
		s.emit(r, EndedData{Phase: Aborted, Who: r.by})
	}
}
