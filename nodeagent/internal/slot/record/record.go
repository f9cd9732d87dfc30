// Package record decides which A/B slot boots. Its Record is everything that outlives a restart: which
// slot is good, which one is on trial and how many tries it has left, and package boot's history of the
// agent's starts. Package slot keeps it on disk and does what it says.
//
// It guarantees that exactly one slot is active, that at most one is on trial, that the tries of a trial
// only go down, and that what takes the active slot's place has been in force before or came with the
// node. It is pure: no disk, clock or process.
//
//tandem:pure
package record

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/shared/wire"
)

// ID names a slot.
type ID = boot.Slot

// The slots. Factory is the installed binary, the one that the service manager starts: it is never
// written, and there whatever happens to the others.
const (
	None    ID = ""
	A       ID = "a"
	B       ID = "b"
	Factory ID = "factory"
)

// Writable are the slots that an update may go to.
var Writable = []ID{A, B}

// State is what a slot is to the outside (seed 002, zboot status).
type State string

// The states. At any time one slot is active, and at most one is updating or in progress.
const (
	Active     State = "active"     // good: it boots unless a trial does
	Updating   State = "updating"   // being written, written, or armed, but never booted
	InProgress State = "inprogress" // booted on trial, not committed
	Unused     State = "unused"
)

// Verdict is what is known of a slot's content.
type Verdict string

// The verdicts.
const (
	Untried Verdict = ""
	Good    Verdict = "good"   // it was committed
	Failed  Verdict = "failed" // a trial of it ended without a commit, or it was rolled back
)

// Slot is what has been written to a slot and verified.
type Slot struct {
	Version   string  `json:"version,omitzero"`
	Hash      string  `json:"hash,omitzero"` // sha256:…; empty: the slot holds nothing that may boot
	Size      int64   `json:"size,omitzero"` // bytes
	Verdict   Verdict `json:"verdict,omitzero"`
	Committed uint64  `json:"committed,omitzero"` // number of the record that made it good; 0: never
}

// Exists says that the slot holds something that may boot.
func (s Slot) Exists() bool { return s.Hash != "" }

// Approval says that somebody at the node approves of a trial. It counts for that one only, also where a
// launcher that does not know it has left it behind.
type Approval struct {
	Trial string `json:"trial,omitzero"` // its name
	By    string `json:"by,omitzero"`
}

// Outcome is how a trial, or a good slot, ended.
type Outcome struct {
	Seq       uint64          `json:"seq,omitzero"` // number of the record that ended it; 0: there was none yet
	Slot      ID              `json:"slot,omitzero"`
	Version   string          `json:"version,omitzero"`
	Hash      string          `json:"hash,omitzero"`
	Committed bool            `json:"committed,omitzero"`
	Reason    wire.BootReason `json:"reason,omitzero"` // if it was not committed
	Detail    string          `json:"detail,omitzero"`
	Failed    bool            `json:"failed,omitzero"` // what it holds is to blame; nobody has given it up by hand
}

// Record is all that is kept. The zero value is not valid; New makes the first one.
type Record struct {
	Seq      uint64 `json:"seq"` // rises with every write
	Good     ID     `json:"good"`
	Previous ID     `json:"previous"`          // what a roll back of Good goes to
	Why      string `json:"why,omitzero"`      // why Good is good, for people
	Trying   ID     `json:"trying,omitzero"`   // armed or on trial
	Tries    int    `json:"tries,omitzero"`    // starts of Trying that are left
	Booted   bool   `json:"booted,omitzero"`   // Trying has been started
	Spared   int    `json:"spared,omitzero"`   // planned restarts of Trying that have consumed no try
	Writing  ID     `json:"writing,omitzero"`  // being written
	WriteSeq uint64 `json:"writeSeq,omitzero"` // number of the record that began it

	A Slot `json:"a,omitzero"`
	B Slot `json:"b,omitzero"`

	Approved Approval `json:"approved,omitzero"`

	boot.History
	Last Outcome `json:"last,omitzero"`

	// Rest is what a newer version has added: an older launcher hands it on. The library says embed for it, and the
	// standard one of Go 1.26, which takes its place where GOEXPERIMENT=jsonv2, inline; each ignores the other's word.
	Rest jsontext.Value `json:",embed,inline"`
}

// Limits.
const (
	MaxTries  = 10 // of a trial
	MaxSpared = 5  // planned restarts of a trial without consuming a try: a trial cannot restart for ever
)

// Errors of transitions. Their texts are for people.
var (
	ErrNoTrial    = errors.New("no trial is in progress")
	ErrTrial      = errors.New("a trial is in progress; commit it or roll it back first")
	ErrNotStarted = errors.New("the slot on trial has not been started yet; restart the agent first")
	ErrEmpty      = errors.New("the slot holds nothing that may boot; stage something first")
	ErrNoPrevious = errors.New("the factory slot is in force: there is nothing to roll back to")
	ErrSuperseded = errors.New("another staging has begun since")
)

// New returns the record of a node on which nothing has been staged yet.
func New() Record {
	return Record{Good: Factory, Previous: Factory, Why: "it came with the node"}
}

// Slot returns what a slot holds. The factory slot is always there, and holds nothing that is known.
func (r Record) Slot(id ID) Slot {
	switch id {
	case A:
		return r.A
	case B:
		return r.B
	}
	return Slot{}
}

func (r Record) with(id ID, s Slot) Record {
	switch id {
	case A:
		r.A = s
	case B:
		r.B = s
	}
	return r
}

// Trial names the trial of the slot that runs, as no other one is named; "" if there is none. The number is that of the
// record that ended the trial before.
func (r Record) Trial() string {
	if !r.Boot.Trial || r.Trying != r.Boot.Slot {
		return ""
	}
	return fmt.Sprintf("%s-%d", r.Trying, r.Last.Seq)
}

// ApprovedBy says who at the node approves of that trial, "" if nobody does.
func (r Record) ApprovedBy() string {
	if name := r.Trial(); name == "" || r.Approved.Trial != name {
		return ""
	}
	return r.Approved.By
}

// State derives what a slot is to the outside.
func (r Record) State(id ID) State {
	switch {
	case id == r.Good:
		return Active
	case id == r.Trying && r.Booted:
		return InProgress
	case id == r.Trying, id == r.Writing:
		return Updating
	case r.Trying == None && r.Writing == None && r.Slot(id).Exists() && r.Slot(id).Verdict == Untried:
		return Updating
	}
	return Unused
}

// bootable says whether a slot may take the active one's place without a trial.
func (r Record) bootable(id ID) bool {
	return id == Factory || r.Slot(id).Exists() && r.Slot(id).Verdict == Good
}

// Validate says what is wrong with a record that was read.
func (r Record) Validate() error {
	known := func(id ID, also ...ID) bool { return id == A || id == B || slices.Contains(also, id) }
	switch {
	case r.Seq == math.MaxUint64:
		return errors.New("its number cannot rise any more")
	case !known(r.Good, Factory):
		return fmt.Errorf("good is %.20q", string(r.Good))
	case r.Good != Factory && !r.bootable(r.Good):
		return fmt.Errorf("slot %s is good, but holds nothing good", r.Good)
	case !r.bootable(r.Previous) || r.Previous == r.Good && r.Good != Factory:
		return fmt.Errorf("previous is %.20q", string(r.Previous))
	case !known(r.Trying, None) || r.Trying == r.Good:
		return fmt.Errorf("trying is %.20q", string(r.Trying))
	case r.Trying != None && !r.Slot(r.Trying).Exists():
		return fmt.Errorf("slot %s is on trial, but holds nothing", r.Trying)
	case r.Tries < 0 || r.Tries > MaxTries || r.Spared < 0 || r.Spared > MaxSpared:
		return fmt.Errorf("%d tries, %d spared", r.Tries, r.Spared)
	case r.Trying == None && (r.Tries != 0 || r.Booted || r.Spared != 0):
		return errors.New("tries without a trial")
	case !known(r.Writing, None) || r.Writing != None &&
		(r.Writing == r.Good || r.Writing == r.Trying || r.Slot(r.Writing).Exists()):
		return fmt.Errorf("writing is %.20q", string(r.Writing))
	case !known(r.Boot.Slot, None, Factory):
		return fmt.Errorf("slot %.20q was started", string(r.Boot.Slot))
	}
	for _, id := range Writable {
		s := r.Slot(id)
		if s.Exists() && !ValidHash(s.Hash) || s.Size < 0 || s.Verdict != Untried && s.Verdict != Good &&
			s.Verdict != Failed || !s.Exists() && s != (Slot{}) {
			return fmt.Errorf("slot %s makes no sense", id)
		}
	}
	return nil
}

// bounded makes a text one line of limited length.
func bounded(s string) string { return boot.Bounded(s) }
