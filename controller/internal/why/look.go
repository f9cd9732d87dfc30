package why

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
)

// FleetFacts are what is known of all nodes and of the unit, as far as Look goes.
type FleetFacts struct {
	Now      time.Time
	Nodes    iter.Seq[*NodeFact] // in any order; Look keeps none of them
	Rollouts []view.Rollout      // those that have ended say nothing
	Trials   []TrialFact         // documents on trial in the whole unit
	Clock    *view.ClockJump     // nil: the controller's clock has not jumped
	Broker   view.Broker         // the controller's road to its nodes; zero: not known
}

// TrialFact is a document that is on trial in the unit.
type TrialFact struct {
	Noun     string // of its source: "configuration"
	Version  string
	Deadline time.Time // it is taken back then unless it is confirmed
}

// MaxLook is how many sentences Look says at most.
const MaxLook = 8

// Look says what an operator should look at, the worst first and of equals what most nodes have. However many nodes
// there are, it is at most MaxLook sentences.
func Look(in FleetFacts) []view.Sentence {
	c := newCensus(in.Now)
	for n := range in.Nodes {
		c.count(n)
	}
	all := append(in.unit(), c.sentences()...)
	slices.SortStableFunc(all, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(urgency(a.Level), urgency(b.Level)), cmp.Compare(b.weight, a.weight))
	})
	out := make([]view.Sentence, 0, min(len(all), MaxLook))
	for i, s := range all {
		if rest := len(all) - i; len(out) == MaxLook-1 && rest > 1 {
			return append(out, view.Sentence{Level: s.Level, Text: fmt.Sprintf("%d further things are to be looked at",
				rest), Filter: "state:unwell,failed,offline"})
		}
		out = append(out, s.Sentence)
	}
	return out
}

// weighed is a sentence and how much it weighs among those of its level: usually how many nodes it is about.
type weighed struct {
	view.Sentence
	weight int
}

// ofUnit is the weight of what is about the unit as a whole.
const ofUnit = 1 << 30

// urgency orders levels, the most urgent first.
func urgency(level view.Level) int {
	return slices.Index([]view.Level{view.LevelError, view.LevelWarning, view.LevelInfo}, level)
}

// unit are the sentences that are about no node in particular.
func (in *FleetFacts) unit() (all []weighed) {
	say := func(level view.Level, format string, a ...any) {
		all = append(all, weighed{view.Sentence{Level: level, Text: fmt.Sprintf(format, a...)}, ofUnit})
	}
	if j := in.Clock; j != nil {
		say(view.LevelError, "nothing is said to the nodes: the controller's clock has jumped by %s, at %s; if it is "+
			"right: tandem clock confirm", phrase.Span(time.Duration(max(j.Seconds, -j.Seconds))*time.Second),
			since(in.Now, j.Since))
	}
	if cut(&in.Broker) {
		say(view.LevelError, "%s", reachesNone(&in.Broker))
	}
	for _, t := range in.Trials {
		say(view.LevelWarning, "the %s %s is on trial, for %s more; then it is taken back, unless it is confirmed",
			t.Noun, t.Version, phrase.Ahead(t.Deadline.Sub(in.Now)))
	}
	for i := range in.Rollouts {
		if s, halted := haltedRollout(in.Now, &in.Rollouts[i]); halted {
			all = append(all, s)
		}
	}
	return all
}

// haltedRollout says that a rollout does not go on by itself, or not while nodes are as they are.
func haltedRollout(now time.Time, r *view.Rollout) (weighed, bool) {
	h := r.Held
	if h == nil || !r.Ended.IsZero() {
		return weighed{}, false
	}
	s := weighed{view.Sentence{Level: view.LevelWarning, Text: "rollout " + Ended(now, &r.View),
		Filter: named(h.Nodes, h.Count)}, max(h.Count, 1)}
	switch h.Reason {
	case rollout.HeldPaused:
		s.weight = ofUnit
		if h.Cause != rollout.CauseOrder {
			s.Level = view.LevelError
		}
	case rollout.HeldUnavailable, rollout.HeldSilent, rollout.HeldNoData:
	default:
		return weighed{}, false
	}
	return s, true
}

// since says when something began: the time of a day that is at most a day ago, else the day, too.
func since(now, at time.Time) string {
	at = at.UTC()
	if d := now.Sub(at); d >= 0 && d < 24*time.Hour {
		return at.Format("15:04") + " UTC"
	}
	return at.Format("2006-01-02 15:04") + " UTC"
}
