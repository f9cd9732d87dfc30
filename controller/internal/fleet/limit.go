package fleet

import (
	"maps"
	"slices"
	"time"

	"tandem.internal/shared/flow"
	"tandem.internal/shared/wire"
)

// Limits bound what one node can make the journal grow by, so that a faulty or hostile one does not
// fill the disk. A token pays for one record of up to 1 KiB; a larger one costs a token for each
// KiB begun. Zero means the default.
//
// Nothing is lost by them. Reports and presence beyond the rate are held, the newest of each, and
// journaled when there is a token again. Events beyond it stay in the node's own queue, for it
// was not told to forget them, and are asked for when half of the burst is there again.
type Limits struct {
	StateRate  float64 // tokens a second for reports and presence; 2
	StateBurst float64 // tokens that gather while the node is quiet; 200
	EventRate  float64 // tokens a second for events; 1
	EventBurst float64 // 1,000: what a node keeps while it is cut off
}

func (l Limits) withDefaults() Limits {
	or := func(f *float64, v float64) {
		if *f == 0 {
			*f = v
		}
	}
	or(&l.StateRate, 2)
	or(&l.StateBurst, 200)
	or(&l.EventRate, 1)
	or(&l.EventBurst, 1000)
	return l
}

// cost is how many tokens a record of that many bytes takes. It may overdraw the bucket.
func cost(size int) int { return 1 + max(0, size-1)>>10 }

// limiter has the buckets of all nodes. It is no part of the state that records make: after a
// restart every bucket is full.
type limiter struct {
	limits       Limits
	state, event flow.Rate
	nodes        map[string]*allowance
	next         time.Time // the earliest due of all; zero: nothing is due
}

// allowance is one node's. It is dropped when both buckets are full again.
type allowance struct {
	state, event flow.Bucket
	held         map[wire.Kind]*Heard // reports that wait, the newest of each kind; presence under ""
	announced    bool                 // throttling of this node was journaled and has not ended since
	quiet        bool                 // its events are not listened to until eventDue
	stateDue     time.Time            // of held
	eventDue     time.Time
}

func newLimiter(l Limits) limiter {
	l = l.withDefaults()
	return limiter{limits: l, state: flow.PerSecond(l.StateRate, l.StateBurst),
		event: flow.PerSecond(l.EventRate, l.EventBurst), nodes: map[string]*allowance{}}
}

func (l *limiter) of(node string) *allowance {
	a := l.nodes[node]
	if a == nil {
		a = &allowance{}
		l.nodes[node] = a
	}
	return a
}

// round is how exact due times are: many nodes are then due together.
const round = time.Second

// roundUp returns the first whole second not before t. It keeps the monotonic reading, so that a clock that is set
// does not put off what is due.
func roundUp(t time.Time) time.Time {
	if over := t.Sub(t.Truncate(round)); over > 0 {
		t = t.Add(round - over)
	}
	return t
}

func (l *limiter) arrange(now, due time.Time) time.Time {
	due = roundUp(due)
	if !due.After(now) { // a fraction of a token is missing, too small for a time
		due = roundUp(now.Add(1))
	}
	if l.next.IsZero() || due.Before(l.next) {
		l.next = due
	}
	return due
}

// admit decides about a report or a presence message that is about to be journaled. If it may not
// be, it is held. began says that the node was within its limits until now.
func (l *limiter) admit(now time.Time, h *Heard) (ok, began bool) {
	a := l.of(h.Node)
	if a.state.Left(now, l.state) >= 1 && len(a.held) == 0 { // nobody overtakes what is held
		a.announced = a.announced && !a.state.Full(now)
		a.state.Charge(now, l.state, cost(len(h.Raw)))
		return true, false
	}
	key := heldAs(h)
	if len(a.held) == 0 { // what comes on top does not put it off
		a.stateDue = l.arrange(now, a.state.Next(l.state, 1))
	}
	if old := a.held[key]; old == nil || supersedes(h, old) {
		if a.held == nil {
			a.held = map[wire.Kind]*Heard{}
		}
		a.held[key] = h
	}
	began, a.announced = !a.announced, true
	return false, began
}

func heldAs(h *Heard) wire.Kind {
	if h.Reported != nil {
		return h.Reported.Kind
	}
	return ""
}

// supersedes reports whether a message is the later one of two. In one boot the numbers say so. Of
// two boots it is the one that came later, unless it is a last will.
func supersedes(h, old *Heard) bool {
	if h.Reported != nil {
		return h.Reported.Boot != old.Reported.Boot || h.Reported.Seq >= old.Reported.Seq
	}
	if h.Live.Boot == old.Live.Boot {
		return h.Live.Session >= old.Live.Session
	}
	return h.Live.Up
}

// hears reports whether an event of the node is to be looked at now.
func (l *limiter) hears(now time.Time, node string) (ok, began bool) {
	a := l.of(node)
	if a.quiet {
		return false, false
	}
	if a.event.Left(now, l.event) >= 1 {
		return true, false
	}
	a.quiet = true
	a.eventDue = l.arrange(now, a.event.Next(l.event, l.event.Burst/2))
	return false, true
}

// charge takes the tokens of an event that is journaled.
func (l *limiter) charge(now time.Time, h *Heard) {
	l.of(h.Node).event.Charge(now, l.event, cost(len(h.Raw)))
}

// holds reports whether a report or the presence of the node waits here, so that there is no need
// to ask for it.
func (l *limiter) holds(node string) bool {
	a := l.nodes[node]
	return a != nil && len(a.held) > 0
}

// isQuiet reports whether the node's events are not listened to for the time being.
func (l *limiter) isQuiet(node string) bool {
	a := l.nodes[node]
	return a != nil && a.quiet
}

// deadline is when release has something to do.
func (l *limiter) deadline() (time.Time, bool) { return l.next, !l.next.IsZero() }

// release returns the held messages whose time has come, to be heard again, presence before
// reports, and the nodes whose events may come again. Messages that are beyond the rate even now
// will be held again by admit.
func (l *limiter) release(now time.Time) (held []*Heard, ask []string) {
	if l.next.IsZero() || now.Before(l.next) {
		return nil, nil
	}
	l.next = time.Time{}
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		a := l.nodes[name]
		if len(a.held) > 0 {
			if a.stateDue.After(now) {
				l.arrange(now, a.stateDue)
			} else {
				for _, key := range slices.Sorted(maps.Keys(a.held)) {
					held = append(held, a.held[key])
				}
				a.held = nil
			}
		}
		if a.quiet {
			if a.eventDue.After(now) {
				l.arrange(now, a.eventDue)
			} else {
				a.quiet = false
				ask = append(ask, name)
			}
		}
		if len(a.held) == 0 && !a.quiet && a.state.Full(now) && a.event.Full(now) {
			delete(l.nodes, name)
		}
	}
	return held, ask
}
