// Package pulse is what a loop beats with, for whoever watches that the process goes round. It owns the
// beat of one loop: its registration, its end, and when it is due while the loop has nothing to do.
//
// A loop that waits for as long as it takes, for work or for a session, beats meanwhile: it wakes once
// every Every. A call that cannot be left to beat has a bound, which the loop names when it registers;
// past that it hangs. The package must not know who watches, or what becomes of a loop that hangs.
package pulse

import (
	"context"
	"time"
)

// Every is how often a loop that waits wakes to beat.
const Every = 20 * time.Second

// Watch registers a loop with whoever watches: from now on, until it calls end, the loop calls beat at
// least once in every period. Both return at once. A nil Watch is nobody.
type Watch func(loop string, period time.Duration) (beat, end func())

// Pulse is the pulse of one loop, and belongs to its goroutine.
type Pulse struct {
	// C says that a beat is due: the loop has it in every select in which it waits, and beats. Nil,
	// and never due, if nobody watches.
	C <-chan time.Time

	beat, end func()
}

// Start registers the caller's loop. longest is the bound of what it does at a stretch, without a beat:
// those of its calls that it cannot leave; 0 if it is short.
func (w Watch) Start(loop string, longest time.Duration) *Pulse {
	if w == nil {
		return &Pulse{beat: func() {}, end: func() {}}
	}
	beat, end := w(loop, max(Every, longest))
	t := time.NewTicker(Every)
	return &Pulse{C: t.C, beat: beat, end: func() { t.Stop(); end() }}
}

// Beat says that the loop goes round.
func (p *Pulse) Beat() { p.beat() }

// End says that the loop has ended in good order.
func (p *Pulse) End() { p.end() }

// Sleep waits for d, or less if ctx ends, and beats meanwhile.
func (p *Pulse) Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		p.Beat()
		select {
		case <-t.C:
			return
		case <-ctx.Done():
			return
		case <-p.C:
		}
	}
}
