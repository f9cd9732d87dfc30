package health

import (
	"cmp"
	"fmt"
	"strings"

	"tandem.internal/shared/wire"
)

// order takes in what somebody asks for, and answers.
func (t *step) order(ev Order) {
	var err *wire.Error
	switch ev.What {
	case OrderReboot:
		err = t.orderReboot(ev)
	case OrderRestart:
		err = t.orderRestart(ev)
	case OrderApprove:
		err = t.approve(ev)
	case OrderRollBack:
		err = t.rollBack(ev)
	default:
		panic("health: no such order: " + string(ev.What))
	}
	t.do(Answer{ID: ev.ID, Err: err})
}

// orderReboot notes that a reboot is wanted. It waits for a trial's end, and for a restart that was
// decided before.
func (t *step) orderReboot(ev Order) *wire.Error {
	switch why := t.noReboot(); {
	case !*t.settings.Reboot:
		return wire.New(wire.CodeNotAllowed, "", why)
	case why != "":
		return wire.New(wire.CodeWrongState, "", why)
	case t.Order.Do == "" && t.Restart.Do != DoReboot:
		t.Order = Restart{Do: DoReboot, Reason: cmp.Or(ev.Reason, wire.BootReboot), Detail: reason(ev)}
		t.must = true
	}
	return nil
}

// orderRestart plans the restart of the agent that an update of it takes. One that was decided before does as well.
func (t *step) orderRestart(ev Order) *wire.Error {
	if why := t.noStart(); why != "" {
		return wire.New(wire.CodeWrongState, "", why)
	}
	if t.Restart.Do == "" {
		t.decide(Restart{Do: DoRestart, Reason: cmp.Or(ev.Reason, wire.BootReboot), Detail: plain(ev.Detail)})
		t.must = true
	}
	return nil
}

// reason says who gave an order, and why.
func reason(ev Order) string {
	return plain(strings.TrimSuffix("by "+ev.By+": "+ev.Detail, ": "))
}

// noTrial says that nothing is on trial, and how far a component is that is to have this version.
func (t *step) noTrial(version string) string {
	for _, c := range t.slots.Updates.List {
		if c.Next == version && version != "" {
			return plain(fmt.Sprintf("version %s of component %s is not on trial: %s", version, c.Name, c.Text))
		}
	}
	return "no slot is on trial"
}

// approve notes that the trial may be kept.
func (t *step) approve(ev Order) *wire.Error {
	switch {
	case !t.trying:
		return wire.New(wire.CodeNotFound, "", t.noTrial(ev.Version))
	case ev.Version != t.Trial.Version:
		return wire.New(wire.CodeWrongState, "/version", fmt.Sprintf("version %s is on trial", t.Trial.Version))
	case t.Restart.Do != "" || t.Trial.Verdict.Do != "":
		return wire.New(wire.CodeWrongState, "", "the trial is over: it is being rolled back")
	}
	if by := plain(ev.By); t.Trial.Approved == "" {
		if by == "" || by == wire.ApprovalNeeded {
			by = "somebody"
		}
		t.Trial.Approved = by
	}
	if ev.ByHand && !t.Trial.ByHand {
		if t.Trial.ByHand = true; !t.Trial.Met {
			t.anew()
		}
		t.heardSpent = t.spent()
	}
	t.must = true
	return nil
}

// rollBack ends the trial by order.
func (t *step) rollBack(ev Order) *wire.Error {
	switch {
	case !t.trying:
		return wire.New(wire.CodeNotFound, "", "no slot is on trial")
	case t.commit:
		return wire.New(wire.CodeWrongState, "", "the trial is over: it is being committed")
	case t.noWayBack() != "":
		return wire.New(wire.CodeWrongState, "", t.noWayBack())
	}
	if t.Trial.Verdict.Do == "" {
		t.Trial.Verdict = Restart{Do: DoRollBack, Reason: wire.BootFallback,
			Detail: plain("version " + t.Trial.Version + ": " + reason(ev))}
		t.must = true
	}
	return nil
}
