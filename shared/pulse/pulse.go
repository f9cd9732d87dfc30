// Package pulse lets a loop report its progress to a watchdog. It owns the beat of one loop: its registration, its
// end, and the time at which it is due while the loop waits.
//
// A loop that waits, for work or for a session, wakes once every Every to beat. A call during which it cannot beat has
// a time limit, which the loop gives when it registers; after that time it counts as hung. The package does not know
// the watchdog, or what it does about a loop that hangs.
package pulse

import (
	"context"
	"time"
)

// Every is the time between two beats of a loop that waits.
const Every = 20 * time.Second

// Watch registers a loop with a watchdog. Until it calls end, the loop has to call beat at least once in each period.
// Both functions return at once. With a nil Watch nothing is watched.
type Watch func(loop string, period time.Duration) (beat, end func())

// Pulse is the beat of one loop. Only the loop's goroutine may use it.
type Pulse struct {
	// C delivers a value when a beat is due. The loop receives from it in each select in which it waits, and then
	// calls Beat. Nil if nothing is watched.
	C <-chan time.Time

	beat, end func()
}

// None is the pulse of a goroutine that is not watched.
func None() *Pulse { return Watch(nil).Start("", 0) }

// Start registers the caller's loop. longest is the most time between two beats, which is that of its longest call; 0
// if all calls are short.
func (w Watch) Start(loop string, longest time.Duration) *Pulse {
	if w == nil {
		return &Pulse{beat: func() {}, end: func() {}}
	}
	beat, end := w(loop, max(Every, longest))
	t := time.NewTicker(Every)
	return &Pulse{C: t.C, beat: beat, end: func() { t.Stop(); end() }}
}

// Beat reports that the loop makes progress.
func (p *Pulse) Beat() { p.beat() }

// End reports that the loop has ended in good order.
func (p *Pulse) End() { p.end() }

// Sleep waits for d, or until ctx ends, and beats while it waits.
func (p *Pulse) Sleep(ctx context.Context, d time.Duration) { p.Wait(ctx, d, nil) }

// Wait is a Sleep that also ends when wake gives something.
func (p *Pulse) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		p.Beat()
		select {
		case <-t.C:
			return
		case <-ctx.Done():
			return
		case <-wake:
			return
		case <-p.C:
		}
	}
}
