package app

import (
	"fmt"
	"sort"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// slotsOf is what health wants to know of the slots. factory is the version of the installed program; "": not known.
func slotsOf(st slot.Status, factory string) health.Slots {
	out := health.Slots{Current: string(st.Running), Used: true}
	for _, s := range st.Slots {
		h := wire.HealthSlot{ID: string(s.Slot), State: wire.SlotState(s.State), Version: s.Version}
		if s.State == record.Updating {
			h.Hash = s.Hash
		}
		h.Verified = s.Hash != "" || s.Slot == record.Factory
		if s.Slot == record.Factory {
			h.Version = factory
			if s.Slot == st.Running {
				h.Version = settings.Version
			}
		}
		out.List = append(out.List, h)
		if s.State == record.Active {
			out.Good = h.ID
		}
	}
	return out
}

// lookAtSlots reads the state of the slots, which may have been changed by hand.
func (a *Agent) lookAtSlots() {
	n := &a.node
	defer func() { // by what is known then
		if n.lookAt = time.Since(a.began) + lookEvery; n.health.State.Trial.ID != "" {
			n.lookAt = time.Since(a.began) + lookTrial
		}
	}()
	st, err := n.slots.Status()
	if err != nil {
		a.healthEvent(health.Slots{Err: failed(err)})
		return
	}
	for _, note := range st.Notes {
		a.log.Warn("slots", zap.String("note", note))
	}
	if !a.known() { // health is told as soon as it is
		return
	}
	var slots health.Slots // not launched: a restart starts the same again
	if n.launched {
		slots = slotsOf(st, n.factory)
	}
	n.view = a.viewParts()
	slots.Updates = n.view
	a.healthEvent(slots)
	if t := n.view.Trial; t.Slot != "" {
		a.approved(t.ID, st.Approved)
	}
	for _, p := range n.parts {
		if !p.own && p.state.Approved == p.state.Number {
			a.approved(update.Trial(p.name, p.state.Number), atNode)
		}
	}
}

// atNode approves of the trial of a component at the node.
const atNode = "somebody at the node"

// approved passes on that somebody at the node approves of a trial. by is empty if nobody does.
func (a *Agent) approved(trial, by string) {
	if t := a.node.health.State.Trial; by != "" && t.ID == trial && !t.ByHand {
		a.healthEvent(health.Order{What: health.OrderApprove, By: by, ByHand: true, Version: t.Version})
	}
}

// known says whether it is known where the agent's own update stands.
func (a *Agent) known() bool {
	p := a.own()
	return p == nil || p.state.Answered()
}

// viewParts is what health is to know of the updates.
func (a *Agent) viewParts() (v health.Updates) {
	for _, p := range a.node.parts {
		r := p.state.Record
		if !p.own {
			v.List = append(v.List, r.Component(p.name))
		}
		for _, q := range r.Quarantine {
			if !p.own {
				q.Component = p.name
			}
			v.Quarantine = append(v.Quarantine, q)
		}
		for _, o := range []update.Outcome{r.Last, r.Before} {
			if o.Tried {
				v.Over = append(v.Over, health.Over{Trial: update.Trial(p.name, o.Number), Kept: o.Committed,
					Reason: o.Why.Reason, Detail: o.Why.Detail})
			}
		}
		switch {
		case !r.Phase.OnTrial():
		case r.Tried && r.Phase != update.Leaving && p.own:
			v.Trial = health.Tried{ID: update.Trial(p.name, r.Number), Slot: a.node.slot, Version: r.Version,
				NoWayBack: r.Has.NoWayBack}
		case r.Tried && r.Phase != update.Leaving:
			v.Trial = health.Tried{ID: update.Trial(p.name, r.Number), Component: p.name, Version: r.Version,
				Checks: []string{componentCheck + p.name}, NoWayBack: r.Has.NoWayBack}
		default:
			v.Busy = fmt.Sprintf("component %s, version %s, is %s", p.name, r.Version, r.Doing())
		}
	}
	// a generic sort would make the agent larger
	sort.SliceStable(v.Quarantine, func(i, j int) bool { return v.Quarantine[i].At.Before(v.Quarantine[j].At) })
	v.Quarantine = v.Quarantine[max(0, len(v.Quarantine)-wire.MaxQuarantine):]
	return v
}

// judged obeys health's verdict on the trial of a component, or tells it why not.
func (a *Agent) judged(trial string, v update.Verdict, answer func(*wire.Error) health.Event) {
	a.runInBackground(func() func() {
		return func() {
			err := error(wire.New(wire.CodeNotFound, "", "no such trial of a component"))
			for _, p := range a.node.parts {
				if update.Trial(p.name, p.state.Number) == trial {
					v.Number = p.state.Number
					err = a.stepPart(p, v)
				}
			}
			if err != nil {
				a.healthEvent(answer(failed(err)))
			}
		}
	})
}

// tryPart has what is staged of a component, or of the agent if there is no name, tried by order of the controller.
func (a *Agent) tryPart(what *wire.TryParams, by string) *wire.Error {
	name := what.Component
	for _, p := range a.node.parts {
		if p.name != name && (name != "" || !p.own) {
			continue
		}
		err := error(nil)
		if p.own { // what was staged by hand a moment ago counts
			err = a.stepPart(p, update.Look{})
		}
		if err == nil {
			err = a.stepPart(p, update.Order{What: update.OrderTry, By: by, Version: what.Version,
				Force: what.Force})
		}
		return failed(err)
	}
	if name == "" {
		return wire.New(wire.CodeNotSupported, "", "this node has no slots: its agent was not started by the launcher")
	}
	text := fmt.Sprintf("the settings of this node's agent name no component %s: --component", name)
	return wire.New(wire.CodeNotFound, "/component", text)
}

// obstacle says why no trial of a component may begin now, "" if it may. The slots' own are Alone's.
func (a *Agent) obstacle(p *part) string {
	if a.node.health.State.Restart.Do != "" {
		return "the node is about to restart"
	}
	for _, o := range a.node.parts {
		if o.own && o != p && o.state.Phase.OnTrial() {
			return fmt.Sprintf("the agent's version %s is %s", o.state.Version, o.state.Doing())
		}
	}
	if err := disk.Busy(a.node.dir, p.name); err != nil {
		return err.Error()
	}
	return ""
}

// noReboot says why the node cannot be rebooted, "" if it can.
func (a *Agent) noReboot() string {
	if a.cfg.RebootCommand == "" {
		return "the agent has no --reboot-command"
	}
	if !*a.node.settings.Reboot {
		return "the settings do not let the agent reboot the machine"
	}
	return ""
}
