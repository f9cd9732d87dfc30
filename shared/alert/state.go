package alert

import (
	"time"

	"tandem.internal/shared/flow"
)

// Limits bound what a storm of alerts may tell, so that it does not push everything else out of the
// node's queue of events. The zero value means the defaults.
//
// A rule that has no raise left is not silenced: its raise waits until there is room, and is sent then if the value
// still calls for it. One whose value falls before is not sent at all: it is suppressed, and the next raise that is
// sent counts it. Falls of what was sent are always sent, so a raise and its fall stay a pair.
type Limits struct {
	ContinueMin time.Duration // pause before the first continue; doubled for each further one
	ContinueMax time.Duration // the longest pause between continues. A longer minTimeout wins over both
	RuleBurst   int           // raises of one rule at once
	RuleEvery   time.Duration // after them, one raise in this time
	NodeBurst   int           // raises and continues of all rules at once; continues leave half of it to raises
	NodeEvery   time.Duration // after them, one in this time
}

// DefaultLimits let a single alert through at once, and a day of the worst storm leave room in a
// queue of 1,000 events.
var DefaultLimits = Limits{
	ContinueMin: time.Minute, ContinueMax: 6 * time.Hour,
	RuleBurst: 6, RuleEvery: 10 * time.Minute,
	NodeBurst: 128, NodeEvery: 5 * time.Minute,
}

// Durable is the part of a State that survives a restart: the alerts that have been raised and sent,
// and have not fallen. It changes only when one is raised or falls, or the rule of one changes.
type Durable struct {
	Raised []Raised `json:"raised,omitempty"` // in the order of Rules
}

// Raised is an alert that is up.
type Raised struct {
	Rule  Rule      `json:"rule"`
	Since time.Time `json:"since"` // when it was raised, by the node's clock
	Value float64   `json:"value"` // at that moment
}

// Standing is how one rule stands now.
type Standing struct {
	Rule       Rule
	Value      float64 // the newest known one
	Known      bool    // there is one
	Up         bool    // the alert is raised, sent or not
	Waiting    bool    // raised and not sent, for want of room
	Since      time.Time
	Suppressed uint64 // came and went unsent since the last raise
}

// State is all there is to know about a node's alerts. Make it with New. It is a value: Step does
// not write to what an older one has.
type State struct {
	node   string
	limits Limits
	rules  []tracked
	ready  bool // Configured has come
	room   flow.Bucket
	last   time.Duration // of the newest event; the clock is not taken back
}

// tracked is one rule with what is known about its parameter.
type tracked struct {
	rule       Rule
	value      float64
	known      bool
	up         bool          // at or above max for long enough, and not yet below min for long enough
	reported   bool          // up, and the raise was sent
	since      time.Time     // up: when that was
	first      float64       // up: the value at that moment
	timing     bool          // not up: at or above max; up: below min
	held       time.Duration // timing: for how long; only time between two known values in a row counts
	seen       time.Duration // when the value was last known
	blind      bool          // it has been unknown since
	emitted    time.Duration // sent: the newest raise or continue
	continues  int           // since the raise
	suppressed uint64
	room       flow.Bucket
}

// New returns the State of a node from its saved part. The first event should be Configured: until
// then samples change nothing.
func New(node string, d Durable, l Limits) State {
	s := State{node: node, limits: l.withDefaults()}
	for _, r := range d.Raised {
		s.rules = append(s.rules, tracked{rule: r.Rule, value: r.Value, known: true, up: true, reported: true,
			since: r.Since, first: r.Value, emitted: unset, blind: true})
	}
	return s
}

func (l Limits) rule() flow.Rate { return flow.Rate{Burst: float64(l.RuleBurst), Every: l.RuleEvery} }
func (l Limits) all() flow.Rate  { return flow.Rate{Burst: float64(l.NodeBurst), Every: l.NodeEvery} }

// unset stands for a moment that the monotonic clock of this run has not.
const unset time.Duration = -1

func (l Limits) withDefaults() Limits {
	d := DefaultLimits
	or := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	or(&l.ContinueMin, d.ContinueMin)
	or(&l.ContinueMax, d.ContinueMax)
	or(&l.RuleEvery, d.RuleEvery)
	or(&l.NodeEvery, d.NodeEvery)
	if l.RuleBurst == 0 {
		l.RuleBurst = d.RuleBurst
	}
	if l.NodeBurst == 0 {
		l.NodeBurst = d.NodeBurst
	}
	return l
}

// Durable returns what must be saved.
func (s State) Durable() Durable {
	var d Durable
	for _, t := range s.rules {
		if t.reported {
			d.Raised = append(d.Raised, Raised{Rule: t.rule, Since: t.since, Value: t.first})
		}
	}
	return d
}

// Standings lists how every rule stands, in the order of the rules.
func (s State) Standings() []Standing {
	list := make([]Standing, len(s.rules))
	for i, t := range s.rules {
		list[i] = Standing{Rule: t.rule, Value: t.value, Known: t.known, Up: t.up, Waiting: t.up && !t.reported,
			Since: t.since, Suppressed: t.suppressed}
	}
	return list
}
