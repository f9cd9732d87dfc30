package rollout

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// Record is an entry of the journal about a rollout. Data is one of the types below, by value.
type Record struct {
	Seq  uint64
	At   time.Time
	ID   string // of the rollout
	Data any
}

// What records carry.
type (
	// BegunData begins a rollout; the order of its nodes follows from the salt.
	BegunData struct {
		Kind  wire.Kind  `json:"kind"`          // of the documents
		Who   string     `json:"who,omitempty"` // began it
		Salt  string     `json:"salt"`          // of the order
		Plan  *plan.Plan `json:"plan"`          // complete
		Nodes []string   `json:"nodes"`         // planned, which do not have it yet
	}
	// WaveOpenedData opens a wave, or adds nodes to the one that is open.
	WaveOpenedData struct {
		Wave  int      `json:"wave"`  // from 0
		Nodes []string `json:"nodes"` // its members
	}
	// IssuedData precedes the publishing; the record's number is the documents' rev.
	IssuedData struct {
		Wave  int          `json:"wave"`  // the open one, whose members the nodes are from now on
		Nodes []IssuedNode `json:"nodes"` // a batch
	}
	// SettledData says what became of nodes: what it follows from, a node's time in good health, is not journaled.
	SettledData struct {
		Nodes []SettledNode `json:"nodes"` // that ended in one step
	}
	// PausedData stops issuing until somebody resumes.
	PausedData struct {
		Cause PauseCause `json:"cause"`            // for programs
		Who   string     `json:"who,omitempty"`    // of an order
		Text  string     `json:"reason,omitempty"` // of an order
		Nodes []string   `json:"nodes,omitempty"`  // that caused it
	}
	// ResumedData goes on: nodes that are failed or silent do not count any more.
	ResumedData struct {
		Who string `json:"who,omitempty"` // resumed it
	}
	// WavePassedData closes a wave.
	WavePassedData struct {
		Wave  int  `json:"wave"`            // from 0
		Empty bool `json:"empty,omitempty"` // nobody was in it
	}
	// RevertingData begins to take nodes back.
	RevertingData struct {
		Who string `json:"who,omitempty"` // aborted it
		Now bool   `json:"now,omitempty"` // outside of windows too
	}
	// TakenBackData precedes the publishing of nodes' last good documents; the record's number is their rev.
	TakenBackData struct {
		Nodes []NodeHash `json:"nodes"` // a batch
	}
	// EndedData ends a rollout.
	EndedData struct {
		Phase Phase  `json:"phase"`         // done, aborted or superseded
		By    string `json:"by,omitempty"`  // what supersedes it
		Who   string `json:"who,omitempty"` // aborted it
	}
)

// IssuedNode is a node that is issued to.
type IssuedNode struct {
	NodeHash
	Before   string    `json:"before,omitempty"`   // hash of what it has now; empty: nothing
	Again    bool      `json:"again,omitempty"`    // it has lost what it was issued before
	Baseline []Trouble `json:"baseline,omitempty"` // what is wrong with it already
}

// SettledNode is a node that has come to an end.
type SettledNode struct {
	Node   string `json:"node"`             // its name
	Status Status `json:"status"`           // passed, failed, silent, restored or stuck
	Reason string `json:"reason,omitempty"` // of what is not good
}

// PauseCause says why a rollout is paused.
type PauseCause string

// The causes.
const (
	CauseOrder    PauseCause = "order"     // somebody did it
	CauseBudget   PauseCause = "budget"    // more nodes are failed or silent than the budget
	CauseCanary   PauseCause = "canary"    // no node of the canary wave has passed
	CauseTakeBack PauseCause = "take-back" // a node could not be taken back
)

// step is one step under way.
type step struct {
	*Set
	now time.Time
	seq uint64
	out *Out
}

// emit journals a record about a rollout and applies it.
func (s *step) emit(r *Rollout, data any) Record {
	s.seq++
	rec := Record{s.seq, s.now, r.id, data}
	s.out.Records = append(s.out.Records, rec)
	s.apply(rec)
	return rec
}

// Replay applies a record of the journal. Facts come afterwards, then Opened. An error refuses a record that this
// package cannot have made.
func (s *Set) Replay(rec Record) error {
	if err := s.Check(rec); err != nil {
		return err
	}
	s.apply(rec)
	s.stale = true
	return nil
}

// apply changes the state by a record.
func (s *Set) apply(rec Record) {
	if d, ok := rec.Data.(BegunData); ok {
		s.begun(rec, d)
		return
	}
	r := s.all[rec.ID]
	switch d := rec.Data.(type) {
	case WaveOpenedData:
		r.opened(rec.At, d)
	case IssuedData:
		for _, n := range d.Nodes {
			r.issued(rec, d.Wave, n)
		}
	case SettledData:
		for _, n := range d.Nodes {
			r.ends(rec, n)
		}
	case PausedData:
		r.phase, r.pause, r.pausedAt = Paused, d, rec.At
		r.refreshAll(rec.At)
	case ResumedData:
		r.resumed(rec.At)
	case WavePassedData:
		if d.Empty {
			r.wave = d.Wave
		}
		r.waveOpen = false
		r.refreshMembers(rec.At)
	case RevertingData:
		r.reverting(rec.At, d)
	case TakenBackData:
		for _, n := range d.Nodes {
			r.takenBack(rec, n)
		}
	case EndedData:
		r.phase, r.by, r.endedAt, r.waveOpen = d.Phase, d.By+d.Who, rec.At, false
		r.refreshAll(rec.At)
	default:
		panic(fmt.Sprintf("rollout: a record with a %T", rec.Data)) // only our own types come here
	}
}

func (s *Set) begun(rec Record, d BegunData) {
	windows, err := d.Plan.Open(s.zones)
	if err != nil {
		panic("rollout: the plan was not checked: " + err.Error())
	}
	r := s.add(rec.ID, d.Kind, d.Salt, d.Plan, windows)
	r.who, r.at, r.planned = d.Who, rec.At, len(d.Nodes)
	for _, name := range d.Nodes {
		r.named(name).initial = true
	}
	r.refreshAll(rec.At)
}

// add adds a rollout to the open ones, with a part for each node that is known.
func (s *Set) add(id string, k wire.Kind, salt string, p *plan.Plan, windows plan.Windows) *Rollout {
	r := &Rollout{
		set: s, id: id, kind: k, salt: salt, plan: p, windows: windows, phase: Running, wave: -1,
		parts: map[string]*part{}, queues: map[uint32]*queues{},
		counts: counts{groups: make([]groupCount, 1+len(p.Groups))},
	}
	s.all[r.id], s.open = r, append(s.open, r)
	for _, n := range s.nodes {
		r.part(n)
	}
	return r
}

// node returns a node, known from now on.
func (s *Set) node(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = &node{Fact: Fact{Node: name}, docs: map[wire.Kind]Doc{}}
		s.nodes[name] = n
		for _, r := range s.open {
			r.part(n)
		}
	}
	return n
}

// part returns the part of a node in an open rollout.
func (r *Rollout) part(n *node) *part {
	p := r.parts[n.Node]
	if p == nil {
		p = &part{node: n, of: r, rank: rankOf(r.salt, n.Node), status: Queued, wave: -1, index: -1, timer: -1}
		r.parts[n.Node] = p
		n.parts = append(n.parts, p)
	}
	return p
}

// named returns the part of the node of that name.
func (r *Rollout) named(name string) *part { return r.part(r.set.node(name)) }

func (r *Rollout) opened(at time.Time, d WaveOpenedData) {
	if r.waveOpen = true; r.wave != d.Wave {
		r.wave, r.canaries = d.Wave, len(d.Nodes)
	}
	for _, name := range d.Nodes {
		p := r.named(name)
		p.wave = d.Wave
		p.refresh(at)
	}
	if r.lastWave() {
		r.refreshAll(at)
	}
}

func (r *Rollout) issued(rec Record, wave int, n IssuedNode) {
	p := r.named(n.Node)
	p.status, p.wave, p.hash, p.rev, p.issuedAt = Issued, wave, n.Hash, rec.Seq, rec.At
	p.before, p.baseline, p.excused, p.reason = n.Before, n.Baseline, false, ""
	if p.tries++; n.Again {
		p.tries = 2
	}
	p.hold(rec.At)
}

func (r *Rollout) takenBack(rec Record, n NodeHash) {
	p := r.named(n.Node)
	p.status, p.hash, p.rev, p.issuedAt, p.reason = Back, n.Hash, rec.Seq, rec.At, ""
	p.hold(rec.At)
}

func (r *Rollout) ends(rec Record, n SettledNode) {
	p := r.named(n.Node)
	p.status, p.reason, p.ended, p.excused = n.Status, n.Reason, rec.Seq, false
	if n.Status == Passed {
		p.tries = 0
	}
	p.sickSince = time.Time{}
	p.hold(rec.At)
}

func (r *Rollout) resumed(at time.Time) {
	r.phase, r.pause, r.pausedAt = Running, PausedData{}, time.Time{}
	if r.revert {
		r.phase = Reverting
	}
	r.override = r.override || r.canary()
	for _, p := range r.parts {
		p.excused = p.excused || p.status == Failed || p.status == Silent || p.status == Stuck
	}
	r.refreshAll(at)
}
