// Package flow owns the token bucket: it says whether something may happen now, and if not, when. Everything that
// bounds a rate in Tandem uses it, the pure cores included; golang.org/x/time/rate would bring a lock and a pointer
// where a value is needed. It guarantees that no more passes than a burst and one for each interval since.
//
//tandem:pure
package flow

import (
	"math"
	"time"
)

// Rate is what a bucket allows: Burst at once after a quiet time, and one for each Every on average.
type Rate struct {
	Burst float64
	Every time.Duration // above 0
}

// PerSecond is a Rate of so many a second.
func PerSecond(n, burst float64) Rate {
	return Rate{Burst: burst, Every: max(1, time.Duration(float64(time.Second)/n))}
}

// Bucket holds the tokens of one Rate, which every call names. The zero Bucket is full. It is a value: a copy
// goes its own way. It belongs to one goroutine, or to a lock.
//
// The times that it is given come from one clock, best one that does not jump, as with the monotonic reading that
// time.Now adds. A clock that is set back gives no tokens and takes none, also when it is set right again. Time alone
// cannot tell whether a clock was set forward or time has passed: one that runs ahead gives what it shows.
type Bucket struct {
	debt   time.Duration // how long after at the bucket is full
	at     time.Time     // when debt was true: the time of the newest call
	behind time.Duration // how far the clock was set back and not set right since
}

// refill takes off the debt what has passed since the newest call. A clock that was set back and goes on from there
// is believed; a step of as much as it was set back is taken for the correction, and what is beyond it has passed.
func (b *Bucket) refill(now time.Time) {
	passed := now.Sub(b.at)
	b.at = now
	if passed < 0 {
		b.behind = min(b.behind, math.MaxInt64+passed) - passed
		return
	}
	if passed >= b.behind {
		passed -= b.behind
		b.behind = 0
	}
	b.debt = max(0, b.debt-passed)
}

// Left returns how many tokens there are, below zero if it is overdrawn.
func (b *Bucket) Left(now time.Time, r Rate) float64 {
	b.refill(now)
	return b.left(r)
}

func (b *Bucket) left(r Rate) float64 { return r.Burst - float64(b.debt)/float64(r.Every) }

// Take takes a token if there is one.
func (b *Bucket) Take(now time.Time, r Rate) bool {
	if b.Left(now, r) < 1 {
		return false
	}
	b.Charge(now, r, 1)
	return true
}

// Charge takes n tokens, whether they are there or not.
func (b *Bucket) Charge(now time.Time, r Rate, n int) {
	b.refill(now)
	if room := math.MaxInt64 - b.debt; int64(n) > int64(room/r.Every) {
		b.debt = math.MaxInt64
		return
	}
	b.debt += time.Duration(n) * r.Every
}

// Return gives a token back that was taken for nothing.
func (b *Bucket) Return(r Rate) { b.debt = max(0, b.debt-r.Every) }

// Full reports whether the whole burst is there: such a bucket is as good as a new one.
func (b *Bucket) Full(now time.Time) bool {
	b.refill(now)
	return b.debt == 0
}

// Next returns when there will be n tokens; not later than the newest call's time if they are there.
func (b *Bucket) Next(r Rate, n float64) time.Time {
	may := (r.Burst - n) * float64(r.Every) // so much of the debt may stay
	if may >= math.MaxInt64 {
		return b.at
	}
	wait := max(0, b.debt-time.Duration(may))
	if wait >= b.behind {
		wait += b.behind // so long a step is taken for the correction
	}
	return b.at.Add(wait)
}

// Throttle lets a burst of equal things through and then one in a while, and counts the others, so that a flood
// of them costs neither log nor disk. The zero Throttle is ready; it is a value.
type Throttle struct {
	bucket Bucket
	held   int
}

// Held returns how many were held back since the newest that passed, for one that passes whatever the rate.
func (t *Throttle) Held() int {
	held := t.held
	t.held = 0
	return held
}

// Pass reports whether one more may pass now, and if so how many were held back since the one before it.
func (t *Throttle) Pass(now time.Time, r Rate) (held int, ok bool) {
	if !t.bucket.Take(now, r) {
		t.held++
		return 0, false
	}
	return t.Held(), true
}
