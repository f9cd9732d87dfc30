package health

import (
	"fmt"
	"time"

	"tandem.internal/shared/wire"
)

// interval is how long the node waits for contact before it reboots: the reset time, doubled for
// each reboot since the last contact, up to resetCap or the reset time itself.
func (s State) interval() time.Duration {
	reset := s.settings.Reset.Std()
	d, most := reset, max(reset, resetCap)
	for range min(s.Resets, 64) {
		if d >= most/2 {
			return most
		}
		d *= 2
	}
	return d
}

// resetAt is when the node reboots for want of contact, on the clock that maintenance stops. One that
// was asked for and did not happen counts as one from which the distance is kept.
func (s State) resetAt() time.Duration {
	return max(s.silentFrom(s.interval()), s.resetFrom) + s.interval()
}

// noReboot says why the machine must not be rebooted, or "".
func (s State) noReboot() string {
	if !*s.settings.Reboot {
		return "the settings do not let the agent reboot the machine"
	}
	return s.noStart()
}

// noStart says why nothing must end that would have to be started again, or "".
func (s State) noStart() string {
	switch {
	case !s.known:
		return "the state of the slots is not known"
	case s.slots.Used && !slotOf(s.slots.List, s.slots.Good).Verified:
		return "there is no verified slot to start"
	}
	return ""
}

// operate decides in normal operation: the reset first, then an order.
func (t *step) operate() {
	if t.now.Mono < t.hold {
		return
	}
	why := t.noReboot()
	switch {
	case t.resting || t.clock() < t.resetAt():
		t.refused = ""
	case why == "":
		r := Restart{Do: DoReboot, Reason: wire.BootDisconnect,
			Detail: "no contact with the controller for " + wire.SpanOf(t.clock()-t.success).String()}
		t.Resets++
		t.must = true
		t.decide(r)
		return
	default:
		t.refuse(Restart{Do: DoReboot, Reason: wire.BootDisconnect}, why)
	}
	switch r := t.Order; {
	case r.Do == "":
	case why == "":
		t.decide(r)
	default:
		t.Order = Restart{}
		t.emit(EventRestartRefused, wire.New(wire.CodeNotAllowed, "", why), Detail{Reason: r.Reason, Text: r.Detail})
	}
}

// decide plans a restart. The first decision counts: nothing else is decided until it is done.
func (t *step) decide(r Restart) {
	r.At = wall(t.now).Add(restartDelay)
	t.Restart, t.due, t.asked, t.fails = r, t.now.Mono+restartDelay, false, 0
	t.refused = ""
	if r.Do == DoRollBack { // nothing restarts
		t.Restart.At, t.due = wall(t.now), t.now.Mono
		return
	}
	t.emit(EventRestartPlanned, nil, Detail{Reason: r.Reason, Text: r.Detail})
}

// refuse says, once, that a restart is due and is not made.
func (t *step) refuse(r Restart, why string) {
	if t.refused == why {
		return
	}
	t.refused = why
	t.emit(EventRestartRefused, wire.New(wire.CodeNotAllowed, "", why), Detail{Reason: r.Reason, Text: r.Detail})
}

// restart asks for the restart that was decided, when its time has come.
func (t *step) restart() {
	if t.now.Mono < max(t.due, t.hold) {
		return
	}
	if t.asked {
		if t.Restart.Do == DoReboot {
			t.do(Stay{Reason: t.Restart.Reason})
		}
		t.restarting(wire.New(wire.CodeTimeout, "",
			fmt.Sprintf("it was asked for %v ago and has not happened", wire.SpanOf(stuckAfter))))
		return
	}
	r := t.Restart
	if why := t.inTheWay(r); why != "" { // it was not when this was decided
		t.Restart, t.Trial.Verdict = Restart{}, Restart{}
		if r.ordered() {
			t.Order = Restart{}
		}
		t.refuse(r, why)
		return
	}
	t.asked, t.due = true, t.now.Mono+stuckAfter
	switch r.Do {
	case DoRollBack:
		t.do(RollBack{Trial: t.Trial.ID, Reason: r.Reason, Detail: r.Detail})
	case DoRestart:
		t.do(RestartAgent{Reason: r.Reason, Detail: r.Detail})
	case DoReboot:
		if r.ordered() {
			t.Order, t.must = Restart{}, true // or a reboot that fails to clear it would be made for ever
		}
		t.do(Reboot{Reason: r.Reason, Detail: r.Detail})
	}
}

// ordered says whether this is a reboot that somebody has asked for.
func (r Restart) ordered() bool { return r.Do == DoReboot && r.Reason != wire.BootDisconnect }

// inTheWay says why the restart must not be made, or "".
func (s State) inTheWay(r Restart) string {
	switch {
	case r.Do == DoReboot:
		return s.noReboot()
	case r.Do == DoRollBack:
		return s.noWayBack()
	}
	return s.noStart()
}

// restarting takes in that the restart could not be made. A rollback is tried again; the others are
// called off: a reset comes again at its next distance, an order from whoever gave it.
func (t *step) restarting(err *wire.Error) {
	if err == nil || t.Restart.Do == "" || !t.asked {
		return
	}
	r := t.Restart
	d := Detail{Reason: r.Reason, Text: r.Detail}
	if r.Do == DoRollBack {
		d.Slot, d.Component = t.Trial.Slot, t.Trial.Component
	}
	t.emit(EventRestartFailed, err, d)
	t.asked = false
	if r.Do == DoRollBack {
		t.due = t.now.Mono + min(time.Minute<<min(t.fails, 6), time.Hour)
		t.fails++
		return
	}
	if r.Reason == wire.BootDisconnect {
		t.resetFrom = t.clock()
	}
	t.Restart = Restart{}
}
