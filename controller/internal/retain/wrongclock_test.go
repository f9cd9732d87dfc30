package retain

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/record"
)

// TestWrongClockHasNothingGoEarly: while the clock was ahead, or showed what cannot be, for however long, no record
// goes for its age that is younger than what is kept, and the oldest ones do.
func TestWrongClockHasNothingGoEarly(t *testing.T) {
	const day = 24 * time.Hour
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now, keep := start.Add(200*day), 50*day
	goes := func(off func(n int) int) (gone [200]bool) { // one record each day
		p := NewPlan(Rules{Events: {Age: keep}}, now)
		for n := range gone {
			at := start.Add(time.Duration(n+off(n)) * day)
			p.Count(Header{Seq: uint64(n + 1), At: at, Type: record.Trouble})
		}
		for n := range gone {
			gone[n] = p.Goes(Header{Seq: uint64(n + 1), Type: record.Trouble}) == Age
		}
		return gone
	}
	for n, gone := range goes(func(int) int { return 0 }) {
		if gone != (n <= 150) {
			t.Errorf("of %d days, with a right clock: %v", 200-n, gone)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		wrong := rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 0, -400, 20, 90, 400}), 18, 18).Draw(t, "wrong")
		for n, gone := range goes(func(n int) int {
			if n < 10 || n >= 190 {
				return 0
			}
			return wrong[n/10-1]
		}) {
			if gone && n > 150 || !gone && n < 10 {
				t.Fatalf("of %d days: %v", 200-n, gone)
			}
		}
	})
}
