// Package rollout brings new content to nodes in waves. It decides which nodes are issued to and when, what became of
// them, and when to stop; it knows neither documents nor the journal. A Set has all rollouts of a unit: facts about
// nodes, orders and time go into Step, and records and effects come out. The state changes by records, and by facts,
// which are given again after a restart; Replay of the records gives the same state as Step did (ADR 056).
//
// All numbers are integers; percentages round as the plan's comments say. Step takes the time of one node's fact, not
// that of all nodes.
//
//tandem:pure
package rollout

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"time"

	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// Phase is where a rollout is.
type Phase string

// The phases. A rollout that is held by a window, a limit or silence is running: see Why.
const (
	Waiting    Phase = "waiting" // for an older rollout of its kind
	Running    Phase = "running"
	Paused     Phase = "paused"    // until somebody resumes or aborts it
	Reverting  Phase = "reverting" // nodes get their last good document again
	Done       Phase = "done"
	Aborted    Phase = "aborted"
	Superseded Phase = "superseded"
)

// Status is where a node is in a rollout.
type Status string

// The statuses that records say.
const (
	Queued   Status = "queued"
	Issued   Status = "issued"
	Passed   Status = "passed"
	Failed   Status = "failed"
	Silent   Status = "silent"   // issued to, offline and past its deadline
	Back     Status = "back"     // is being taken back
	Restored Status = "restored" // was taken back
	Stuck    Status = "stuck"    // could not be taken back
)

// The statuses that follow from facts.
const (
	Soaking Status = "soaking" // issued to, installed, and to stay in good health
	Absent  Status = "absent"  // queued, and offline for so long that nobody waits for it
	Gone    Status = "gone"    // revoked
)

// Statuses are all that nodes are shown in.
func Statuses() []Status {
	return []Status{Queued, Issued, Soaking, Passed, Failed, Silent, Back, Restored, Stuck, Absent, Gone}
}

// inFlight reports whether a change is under way on the node.
func (s Status) inFlight() bool { return s == Issued || s == Back }

// grace is how long after a start of the controller no deadline ends: nodes have to be heard first.
const grace = 5 * time.Minute

// How long a node that may have passed has to answer before it is asked again, and how long it is at least left alone.
const (
	askEvery = 30 * time.Second
	askSoon  = time.Second
)

// Set is all rollouts of a unit, and what is known of its nodes. It belongs to one goroutine.
type Set struct {
	zones plan.Zones
	nodes map[string]*node
	all   map[string]*Rollout // by ID
	open  []*Rollout          // those that go on, or have nodes in flight; the oldest first
	stale bool                // records were replayed, and Opened has not come yet: nothing is decided
}

// node is what facts say of a node, whatever rollouts there are.
type node struct {
	Fact
	docs   map[wire.Kind]Doc
	holder *Rollout // has it in flight: nobody else issues to it
	parts  []*part  // in open rollouts
}

// Rollout is one rollout.
type Rollout struct {
	set      *Set
	id, who  string
	kind     wire.Kind
	salt     string
	plan     *plan.Plan
	windows  plan.Windows
	at       time.Time // of its beginning
	planned  int       // nodes that it began with
	canaries int       // nodes that the canary wave opened with
	phase    Phase     // never Waiting, which is derived
	wave     int       // the newest one, -1 before the first
	waveOpen bool
	override bool // somebody has resumed it after its canary
	revert   bool
	now      bool // take back outside of windows too
	pause    PausedData
	pausedAt time.Time
	by       string // superseded by, or who aborted it
	endedAt  time.Time

	parts map[string]*part
	back  []*part // to be taken back, in order
	first int     // in back; those before are at an end

	counts
	queues      map[uint32]*queues // by group mask
	timers      timers
	windowOpen  bool
	windowUntil time.Time // ask again then; zero: never
	notBefore   time.Time // no deadline ends before
	settled     []*part   // whose outcome changed in this step and has no record yet
	looks       []*part   // that may have passed by now, and are to be asked
}

// counts are sums over parts, kept by refresh.
type counts struct {
	groups  []groupCount // the whole unit, then the plan's groups
	counted int          // against the failure budget
	pending int          // in the open wave and not at an end
	flying  int          // in flight
}

type groupCount struct{ size, unavailable, ours int }

// part is what a rollout knows of one node: every node of the unit has one, since limits count all of them.
type part struct {
	*node
	of   *Rollout
	rank [32]byte

	// What records make.
	status   Status
	initial  bool   // planned from the beginning
	wave     int    // -1: in none yet
	hash     string // of what was issued, or what it is taken back to
	rev      uint64 // of that
	before   string // hash of what it had, its own last good one
	baseline []Trouble
	issuedAt time.Time
	tries    int    // issued since it last passed
	excused  bool   // somebody resumed the rollout knowing that it has failed
	reason   string // of Failed, Silent and Stuck
	ended    uint64 // number of the record that settled it

	// What facts make.
	target    string    // hash of what it should get; "": it is not in the rollout
	sickSince time.Time // a passed node, or zero
	cleared   bool      // it has failed, and was available after that: what it is now is not because of the rollout
	has       share
	queue     *partHeap // it stands in, nil: none
	index     int       // in there
	due       time.Time
	timer     int // index in the timers, -1: in none
	outcome   outcome
	settling  bool
	asked     time.Time // when it was last asked how it is
	looking   bool      // it is in looks
}

// outcome is what a step has found out about a part.
type outcome struct {
	status Status
	reason string
}

// share is what a part adds to the counts.
type share struct {
	mask                                      uint32
	size, unavailable, ours, counted, pending bool
	flying, absent, sick                      bool
}

// NewSet returns a set without nodes and rollouts. Zones finds time zones.
func NewSet(zones plan.Zones) *Set {
	if zones == nil {
		zones = func(name string) (*time.Location, error) {
			return nil, fmt.Errorf("no time zones are known here, not even %q", name)
		}
	}
	return &Set{zones: zones, nodes: map[string]*node{}, all: map[string]*Rollout{}}
}

// rankOf orders nodes: the same on replay, others first in the next rollout.
func rankOf(salt, node string) [32]byte { return sha256.Sum256([]byte(salt + "\x00" + node)) }

// byRank compares parts by their order in the rollout.
func byRank(a, b *part) int {
	for i := range a.rank {
		if c := cmp.Compare(a.rank[i], b.rank[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Node, b.Node)
}

// lastWave reports whether the open wave is the last one, which takes all that is left.
func (r *Rollout) lastWave() bool { return r.wave == len(r.plan.Waves)-1 }

// behind returns the rollout that it waits for before it begins: an older one of its kind; nil: none.
func (r *Rollout) behind() *Rollout {
	for _, o := range r.set.open {
		switch {
		case o == r:
			return nil
		case o.kind == r.kind && !o.ended():
			return o
		}
	}
	return nil
}

// canary reports whether the open wave is the canary.
func (r *Rollout) canary() bool { return r.wave >= 0 && r.plan.Waves[r.wave].Canary }

// ended reports whether nothing more is issued.
func (r *Rollout) ended() bool { return r.phase == Done || r.phase == Aborted || r.phase == Superseded }

// member reports whether the open wave is waiting for the node.
func (p *part) member() bool {
	r := p.of
	return r.waveOpen && p.target != "" && (p.wave == r.wave || r.lastWave() || p.again())
}

// soaking reports whether the node has what was issued to it.
func (p *part) soaking() bool { return p.status == Issued && p.installed() }

// installed reports whether the node has installed what was issued to it, this time.
func (p *part) installed() bool {
	d := p.docs[p.of.kind]
	return p.rev > 0 && d.Installed.Rev >= p.rev && d.Installed.Hash == p.hash
}

// failure returns what the node says against what was issued to it; nil: nothing.
func (p *part) failure() *Failure {
	if f := p.docs[p.of.kind].Failed; f != nil && f.Rev >= p.rev && f.Hash == p.hash && p.rev > 0 {
		return f
	}
	return nil
}

// replaced reports whether the node has lost all that it had, and is to be issued to again: after it passed or fell
// silent, or once while a change was in flight.
func (p *part) replaced() bool {
	d, known := p.docs[p.of.kind]
	return known && d.Installed.Hash == "" &&
		(p.status == Passed || p.before != "" && (p.status == Silent || p.status == Issued && p.tries < 2))
}

// again reports whether a node that was issued to is to be issued to again: it was replaced, or should get something
// else now.
func (p *part) again() bool {
	return p.replaced() || (p.status == Issued || p.status == Passed) && p.target != "" && p.hash != p.target
}

// wants reports whether it waits to be issued to.
func (p *part) wants() bool {
	return p.target != "" && (p.status == Queued && p.docs[p.of.kind].Installed.Hash != p.target || p.again())
}
