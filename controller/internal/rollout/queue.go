package rollout

import (
	"container/heap"
	"time"

	"tandem.internal/controller/internal/rollout/plan"
)

// partHeap has parts by their order.
type partHeap []*part

func (h partHeap) Len() int           { return len(h) }
func (h partHeap) Less(i, j int) bool { return byRank(h[i], h[j]) < 0 }
func (h partHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop are for package heap.
func (h *partHeap) Push(x any) {
	x.(*part).index = len(*h)
	*h = append(*h, x.(*part))
}

func (h *partHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	p.index = -1
	return p
}

// queues are the nodes that wait, are online and free, of the same groups.
type queues struct {
	ready partHeap // members of the open wave
	sick  partHeap // members that are unavailable already, so that issuing costs less
	later partHeap // of the waves to come, and unavailable already
}

// enqueue puts a part into the queue where it belongs.
func (p *part) enqueue() {
	r := p.of
	var want *partHeap
	free := p.Online && !p.unheard() && !p.Revoked && (p.holder == nil || p.holder == r)
	if p.wants() && free && !r.revert && !r.ended() {
		q := r.queues[p.has.mask]
		if q == nil {
			q = &queues{}
			r.queues[p.has.mask] = q
		}
		switch available := !p.has.unavailable; {
		case p.member() && available:
			want = &q.ready
		case p.member():
			want = &q.sick
		case !available && p.initial:
			want = &q.later
		}
	}
	if want == p.queue {
		return
	}
	if p.queue != nil {
		heap.Remove(p.queue, p.index)
	}
	if p.queue = want; want != nil {
		heap.Push(want, p)
	}
}

// room reports whether a part may be made unavailable within the limits of its groups. What is unavailable already
// counts only among those that are so because of this rollout.
func (p *part) room() bool {
	r := p.of
	for i := range r.groups {
		if p.has.mask&(1<<i) == 0 {
			continue
		}
		g, limit := &r.groups[i], r.limit(i)
		switch {
		case p.has.ours:
		case p.has.unavailable && g.ours+1 > limit, !p.has.unavailable && g.unavailable+1 > limit:
			return false
		}
	}
	return true
}

// limit is how many nodes of a group may be unavailable.
func (r *Rollout) limit(i int) int {
	amount := r.plan.MaxUnavailable
	if i > 0 {
		amount = r.plan.Groups[i-1].MaxUnavailable
	}
	return plan.Limit(amount, r.groups[i].size)
}

// next returns the part to issue to now; nil: none. If members have to wait for what is unavailable, nodes that are so
// themselves come before their wave: else they would hold up everybody for ever.
func (r *Rollout) next() *part {
	var best, pulled *part
	blocked := false
	first := func(to **part, h partHeap) {
		if len(h) == 0 {
			return
		}
		if p := h[0]; !p.room() {
			blocked = true
		} else if *to == nil || byRank(p, *to) < 0 {
			*to = p
		}
	}
	for _, q := range r.queues {
		first(&best, q.ready)
		first(&best, q.sick)
	}
	if best != nil || !blocked {
		return best
	}
	for _, q := range r.queues {
		first(&pulled, q.later)
	}
	return pulled
}

// timers has parts by when to look at them.
type timers []*part

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer, h[j].timer = i, j
}

// Push and Pop are for package heap.
func (h *timers) Push(x any) {
	x.(*part).timer = len(*h)
	*h = append(*h, x.(*part))
}

func (h *timers) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	p.timer = -1
	return p
}

// setTimer has a part looked at again; zero: only when something happens.
func (p *part) setTimer(at time.Time) {
	r := p.of
	switch {
	case at.Equal(p.due):
		return
	case at.IsZero():
		heap.Remove(&r.timers, p.timer)
		p.due = at
	case p.timer >= 0:
		p.due = at
		heap.Fix(&r.timers, p.timer)
	default:
		p.due = at
		heap.Push(&r.timers, p)
	}
}

// expire looks at parts whose time has come.
func (r *Rollout) expire(now time.Time) {
	for len(r.timers) > 0 && !r.timers[0].due.After(now) {
		p := r.timers[0]
		p.setTimer(time.Time{})
		p.refresh(now)
	}
}
