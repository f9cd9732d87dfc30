// Package rebalance decides when a service leaves a node that is overloaded, and where it goes: an average of the node
// was at or above the maximum of a rule of the unit configuration for the rule's minTimeout, as nodes raise alerts by
// values of the moment (seed 000, Alert Rules).
//
// The package is pure. A State takes what was measured and the unit as it is, and says what was decided; the moves that
// it has are part of the input of desired.Make until they are carried out.
//
//   - A node that was below the maximum once, or of which nothing was heard for a while, begins anew: nothing moves for
//     a flap. Nothing moves because a node comes, goes, changes what it tells of itself, or is relieved.
//   - A node has part in one move at a time, and in none for the cool-down after it, as its averages lag behind. Such a
//     node takes nothing in either, so that what moves there need not be reckoned twice.
//   - A service that was moved rests for longer after each move, up to a day: two nodes that lie about their load in
//     turn do not send it to and fro.
//   - Where a service goes, both averages stay below the minimum of the rules.
//
//tandem:pure
package rebalance

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/items"
	"tandem.internal/shared/unitconfig"
)

// Limits are how often and how long. Zero values mean the defaults.
type Limits struct {
	CoolDown time.Duration // of a node after a decision about it, and after a move ended; default: 10 minutes
	Patience time.Duration // after which a move that has not reached its node is taken back; default: an hour
	MaxGap   time.Duration // between two measurements of a node that follow each other; default: 5 minutes
}

// The rests of a service that has moved: after the first time, and at most. Each is twice the one before, unless it did
// not move for the longest one after its rest was over.
const (
	FirstRest = 20 * time.Minute
	MostRest  = 24 * time.Hour
)

// The defaults of Limits.
const (
	CoolDown = 10 * time.Minute
	Patience = time.Hour
	MaxGap   = 5 * time.Minute
)

// Event is something that happened.
type Event interface{ event() }

// Measured is what was measured of some nodes and their services at one moment.
type Measured items.Load

// Away says that nodes are offline: what was measured of them counts no more.
type Away struct{ Nodes []string }

// Tick says that the time of NextDeadline has come, or that the unit has changed.
type Tick struct{}

func (Measured) event() {}
func (Away) event()     {}
func (Tick) event()     {}

// Effect is something that was decided. Who runs a State keeps what Durable says before it acts on it.
type Effect interface{ effect() }

// Decided is what can be done for a node that is overloaded. With a move it counts from now on.
type Decided struct{ desired.Relief }

// Ended says that a move counts no more.
type Ended struct {
	Move desired.ReliefMove
	As   Outcome
}

func (Decided) effect() {}
func (Ended) effect()   {}

// Outcome is what has become of a move.
type Outcome string

// The outcomes.
const (
	Arrived   Outcome = "arrived"   // the service runs on its new node only
	Elsewhere Outcome = "elsewhere" // it runs on another node
	Late      Outcome = "late"      // it did not come to its new node in time
)

// Durable is the part of a State that survives a restart.
type Durable struct {
	Moves []Flight `json:"moves,omitempty"` // in the order in which they were decided
	Rests []Rest   `json:"rests,omitempty"` // by node
	Moved []Moved  `json:"moved,omitempty"` // by service: those that rest, or did
}

// Flight is a move that is under way.
type Flight struct {
	Move  desired.ReliefMove `json:"move"`
	Until time.Time          `json:"until"` // taken back, if it has not reached its node

	there bool // it has
}

// Rest is a node that has part in no move for a while.
type Rest struct {
	Node  string    `json:"node"`
	Until time.Time `json:"until"`
}

// Moved is a service that has moved.
type Moved struct {
	desired.Service
	Rest  duration.Duration `json:"rest"`  // after the newest move
	Until time.Time         `json:"until"` // when that is over
}

// Move notes that a service has moved, and forgets those that did not for long.
func Move(all []Moved, of desired.Service, at time.Time) (next []Moved) {
	now := Moved{of, duration.Duration(FirstRest), time.Time{}}
	for _, m := range all {
		switch {
		case !at.Before(m.Until.Add(MostRest)):
		case m.Service == of:
			now.Rest = min(2*m.Rest, duration.Duration(MostRest))
		default:
			next = append(next, m)
		}
	}
	now.Until = at.Add(now.Rest.Std())
	next = append(next, now)
	slices.SortFunc(next, func(a, b Moved) int {
		return cmp.Or(cmp.Compare(a.Codename, b.Codename), cmp.Compare(a.Subject, b.Subject), a.Index-b.Index)
	})
	return next
}

// State is all there is to know of overloads and moves. Make it with New.
type State struct {
	// Hold: nothing is decided; what is measured counts nevertheless
	Hold bool

	limits Limits
	now    time.Time
	nodes  map[string]*measured
	moves  []Flight
	rests  map[string]time.Time
	moved  []Moved
}

// measured is what is known of a node's load.
type measured struct {
	at       time.Time
	average  desired.Average
	uses     map[desired.Runs]desired.Uses
	cpu, ram timer
}

// timer is since when an average is at or above the maximum of a rule.
type timer struct {
	running bool
	since   time.Time
	rule    unitconfig.FractionRule
}

// New returns the State of a unit from its saved part.
func New(d Durable, l Limits) *State {
	s := &State{limits: Limits{cmp.Or(l.CoolDown, CoolDown), cmp.Or(l.Patience, Patience),
		cmp.Or(l.MaxGap, MaxGap)}, nodes: map[string]*measured{}, moves: slices.Clone(d.Moves),
		rests: map[string]time.Time{}, moved: slices.Clone(d.Moved)}
	for _, r := range d.Rests {
		s.rests[r.Node] = r.Until
	}
	return s
}

// Durable returns what must be saved.
func (s *State) Durable() Durable {
	d := Durable{Moves: slices.Clone(s.moves), Moved: slices.Clone(s.moved)}
	for _, node := range slices.Sorted(maps.Keys(s.rests)) {
		d.Rests = append(d.Rests, Rest{node, s.rests[node]})
	}
	return d
}

// Moves are those that count now, for desired.Make.
func (s *State) Moves() (all []desired.ReliefMove) {
	for i := range s.moves {
		all = append(all, s.moves[i].Move)
	}
	return all
}

// NextDeadline is when Step wants to be called with Tick; zero: never.
func (s *State) NextDeadline() (at time.Time) {
	for i := range s.moves {
		if f := &s.moves[i]; !f.there && (at.IsZero() || f.Until.Before(at)) {
			at = f.Until
		}
	}
	return at
}
