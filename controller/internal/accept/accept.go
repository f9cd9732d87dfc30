// Package accept holds the rules by which a unit configuration, or a set of workloads, is taken or
// refused (seed 000, Check and Version Management). It is pure.
//
//tandem:pure
package accept

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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
			err.Message = fmt.Sprintf(
				"version %s is on trial; confirm it, wait until it ends, or submit a higher version than %s", c.Trial,
				c.Trial)
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

// First is the version of a first set of workloads that came without one.
const First = "1.0.0"

// Next is the version that a submission without one gets: the lowest release above current, which is
// a version that was accepted, or First if current is "".
func Next(current string) string {
	if current == "" {
		return First
	}
	current, _, _ = strings.Cut(current, "+")
	release, _, candidate := strings.Cut(current, "-")
	if candidate {
		return release
	}
	numbers := strings.Split(release, ".")
	for i := len(numbers) - 1; i >= 0; i-- {
		n, err := strconv.ParseUint(numbers[i], 10, 64)
		if err == nil && n < math.MaxUint64 {
			numbers[i] = strconv.FormatUint(n+1, 10)
			break
		}
		numbers[i] = "0"
	}
	return strings.Join(numbers, ".")
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
