package inbox

import (
	"fmt"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// saveEvery is how often the time that a trial has left is saved: every 5 s, for short trials
// every tenth, for long ones every hundredth but at least once a minute.
func saveEvery(confirmWithin time.Duration) time.Duration {
	return min(confirmWithin/10, max(5*time.Second, min(confirmWithin/100, time.Minute)))
}

// try begins or resumes a trial with this much time left.
func (t *step) try(left time.Duration) {
	f := &t.Flight
	f.Phase = Trying
	t.until = t.now.Mono + left
	t.saveLeft()
}

func (t *step) saveLeft() {
	f := &t.Flight
	left, every := t.until-t.now.Mono, saveEvery(f.Doc.ConfirmWithin.Std())
	t.saveAt = t.now.Mono + every
	f.Remaining = duration.Duration(max(0, left-every))
	f.WallUntil = wallAfter(t.now, left)
}

// wallAfter is now+d by the clock, for d that may be centuries.
func wallAfter(now clock.Now, d time.Duration) time.Time { return now.Wall.Add(d).UTC().Round(0) }

func (t *step) confirm(ev Confirm) {
	var err *wire.Error
	switch f := t.Flight; {
	case ev.Stamp == t.Running.Stamp && t.Running.Exists():
	case f.Phase == Trying && ev.Stamp == f.Doc.Stamp && !t.Next.Exists() && t.now.Mono < t.until:
		t.commit()
	case f.Phase == Trying && ev.Stamp == f.Doc.Stamp:
		err = wire.New(wire.CodeWrongState, "", "the document's trial is over")
	case f.Phase != Idle && ev.Stamp == f.Doc.Stamp:
		err = wire.New(wire.CodeWrongState, "", fmt.Sprintf("the document is %s, not being tried", f.Phase))
	case t.Last != nil && ev.Stamp == t.Last.Stamp():
		err = wire.New(wire.CodeWrongState, "", fmt.Sprintf("the document is %s, not being tried", t.Last.State))
	default:
		err = wire.New(wire.CodeNotFound, "",
			fmt.Sprintf("no document with epoch %d and rev %d is being tried", ev.Stamp.Epoch, ev.Stamp.Rev))
	}
	t.do(Answer{ID: ev.ID, Err: err})
}

func (t *step) unconfirmed() {
	t.restore(Verdict{State: wire.StateRolledBack, Err: wire.New(wire.CodeUnconfirmed, "",
		fmt.Sprintf("not confirmed within %v", t.Flight.Doc.ConfirmWithin))}, true)
}
