// Package fleet is the controller's mind: what every node of the unit should be, what it says it
// is, and what is due next. It is pure: events go in, journal records and effects come out.
//
// The one rule that makes a crash harmless: the state changes only by records. Step decides on
// records and applies them; the shell makes them durable and only then runs the effects; after a
// restart Replay applies the same records to an empty Fleet and arrives at the same state.
//
// Messages from nodes that are late, repeated or out of order change nothing. What a node should
// have said but did not is asked for, with growing pauses (shared/docs/wire.md, Staying in step).
//
//tandem:pure
package fleet

import (
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Options are what a Fleet needs to know beyond its records. A zero duration means its default.
type Options struct {
	Unit         string
	Epoch        uint64
	CheckTimeout time.Duration // how long the online nodes have to judge a submission; 5 s
	ReportGrace  time.Duration // how long a report may take before it is asked for; 5 s
	ReportMax    time.Duration // the longest pause between two such questions; 5 min
	WorkGrace    time.Duration // how long a node may be busy with a document before it is asked; 1 min
	Limits       Limits        // how much one node may add to the journal
	Kinds        kind.Set      // of documents that there are
	Keys         []wire.Key    // of the unit whose private halves are there, also if the journal does not name them
	Zones        plan.Zones    // finds the time zones of rollouts' windows
	Backups      bool          // the settings want backups of the unit
}

func (o Options) withDefaults() Options {
	or := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	or(&o.CheckTimeout, 5*time.Second)
	or(&o.ReportGrace, 5*time.Second)
	or(&o.ReportMax, 5*time.Minute)
	or(&o.WorkGrace, time.Minute)
	return o
}

// Fleet is the state of one unit. It belongs to one goroutine.
type Fleet struct {
	opt     Options
	outputs []*output // in the order in which nodes get them

	// What records make.
	seq         uint64 // newest record applied
	epoch       uint64 // in which the newest record was written
	sources     []*source
	nodes       map[string]*Node
	forgotten   map[string]wire.Heard // when, by the names of nodes that are not known any more
	enrolled    *enrol.State          // who belongs to the unit
	strangers   strangers             // how many nodes have not joined
	keys        record.SigningKeys    // that sign what the controller says
	cas         record.Authorities    // that count
	root        record.RootData       // what a root key has said of keys and CAs; zero: nothing
	backedUp    time.Time             // when a backup of the unit was made last
	backupsFrom time.Time             // since when every start has wanted backups; zero: the last one did not
	maintenance Maintenance           // that is announced
	questions   questions             // to nodes, that somebody waits for
	newest      wire.Stamp            // of the document that was issued last
	artefacts   *artefact.State       // what is in the store of artefacts
	rollouts    *rollout.Set
	rolled      map[string]*kind.Rollout // what the rollouts bring, by their IDs

	// Known only while the controller runs.
	damaged  map[string]*wire.Error // submitted documents that the journal has lost, by hash
	pending  *pending               // the submission that the nodes are judging
	waiting  []Submit               // those behind it
	agenda   agenda
	limiter  limiter
	troubles troubles
	touched  map[string]bool // nodes of which the rollouts do not know the newest; only while one is going
	raised   time.Time       // when the epoch was last raised
	changes  notices         // nodes that have changed
}

// Node is what is known of one node.
type Node struct {
	Name      string     `json:"name"`
	FirstSeen time.Time  `json:"firstSeen"`
	Up        bool       `json:"up"`
	Since     time.Time  `json:"since"` // of Up
	Boot      string     `json:"boot,omitempty"`
	Session   uint64     `json:"session,omitempty"`
	Heard     wire.Heard `json:"heard,omitzero"` // newest beacon that a live message was proved with
	// what it had heard when its events began at 1 again: those that were proved before are old
	EventsSince wire.Heard               `json:"eventsSince,omitzero"`
	BootAt      wire.Heard               `json:"bootAt,omitzero"`     // when Boot followed another one
	PastBoots   []PastBoot               `json:"past,omitempty"`      // before Boot, the newest last
	EventSeq    uint64                   `json:"eventSeq,omitempty"`  // newest event journaled
	EventBoot   string                   `json:"eventBoot,omitempty"` // that told it
	Alerts      []view.Alert             `json:"alerts,omitempty"`    // raised, the oldest first
	Kinds       map[wire.Kind]*KindState `json:"-"`
	Info        *wire.NodeInfo           `json:"-"` // the node's description of itself, one of the details in Kinds

	// Known only while the controller runs.
	answered     time.Time   // when it last got an answer about which documents are its newest
	liveEvents   uint64      // newest event the node says it has
	ackedEvents  uint64      // highest event sequence acknowledged to the node
	gap          gap         // events that came before their turn
	gone         ended       // the newest session that has said its goodbye
	goneAt       wire.Heard  // when
	claim        *wire.Error // it describes itself as what it is not, which is not believed; nil: it does not
	quiet        bool        // it did not answer the newest check, or anything since, and has not connected anew
	recovered    bool        // it has just told that it is in error no more
	heardOffline bool        // a message arrived while the node counts as offline; its live message may be lost
	retries      int         // questions asked since the node was last in step
	index        int         // in the heap of the agenda, -1 if it is not there
	due          time.Time
}

// New returns the state of a unit of which nothing is known.
func New(opt Options) *Fleet {
	f := &Fleet{
		opt: opt.withDefaults(), epoch: opt.Epoch, nodes: map[string]*Node{}, forgotten: map[string]wire.Heard{},
		enrolled: enrol.New(), questions: newQuestions(), artefacts: artefact.New(),
		damaged: map[string]*wire.Error{}, limiter: newLimiter(opt.Limits), troubles: troubles{},
		rollouts: rollout.NewSet(opt.Zones), rolled: map[string]*kind.Rollout{}, touched: map[string]bool{},
	}
	f.sources, f.outputs = newSources(opt.Kinds)
	return f
}

// Out collects what steps decide, in order. Records and Bodies become durable first, then the
// effects run.
type Out struct {
	Records []record.Record
	Bodies  [][]byte
	Effects []Effect
	Arrived []Arrival // what nodes have come to run
}

// Reset empties o for reuse.
func (o *Out) Reset() {
	clear(o.Records)
	clear(o.Bodies)
	clear(o.Effects)
	o.Records, o.Bodies, o.Effects, o.Arrived = o.Records[:0], o.Bodies[:0], o.Effects[:0], o.Arrived[:0]
}

// Effect is something the shell does once the records are durable.
type Effect interface{ effect() }

// Publish hands documents to the nodes, as retained desired envelopes.
type Publish struct {
	Kind  wire.Kind
	Doc   *kind.Doc // nil: withdraw what is retained
	Body  []byte
	Nodes []string
}

// Ask sends one request to each of the nodes.
type Ask struct {
	ID       string // the request's ID is this and the node's name
	Nodes    []string
	Method   wire.Method
	Params   func(node string) []byte // nil: none
	NotAfter time.Time
}

// Greet says that a node has just come online: it knows beacons of the past, and waits for a word of now.
type Greet struct{ Nodes int } // of the unit: who else hears a beacon

// Answer ends an event that has a ticket. Err is set when it could not be judged at all.
type Answer struct {
	Ticket uint64
	Result view.Result
	Data   []byte // what a node said to a Query
	Err    error
}

// WriteCopy replaces the readable copy of the unit configuration by Document; nil: by the installed
// configuration as the journal has it.
type WriteCopy struct{ Document []byte }

// RaiseEpoch says that a node knows documents newer than this journal: the shell raises the epoch
// above Above and answers with EpochRaised.
type RaiseEpoch struct{ Above uint64 }

// EpochRaised makes every document anew under a higher epoch.
type EpochRaised struct {
	Epoch uint64
	Why   string
}

func (EpochRaised) event() {}

func (RaiseEpoch) effect() {}
func (Publish) effect()    {}
func (Ask) effect()        {}
func (Greet) effect()      {}
func (Answer) effect()     {}
func (WriteCopy) effect()  {}

// Event is something that happened. Time passing is the event Tick.
type Event interface{ event() }

// Tick says that the time of NextDeadline has come.
type Tick struct{}

// Opened says that the controller has started, or lost the session with its broker: nobody is
// known to be online.
type Opened struct {
	Version   string
	Recovered bool   // the journal failed and is back: those who were online still are, and are asked
	Lost      string // why the session has ended; "": it is a start
}

// Copy says what the readable copy of the unit configuration looks like.
type Copy struct {
	Missing bool
	Hash    string      // of its bytes
	Known   bool        // it is a configuration that was accepted once
	Error   *wire.Error // unreadable or not a unit configuration
}

// Confirm and Restore are orders of an operator, answered under Ticket. Confirm keeps what is on trial of a
// source.
type Confirm struct {
	Ticket uint64
	Source wire.Kind
	Who    string
}

// Restore ends the failed state: the journal's configuration is written again.
type Restore struct {
	Ticket uint64
	Who    string
}

func (Tick) event()    {}
func (Opened) event()  {}
func (Copy) event()    {}
func (Confirm) event() {}
func (Restore) event() {}

// Step takes one event and adds what follows from it to out. An event of an unknown type is a
// bug in the caller and panics.
func (f *Fleet) Step(now time.Time, ev Event, out *Out) {
	s := step{Fleet: f, now: now, out: out}
	switch ev := ev.(type) {
	case Tick:
		s.tick()
	case Heard:
		s.heard(&ev)
	case Bad:
		s.bad(ev)
	case Opened:
		s.opened(ev)
	case Copy:
		s.copySeen(ev)
	case Damaged:
		s.documentsDamaged(ev)
	case Lost:
		s.lost(ev)
	case EpochRaised:
		s.epochRaised(ev)
	case Submit:
		s.submit(ev)
	case Confirm:
		s.confirm(ev)
	case Restore:
		s.restore(ev)
	case Retry:
		s.retry(ev)
	case Enrolment:
		s.enrolment(ev)
	case EnrolList:
		s.enrolList(ev)
	case Forget:
		s.forget(ev)
	case KeyOrder:
		s.keyOrder(ev)
	case CAOrder:
		s.caOrder(ev)
	case RootOrder:
		s.rootOrder(ev)
	case Change:
		s.changeCollection(ev)
	case Maintain:
		s.maintenance.order(&s, &ev)
	case Order:
		s.questions.order(&s, &ev)
	case Query:
		s.questions.query(&s, &ev)
	case Remark:
		s.remark(ev)
	case BackedUp:
		s.emit(record.Record{Type: record.Backup, Who: ev.Who}, ev.Data)
		s.effect(Answer{Ticket: ev.Ticket})
	case Trim:
		s.emit(record.Record{Type: record.Trimmed}, ev.Data)
	case Artefact:
		s.artefact(ev)
	case RolloutOrder:
		s.rolloutOrder(ev)
	default:
		panic("fleet: unknown event")
	}
	s.tellRollouts()
}

// step is one Step under way.
type step struct {
	*Fleet
	now time.Time
	out *Out
}

func (s *step) effect(e Effect) { s.out.Effects = append(s.out.Effects, e) }

// opened begins with nobody known to be online. After a failure of the journal those who were
// online are asked to say so again; they have not noticed anything.
func (s *step) opened(ev Opened) {
	var ask []string
	if ev.Recovered {
		for _, n := range s.sorted() {
			if n.Up {
				ask = append(ask, n.Name)
			}
		}
	}
	s.begin(record.OpenedData{Version: ev.Version, Epoch: s.opt.Epoch, Lost: ev.Lost})
	s.takeDocuments(func(n *Node) bool { return s.isRevoked(n.Name) }) // of a program that issued them all the same
	s.rolloutsOpened()
	if len(ask) > 0 {
		s.ask(wire.MethodReport, ask, nil)
	}
}

// begin records a start, or a new epoch. Where the clock was set back, a maintenance is shorter from then on.
func (s *step) begin(data record.OpenedData) {
	until := s.maintenance.Until
	data.Backups = s.opt.Backups
	s.emit(record.Record{Type: record.Opened}, data)
	if !s.maintenance.Until.Equal(until) {
		s.effect(MaintenanceChanged{})
	}
}

// Seq returns the sequence number of the newest record applied.
func (f *Fleet) Seq() uint64 { return f.seq }

// Nodes returns every node, in the order of names.
func (f *Fleet) Nodes() []*Node { return f.sorted() }

// Each calls fn for every node as a kind sees it, in no order.
func (f *Fleet) Each(k wire.Kind, fn func(kind.Node)) {
	for _, n := range f.nodes {
		fn(f.as(n, k))
	}
}

// Node returns one node as a kind sees it; false: it was never heard of.
func (f *Fleet) Node(k wire.Kind, name string) (kind.Node, bool) {
	if n := f.nodes[name]; n != nil {
		return f.as(n, k), true
	}
	return kind.Node{}, false
}

func (f *Fleet) sorted() []*Node {
	all := make([]*Node, 0, len(f.nodes))
	for _, n := range f.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Lookup returns a node, nil if it was never heard of.
func (f *Fleet) Lookup(name string) *Node { return f.nodes[name] }

// inError returns what the node is in error with, as it told, or because of what it told; nil: with nothing.
func (n *Node) inError() *wire.Error {
	if n.claim != nil || n.Info == nil {
		return n.claim
	}
	return n.Info.Error
}
