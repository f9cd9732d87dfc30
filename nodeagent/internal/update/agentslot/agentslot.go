// Package agentslot is the program by which the agent updates itself: the verbs of package update, over the A/B slots.
//
// What is staged, on trial and in force stays the slots' own knowledge (package slot), which the launcher shares; this
// package translates. It guarantees that every verb may be repeated, and that no verb touches a version other than the
// one that it is about: somebody else may have armed that.
package agentslot

import (
	"context"
	"errors"
	"fmt"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/wire"
)

// Installed stands for the version of the installed binary where another one runs: nobody knows it.
const Installed = "installed"

// Program runs the verbs. Its methods may be called at the same time.
type Program struct {
	Slots   *slot.Store
	Version string // of the running agent
}

// Run runs one verb and returns what there is now. The error is update.ErrLater, update.ErrFailed, or the context's.
func (p Program) Run(ctx context.Context, verb update.Verb, job update.Job) (update.Status, error) {
	err := p.Slots.Disarm()
	var st slot.Status
	if err == nil {
		st, err = p.Slots.Status()
	}
	if err == nil {
		switch verb {
		case update.Install:
			err = p.install(ctx, st, job)
		case update.Activate:
			err = p.activate(st, job)
		case update.Commit:
			err = p.commit(st, job)
		case update.Rollback:
			err = p.rollback(st, job)
		}
	}
	if err == nil {
		st, err = p.Slots.Status()
	}
	switch {
	case err == nil:
		return p.status(st), nil
	case ctx.Err() != nil:
		return update.Status{}, fmt.Errorf("slots: %s: %w", verb, ctx.Err())
	case permanent(err):
		return update.Status{}, fmt.Errorf("slots: %s: %w: %w", verb, update.ErrFailed, err)
	}
	return update.Status{}, fmt.Errorf("slots: %s: %w: %w", verb, update.ErrLater, err)
}

// permanent says whether a verb will fail again. Whatever else goes wrong, such as a full disk or somebody who is
// staging at the moment, may pass.
func permanent(err error) bool {
	for _, e := range []error{update.ErrFailed, slot.ErrRefused, record.ErrBroken, record.ErrTrial, record.ErrEmpty,
		record.ErrNoTrial, record.ErrNotStarted, record.ErrSuperseded} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, unsigned := errors.AsType[*wire.Error](err)
	return unsigned
}

// install writes the file to the free slot, verifies it and lets it say its version.
func (p Program) install(ctx context.Context, st slot.Status, job update.Job) error {
	if _, ok := Waits(st, job.Version, job.Hash); ok {
		return nil
	}
	_, err := p.Slots.Stage(ctx, slot.Source{File: job.File, Version: job.Version, Hash: job.Hash,
		Signature: job.Signature})
	return err
}

// activate lets the next start be a trial of what is staged.
func (p Program) activate(st slot.Status, job update.Job) error {
	x, ok := Waits(st, job.Version, job.Hash)
	switch {
	case !ok:
		return fmt.Errorf("%w: version %s is in no slot", update.ErrFailed, job.Version)
	case x.Slot == st.Trying:
		return nil
	}
	return p.Slots.While(x).Arm(x.Slot, slot.DefaultTries)
}

// commit keeps the version on trial.
func (p Program) commit(st slot.Status, job update.Job) error {
	if active := good(st); st.Trying == record.None && p.version(st, active) == job.Version {
		return nil
	}
	x, ok := Waits(st, job.Version, job.Hash)
	if !ok || x.Slot != st.Trying {
		return fmt.Errorf("%w: version %s is not on trial", update.ErrFailed, job.Version)
	}
	return p.Slots.While(x).Commit(st.Running)
}

// rollback gives up the version, on trial or staged.
func (p Program) rollback(st slot.Status, job update.Job) error {
	x, ok := Waits(st, job.Version, job.Hash)
	switch {
	case !ok:
		return nil
	case x.Slot == st.Trying:
		_, err := p.Slots.While(x).Rollback(x.Slot, job.Why.Reason, job.Why.Detail)
		return err
	}
	return p.Slots.While(x).Discard(x.Slot)
}

// Waits returns the slot that waits for its trial, or is on trial, with a version of this hash; "": any.
func Waits(st slot.Status, version, hash string) (slot.SlotStatus, bool) {
	for _, x := range st.Slots {
		waits := x.Slot == st.Trying || x.State == record.Updating && x.Hash != ""
		if waits && x.Version == version && (hash == "" || x.Hash == hash) {
			return x, true
		}
	}
	return slot.SlotStatus{}, false
}

// good returns the slot that is in force.
func good(st slot.Status) slot.SlotStatus {
	for _, x := range st.Slots {
		if x.State == record.Active {
			return x
		}
	}
	return slot.SlotStatus{Slot: record.Factory}
}

func (p Program) version(st slot.Status, x slot.SlotStatus) string {
	switch {
	case x.Slot != record.Factory:
		return x.Version
	case st.Running == record.Factory:
		return p.Version
	}
	return Installed
}

// status translates what the slots say.
func (p Program) status(st slot.Status) update.Status {
	active := good(st)
	s := update.Status{Active: p.version(st, active), Running: p.Version}
	for _, x := range st.Slots {
		switch {
		case x.Slot == st.Trying:
			s.Trying, s.Hash = x.Version, x.Hash
		case x.State == record.Updating && x.Hash != "":
			s.Staged, s.Hash = x.Version, x.Hash
		}
	}
	if active.Slot != record.Factory && active.Hash == "" {
		s.NoWayBack = "there is no verified slot to go back to"
	}
	if st.Why == boot.Lost && st.Last.Seq == 0 {
		s.Ended = update.Why{Reason: "unknown", Detail: boot.Lost}
	}
	gone := st.Last.Seq != 0 && !st.Last.Committed
	if gone {
		s.Ended = update.Why{Reason: st.Last.Reason, Detail: st.Last.Detail, Failed: st.Last.Failed}
		s.EndedHash = st.Last.Hash
	}
	left := gone && st.Running == st.Last.Slot && st.Running != active.Slot // and runs still
	if !st.Trial && (st.Trying != record.None || left) {
		s.Restart = update.Agent
	}
	return s
}
