// Package inbox decides what a node does with the documents it is sent: which it accepts, in what
// order they are tried, when one counts as installed, and what is put back when one is not. It
// also decides whom the node believes.
//
// The package is pure. A State is a value; Step takes it from one event to the next and says, as
// effects, what the shell must do. Time and chance come in with each step.
//
// It guarantees, for each kind of document: the committed stamp never goes back; there is at most
// one provisional document; what is put back is the last good document; and, as long as the
// shell saves a State before it runs the effects, the next start knows from the saved part alone
// what was in flight. It must not know what a kind's body means or where it is kept.
//
//tandem:pure
package inbox

import (
	"time"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// Doc is an accepted document. The zero Doc is none.
type Doc struct {
	Stamp         wire.Stamp        `json:"stamp"`
	Version       string            `json:"version"`
	Hash          string            `json:"hash"`
	Mode          wire.Mode         `json:"mode"`
	ConfirmWithin duration.Duration `json:"confirmWithin,omitzero"` // above zero in mode try, if the document is sound
	// exact bytes, not to be written to; empty if it travelled by reference
	Body    []byte `json:"-"`
	Content any    `json:"-"` // what the kind has read from Body; nil: nothing
}

// Exists reports whether d is a document at all.
func (d Doc) Exists() bool { return !d.Stamp.IsZero() }

// Ref names the document on the wire; nil for none.
func (d Doc) Ref() *wire.DocRef {
	if !d.Exists() {
		return nil
	}
	return &wire.DocRef{Epoch: d.Stamp.Epoch, Rev: d.Stamp.Rev, Version: d.Version, Hash: d.Hash}
}

// Phase is how far the provisional document has come.
type Phase string

// The phases of a Flight.
const (
	Idle      Phase = ""
	Received  Phase = "received"  // accepted; being checked, nothing changed on the node
	Applying  Phase = "applying"  // being put in place: the node may run any part of it
	Trying    Phase = "trying"    // in place, waiting to be confirmed
	Restoring Phase = "restoring" // the verdict is known; the last good document is being put back
	Waiting   Phase = "waiting"   // will be tried again: what stopped it was not the document's fault
)

// Flight is the provisional document: at most one of each kind.
type Flight struct {
	Doc     Doc     `json:"doc,omitzero"`
	Phase   Phase   `json:"phase,omitempty"`
	Attempt int     `json:"attempt,omitzero"` // 1 for the first
	Verdict Verdict `json:"verdict,omitzero"` // in phase Restoring

	// What a trial has left. Remaining is what will be left when the next save is due, so that a
	// crash never lengthens a trial, whatever the clock does; WallUntil is its end by the clock.
	Remaining duration.Duration `json:"remaining,omitzero"`
	WallUntil time.Time         `json:"wallUntil,omitzero"`
}

// Verdict is how an attempt ended, other than well.
type Verdict struct {
	State wire.State  `json:"state,omitempty"`
	Err   *wire.Error `json:"err,omitempty"`
	Retry bool        `json:"retry,omitzero"` // not the document's fault: it will be tried again
}

// Durable is the part of a State that survives a restart. The shell saves all of it at once.
type Durable struct {
	High     wire.Stamp    `json:"high,omitzero"` // the newest stamp ever accepted
	HighHash string        `json:"highHash,omitempty"`
	HighSeal []byte        `json:"-"`                // what was signed of it, as wire.Shown; empty: not known
	Running  Doc           `json:"running,omitzero"` // the last good document: committed
	Flight   Flight        `json:"flight,omitzero"`
	Next     Doc           `json:"next,omitzero"`    // the newest document that came while the flight was busy
	Touched  bool          `json:"touched,omitzero"` // the node may not be running Running
	Last     *wire.Attempt `json:"last,omitempty"`   // the newest attempt, as reported; replaced, never changed
}

// op is what the shell has been asked to do and has not answered.
type op string

const (
	opNone    op = ""
	opCheck   op = "check"
	opApply   op = "apply"
	opRestore op = "restore"
	opVerify  op = "verify"
)

// State is all there is to know about one kind of document. Make it with New.
type State struct {
	Durable

	look    time.Duration // how often what is in place is looked at; 0: at the start only
	busy    op
	until   time.Duration // trying: the end, on the monotonic clock
	saveAt  time.Duration // trying: when Remaining is saved again
	retryAt time.Duration // waiting, or an unfinished restore or verification: when to go on
	tries   int           // failed restores or verifications in a row
	unsure  bool          // a verification failed and must be repeated
	lookAt  time.Duration // when what is in place is looked at again
	drift   *wire.Error   // what is in the place of the document; replaced, never changed
	fork    *wire.Attempt // a refused document with the stamp of the newest one

	// Events whose step could not be saved, to be stepped again.
	stalled   []Event
	stalls    int
	stalledAt time.Duration
	trouble   *wire.Error
}

// New returns the State of a kind from its saved part; the zero Durable is a kind that the node
// has never heard of. The shell fills in the Content of its documents. Every look it asks whether what is in
// place is still so; 0: at the start only. The first Step must be Started.
func New(d Durable, look time.Duration) State { return State{Durable: d, look: look} }

// Report returns what the node says about this kind: what it runs, and the newest attempt.
func (s State) Report() (running *wire.DocRef, last *wire.Attempt) {
	running = s.Running.Ref()
	if s.fork != nil {
		return running, s.fork
	}
	for _, ev := range s.stalled {
		if d, ok := ev.(Desired); ok {
			a := attempt(d.Doc, wire.StateFailed, s.trouble, 1, d.At)
			return running, a
		}
	}
	if s.Last != nil && s.Last.Error == nil && s.trouble != nil && s.Flight.Phase != Idle {
		a := *s.Last
		a.Error = s.trouble
		return running, &a
	}
	if s.drift != nil {
		return s.drifted(running, s.Last)
	}
	return running, s.Last
}

// Shown returns what is signed of the newest document that was accepted, as wire.Shown; nil: it is not known.
func (s State) Shown() []byte {
	if shown, err := wire.Decode[wire.Shown](s.HighSeal); err == nil &&
		(wire.Stamp{Epoch: shown.Epoch, Rev: shown.Rev}) == s.High && shown.Hash == s.HighHash {
		return s.HighSeal
	}
	return nil // or of a document before: an agent that keeps none has run in between
}

// NextDeadline returns when Step wants a Tick at the latest, on the monotonic clock.
func (s State) NextDeadline() (time.Duration, bool) {
	at, ok := time.Duration(0), false
	sooner := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if len(s.stalled) > 0 {
		sooner(s.stalledAt)
	}
	if s.busy != opNone {
		return at, ok
	}
	switch {
	case s.unsure, s.Flight.Phase == Waiting, s.Flight.Phase == Restoring:
		sooner(s.retryAt)
	}
	if s.Flight.Phase == Trying {
		sooner(min(s.until, s.saveAt))
	}
	if s.looks() {
		sooner(s.lookAt)
	}
	return max(at, s.stalledAt), ok // nothing is begun again before that
}

// Refused is what a node reports of a document that it refuses before the inbox.
func Refused(d Doc, err *wire.Error, at time.Time) *wire.Attempt {
	return attempt(d, wire.StateRejected, err, 1, at)
}

func attempt(d Doc, state wire.State, err *wire.Error, n int, at time.Time) *wire.Attempt {
	return &wire.Attempt{Epoch: d.Stamp.Epoch, Rev: d.Stamp.Rev, Version: d.Version, Hash: d.Hash,
		State: state, Error: err, Attempt: n, At: at.UTC().Round(0)}
}
