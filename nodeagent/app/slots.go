package app

import (
	"context"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// Slots are the slots of a node, for whoever starts agents without the launcher: the tests of the pair.
type Slots struct{ store *slot.Store }

// OpenSlots takes the slots of a state directory. What is staged says of itself which version it is,
// by selfTest; the other seams are those of Deps.
func OpenSlots(stateDir string, machine func() Evidence, steps durable.Steps, selfTest func(ctx context.Context, path string) (string, error)) Slots {
	return Slots{slot.Open(slot.Config{Dir: filepath.Join(stateDir, slot.Dir), Machine: machine, Steps: steps, SelfTest: selfTest})}
}

// Start decides which slot starts now and writes it down, as the launcher does. path is the file that is
// to be started, "" for the installed binary; env is what the agent is to find in its environment.
func (s Slots) Start() (path string, env []string, err error) {
	l, err := s.store.Starting().Next(nil)
	return l.Path, l.Env(), err
}

// Stage writes a file to the free slot and verifies it.
func (s Slots) Stage(ctx context.Context, file string) error {
	_, err := s.store.Stage(ctx, slot.Source{File: file})
	return err
}

// slotsOf is what health wants to know of the slots.
func slotsOf(st slot.Status) health.Slots {
	out := health.Slots{Current: string(st.Running), Used: true}
	for _, s := range st.Slots {
		h := wire.HealthSlot{ID: string(s.Slot), State: wire.SlotState(s.State), Version: s.Version, Verified: s.Hash != "" || s.Slot == record.Factory}
		if s.Slot == record.Factory && s.Slot == st.Running {
			h.Version = settings.Version
		}
		out.List = append(out.List, h)
		if s.State == record.Active {
			out.Good = h.ID
		}
	}
	if out.Trial = st.Name; st.Last.Seq != 0 {
		out.Last = health.Ended{Slot: string(st.Last.Slot), Kept: st.Last.Committed, Reason: wire.BootReason(st.Last.Reason), Detail: st.Last.Detail}
	}
	return out
}

// lookAtSlots reads the state of the slots, which may have been changed by hand.
func (a *Agent) lookAtSlots() {
	c := &a.care
	defer func() { // by what is known then
		if c.lookAt = time.Since(a.began) + lookEvery; c.health.State.Trial.ID != "" {
			c.lookAt = time.Since(a.began) + lookTrial
		}
	}()
	st, err := c.slots.Status()
	if err != nil {
		a.well(health.Slots{Err: failed(err)})
		return
	}
	for _, note := range st.Notes {
		a.log.Warn("slots", zap.String("note", note))
	}
	var slots health.Slots // not launched: a restart starts the same again
	if c.launched {
		slots = slotsOf(st)
	}
	c.view = a.viewParts()
	slots.Parts = c.view
	a.well(slots)
	if slots.Trial != "" {
		a.approved(slots.Trial, st.Approved)
	}
	for _, p := range c.parts {
		if p.state.Approved == p.state.Number {
			a.approved(update.Trial(p.name, p.state.Number), atNode)
		}
	}
}

// atNode approves of the trial of a component at the node.
const atNode = "somebody at the node"

// approved passes on that somebody at the node approves of a trial. by is empty if nobody does.
func (a *Agent) approved(trial, by string) {
	if t := a.care.health.State.Trial; by != "" && t.ID == trial && !t.ByHand {
		a.well(health.Order{What: health.OrderApprove, By: by, ByHand: true, Version: t.Version})
	}
}
