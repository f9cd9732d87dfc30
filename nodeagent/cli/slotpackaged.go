package cli

import (
	"context"
	"io"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/settings"
)

// packaged does what a package asks for that upgrades the installed program, which this is: adopt before it is
// replaced, and upgrade after that. Adopt keeps it in force in a slot, as the way back, unless a slot is in force
// anyway. Upgrade has it tried in a slot, if it is newer than what is in force.
func (a agentTarget) packaged(ctx context.Context, verb string, from source, cfg stageConfig) error {
	st, err := a.Status()
	if err != nil {
		return err
	}
	if st.Trying != record.None {
		return record.ErrTrial
	}
	id, version := active(st), ""
	for _, x := range st.Slots {
		if x.Slot == id {
			version = x.Version
		}
	}
	adopts := verb == "adopt"
	if adopts != (id == record.Factory) || !adopts && publisher.BelowFloor(version, settings.Version) == nil {
		return a.out.say(st, "slot %s stays in force", id)
	}
	if adopts {
		got, err := a.StageFrom(ctx, from, slot.Source{Signature: from.signature})
		if err == nil {
			err = a.While(slot.SlotStatus{Slot: got.Slot, State: record.Updating, Hash: got.Hash}).Adopt(got.Slot)
		}
		if err != nil {
			return err
		}
		return a.out.say(got, "version %s is in force in slot %s, as the way back", got.Version, got.Slot)
	}
	quiet := a
	quiet.out.w = io.Discard
	if err := quiet.stage(ctx, from, cfg); err != nil {
		return err
	}
	return a.try(nil, tryConfig{Tries: slot.DefaultTries})
}
