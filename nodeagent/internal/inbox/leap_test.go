package inbox

import (
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// listener is a node that hears beacons.
type listener struct {
	t   *testing.T
	tr  Trust
	now time.Time // by its own clock
}

// hear plays a beacon, by the controller's clock as far from epoch as at.
func (l *listener) hear(e uint64, at time.Duration, change ...func(*wire.Beacon)) Heard {
	var h Heard
	l.tr, h = l.tr.Beacon("u1", l.now, beacon(signer(1), func(b *wire.Beacon) {
		b.Epoch, b.Time = e, epoch.Add(at)
		for _, f := range change {
			f(b)
		}
	}), false)
	return h
}

// is sees what time it is for the node, and the newest that it has heard, both as far from epoch.
func (l *listener) is(what string, corrected, newest time.Duration) {
	l.t.Helper()
	if c, n := l.tr.Corrected(l.now).Sub(epoch), l.tr.Newest.Sub(epoch); c != corrected || n != newest {
		l.t.Errorf("%s: it is %v, and was %v; want %v, %v", what, c, n, corrected, newest)
	}
}

const (
	day  = 24 * time.Hour
	slow = 2 * time.Minute // by which the node's clock is behind: further than it bears anything out
)

// A controller's clock that is wrong for two seconds leaves nothing behind, however far the node's own clock is off.
func TestLeapForAMoment(t *testing.T) {
	for _, up := range []bool{true, false} {
		l := &listener{t: t, now: epoch.Add(-slow)}
		l.hear(1, 0)
		if h := l.hear(1, 40*day, func(b *wire.Beacon) { b.Up = up }); h.Refused != nil || h.Newer != up {
			t.Errorf("up %v: %+v", up, h)
		}
		l.is("wrong", 0, 0)
		l.now = l.now.Add(2 * time.Second)
		if h := l.hear(1, 2*time.Second); !h.Newer {
			t.Errorf("the next beacon is no contact: %+v", h)
		}
		l.is("right again", 2*time.Second, 2*time.Second)
	}
}

// The same, retained, and played again by a broker for hours among those that come.
func TestLeapPlayedAgain(t *testing.T) {
	l := &listener{t: t, now: epoch.Add(-slow)}
	l.hear(1, 0)
	wrong := beacon(signer(1), func(b *wire.Beacon) { b.Time = epoch.Add(40 * day) })
	var h Heard
	for at := time.Duration(0); at < 3*time.Hour; at += time.Minute {
		l.tr, _ = l.tr.Beacon("u1", l.now, wrong, true)
		l.is("retained", at, at)
		for range 3 {
			l.tr, h = l.tr.Beacon("u1", l.now, wrong, false)
			l.is("played again", at, at)
		}
		if h.Newer {
			t.Fatal("what was played again counts as a word of now")
		}
		l.now = l.now.Add(time.Minute)
		l.hear(1, at+time.Minute)
	}
	for range 30 { // and nothing else, for half an hour
		l.now = l.now.Add(time.Minute)
		l.tr, _ = l.tr.Beacon("u1", l.now, wrong, false)
	}
	l.is("alone", 3*time.Hour+30*time.Minute, 3*time.Hour)
}

// A controller whose clock was confirmed is believed after ten minutes; meanwhile it is in contact.
func TestLeapThatLasts(t *testing.T) {
	l := &listener{t: t, now: epoch.Add(-slow)}
	l.hear(1, 0)
	for at := time.Minute; at <= 10*time.Minute; at += time.Minute {
		l.now = l.now.Add(time.Minute)
		if h := l.hear(1, 40*day+at); !h.Newer || (h.Skew != 0) != (at == time.Minute) {
			t.Errorf("after %v: %+v", at, h)
		}
		l.is("in between", at, 0)
	}
	l.now = l.now.Add(time.Minute)
	l.hear(1, 40*day+11*time.Minute)
	l.is("borne out", 40*day+11*time.Minute, 40*day+11*time.Minute)
	l.hear(2, time.Hour) // and back, with a higher epoch
	l.is("back", time.Hour, time.Hour)
}

// Another time that is wrong before the one that lasts puts it off, and does not keep it out.
func TestLeapAfterALeap(t *testing.T) {
	l := &listener{t: t, now: epoch.Add(-slow)}
	l.hear(1, 0)
	l.hear(1, 400*day)
	for at := time.Minute; at <= 22*time.Minute; at += time.Minute {
		l.now = l.now.Add(time.Minute)
		l.hear(1, 40*day+at)
	}
	l.is("in the end", 40*day+22*time.Minute, 40*day+22*time.Minute)
}

// No leap: a node that was away, one whose own clock agrees, one that has heard nothing yet, less than a day.
func TestNoLeap(t *testing.T) {
	for _, c := range []struct {
		name        string
		first, then time.Duration // by the controller's clock
		own         time.Duration // by the node's
	}{
		{"away for a month, with a clock", 0, 30 * day, 30*day - slow},
		{"a clock that the time service has set", 0, 3 * day, 3*day - time.Second},
		{"23 hours", 0, 23 * time.Hour, 0},
	} {
		l := &listener{t: t, now: epoch}
		l.hear(1, c.first)
		l.now = epoch.Add(c.own)
		l.hear(1, c.then)
		l.is(c.name, c.then, c.then)
	}
	l := &listener{t: t, now: time.Unix(0, 0)}
	l.hear(1, 0)
	l.is("the first beacon", 0, 0)
}
