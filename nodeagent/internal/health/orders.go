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
	case OrderTry:
		err = t.try(ev)
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
		t.Order = Restart{Do: DoReboot, Reason: cmp.Or(ev.Reason, wire.BootReboot), Detail: told(ev)}
		t.must = true
	}
	return nil
}

// told says who gave an order, and why.
func told(ev Order) string {
	return plain(strings.TrimSuffix("by "+ev.By+": "+ev.Detail, ": "))
}

// approve notes that the trial may be kept.
func (t *step) approve(ev Order) *wire.Error {
	switch {
	case !t.trying:
		return wire.New(wire.CodeNotFound, "", "no slot is on trial")
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
		t.Trial.Verdict = Restart{Do: DoRollBack, Slot: t.slots.Good, Reason: wire.BootFallback, Detail: plain("version " + t.Trial.Version + ": " + told(ev))}
		t.must = true
	}
	return nil
}

// try plans the start of the staged slot, with the baseline as it is now.
func (t *step) try(ev Order) *wire.Error {
	if !t.known || !t.slots.Used {
		return wire.New(wire.CodeNotSupported, "", "this node has no slots, or their state cannot be read")
	}
	if t.trying || t.Restart.Do != "" {
		return wire.New(wire.CodeWrongState, "", "a trial or a restart is under way")
	}
	if t.slots.Parts.Busy != "" {
		return wire.New(wire.CodeWrongState, "", t.slots.Parts.Busy)
	}
	if !slotOf(t.slots.List, t.slots.Good).Verified {
		return wire.New(wire.CodeWrongState, "", "there is no verified slot to come back to")
	}
	for _, slot := range t.slots.List {
		if slot.State != wire.SlotUpdating || !slot.Verified || slot.ID == t.slots.Current || ev.Version != "" && ev.Version != slot.Version {
			continue
		}
		t.Baseline, t.baseAt = t.baseline(), t.now.Mono+baselineBeat
		t.decide(Restart{Do: DoTry, Slot: slot.ID, Reason: wire.BootUpdate, Detail: plain("version " + slot.Version + ", " + told(ev))})
		t.must = true
		return nil
	}
	if ev.Version == "" {
		return wire.New(wire.CodeNotFound, "", "no verified slot is staged; stage one with tandem-node slot stage")
	}
	return wire.New(wire.CodeNotFound, "/version", "no verified slot with this version is staged")
}
