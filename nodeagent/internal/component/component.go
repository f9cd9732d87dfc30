// Package component decides what a node does about the versions that its components should have (seed 001): which files
// it fetches, when one is staged and tried, and what is told of that.
//
// The package is pure. It asks for what is to be done by effects, and is told how it went. How an update goes on from
// there is decided by package update, whose record is all that survives a restart: from that this package takes up
// what was under way.
//
// It guarantees: nothing is fetched for a component that has its version; one that waits or has failed holds up no
// other, but those that wait for it; content that has failed on trial is not gone to again; what has failed for another
// reason is tried again, after a pause that doubles from a minute to an hour.
//
//tandem:pure
package component

import (
	"maps"
	"slices"
	"time"

	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// State is all there is to know. The zero State knows nothing.
type State struct {
	doc    *wire.Components
	parts  map[string]Part      // nil: not known yet
	work   map[string]work      // what is under way for each component of the document; it is replaced, never changed
	files  []wire.NodeComponent // that are asked for
	status []wire.ComponentStatus
}

// Part is how a component of the node stands.
type Part struct {
	Answered bool // its program has said what there is
	Record   update.Record
}

// work is what was done for a component so far, in this run of the agent.
type work struct {
	hash    string // of the file that it is about
	fetched bool
	staging bool        // an effect that is not answered
	trial   trial       // how far the order to try what is staged has come
	number  uint64      // of the update that was staged; 0: none
	fails   int         // in a row
	err     *wire.Error // of the newest attempt, or what is waited for
	again   time.Duration
	at      time.Time // of again, by the wall clock; zero: it did not fail
}

// trial is how far an order to try has come.
type trial int

const (
	notAsked trial = iota
	asked          // an effect that is not answered
	ordered        // it was taken
	seen           // the record has it
)

// Event is something that happened.
type Event interface{ event() }

// Document says which versions there should be. Nil: none. What has failed is tried again at once.
type Document struct{ Components *wire.Components }

// Parts says how the components of the node stand, by their names. Nothing is begun before the first one.
type Parts struct{ Parts map[string]Part }

// Fetched says how the download of a file stands.
type Fetched struct {
	Hash string
	Done bool        // it is there, and verified
	Err  *wire.Error // of the newest attempt, which will be repeated; or what it waits for
}

// Staged answers Stage. Err: it is not staged.
type Staged struct {
	Name   string
	Hash   string
	Number uint64 // of the update
	Err    *wire.Error
}

// Tried answers Try. Err: it is not to be tried.
type Tried struct {
	Name string
	Hash string
	Err  *wire.Error
}

// Tick says that time has passed.
type Tick struct{}

func (Document) event() {}
func (Parts) event()    {}
func (Fetched) event()  {}
func (Staged) event()   {}
func (Tried) event()    {}
func (Tick) event()     {}

// Effect is something that the shell does.
type Effect interface{ effect() }

// Fetch asks for these files, and for no other, and for Fetched whenever that changes.
type Fetch struct{ Files []wire.NodeComponent }

// Stage asks for the file that was fetched to be staged, and for Staged.
type Stage struct{ Component wire.NodeComponent }

// Try asks for what is staged to be tried, and for Tried.
type Try struct{ Component wire.NodeComponent }

// Report asks for the report to be sent again.
type Report struct{}

func (Fetch) effect()  {}
func (Stage) effect()  {}
func (Try) effect()    {}
func (Report) effect() {}

// The pauses.
const (
	firstPause = time.Minute // after the first attempt in vain; twice as long after each
	longPause  = time.Hour   // at most
	busyPause  = 30 * time.Second
)

// Status lists how far each component is, in the document's order; nil while nothing is known.
func (s State) Status() []wire.ComponentStatus { return s.status }

// NextDeadline returns when Step wants a Tick at the latest, on the monotonic clock.
func (s State) NextDeadline() (at time.Duration, due bool) {
	for _, w := range s.work {
		if w.again > 0 && (!due || w.again < at) {
			at, due = w.again, true
		}
	}
	return at, due
}

// step is one Step on its way.
type step struct {
	State
	now     clock.Now
	effects []Effect
}

// Step takes s over one event.
func (s State) Step(now clock.Now, ev Event) (State, []Effect) {
	t := &step{State: s, now: now}
	t.work = maps.Clone(s.work)
	if t.work == nil {
		t.work = map[string]work{}
	}
	switch ev := ev.(type) {
	case Document:
		t.document(ev.Components)
	case Parts:
		t.parts = ev.Parts
	case Fetched:
		t.each(func(w *work) bool { return w.hash == ev.Hash }, func(w *work) {
			if w.fetched = ev.Done; w.again == 0 {
				w.err = ev.Err
			}
		})
	case Staged:
		t.staged(ev)
	case Tried:
		t.tried(ev)
	}
	if t.parts == nil || t.doc == nil {
		t.status = nil
	} else {
		t.drive()
	}
	if !slices.EqualFunc(s.status, t.status, sameStatus) {
		t.do(Report{})
	}
	return t.State, t.effects
}

func sameStatus(a, b wire.ComponentStatus) bool {
	x, y := a.Error, b.Error
	a.Error, b.Error = nil, nil
	return a == b && (x == nil) == (y == nil) && (x == nil || *x == *y)
}

func (t *step) do(e Effect) { t.effects = append(t.effects, e) }

// each changes the work that it is about.
func (t *step) each(about func(*work) bool, change func(*work)) {
	for name, w := range t.work {
		if about(&w) {
			change(&w)
			t.work[name] = w
		}
	}
}

// document takes a document in. What is under way for a file that is still wanted goes on.
func (t *step) document(doc *wire.Components) {
	t.doc = doc
	next := map[string]work{}
	if doc != nil {
		for _, c := range doc.Components {
			w := t.work[c.Name]
			if w.hash != c.Hash {
				w = work{hash: c.Hash}
			}
			w.again, w.at, w.fails = 0, time.Time{}, 0
			next[c.Name] = w
		}
	}
	t.work = next
}

func (t *step) staged(ev Staged) {
	w, ok := t.work[ev.Name]
	if !ok || w.hash != ev.Hash {
		return
	}
	w.staging, w.number = false, ev.Number
	if ev.Err != nil {
		w.number = 0
		t.failed(&w, ev.Err)
	}
	t.work[ev.Name] = w
}

func (t *step) tried(ev Tried) {
	w, ok := t.work[ev.Name]
	if !ok || w.hash != ev.Hash {
		return
	}
	if w.trial = ordered; ev.Err != nil {
		w.trial = notAsked
		t.failed(&w, ev.Err)
	}
	t.work[ev.Name] = w
}

// failed notes an attempt in vain. One that something else is in the way of is no failure.
func (t *step) failed(w *work, err *wire.Error) {
	w.err = err
	if err.Code == wire.CodeWrongState {
		w.again = t.now.Mono + busyPause
		return
	}
	pause := min(firstPause<<min(w.fails, 6), longPause)
	w.fails++
	w.again, w.at = t.now.Mono+pause, t.now.Wall.Add(pause).UTC().Truncate(time.Second)
}
