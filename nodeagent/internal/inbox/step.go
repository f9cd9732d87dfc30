package inbox

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// The pauses before another attempt at what was not the document's fault: 1 s·2^(n-1), at most
// 10 minutes, shortened by up to a half at random.
const (
	backoffMin = time.Second
	backoffMax = 10 * time.Minute
)

func backoff(n int, chance float64) time.Duration {
	d := backoffMax
	if n < 20 {
		d = min(d, backoffMin<<max(n-1, 0))
	}
	return d - time.Duration(chance*float64(d)/2)
}

// step is one Step on its way.
type step struct {
	State
	now     clock.Now
	chance  float64
	must    bool
	effects []Effect
}

// Step takes s over one event. chance is in [0, 1). It panics if the shell answers what it was not
// asked.
func (s State) Step(now clock.Now, chance float64, ev Event) (State, []Effect) {
	t := &step{State: s, now: now, chance: chance}
	switch ev := ev.(type) {
	case Started:
		t.started()
	case Desired:
		t.desired(ev.Doc, ev.Seal)
	case Checked:
		t.answered(opCheck, ev.Stamp)
		t.checked(ev)
	case Applied:
		t.answered(opApply, ev.Stamp)
		t.applied(ev)
	case Restored:
		t.answered(opRestore, ev.Stamp)
		t.restored(ev)
	case Verified:
		t.answered(opVerify, wire.Stamp{})
		t.verified(ev)
	case Confirm:
		t.confirm(ev)
	case Tick:
		t.tick()
	case Stopping:
		if t.Flight.Phase == Trying && t.until > now.Mono {
			left := t.until - now.Mono
			t.Flight.Remaining = duration.Duration(left)
			t.Flight.WallUntil = wallAfter(now, left)
		}
	}
	if !reflect.DeepEqual(s.Durable, t.Durable) {
		t.effects = append([]Effect{Save{Must: t.must}}, t.effects...)
	}
	return t.State, t.effects
}

// Failed is what becomes of s when the step that ev began could not be saved: ev is stepped again
// later, and until then the report says what the trouble is.
func (s State) Failed(now clock.Now, chance float64, ev Event, err *wire.Error) (State, []Effect) {
	if c, ok := ev.(Confirm); ok {
		return s, []Effect{Answer{ID: c.ID, Err: err}}
	}
	stalled := make([]Event, 0, len(s.stalled)+1)
	for _, old := range s.stalled {
		d, ok := old.(Desired)
		if n, again := ev.(Desired); ok && again {
			if d.Doc.Stamp.Compare(n.Doc.Stamp) > 0 {
				ev = d
			}
			continue
		}
		stalled = append(stalled, old)
	}
	if _, tick := ev.(Tick); !tick { // the next one decides the same again
		stalled = append(stalled, ev)
	}
	s.stalled = stalled
	s.stalls++
	s.stalledAt = now.Mono + backoff(s.stalls, chance)
	s.trouble = err
	running, last := s.Report()
	return s, []Effect{Report{Running: running, Last: last}}
}

func (t *step) answered(o op, stamp wire.Stamp) {
	if t.busy != o || (o != opVerify && stamp != t.Flight.Doc.Stamp) {
		panic(fmt.Sprintf("inbox: answer to %s of %v while %q of %v is out", o, stamp, t.busy, t.Flight.Doc.Stamp))
	}
	t.busy = opNone
}

// started finds out what was in flight when the agent last stopped.
func (t *step) started() {
	f := &t.Flight
	switch {
	case f.Phase == Trying:
		left := f.WallUntil.Sub(t.now.Wall)
		left = max(0, min(left, f.Remaining.Std(), f.Doc.ConfirmWithin.Std()))
		if left == 0 {
			t.unconfirmed()
			return
		}
		t.try(left)
		t.verify(f.Doc)
	case f.Phase == Restoring:
		t.restore(f.Verdict, true)
	case t.Touched:
		t.restore(Verdict{State: wire.StateRolledBack, Retry: true,
			Err: wire.New(wire.CodeInterrupted, "",
				"the agent stopped while the document was being applied; it is tried again")}, true)
	case f.Phase != Idle:
		f.Phase = Waiting
		t.retryAt = t.now.Mono + backoff(f.Attempt, t.chance)
		t.verify(t.Running)
	default:
		t.verify(t.Running)
	}
	t.next()
}

// desired orders a document that came (wire.md, Acceptance by a node).
func (t *step) desired(doc Doc, seal []byte) {
	switch c := doc.Stamp.Compare(t.High); {
	case c < 0:
		t.do(Emit{Type: EventStale, Doc: doc.Ref(), Err: wire.New(wire.CodeStale, "",
			fmt.Sprintf("epoch %d rev %d came after epoch %d rev %d", doc.Stamp.Epoch, doc.Stamp.Rev, t.High.Epoch,
				t.High.Rev))})
	case c > 0:
		t.High, t.HighHash, t.HighSeal, t.fork = doc.Stamp, doc.Hash, seal, nil
		t.mustSave()
		t.stalled = slices.DeleteFunc(slices.Clone(t.stalled), func(ev Event) bool {
			d, ok := ev.(Desired)
			return ok && d.Doc.Stamp.Compare(doc.Stamp) <= 0
		})
		if t.busy != opNone {
			t.Next = doc // latest wins
			return
		}
		t.supersede(doc)
	case doc.Hash == t.HighHash:
		t.HighSeal, t.fork = seal, nil // another key may have sealed it
		t.report()
	default:
		err := wire.New(wire.CodeFork, "/hash",
			"another document with this epoch and rev was accepted before: "+t.HighHash)
		if t.fork == nil || t.fork.Hash != doc.Hash {
			t.fork = attempt(doc, wire.StateRejected, err, 1, t.now.Wall)
			t.do(Emit{Type: EventFork, Doc: doc.Ref(), Err: err})
		}
		t.report()
	}
}

// supersede begins doc, whatever was in flight. The node is not taken back to the last good
// document first: doc is applied over what is there, and the last good document stays the one to
// go back to.
func (t *step) supersede(doc Doc) {
	if t.Flight.Phase != Idle {
		t.attempt(wire.StateSuperseded, nil)
	}
	t.unsure = false
	t.Flight, t.Next = Flight{Doc: doc, Attempt: 1}, Doc{}
	t.begin()
}

// next begins the document that came while the shell was busy.
func (t *step) next() {
	if t.Next.Exists() && t.busy == opNone {
		t.supersede(t.Next)
	}
}

func (t *step) begin() {
	t.Flight.Phase = Received
	t.attempt(wire.StateReceived, nil)
	switch d := t.Flight.Doc; {
	case len(d.Body) == 0:
		t.settle(Verdict{State: wire.StateRejected,
			Err: wire.New(wire.CodeNotSupported, "/ref", "documents of this kind must carry their body")})
	case d.Mode == wire.ModeTry && d.ConfirmWithin <= 0:
		t.settle(Verdict{State: wire.StateRejected,
			Err: wire.New(wire.CodeBadValue, "/confirmWithin", "not an ISO 8601 duration above zero")})
	default:
		t.busy = opCheck
		t.do(Check{Doc: d})
	}
}

func (t *step) checked(ev Checked) {
	if t.Next.Exists() {
		t.next()
		return
	}
	if len(ev.Errs) > 0 {
		err := ev.Errs[0]
		if n := len(ev.Errs) - 1; n > 0 {
			err = wire.New(err.Code, err.Path, fmt.Sprintf("%s (and %d more)", err.Message, n))
		}
		t.settle(Verdict{State: wire.StateRejected, Err: err})
		return
	}
	t.mustSave()
	t.Flight.Phase, t.Flight.Doc.Content, t.Touched = Applying, ev.Content, true
	t.attempt(wire.StateApplying, nil)
	t.busy = opApply
	t.do(Apply{Doc: t.Flight.Doc, Previous: t.Running})
}

func (t *step) applied(ev Applied) {
	if ev.Err == nil {
		t.placed()
	}
	switch doc := t.Flight.Doc; {
	case ev.Err == nil && doc.Mode == wire.ModeApply:
		t.commit()
		t.next()
	case t.Next.Exists():
		t.next()
	case ev.Err == nil:
		t.attempt(wire.StateTrying, nil)
		t.try(doc.ConfirmWithin.Std())
	default:
		t.restore(Verdict{State: wire.StateFailed, Err: ev.Err, Retry: ev.Transient}, ev.Ran)
	}
}

func (t *step) commit() {
	doc := t.Flight.Doc
	if doc.Stamp.Compare(t.Running.Stamp) <= 0 {
		panic(fmt.Sprintf("inbox: commit of %v over %v", doc.Stamp, t.Running.Stamp))
	}
	t.mustSave()
	t.Running, t.Touched = doc, false
	t.attempt(wire.StateInstalled, nil)
	t.Flight = Flight{}
}

func (t *step) restore(v Verdict, tell bool) {
	t.Flight.Phase, t.Flight.Verdict = Restoring, v
	t.Flight.Remaining, t.Flight.WallUntil = 0, time.Time{}
	t.busy = opRestore
	t.do(Restore{From: t.Flight.Doc, Good: t.Running, Tell: tell})
}

func (t *step) restored(ev Restored) {
	if ev.Err != nil {
		t.tries++
		t.retryAt = t.now.Mono + backoff(t.tries, t.chance)
		if t.Next.Exists() {
			t.next()
			return
		}
		t.attempt(wire.StateFailed,
			wire.New(ev.Err.Code, ev.Err.Path, "the last good document cannot be put back: "+ev.Err.Message))
		return
	}
	t.tries, t.Touched = 0, false
	t.placed()
	v := t.Flight.Verdict
	if ev.Note != "" {
		t.do(Emit{Type: EventRestoreTrouble, Doc: t.Running.Ref(), Err: wire.New(wire.CodeApplyFailed, "", ev.Note)})
		if v.Err != nil {
			v.Err = wire.New(v.Err.Code, v.Err.Path, v.Err.Message+"; "+ev.Note)
		}
	}
	t.settle(v)
}

// settle ends an attempt with a verdict, after the last good document is back in place.
func (t *step) settle(v Verdict) {
	if t.Touched {
		t.restore(v, true)
		return
	}
	t.attempt(v.State, v.Err)
	t.Flight.Verdict = Verdict{}
	if v.Retry && !t.Next.Exists() {
		t.Flight.Phase = Waiting
		t.retryAt = t.now.Mono + backoff(t.Flight.Attempt, t.chance)
		return
	}
	t.Flight = Flight{}
	t.next()
}

func (t *step) tick() {
	if len(t.stalled) > 0 && t.now.Mono >= t.stalledAt {
		t.do(Again{Events: t.stalled})
		t.stalled = nil
	}
	if t.busy != opNone || t.now.Mono < t.stalledAt {
		return
	}
	f := &t.Flight
	due := t.now.Mono >= t.retryAt
	switch {
	case f.Phase == Trying && t.now.Mono >= t.until:
		t.unsure = false
		t.unconfirmed()
	case f.Phase == Trying && t.now.Mono >= t.saveAt:
		t.saveLeft()
	case f.Phase == Trying && t.unsure && due:
		t.verify(f.Doc)
	case f.Phase == Restoring && due:
		t.restore(f.Verdict, true)
	case f.Phase == Waiting && due:
		t.unsure = false
		if f.Attempt < math.MaxInt32 {
			f.Attempt++
		}
		t.begin()
	case f.Phase == Idle && t.unsure && due:
		t.verify(t.Running)
	case t.looks() && t.now.Mono >= t.lookAt:
		t.verify(t.inPlace())
	}
}

func (t *step) do(e Effect) { t.effects = append(t.effects, e) }

func (t *step) report() {
	running, last := t.State.Report()
	t.do(Report{Running: running, Last: last})
}

// mustSave says that the rest of this step is only true once it has been saved.
func (t *step) mustSave() {
	t.must, t.stalls, t.trouble = true, 0, nil
	if len(t.stalled) == 0 {
		t.stalledAt = 0
	}
}

// attempt records how far the flight has come, and reports it.
func (t *step) attempt(state wire.State, err *wire.Error) {
	t.Last = attempt(t.Flight.Doc, state, err, t.Flight.Attempt, t.now.Wall)
	t.report()
}
