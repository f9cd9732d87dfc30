// Package update decides how the agent, or a component of the node, is updated: which verb of its program is due, what
// follows from its answer, when a trial of it may begin, and what a restart in the middle of all that
// means. The contract with the program is in shared/docs/slots.md, "Other components"; the agent's own program is
// package agentslot.
//
// The package is pure. A State is a value; Step takes it from one event to the next and says, as
// effects, what the shell must do. What must survive a restart is its Record.
//
// It guarantees: a verb is under way only when the Record on the disk says so, and is repeated after a
// crash; an update ends with a version in force, kept or given up, and a reason; every attempt is
// counted before it is made, so that nothing is repeated for ever but the way back. It must not know
// how a verb is run, and it does not judge a trial: package health does, and this one obeys.
//
//tandem:pure
package update

import (
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/wire"
)

// Verb is what a component's program is told to do. Every verb may be repeated: what is done already
// is done.
type Verb string

// The verbs.
const (
	Install  Verb = "install"  // write a version to the side that is not in force, and leave it at that
	Activate Verb = "activate" // let the installed version run on trial, perhaps with the next reboot
	Verify   Verb = "verify"   // say whether the version runs and is well
	Commit   Verb = "commit"   // keep the version on trial
	Rollback Verb = "rollback" // give up what is installed or on trial; what was in force runs again
	Show     Verb = "status"   // only say what there is
)

// Status is the last line that a verb prints: what there is now.
type Status struct {
	Active  string `json:"active"`           // version in force; empty: none
	Trying  string `json:"trying,omitzero"`  // version on trial
	Staged  string `json:"staged,omitzero"`  // version that is installed and was not activated
	Running string `json:"running,omitzero"` // version that runs; empty: unknown
	Message string `json:"message,omitzero"` // for people

	Restart   Restarts `json:"restart,omitzero"`   // what has to be started again to go on
	NoWayBack string   `json:"noWayBack,omitzero"` // why what is on trial could not be given up; empty: it can
	Ended     Why      `json:"ended,omitzero"`     // why the newest trial ended, if it was not kept and that is known

	// Of the agent's own: the hash of what is staged or on trial, and of what ended.
	Hash, EndedHash string `json:"-"`

	// Reboot is the older word for Restart "node". Older agents read it in records.
	Reboot bool `json:"reboot,omitzero"`
}

// Restarts says what has to be started again.
type Restarts string

// What may have to be.
const (
	Nothing Restarts = ""
	Agent   Restarts = "agent"
	Node    Restarts = "node"
)

// Name is the name of the agent as a component: no other one may have it.
const Name = "agent"

// Job is what a verb is about. Fields that a verb does not need are empty.
type Job struct {
	Version string
	File    string // to install; its hash was verified
	Hash    string // of File, sha256:…
	// Signature is a publisher's, of File
	Signature string
	Previous  string // version that was in force when the update began
	Why       Why    // why it is rolled back
}

// Errors of a program's verbs.
var (
	// ErrLater says that the same verb is worth another attempt later.
	ErrLater = errors.New("not now")
	// ErrTimeout says that the verb did not end in time and was killed.
	ErrTimeout = errors.New("killed")
	// ErrFailed says that the verb failed, or said something that contradicts its success.
	ErrFailed = errors.New("failed")
)

// Answered returns the event that tells how a verb ended.
func Answered(verb Verb, st Status, err error) Ended {
	ev := Ended{Verb: verb, Status: st}
	switch {
	case err == nil:
		return ev
	case errors.Is(err, ErrFailed):
		ev.Fault = Failed
	case errors.Is(err, ErrTimeout):
		ev.Fault = Killed
	default:
		ev.Fault = Later
	}
	ev.Text = err.Error()
	return ev
}

// Phase is how far an update is.
type Phase string

// The phases. In each but None, Staged and Trying a verb is due until it has succeeded.
const (
	None        Phase = ""             // nothing is under way
	Installing  Phase = "installing"   // the file is there; the program installs it
	Staged      Phase = "staged"       // it has, and somebody may have it tried
	Activating  Phase = "activating"   // the trial is being prepared
	Restarting  Phase = "rebooting"    // likewise: it begins after a restart; the name is that of older agents' records
	Trying      Phase = "trying"       // the version runs and is judged
	Committing  Phase = "committing"   // it is kept
	RollingBack Phase = "rolling-back" // it is given up
	Leaving     Phase = "leaving"      // it was, but runs until the restart
)

// OnTrial says whether the version runs, or may, without being in force: no other trial may begin.
func (p Phase) OnTrial() bool { return p != None && p != Installing && p != Staged }

// Why is the reason of a rollback.
type Why struct {
	Reason wire.BootReason `json:"reason,omitempty"`
	Detail string          `json:"detail,omitempty"`
	Failed bool            `json:"failed,omitzero"` // the content itself is to blame: it is quarantined
}

// Outcome is how an update ended.
type Outcome struct {
	Number    uint64    `json:"number"`
	Version   string    `json:"version"`
	Committed bool      `json:"committed,omitzero"`
	Tried     bool      `json:"tried,omitzero"` // it ran on trial: health tells of it
	Why       Why       `json:"why,omitzero"`   // it was not committed, or needed no trial
	At        time.Time `json:"at"`
}

// Record is what survives. An older agent may read what a newer one wrote: members are only added, and
// those that are not known are kept.
type Record struct {
	Seq     uint64 `json:"seq"`             // of this record; the next one that is written has a higher one
	Off     bool   `json:"off,omitzero"`    // the agent is not told to care for this component
	Number  uint64 `json:"number,omitzero"` // of the newest update; none before has it
	Phase   Phase  `json:"phase,omitempty"`
	Version string `json:"version,omitempty"`
	Hash    string `json:"hash,omitempty"` // of the file, sha256:…
	Size    int64  `json:"size,omitzero"`  // of the file, bytes
	// Signature is a publisher's, of the file; of the agent's own it lies beside the slot
	Signature string `json:"signature,omitempty"`
	Previous  string `json:"previous,omitempty"`
	Try       string `json:"try,omitempty"`    // not empty: it is tried as soon as it is staged; for whom
	Runs      int    `json:"runs,omitzero"`    // of the phase's verb, begun
	Reboots   int    `json:"reboots,omitzero"` // restarts asked for in this phase
	Crashes   int    `json:"crashes,omitzero"` // of the agent or the machine in the trial
	Tried     bool   `json:"tried,omitzero"`   // it was on trial
	// the update of this number is approved of by somebody at the node
	Approved uint64  `json:"approved,omitzero"`
	Why      Why     `json:"why,omitzero"`   // it is given up
	Has      Status  `json:"has,omitzero"`   // what the program said last
	Note     string  `json:"note,omitempty"` // what is in the way, for people
	Last     Outcome `json:"last,omitzero"`
	Before   Outcome `json:"before,omitzero"` // the one before Last
	// Quarantine is the content that has failed, the oldest first: nobody tries it again without force.
	Quarantine []wire.HealthFailed `json:"quarantine,omitempty"`
	Reported   uint64              `json:"told,omitzero"` // newest update whose end was reported
	Rest       jsontext.Value      `json:",embed,inline"`
}

// Trial names the trial of an update: no other trial on the node has the name. component is the
// component's name.
func Trial(component string, number uint64) string {
	return component + "#" + strconv.FormatUint(number, 10)
}

// The limits on what is tried again.
const (
	firstPause  = 10 * time.Second // after the first attempt in vain; twice as long after each
	longPause   = 10 * time.Minute // at most
	verifyPause = 10 * time.Second // between two looks at a version on trial
	maxRuns     = 12               // of one verb in one phase: about an hour, unless it takes long
	maxKilled   = 3                // of one that has to be killed
	maxRestarts = 3                // for one step
	maxCrashes  = 2                // in a trial; the next one ends it
	maxText     = 600              // bytes of a reason that are kept
	maxFailed   = 16               // contents in quarantine
)

// State is all there is to know about a component's update. Make it with New.
type State struct {
	Record
	own       bool // it is the agent's own update, as Started has said
	started   bool
	running   Verb          // under way, for update runs
	runs      uint64        // Number as it began
	phase     Phase         // as it began
	cancelled bool          // it is to end
	at        time.Duration // nothing is begun before
	askAt     time.Duration // no restart is asked for before
	fails     int           // in a row, in this run and phase
	shown     bool          // the program has said what there is, and nothing has changed since as far as is known
	answered  bool          // the program has said in this run what there is
	reporting uint64        // the end of this update is being reported
	check     string        // as it was told to health: "", "ok", or what is wrong
}

// New returns the State from its saved part. The first Step must be Started.
func New(r Record) State { return State{Record: r} }

// Load replaces the saved part by what the disk has now: somebody may have worked on it by hand.
func (s State) Load(r Record) State {
	if r.Number != s.Number || r.Phase != s.Phase {
		s.at, s.fails = 0, 0
	}
	s.Record = r
	return s
}

// Lost is the Record of a component whose own was lost. What was under way, if anything, is given up.
func Lost(why string, now time.Time) Record {
	return Record{Number: uint64(max(1, now.Unix())), Phase: RollingBack,
		Why: Why{Reason: wire.BootFallback, Detail: "the record of its update was lost: " + kept(why)}}
}

// Answered says whether the program has said in this run what there is. Until then the record may be of before: the
// agent's slots may have gone on without this machine.
func (s State) Answered() bool { return s.answered }

// Due says which verb is to be under way, "" if none.
func (s State) Due() Verb {
	switch s.Phase {
	case Installing:
		return Install
	case Activating:
		return Activate
	case Trying:
		return Verify
	case Committing:
		return Commit
	case RollingBack:
		return Rollback
	case Restarting, Leaving:
		return Show
	}
	if !s.shown {
		return Show
	}
	return ""
}

// Waits says whether a trial would begin now, if nothing else is in the way: then the shell makes the
// next Step while nobody can begin another one.
func (s State) Waits() bool { return s.Phase == Staged && s.Try != "" && !s.Off }

// NextDeadline returns when Step wants a Tick at the latest, on the monotonic clock.
func (s State) NextDeadline() (time.Duration, bool) {
	if !s.started {
		return s.at, s.at > 0 // Started was dropped
	}
	if s.Off {
		return 0, false
	}
	if s.running != "" {
		return 0, s.stale() && !s.cancelled
	}
	return s.at, s.Due() != "" || s.Waits()
}

// stale says whether what is under way is not what is due.
func (s State) stale() bool {
	return s.running != s.Due() || s.runs != s.Number || s.phase != s.Phase
}

// Doing says how far the update is.
func (r Record) Doing() string {
	if r.Phase == Restarting && r.Has.Restart == Agent {
		return "restarting"
	}
	return string(r.Phase)
}

// Component is how the component called name is reported.
func (r Record) Component(name string) wire.HealthComponent {
	s := r
	c := wire.HealthComponent{Name: name, State: wire.SlotUnused, Version: s.Has.Active, Running: s.Has.Running,
		Text: s.Note}
	switch s.Phase {
	case None:
		if c.Version != "" {
			c.State = wire.SlotActive
		}
		if l := s.Last; l.Number != 0 && !l.Committed && c.Text == "" {
			c.Text = "given up: " + l.Why.Detail
		}
	case Trying, Committing, RollingBack, Leaving:
		c.State, c.Next = wire.SlotInProgress, s.Version
	default:
		c.State, c.Next = wire.SlotUpdating, s.Version
		if record.ValidHash(s.Hash) {
			c.Hash = s.Hash
		}
	}
	if s.Phase != None && c.Text == "" {
		c.Text = s.Doing()
		if s.Why.Detail != "" {
			c.Text += ": " + s.Why.Detail
		}
	}
	c.Text = plain(c.Text)
	return c
}
