package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/wire"
)

// agentTarget is the agent: what is done to its slots, it takes up when it sees it.
type agentTarget struct {
	*slot.Store
	stateDir string
	out      printer
}

func (a agentTarget) stage(ctx context.Context, from source, cfg stageConfig) error {
	src := slot.Source{Version: cfg.Version, Hash: wholeHash(cfg.Hash), Signature: from.signature}
	if !cfg.Force { // before the slot is emptied
		hash, err := slot.Hash(ctx, from)
		if err == nil {
			_, err = from.Seek(0, io.SeekStart)
		}
		if err != nil {
			return err
		}
		st, err := a.Status()
		if err == nil {
			err = a.refusal(st.Last, hash)
		}
		if err != nil {
			return err
		}
		src.Hash = cmp.Or(src.Hash, hash)
	}
	got, err := a.StageFrom(ctx, from, src)
	if err != nil {
		return err
	}
	return a.out.say(got, "slot %s holds version %s (%s); try it: tandem-node slot try%s", got.Slot, got.Version,
		got.Hash, cfg.where())
}

func (a agentTarget) try(rest []string, cfg tryConfig) error {
	st, err := a.Status()
	if err != nil {
		return err
	}
	id := record.None
	if len(rest) == 1 {
		id = slot.ID(rest[0])
	}
	for _, x := range st.Slots {
		if len(rest) == 0 && x.State == record.Updating && x.Hash != "" {
			id = x.Slot
		}
	}
	if id == record.None {
		if st.Trying != record.None {
			return record.ErrTrial
		}
		return errors.New("nothing is staged that was not tried yet: stage something first, " +
			"or say which slot to try again")
	}
	for _, x := range st.Slots {
		if x.Slot == id && !cfg.Force {
			if err := a.refusal(st.Last, x.Hash); err != nil {
				return err
			}
		}
	}
	if err := a.as(st, id).Arm(id, cfg.Tries); err != nil {
		return err
	}
	if st, err = a.Status(); err != nil {
		return err
	}
	return a.out.say(st,
		"slot %s runs on trial with the next start of the agent, at most %d times; then, without a commit, "+
			"slot %s again: systemctl restart tandem-node", id, cfg.Tries, active(st))
}

// as is the slots for a step that is about one of them as it was looked at.
func (a agentTarget) as(st slot.Status, id slot.ID) *slot.Store {
	for _, x := range st.Slots {
		if x.Slot == id {
			return a.While(x)
		}
	}
	return a.Store
}

func active(st slot.Status) slot.ID {
	for _, x := range st.Slots {
		if x.State == record.Active {
			return x.Slot
		}
	}
	return record.None
}

func (a agentTarget) end(what update.What, why string) error {
	switch what {
	case update.OrderApprove:
		return a.approve()
	case update.OrderCommit:
		return a.commit()
	}
	return a.rollback(why)
}

func (a agentTarget) rollback(why string) error {
	st, err := a.Status()
	if err != nil {
		return err
	}
	return a.leave(st, why)
}

// leave rolls back what is on trial, or in force, as it was looked at.
func (a agentTarget) leave(st slot.Status, why string) error {
	from := st.Trying
	if from == record.None {
		from = active(st)
	}
	to, err := a.as(st, from).Rollback(from, wire.BootFallback, why)
	if err != nil {
		return err
	}
	if st, err = a.Status(); err != nil {
		return err
	}
	if st.Running == to {
		return a.out.say(st, "slot %s is given up; slot %s goes on running", from, to)
	}
	return a.out.say(st,
		"slot %s is given up; slot %s runs with the next start of the agent: systemctl restart tandem-node", from, to)
}

func (a agentTarget) approve() error {
	if err := a.Approve(byHand); err != nil {
		return err
	}
	st, err := a.Status()
	if err != nil {
		return err
	}
	return a.out.say(st,
		"slot %s may be kept: the agent sees it within a minute, and commits once nothing else is missing", st.Running)
}

func (a agentTarget) commit() error {
	st, err := a.Status()
	if err != nil {
		return err
	}
	if err := a.as(st, st.Running).Commit(st.Running); err != nil {
		return err
	}
	if st, err = a.Status(); err != nil {
		return err
	}
	return a.out.say(st, "slot %s is in force; the one before is slot %s", st.Running, st.Previous)
}

// quarantine is what has failed here, also if the launcher has ended its trial, the last one, and no agent has run
// since.
func (a agentTarget) quarantine(last slot.Outcome) ([]wire.HealthFailed, error) {
	r, err := disk.Own(a.stateDir, nil).Read()
	if err == nil && last.Failed && r.Phase.OnTrial() && last.Hash == r.Hash {
		r.Quarantine = append(r.Quarantine,
			wire.HealthFailed{Version: last.Version, Hash: last.Hash, Text: last.Detail})
	}
	return r.Quarantine, err
}

// refusal says why a file is not staged, or a slot not tried.
func (a agentTarget) refusal(last slot.Outcome, hash string) error {
	list, err := a.quarantine(last)
	if err != nil {
		return fmt.Errorf("what has failed here before is not known, --force goes on without it: %w", err)
	}
	if err := update.Refusal(list, hash, false); err != nil {
		return errors.New(err.Message)
	}
	return nil
}

func (a agentTarget) clear(version string) error {
	st, err := a.Status()
	if err != nil {
		return err
	}
	if err := disk.Own(a.stateDir, nil).Update(time.Now(),
		order(update.Order{What: update.OrderClear, By: byHand, Version: version}, "")); err != nil {
		return err
	}
	return a.out.say(st, "cleared: it is staged and tried again like any other version")
}
