// Package accept holds the rules by which a unit configuration is taken or refused (seed 000,
// Check and Version Management). It is pure.
package accept

import (
	"fmt"
	"time"

	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Current is what a submission is judged against.
type Current struct {
	Installed bool   // a configuration is installed and its readable copy is whole
	Version   string // of the installed configuration
	Trial     string // version of the configuration on trial, "" if there is none
}

// Version decides whether version may follow what there is. It must be strictly higher than the
// installed one: the same is already-exists, a lower one wrong-state, an unreadable one
// invalid-argument. While a trial is on, the tried version is the one to be higher than. When the
// state is absent or failed there is nothing to compare with, so that any valid configuration
// recovers the unit.
func Version(c Current, version string) *wire.Error {
	if c.Trial != "" {
		err := unitconfig.CheckVersion(c.Trial, version)
		if err != nil && err.Code != wire.CodeInvalidArgument {
			err.Message = fmt.Sprintf("version %s is on trial; confirm it, wait until it ends, or submit a higher version than %s", c.Trial, c.Trial)
		}
		return err
	}
	if !c.Installed {
		// Compared with itself, only an unreadable version is an error of interest.
		if err := unitconfig.CheckVersion(version, version); err != nil && err.Code == wire.CodeInvalidArgument {
			return err
		}
		return nil
	}
	return unitconfig.CheckVersion(c.Version, version)
}

// The shortest and the longest trial.
const (
	MinTrial = time.Second
	MaxTrial = 7 * 24 * time.Hour
)

// Trial checks a mode and, for a trial, its length.
func Trial(mode wire.Mode, within time.Duration) *wire.Error {
	switch {
	case mode != wire.ModeApply && mode != wire.ModeTry:
		return wire.New(wire.CodeInvalidArgument, "/mode", "neither apply nor try")
	case mode == wire.ModeApply && within != 0:
		return wire.New(wire.CodeInvalidArgument, "/confirmWithin", "goes with mode try only")
	case mode == wire.ModeTry && (within < MinTrial || within > MaxTrial):
		return wire.New(wire.CodeInvalidArgument, "/confirmWithin", "a trial lasts from 1 second to 7 days")
	}
	return nil
}
