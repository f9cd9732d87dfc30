// Package health decides when a node is well enough to keep a new version, when it goes back to the
// old one, and when it restarts because nobody hears it (seed 002). It owns the reset, fallback
// and test times, the baseline that a trial is judged against, the verdict on a trial, and what
// the node says about all of that. shared/docs/health.md has the rules, ADR 016 the reasons.
//
// The package is pure. A State is a value; Step takes it from one event to the next and says, as
// effects, what the shell must do. Time comes in with each step.
//
// It guarantees: no commit without a word from the controller since the trial's start, but for an
// approval by hand where there was none before either; no commit after the deadline while there
// is a slot to go back to; no reboot, and no rollback, without a verified slot to start; resets
// without contact in between come at doubling distances; and no jump of the clock decides
// anything. It must not know how slots are kept, what a check measures, or how a machine reboots.
//
//tandem:pure
package health

import (
	"slices"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// The times that are not settings.
const (
	// between the decision to restart and the restart: it is saved, reported and shown
	restartDelay = 30 * time.Second
	stuckAfter   = 10 * time.Minute   // a restart or commit that was asked for and has not happened
	retrySave    = time.Minute        // before a decision that could not be saved is made again
	baselineBeat = time.Minute        // the baseline is saved at most so often
	resetCap     = 7 * 24 * time.Hour // resets need not be further apart than this, or than the reset time
	commitRetry  = 10 * time.Second   // after a commit that could not be written
	silenceCap   = 7 * 24 * time.Hour // a trial without a word for so long is over, whatever the settings say
	defaultTTL   = time.Minute        // of a check that names none
	awaitPart    = 5 * time.Minute    // for the first word of a component on trial
)

// Durable is the part of a State that survives a restart. The shell saves all of it at once. An
// older agent may read what a newer one wrote: fields are only ever added, and unknown ones must
// be let pass.
type Durable struct {
	Baseline    Baseline  `json:"baseline,omitzero"` // the newest of normal operation
	Trial       Trial     `json:"trial,omitzero"`
	Restart     Restart   `json:"restart,omitzero"` // decided and, as far as this agent knows, not done
	Order       Restart   `json:"order,omitzero"`   // a reboot that was asked for and waits
	Resets      int       `json:"resets,omitzero"`  // reboots for want of contact, without contact in between
	Maintenance Believed  `json:"maintenance,omitzero"`
	Document    time.Time `json:"document,omitzero"` // when a document was last accepted, and not rejected
}

// Baseline is how the node was in normal operation.
type Baseline struct {
	Known   bool     `json:"known,omitzero"`   // Offline has been seen, not assumed
	Offline bool     `json:"offline,omitzero"` // no contact for the fallback time
	Failing []string `json:"failing,omitempty"`
}

func (b Baseline) equal(o Baseline) bool {
	return b.Known == o.Known && b.Offline == o.Offline && slices.Equal(b.Failing, o.Failing)
}

// Trial is the trial of a slot, or of a component. The zero Trial is none.
type Trial struct {
	ID        string    `json:"id,omitempty"` // as Slots.Trial had it
	Slot      string    `json:"slot,omitempty"`
	Component string    `json:"component,omitempty"` // it is this one's, and no slot's
	Version   string    `json:"version,omitempty"`
	Baseline  Baseline  `json:"baseline,omitzero"` // before the trial; it does not change
	Since     time.Time `json:"since,omitzero"`    // the first start
	// of the deadline, as it will be when the next save is due: a crash never lengthens a trial
	Spent    duration.Duration `json:"spent,omitzero"`
	Heard    duration.Duration `json:"heard,omitzero"` // what was spent at the newest word, or approval at the node
	Met      bool              `json:"met,omitzero"`   // there was contact, in this run or an earlier one
	Approved string            `json:"approved,omitempty"`
	ByHand   bool              `json:"byHand,omitzero"`  // the approval was given at the node
	Verdict  Restart           `json:"verdict,omitzero"` // it is to be rolled back, and why
}

// Do is what a Restart does.
type Do string

// The restarts.
const (
	DoReboot   Do = "reboot"   // restart the machine
	DoRestart  Do = "restart"  // restart the agent
	DoRollBack Do = "rollback" // give the version on trial up; that alone restarts nothing
)

// Restart is a restart that was decided or ordered. The zero Restart is none.
type Restart struct {
	Do     Do              `json:"do,omitempty"`
	Reason wire.BootReason `json:"reason,omitempty"`
	Detail string          `json:"detail,omitempty"`
	At     time.Time       `json:"at,omitzero"` // not earlier, by the node's clock
}

// Believed is what the node believes of the maintenance that beacons announce.
type Believed struct {
	Left  duration.Duration `json:"left,omitzero"`  // as it will be when the next save is due
	Spent duration.Duration `json:"spent,omitzero"` // since beacons last announced none; likewise
	Until time.Time         `json:"until,omitzero"` // by the node's clock
}

// State is all there is to know about the node's health. Make it with New.
type State struct {
	Durable

	now      clock.Now // of the newest step
	started  bool
	settings wire.HealthSettings // complete
	boot     wire.HealthBoot
	trouble  *wire.Error // the newest save failed
	hold     time.Duration

	// Contact. success and reached are on the clock that maintenance stops, and 0 at the start.
	link    Link
	result  wire.ContactResult
	heard   bool // there was a success in this run
	success time.Duration
	reached time.Duration // the newest success or temporary failure
	last    time.Time     // the newest success
	in      bool
	lapsed  bool      // the newest success is too old, and that was told
	since   time.Time // of in

	// Maintenance: now it is on, since when and until when; and how long it was before that.
	paused    time.Duration
	resting   bool
	restedAt  time.Duration
	restUntil time.Duration
	restSpent time.Duration // of MaxMaintenance, at restedAt

	checks []check // by name; never changed, only replaced
	slots  Slots
	known  bool // slots is

	// The trial, while it runs; on the clock that maintenance stops.
	trying    bool
	from      time.Duration // it has been known since; contact counts from here
	met       bool          // there was contact since
	window    time.Duration // the healthy span begins here
	spentFrom time.Duration // Trial.Spent was spentBase here
	spentBase time.Duration

	heardSpent time.Duration // as Trial.Heard is saved next
	recheck    time.Duration // the deadline was excused until here
	commit     bool          // asked for and not answered
	commitAt   time.Duration // not asked for again before, or no answer is expected any more; monotonic

	resetFrom time.Duration // a reset was tried in vain; on the clock that maintenance stops

	due     time.Duration // of Durable.Restart; monotonic
	asked   bool          // the restart was asked for
	fails   int           // restarts that did not happen, in a row
	refused string        // why a due restart is not made; said once

	keepAt     time.Duration // monotonic: Spent, and Maintenance, are saved again
	baseAt     time.Duration // monotonic: the baseline may be saved again
	sayAt      time.Duration // monotonic: a trial's remaining time is reported again
	lastReport wire.Health   // without what changes all the time
	shown      wire.Indicator
}

// New returns the State from its saved part. The first Step must be Started.
func New(d Durable) State { return State{Durable: d} }

// clock is the time that maintenance stops.
func (s State) clock() time.Duration {
	if s.resting {
		return s.restedAt - s.paused
	}
	return s.now.Mono - s.paused
}

// NextDeadline returns when Step wants a Tick at the latest, on the monotonic clock.
func (s State) NextDeadline() (time.Duration, bool) {
	if !s.started {
		return 0, false
	}
	at, ok := time.Duration(0), false
	sooner := func(t time.Duration) {
		if t = max(t, s.now.Mono); !ok || t < at {
			at, ok = t, true
		}
	}
	if s.Restart.Do != "" {
		sooner(max(s.due, s.hold))
	}
	if s.trouble != nil {
		sooner(s.hold)
	}
	if s.resting {
		sooner(s.restUntil)
	}
	for _, c := range s.checks {
		if !c.silent {
			sooner(c.heard + c.ttl)
		}
	}
	if s.trying || s.resting {
		sooner(s.keepAt)
	}
	if s.trying {
		sooner(s.sayAt)
	}
	if !s.trying {
		b := s.baseline()
		if !b.equal(s.Baseline) && s.slots.Updates.Busy == "" {
			sooner(s.baseAt)
		}
		if !b.Offline && !s.resting {
			sooner(s.success + s.settings.Fallback.Std() + s.paused)
		}
	}
	if s.fresh() && !s.resting {
		sooner(s.success + s.settings.Contact.Std() + s.paused)
	}
	if s.Restart.Do != "" {
		return at, ok
	}
	if s.trying && s.commit {
		sooner(s.commitAt)
		return at, ok
	}
	if s.trying {
		if t, ok := s.trialDeadline(); ok {
			sooner(t)
		}
		return at, ok
	}
	if s.Order.Do != "" {
		sooner(s.hold)
	}
	if !s.resting && (s.refused == "" || s.refused != s.noReboot()) {
		sooner(max(s.resetAt()+s.paused, s.hold))
	}
	return at, ok
}
