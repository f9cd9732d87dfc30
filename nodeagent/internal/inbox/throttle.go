package inbox

import "time"

// Throttle lets a burst of equal things through and then one in a while, and counts the rest, so
// that a flood of bad messages costs neither disk nor link. The zero Throttle is ready; it is a value.
type Throttle struct {
	left     int
	at       time.Duration
	begun    bool
	swallows uint64
}

const (
	throttleBurst = 8
	throttleEvery = time.Minute
)

// Pass says whether one more may pass now, and if so how many were swallowed before it.
func (t Throttle) Pass(mono time.Duration) (next Throttle, ok bool, swallowed uint64) {
	if !t.begun {
		t.begun, t.left, t.at = true, throttleBurst, mono
	}
	if n := (mono - t.at) / throttleEvery; n > 0 {
		t.left = int(min(throttleBurst, time.Duration(t.left)+n))
		t.at += n * throttleEvery
	}
	if t.left == 0 {
		t.swallows++
		return t, false, 0
	}
	t.left--
	swallowed, t.swallows = t.swallows, 0
	return t, true, swallowed
}
