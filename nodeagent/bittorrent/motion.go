package bittorrent

import (
	"time"
)

// stillAfter is for how long nothing may come of a torrent before it is begun anew: now and then the library does
// not ask a node that it is connected to.
const stillAfter = 10 * time.Second

// motion judges, over all rounds of a torrent, whether it goes on.
type motion struct {
	slow     int64         // bytes a second below which it is given up
	patience time.Duration // for which it may be as slow
	still    time.Duration // for which nothing may come; twice as long in each round, which costs a piece

	came   int64 // bytes of the content, in all
	began  time.Time
	before int64 // came, at began
	round  int64 // moved
	last   time.Time
}

// verdict is what motion comes to.
type verdict int

const (
	moves verdict = iota
	stands
	tooSlow
)

func (w *swarm) newMotion() *motion {
	m := &motion{slow: w.host.Slow, patience: w.host.Patience, still: w.still}
	if w.host.Rate > 0 { // as slow as the limit makes it is nobody's fault
		each := max(w.host.Rate/int64(2*w.host.Parallel), 1)
		m.slow, m.still = min(m.slow, each), max(m.still, time.Duration(int64(w.Limit.Burst())/each)*time.Second)
	}
	return m
}

// look takes in what a round has received and verified until now, a number that changes with both, and how many
// bytes of the content have come since the last look.
func (m *motion) look(now time.Time, moved, came int64) verdict {
	m.came += came
	if m.began.IsZero() {
		m.began = now
	}
	if now.Sub(m.began) >= m.patience {
		if m.came-m.before < int64(m.patience.Seconds()*float64(m.slow)) {
			return tooSlow
		}
		m.began, m.before = now, m.came
	}
	if m.last.IsZero() || moved != m.round {
		m.last, m.round = now, moved
	}
	if now.Sub(m.last) < m.still {
		return moves
	}
	m.last, m.still = time.Time{}, 2*m.still
	return stands
}
