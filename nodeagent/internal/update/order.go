package update

import (
	"fmt"
	"strings"

	"tandem.internal/shared/wire"
)

// order does what somebody asks for, or says why not.
func (t *step) order(ev Order) *wire.Error {
	refuse := func(format string, a ...any) *wire.Error {
		return wire.New(wire.CodeWrongState, "", fmt.Sprintf(format, a...))
	}
	if t.Off {
		return wire.New(wire.CodeNotFound, "/component",
			"the agent's settings do not name this component any more: --component")
	}
	p := t.Phase
	switch ev.What {
	case OrderStage:
		if p != None && p != Installing && p != Staged {
			return refuse("version %s is under way: %s", t.Version, t.Component("").Text)
		}
		if t.Try != "" {
			return refuse("version %s is to be tried, by order of %s: roll it back first", t.Version, t.Try)
		}
		if err := Refusal(t.Quarantine, ev.Hash, ev.Force); err != nil {
			return err
		}
		t.clear()
		t.Number++
		t.Version, t.Hash, t.Size, t.Signature, t.Previous = ev.Version, ev.Hash, ev.Size, ev.Signature, t.Has.Active
		t.enter(Installing)
	case OrderTry:
		switch {
		case p != Installing && p != Staged && p != None:
			return refuse("version %s is under way already: %s", t.Version, t.Component("").Text)
		case p == None, ev.Version != "" && ev.Version != t.Version:
			return wire.New(wire.CodeNotFound, "/version",
				"no such version of the component is staged: stage one first, at the node")
		}
		if err := Refusal(t.Quarantine, t.Hash, ev.Force); err != nil {
			return err
		}
		if t.now.Unsigned != nil {
			return t.now.Unsigned
		}
		if why := t.obstacle(); why != "" {
			return refuse("%s", why)
		}
		t.Try = ev.By
	case OrderApprove:
		if p != Trying {
			return wire.New(wire.CodeNotFound, "", "no version of the component is on trial")
		}
		t.Approved = t.Number
	case OrderCommit:
		if p == Committing {
			return nil
		}
		if p != Trying {
			return wire.New(wire.CodeNotFound, "", "no version of the component is on trial")
		}
		t.enter(Committing)
	case OrderRollback:
		switch p {
		case RollingBack, Leaving:
			return nil
		case Committing:
			return refuse("the trial is over: version %s is being committed", t.Version)
		case None:
			return wire.New(wire.CodeNotFound, "", "no version of the component is staged or on trial")
		}
		t.giveUp(false, "by "+strings.TrimSuffix(ev.By+": "+ev.Detail, ": "))
	case OrderClear:
		return t.clearQuarantine(ev.Version)
	default:
		panic("update: no such order: " + string(ev.What))
	}
	return nil
}
