// Package plan decides what becomes of the resources on a node's disk (seed 004, resources and
// verification): which to fetch next and from where, which to check again, which to give up when
// space runs short, and when to try again what failed.
//
// The package is pure. A State is a value; Step takes it from one event to the next and says, as
// effects, what the shell must do. Time, chance and the room on the disk come in with each step.
//
// It guarantees: artifacts that are the same have one copy; at most one thing is done to a copy at a
// time; a copy that is wanted is removed only because it is damaged; nothing is removed before it
// is known what is wanted; what is given up for space goes in the order of Less, and no more of it
// than is needed. It must not know how anything is fetched, or where a copy lies.
//
//tandem:pure
package plan

import (
	"maps"
	"slices"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Now is one instant.
type Now struct {
	At     time.Time // with a monotonic reading, if there is one
	Chance float64   // in [0, 1)
	// bytes that may still be taken: free, less what is to stay free, less what is reserved; may be negative
	Room int64
}

// The times that are not settings.
const (
	lookAgain   = time.Minute      // before the room is looked at again
	checkAgain  = 10 * time.Minute // after a check that came to nothing
	removeAgain = time.Minute      // after a removal that failed
	usedBeat    = 24 * time.Hour   // Copy.Used of what is wanted is at most so old, plus that
)

// Copy is a verified copy on the disk, as it is saved beside it.
type Copy struct {
	Key     Key       `json:"key"`
	Sum     string    `json:"sum"`              // ALGORITHM:hex of the content; later checks compare with it
	Digest  string    `json:"digest,omitempty"` // hex of publisher.NewHash over the content; "": it was not made
	Size    int64     `json:"size"`             // bytes
	Checked time.Time `json:"checked"`
	Used    time.Time `json:"used"`            // wanted last; days count
	Cached  bool      `json:"cached,omitzero"` // kept when it is not wanted
	UUIDs   []string  `json:"uuids,omitempty"` // that it was wanted by, sorted; at most maxUUIDs
}

const maxUUIDs = 64

// op is what the shell has been asked to do with a copy and has not answered.
type op string

const (
	opNone   op = ""
	opFetch  op = "fetch"
	opCheck  op = "check"
	opRemove op = "remove"
)

// item is one copy: wanted, there, or both.
type item struct {
	spec   Spec
	wanted bool
	kept   bool // it is not wanted, and copy stays while there is room

	copy    Copy
	held    bool // copy is on the disk and verified
	found   bool // something lies in the copy's place and must be verified
	partial bool // there may be a part of it

	busy op
	stop bool // the fetch was cancelled
	late bool // it is fetched by a size that was corrected meanwhile
	full bool // it ran out of room, and something is to be given up for it
	url  string

	doubted bool // what came in several goes was wrong, and nobody was blamed for it

	tries    []try // of each of spec.URLs
	err      *wire.Error
	have     int64 // bytes of the part
	best     int64 // the most that it ever was
	fulls    int   // times in a row without room
	roomAt   time.Time
	checkAt  time.Time // not checked before: the last check came to nothing
	removeAt time.Time
	repaired int
}

// try is how fetching from one address has gone.
type try struct {
	fails int   // in a row
	wrong int   // in a row: what came was not what is wanted
	total int64 // bytes of the whole, as it said when there was no room for them
	at    time.Time
	turn  bool // its newest answer was that it sends to others until then
}

// State is all there is to know about the copies. Make it with New.
type State struct {
	parallel int
	items    map[Key]item
	found    map[string]bool // names of files whose key is not known
	uuids    map[string]Key  // which copy a uuid without a checksum stands for
	disputed map[string]bool // uuids that are wanted with several checksums
	known    bool            // what is wanted is
	wanted   Specs
	keep     Specs
	at       time.Time // of the newest step
	lookAt   time.Time
}

// New returns the State of a store in which held are the verified copies, doubted those that must be
// verified before they are used, and found the names (Key.Name) of files of which nothing else is
// known, and parts the bytes of copies that were not fetched to the end. At most parallel copies are
// fetched at a time.
func New(parallel int, held, doubted []Copy, found []string, parts map[Key]int64) State {
	s := State{parallel: parallel, items: map[Key]item{}, found: map[string]bool{}, uuids: map[string]Key{}}
	for _, c := range held {
		s.items[c.Key] = item{copy: c, held: true}
	}
	for _, c := range doubted {
		s.items[c.Key] = item{copy: c, found: true}
	}
	for k, n := range parts {
		it := s.items[k]
		it.partial, it.have = true, n
		s.items[k] = it
	}
	for _, n := range found {
		s.found[n] = true
	}
	return s
}

// Event is something that has happened.
type Event interface{ event() }

type (
	// Want says what is wanted from now on. Copies of Keep stay while there is room, if they are there.
	Want struct{ Specs, Keep Specs }
	// Retry says that artifacts are not to wait any longer after what failed.
	Retry struct{ Artifacts []workload.Artifact }
	// Tick says that time has passed, or that something else than the store may have freed room.
	Tick struct{}
	// Free says that something else than a download needs room: copies that may go are given up for it.
	Free struct{ Bytes int64 }
	// Doubted says that the copy of an artifact turned out not to be what it was: it is verified before it is used.
	Doubted struct{ Artifact workload.Artifact }
	// Fetched answers Fetch: the copy is in its place.
	Fetched struct{ Copy Copy }
	// Failed answers Fetch.
	Failed struct {
		Key     Key
		Kind    Kind
		Err     *wire.Error
		Have    int64         // bytes of the part that is left
		Total   int64         // bytes of the whole, if the server said; else 0
		After   time.Duration // with Later: when the address may be asked again
		Resumed bool          // a part that was there before was used
	}
	// Checked answers Check. Copy is what was found if Outcome is Sound.
	Checked struct {
		Key     Key
		Outcome Outcome
		Copy    Copy
		Err     *wire.Error
	}
	// Removed answers Remove. Err is nil if nothing of the copy is left.
	Removed struct {
		Key Key
		Err *wire.Error
	}
)

func (Want) event()    {}
func (Retry) event()   {}
func (Tick) event()    {}
func (Free) event()    {}
func (Doubted) event() {}
func (Fetched) event() {}
func (Failed) event()  {}
func (Checked) event() {}
func (Removed) event() {}

// Kind is why a fetch failed.
type Kind string

// The kinds.
const (
	Passing Kind = "passing" // the address may be better soon: not reached, reset, too slow
	Wrong   Kind = "wrong"   // all of it may have come, and it is not what is wanted
	Never   Kind = "never"   // all of it has come, is what every address has, and is of no use
	Full    Kind = "full"    // no room on the disk; the address is not to blame
	Stopped Kind = "stopped" // it was cancelled
	Later   Kind = "later"   // the address has said when to come back, and is not to blame
)

// Outcome is what a check came to.
type Outcome string

// The outcomes.
const (
	Sound   Outcome = "sound"
	Damaged Outcome = "damaged"
	Unsure  Outcome = "unsure" // it could not be read now
)

// Effect is something that the shell is to do. Fetch, Check and Remove are answered, once each.
type Effect interface{ effect() }

type (
	// Fetch fetches a copy, verifies it and puts it into its place.
	Fetch struct {
		Key     Key
		URL     string
		Sum     string // "" for none
		Reserve int64  // bytes that it is known to take; 0: not known
		Plain   int64  // bytes of the content of what is Encrypted, to be reserved besides; 0: not known
		Extra   int64  // bytes that it takes when it is unpacked, to be reserved until that has ended
		Copy    Copy   // what to save beside it, but for what only the content tells
		// the file that comes, of which Sum is not; nil: what comes is the content
		Encrypted *wire.Encrypted
	}
	// Cancel makes a Fetch end early; it is answered all the same.
	Cancel struct{ Key Key }
	// Check verifies what lies in a copy's place. If it is not Urgent, it must not disturb anybody.
	Check struct {
		Copy   Copy // Sum is what it must have
		Urgent bool
	}
	// Remove removes a copy and every part of it.
	Remove struct{ Key Key }
	// Discard removes a file that nothing is known about. It is not answered.
	Discard struct{ Name string }
	// Save writes down what has changed about a copy. It is not answered: what is lost by failing
	// is when it was used or checked.
	Save struct{ Copy Copy }
)

func (Fetch) effect()   {}
func (Cancel) effect()  {}
func (Check) effect()   {}
func (Remove) effect()  {}
func (Discard) effect() {}
func (Save) effect()    {}

// step is one Step on its way.
type step struct {
	State
	now     Now
	effects []Effect
}

// Step takes s over one event. It panics if the shell answers what it was not asked.
func (s State) Step(now Now, ev Event) (State, []Effect) {
	s.items = maps.Clone(s.items)
	s.at = now.At
	t := &step{State: s, now: now}
	switch ev := ev.(type) {
	case Want:
		t.want(ev.Specs, ev.Keep)
	case Retry:
		for _, a := range ev.Artifacts {
			if k := t.of(a); t.items[k].wanted {
				it := t.items[k]
				t.afresh(&it)
				t.items[k] = it
			}
		}
	case Free:
		if need := ev.Bytes - now.Room; need > 0 {
			t.giveUp(need)
		}
	case Doubted:
		k := t.of(ev.Artifact)
		if it, ok := t.items[k]; ok && it.held && it.busy == opNone {
			it.held, it.found, it.checkAt = false, true, time.Time{}
			t.items[k] = it
		}
	case Fetched:
		t.fetched(ev)
	case Failed:
		t.failed(ev)
	case Checked:
		t.checked(ev)
	case Removed:
		t.removed(ev)
	case Tick:
	}
	t.decide()
	return t.State, t.effects
}

func (t *step) do(e Effect) { t.effects = append(t.effects, e) }

// answered takes off what key was busy with.
func (t *step) answered(key Key, o op) item {
	it, ok := t.items[key]
	if !ok || it.busy != o {
		panic("plan: answer to " + string(o) + " of " + string(key) + ", which is busy with " + string(it.busy))
	}
	it.busy = opNone
	return it
}

func (s State) keys() []Key { return slices.Sorted(maps.Keys(s.items)) }

// NextDeadline returns when Step wants a Tick at the latest.
func (s State) NextDeadline() (time.Time, bool) {
	var at time.Time
	sooner := func(t time.Time) {
		if t.After(s.at) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, it := range s.items {
		if it.busy != opNone {
			continue
		}
		sooner(it.removeAt)
		switch {
		case it.held && it.wanted:
			sooner(it.copy.Used.Add(usedBeat))
			if at, ok := it.checkDue(); ok {
				sooner(at)
			}
		case it.found:
			sooner(it.checkAt)
		case it.wanted:
			sooner(it.nextTry())
		}
	}
	if !s.lookAt.IsZero() {
		sooner(s.lookAt)
	}
	return at, !at.IsZero()
}
