package inbox

import (
	"time"

	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// Event is something that happened to one kind of document.
type Event interface{ event() }

// Started is the first event of every run.
type Started struct{}

// Desired is a document that Identity.Document has let through.
type Desired struct {
	Doc  Doc
	Seal []byte    // what is signed of it, as wire.Shown
	At   time.Time // the node's clock
}

// Checked answers Check: what the document says, or what the kind's own rules say against it, the
// main thing first.
type Checked struct {
	Stamp   wire.Stamp
	Content any           // the document from now on has it
	Errs    []*wire.Error // none: the document is sound
}

// Applied answers Apply.
type Applied struct {
	Stamp     wire.Stamp
	Err       *wire.Error // nil: the document is in place and running
	Transient bool        // Err is not the document's fault
	Ran       bool        // the node was told about the document, not only its files changed
}

// Restored answers Restore. With an error it is repeated later.
type Restored struct {
	Stamp wire.Stamp
	Err   *wire.Error
	Note  string // what went wrong although the document was put back
}

// Verified answers Verify. With an error it is repeated later.
type Verified struct {
	Err      *wire.Error
	Drifted  bool   // something else was there
	What     string // what was
	Repaired bool   // the document is there again
}

// Confirm asks to keep the tried document. ID is the request's.
type Confirm struct {
	ID    string
	Stamp wire.Stamp
}

// Tick says that time has passed.
type Tick struct{}

// Stopping says that the agent is about to stop in good order.
type Stopping struct{}

func (Started) event()  {}
func (Desired) event()  {}
func (Checked) event()  {}
func (Applied) event()  {}
func (Restored) event() {}
func (Verified) event() {}
func (Confirm) event()  {}
func (Tick) event()     {}
func (Stopping) event() {}

// Effect is something that the shell must do, in the order given.
type Effect interface{ effect() }

// Save is always first: the State's Durable part must be saved before the other effects run. If
// it cannot be saved and Must is set, the shell drops the new State and the effects and calls
// Failed on the old one. Without Must, losing the save only costs work: the shell goes on, and
// saves as soon as it can. Whether a failed save reached the disk does not matter in either case.
type Save struct{ Must bool }

// Check asks for Checked. It changes nothing: the shell may answer it at once, and save both steps as one.
type Check struct{ Doc Doc }

// Apply asks to put Doc in place, and for Applied.
type Apply struct {
	Doc      Doc
	Previous Doc // the last good document, or none
}

// Restore asks to put Good, or nothing if there is none, back in the place of From, and for
// Restored. Without Tell the node never heard of From: only its files are put back.
type Restore struct {
	From, Good Doc
	Tell       bool
}

// Verify asks to see whether Want is in place, to put it there if not and that is wanted, and for Verified.
type Verify struct{ Want Doc }

// Report asks to publish what State.Report said at that moment, whether it is new or not.
type Report struct {
	Running *wire.DocRef
	Last    *wire.Attempt
}

// Again asks for another Step with each event, in order, as if it had just come.
type Again struct{ Events []Event }

// Emit asks for an event to be kept and sent to the controller.
type Emit struct {
	Type string
	Err  *wire.Error
	Doc  *wire.DocRef
}

// Answer asks for the reply to the request ID: a null result if Err is nil.
type Answer struct {
	ID  string
	Err *wire.Error
}

func (Save) effect()    {}
func (Check) effect()   {}
func (Apply) effect()   {}
func (Restore) effect() {}
func (Verify) effect()  {}
func (Report) effect()  {}
func (Again) effect()   {}
func (Emit) effect()    {}
func (Answer) effect()  {}

// The types of the events that a node sends.
const (
	EventDrift          = event.Drift          // what a document had put in place is missing or altered, and stays so
	EventDriftRepaired  = event.DriftRepaired  // the same, and it has been put right
	EventFork           = event.Fork           // another document with the stamp of the newest one was refused
	EventStale          = event.Stale          // an older document was refused
	EventRefusedMessage = event.RefusedMessage // a message was malformed, foreign or not signed as it should be
	EventKeyPinned      = event.KeyPinned      // the unit's keys were learned or added to
	EventKeyDropped     = event.KeyDropped     // a retired key is not believed any more
	// a beacon by a key that is not pinned, or that another has followed, was refused
	EventKeyRefused     = event.KeyRefused
	EventClockSkew      = event.ClockSkew      // the node's clock and the controller's differ by more than MaxSkew
	EventRestoreTrouble = event.RestoreTrouble // the last good document is back, but the on-apply command failed for it
)
