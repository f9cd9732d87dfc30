package wire

import (
	"fmt"
	"math"
	"time"
)

// HealthFormat is the format version of a desired document of kind health.
const HealthFormat = "1"

// MaxMaintenance is the longest total time without contact that a node does not count because of announced maintenance.
// A beacon that announces none resets the total.
const MaxMaintenance = 24 * time.Hour

// HealthSettings is the body of a desired document of kind health (seed 002, EVE Node Health Monitor Function). All
// fields but the format version are optional; Complete has the defaults.
type HealthSettings struct {
	FormatVersion string `json:"formatVersion"`     // of these settings: "1"
	Reset         Span   `json:"reset,omitzero"`    // time without contact after which the node reboots
	Fallback      Span   `json:"fallback,omitzero"` // on trial: time without contact after which it is rolled back
	// on trial: time of uninterrupted good health before a commit
	Test     Span          `json:"test,omitzero"`
	Deadline Span          `json:"deadline,omitzero"`  // on trial: running time after which it is rolled back
	Contact  Span          `json:"contact,omitzero"`   // time for which a fresh message counts as contact
	Watchdog Span          `json:"watchdog,omitzero"`  // time without progress after which a loop counts as hung
	Approval *bool         `json:"approval,omitempty"` // a commit needs the controller's or the operator's approval
	Reboot   *bool         `json:"reboot,omitempty"`   // the agent may reboot the machine
	Checks   *HealthLimits `json:"checks,omitempty"`   // limits of measured values
}

// HealthLimits are the limits of the checks of measured values. CPU, RAM and disk are fractions of the whole; network
// is in bytes a second.
type HealthLimits struct {
	CPU     *HealthLimit `json:"cpu,omitempty"`     // use of the processors
	RAM     *HealthLimit `json:"ram,omitempty"`     // use of the memory
	Disk    *HealthLimit `json:"disk,omitempty"`    // use of each partition
	Network *HealthLimit `json:"network,omitempty"` // traffic
}

// HealthLimit is the limit of one check: it fails when the value stays above Max for the time For. For a fraction, a
// Max of 1 turns the check off.
type HealthLimit struct {
	Max float64 `json:"max"`          // above 0; a fraction is at most 1
	For Span    `json:"for,omitzero"` // absent: at once
}

// The defaults and limits of the times, from seed 002 and EVE.
const (
	second = Span(time.Second)

	DefaultReset, MinReset, MaxReset          = 604800 * second, 120 * second, MaxSpan
	DefaultFallback, MinFallback, MaxFallback = 300 * second, 60 * second, MaxSpan
	DefaultTest, MinTest, MaxTest             = 600 * second, 30 * second, 3600 * second
	DefaultContact, MinContact, MaxContact    = 150 * second, 75 * second, 3600 * second // see Check
	DefaultWatchdog, MinWatchdog, MaxWatchdog = 60 * second, 10 * second, 3600 * second

	ApprovalDeadline = 86400 * second // the least default deadline where an approval is needed
)

// Complete returns h with defaults for all absent fields:
//   - the times above;
//   - a deadline of twice the sum of test and fallback time, but of at least a day if an approval is needed;
//   - no approval needed, and reboots allowed;
//   - limits of 98 % for CPU during five minutes, and for RAM and disk during one.
func (h HealthSettings) Complete() HealthSettings {
	h.FormatVersion = HealthFormat
	fill(&h.Reset, DefaultReset)
	fill(&h.Fallback, DefaultFallback)
	fill(&h.Test, DefaultTest)
	fill(&h.Contact, DefaultContact)
	fill(&h.Watchdog, DefaultWatchdog)
	if h.Approval == nil {
		h.Approval = new(bool)
	}
	if h.Reboot == nil {
		h.Reboot = new(true)
	}
	deadline := MaxSpan
	if h.Test < MaxSpan/4 && h.Fallback < MaxSpan/4 {
		deadline = 2 * (h.Test + h.Fallback)
	}
	if *h.Approval {
		deadline = max(deadline, ApprovalDeadline)
	}
	fill(&h.Deadline, deadline)
	limits := HealthLimits{}
	if h.Checks != nil {
		limits = *h.Checks
	}
	fill(&limits.CPU, &HealthLimit{Max: 0.98, For: 300 * second})
	fill(&limits.RAM, &HealthLimit{Max: 0.98, For: 60 * second})
	fill(&limits.Disk, &HealthLimit{Max: 0.98, For: 60 * second})
	h.Checks = &limits
	return h
}

// fill sets a field that is zero to value.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Check completes h and returns the first mistake in it, or nil. Each time must be within its limits, and the times
// must obey the rules below. The error's path is a JSON pointer into h.
//
//	contact  >= 75 s       otherwise a node loses contact between two beacons, a minute apart
//	contact  <= fallback   otherwise a trial is rolled back while there is contact
//	fallback <= reset      otherwise a node reboots sooner than it rolls a trial back
//	watchdog <  test       otherwise a version whose loops hang can pass its test
//	deadline >= min(test + fallback, MaxSpan)
//	                       otherwise a trial with contact in time can end before its test time
func (h HealthSettings) Check() *Error {
	if err := h.check(); err != nil {
		return AsError(err)
	}
	return nil
}

func (h *HealthSettings) check() error {
	switch h.FormatVersion {
	case HealthFormat:
	case "":
		return New(CodeMissing, "/formatVersion", "required")
	default:
		return New(CodeWrongVersion, "/formatVersion",
			fmt.Sprintf("format %.16q; this side knows %q", h.FormatVersion, HealthFormat))
	}
	c := h.Complete()
	if err := first(
		bound("/reset", c.Reset, MinReset, MaxReset),
		bound("/fallback", c.Fallback, MinFallback, MaxFallback),
		bound("/test", c.Test, MinTest, MaxTest),
		contactTime("/contact", c.Contact),
		bound("/contact", c.Contact, MinContact, MaxContact),
		bound("/watchdog", c.Watchdog, MinWatchdog, MaxWatchdog)); err != nil {
		return err
	}
	switch {
	case c.Contact > c.Fallback:
		return New(CodeBadValue, "/fallback", fmt.Sprintf("%v is below the contact time of %v: a trial would be "+
			"rolled back while the controller still counts as heard", c.Fallback, c.Contact))
	case c.Fallback > c.Reset:
		return New(CodeBadValue, "/reset", fmt.Sprintf("%v is below the fallback time of %v: normal operation must "+
			"be at least as patient as a trial", c.Reset, c.Fallback))
	case c.Watchdog >= c.Test:
		return New(CodeBadValue, "/test", fmt.Sprintf("%v is not above the watchdog time of %v: a version that "+
			"stands still could pass its test", c.Test, c.Watchdog))
	case c.Deadline < min(c.Test+c.Fallback, MaxSpan):
		return New(CodeBadValue, "/deadline", fmt.Sprintf("%v is below test time and fallback time together, %v and "+
			"%v: contact that comes just in time would come in vain", c.Deadline, c.Test, c.Fallback))
	}
	return first(c.Checks.CPU.check("/checks/cpu", 1), c.Checks.RAM.check("/checks/ram", 1),
		c.Checks.Disk.check("/checks/disk", 1), c.Checks.Network.check("/checks/network", math.MaxFloat64))
}

// bound returns an error unless s is from least to most.
func bound(path string, s, least, most Span) *Error {
	if s < least || s > most {
		return New(CodeBadValue, path, fmt.Sprintf("%v is not within %v and %v", s, least, most))
	}
	return nil
}

// contactTime returns an error if s is not longer than the pause between two beacons: the node would lose contact each
// minute, and no trial could be committed.
func contactTime(path string, s Span) *Error {
	if s < MinContact {
		return New(CodeBadValue, path,
			fmt.Sprintf("%v is below %v: the controller is heard once a minute", s, MinContact))
	}
	return nil
}

func (l *HealthLimit) check(path string, most float64) *Error {
	switch {
	case l == nil:
		return nil
	case !(l.Max > 0):
		return New(CodeBadValue, path+"/max", "not above 0")
	case l.Max > most:
		return New(CodeBadValue, path+"/max", "above 1: a fraction of the whole is wanted, not percent")
	}
	return nil
}
