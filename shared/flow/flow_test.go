package flow

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

func TestBucket(t *testing.T) {
	r := Rate{Burst: 3, Every: 10 * time.Second}
	var b Bucket
	now := start
	for i := range 3 {
		if !b.Take(now, r) {
			t.Fatalf("the burst ends after %d", i)
		}
	}
	if b.Take(now, r) || b.Left(now, r) != 0 {
		t.Error("a fourth passes")
	}
	if next := b.Next(r, 1); !next.Equal(now.Add(r.Every)) {
		t.Errorf("the next token is there at %v", next)
	}
	if now = now.Add(r.Every - 1); b.Take(now, r) {
		t.Error("a token is there a nanosecond early")
	}
	if now = now.Add(1); !b.Take(now, r) || b.Take(now, r) {
		t.Error("not exactly one after an interval")
	}
	if b.Return(r); !b.Take(now, r) {
		t.Error("a token that was given back is not there")
	}
	b.Charge(now, r, 2)
	if left, next := b.Left(now, r), b.Next(r, 1); left != -2 || !next.Equal(now.Add(3*r.Every)) {
		t.Errorf("overdrawn: %v left, the next at %v", left, next)
	}
	if now = now.Add(5*r.Every - 1); b.Full(now) || !b.Full(now.Add(1)) {
		t.Error("it is not full just in time")
	}
	b.Return(r)
	if left := b.Left(now, r); left != r.Burst {
		t.Errorf("%v tokens, above the burst", left)
	}
}

// A clock that is set back gives nothing and takes nothing; one of before the bucket's is like that, too.
func TestClockGoesBack(t *testing.T) {
	r := Rate{Burst: 2, Every: time.Minute}
	var b Bucket
	b.Charge(start, r, 2)
	back := start.Add(-time.Hour)
	if b.Take(back, r) || b.Left(back, r) != 0 {
		t.Error("setting the clock back gives tokens")
	}
	if !b.Take(back.Add(time.Minute), r) {
		t.Error("setting the clock back takes tokens")
	}
	var fresh Bucket
	for i, want := range []bool{true, true, false} {
		if got := fresh.Take(time.Time{}, r); got != want {
			t.Errorf("take %d with a clock that begins at zero: %v", i+1, got)
		}
	}
}

// A clock that is set back and right again, however often, gives nothing, and takes nothing of the time between.
func TestClockGoesBackAndForth(t *testing.T) {
	r := Rate{Burst: 5, Every: time.Minute}
	var b Bucket
	b.Charge(start, r, 5)
	for range 3 {
		if b.Take(start.Add(-time.Hour), r) || b.Take(start, r) {
			t.Fatal("setting the clock back and forth gives tokens")
		}
	}
	b.Left(start.Add(-2*time.Hour), r)
	b.Left(start.Add(-3*time.Hour), r) // further back
	b.Left(start.Add(-3*time.Hour+time.Minute), r)
	if left := b.Left(start.Add(3*time.Minute), r); left != 3 {
		t.Errorf("%v tokens after three minutes, one of them with a clock that was behind", left)
	}
	b.Left(start.Add(2*time.Minute+50*time.Second), r)
	if next := b.Next(r, 5); b.Left(next, r) != 5 {
		t.Errorf("at %v, which Next told, there are %v", next, b.Left(next, r))
	}
	b.Charge(start, r, 5)
	b.Left(time.Time{}, r)
	b.Left(start, r) // farther than a Duration goes, both ways
	b.Left(time.Time{}, r)
	if b.behind < 0 || b.debt < 0 {
		t.Errorf("%+v", b)
	}
}

// However a clock that is looked at is set back and right again: never more passes than a burst and one for each
// interval of real time, and at a clock that stays as it is nobody waits longer than that.
func TestBoundWithAClockThatJumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pause = 1500 // the longest; the clock is set back by more, so that it is seen
		r := Rate{Burst: float64(rapid.IntRange(1, 5).Draw(t, "burst"))}
		r.Every = time.Duration(rapid.IntRange(1, 1000).Draw(t, "every"))
		var b Bucket
		var passed []time.Time
		now, behind := start, time.Duration(0)
		b.Left(now, r)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "clock") {
			case 0:
				behind += time.Duration(rapid.IntRange(pause+1, 1_000_000).Draw(t, "back"))
			case 1:
				behind = 0
			default:
				now = now.Add(time.Duration(rapid.IntRange(0, pause).Draw(t, "pause")))
			}
			if b.Take(now.Add(-behind), r) {
				passed = append(passed, now)
			}
		}
		for i, from := range passed {
			for j := i; j < len(passed); j++ {
				if most := r.Burst + float64(passed[j].Sub(from))/float64(r.Every); float64(j-i+1) > most {
					t.Fatalf("%d passed within %v, at most %v may", j-i+1, passed[j].Sub(from), most)
				}
			}
		}
		b.Left(now.Add(-behind), r)
		for range int(r.Burst) + 1 {
			now = now.Add(r.Every)
			if !b.Take(now.Add(-behind), r) {
				t.Fatalf("none after an interval, %v behind", behind)
			}
		}
	})
}

func TestPerSecond(t *testing.T) {
	for _, c := range []struct {
		n    float64
		want time.Duration
	}{{2, 500 * time.Millisecond}, {0.001, 1000 * time.Second}, {1e12, 1}} {
		if r := PerSecond(c.n, 5); r.Every != c.want || r.Burst != 5 {
			t.Errorf("%v a second: %+v", c.n, r)
		}
	}
	var b Bucket
	r := PerSecond(1e-9, 1e9) // its whole burst would take longer than a Duration holds
	for range 20 {
		b.Charge(start, r, 1)
	}
	if b.debt != math.MaxInt64 || b.Left(start, r) >= r.Burst {
		t.Errorf("the debt is %v", b.debt)
	}
}

// In any stretch of time no more passes than a burst and one for each interval, and whoever waits as long as
// Next says passes.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{Burst: float64(rapid.IntRange(1, 5).Draw(t, "burst"))}
		r.Every = time.Duration(rapid.IntRange(1, 1000).Draw(t, "every"))
		var b Bucket
		var passed []time.Time
		now := start
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "pause")))
			if rapid.Bool().Draw(t, "waits") {
				if next := b.Next(r, 1); next.After(now) {
					now = next
				}
				if b.Left(now, r) < 1 {
					t.Fatalf("nothing at the time that Next told")
				}
			}
			if b.Take(now, r) {
				passed = append(passed, now)
			}
		}
		for i, from := range passed {
			for j := i; j < len(passed); j++ {
				if most := r.Burst + float64(passed[j].Sub(from))/float64(r.Every); float64(j-i+1) > most {
					t.Fatalf("%d passed within %v, at most %v may", j-i+1, passed[j].Sub(from), most)
				}
			}
		}
	})
}

func TestThrottle(t *testing.T) {
	r := Rate{Burst: 2, Every: time.Minute}
	var th Throttle
	passed, told := 0, 0
	now := start
	for range 1000 {
		if held, ok := th.Pass(now, r); ok {
			passed, told = passed+1, told+held
		}
		now = now.Add(time.Second)
	}
	if passed != 2+16 || told+passed+th.held != 1000 {
		t.Errorf("%d passed, %d told, %d held", passed, told, th.held)
	}
}
