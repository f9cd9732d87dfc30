package alert

import (
	"slices"
	"time"

	"tandem.internal/shared/clock"
)

// Event is something that happened.
type Event interface{ event() }

// Configured says which rules are in force: at the start those of the running configuration, none if
// there is none, and then whenever another configuration is applied, rolled back or withdrawn.
//
// A rule that is the same as before goes on as if nothing had happened. One that is gone takes its
// alert with it: a fall. One with other thresholds or another minTimeout keeps its alert, and is
// judged by the new numbers from the next sample on, with its timers at their beginning.
type Configured struct {
	clock.Now
	Rules []Rule // as Rules makes them
}

func (Configured) event() {}
func (Sample) event()     {}

// Effect is something that the shell must do, in the order given.
type Effect interface{ effect() }

// Save comes first. It and the Emits of the same step belong to one commit, so that a crash loses
// both or neither. If the commit fails, the shell keeps the new State and tries the same commit again
// later: what is lost by a crash in between was neither saved nor sent, and is found again.
type Save struct{ Durable Durable }

// Emit asks to keep the alert as an event and to send it.
type Emit struct{ Alert Alert }

func (Save) effect() {}
func (Emit) effect() {}

// step is one Step on its way.
type step struct {
	State
	now     clock.Now
	save    bool
	effects []Effect
}

// Step takes s over one event, a Configured or a Sample.
func (s State) Step(ev Event) (State, []Effect) {
	t := &step{State: s}
	t.rules = slices.Clone(s.rules)
	switch ev := ev.(type) {
	case Configured:
		t.begin(ev.Now)
		t.configured(ev.Rules)
	case Sample:
		t.begin(ev.Now)
		if t.ready {
			place := 0
			for i := range t.rules {
				r := &t.rules[i]
				v, ok, next := ev.known(r.rule.Parameter, place)
				place = next
				t.sampled(r, v, ok)
			}
		}
	}
	if t.save {
		t.effects = append([]Effect{Save{t.Durable()}}, t.effects...)
	}
	return t.State, t.effects
}

func (t *step) begin(now clock.Now) {
	now.Mono = max(now.Mono, t.last)
	t.now, t.last = now, now.Mono
}

func (t *step) configured(rules []Rule) {
	old := t.rules
	t.ready, t.rules = true, make([]tracked, 0, len(rules))
	for _, r := range rules {
		i := slices.IndexFunc(old, func(o tracked) bool { return o.rule.Parameter == r.Parameter })
		if i < 0 {
			t.rules = append(t.rules, tracked{rule: r, blind: true})
			continue
		}
		next := old[i]
		if next.rule != r {
			next.rule, next.timing, next.held = r, false, 0
			switch {
			case next.reported:
				t.save = true
			case next.up: // nobody knows of it; the new numbers decide
				next.up = false
				next.suppressed++
			}
		}
		t.rules = append(t.rules, next)
	}
	for _, o := range old {
		if o.reported && !slices.ContainsFunc(rules, func(r Rule) bool { return r.Parameter == o.rule.Parameter }) {
			t.fall(&o, ReasonRemoved)
		}
	}
}

// sampled is the state machine of one rule. v is the value, if it is known.
func (t *step) sampled(r *tracked, v float64, ok bool) {
	if !ok {
		r.blind = true
		return
	}
	var gap time.Duration
	if !r.blind {
		gap = t.now.Mono - r.seen
	}
	r.value, r.known, r.seen, r.blind = v, true, t.now.Mono, false
	if r.reported && r.emitted == unset {
		r.emitted = t.now.Mono
	}
	if beyond := r.up && v < r.rule.Min || !r.up && v >= r.rule.Max; !beyond {
		r.timing, r.held = false, 0
	} else if r.timing {
		r.held += gap
	} else {
		r.timing, r.held = true, 0
		if r.up {
			return // the sample that starts the timer of a fall says nothing
		}
	}
	due := r.timing && r.held >= r.rule.MinTimeout.Std()
	switch {
	case !r.up && due:
		r.up, r.since, r.first, r.timing, r.held, r.continues = true, t.now.Wall, v, false, 0, 0
		t.tell(r)
	case r.up && due:
		t.fall(r, ReasonBelow)
	case r.up && !r.timing && r.reported:
		t.goOn(r)
	case r.up && !r.timing:
		t.tell(r)
	}
}

// tell sends a raise, if there is room.
func (t *step) tell(r *tracked) {
	now, one, all := t.now.Steady(), t.limits.rule(), t.limits.all()
	if r.room.Left(now, one) < 1 || !t.room.Take(now, all) {
		return
	}
	r.room.Charge(now, one, 1)
	a := t.alert(r, Raise)
	a.Suppressed = r.suppressed
	r.reported, r.emitted, r.suppressed = true, t.now.Mono, 0
	t.save = true
	t.effects = append(t.effects, Emit{a})
}

// goOn sends a continue, if it is time.
func (t *step) goOn(r *tracked) {
	pause := t.limits.ContinueMin
	for n := 0; n < r.continues && pause < t.limits.ContinueMax; n++ {
		pause *= 2
	}
	pause = max(min(pause, t.limits.ContinueMax), r.rule.MinTimeout.Std())
	all := t.limits.all()
	if t.now.Mono-r.emitted < pause || t.room.Left(t.now.Steady(), all) < float64((t.limits.NodeBurst+1)/2+1) {
		return // the half of the room is for what is new
	}
	t.room.Charge(t.now.Steady(), all, 1)
	r.continues++
	r.emitted = t.now.Mono
	t.effects = append(t.effects, Emit{t.alert(r, Continue)})
}

// fall ends an alert.
func (t *step) fall(r *tracked, reason string) {
	if r.reported {
		a := t.alert(r, Fall)
		a.Reason = reason
		t.save = true
		t.effects = append(t.effects, Emit{a})
	} else {
		r.suppressed++
	}
	r.up, r.reported, r.timing, r.held = false, false, false, 0
}

func (t *step) alert(r *tracked, state Phase) Alert {
	return Alert{Timestamp: utc(t.now.Wall), Tag: Tag, Node: Node{t.node}, Parameter: r.rule.Parameter, Value: r.value,
		State: state, Since: utc(r.since),
		MinTimeout: r.rule.MinTimeout, MinThreshold: r.rule.Min, MaxThreshold: r.rule.Max}
}

func utc(t time.Time) time.Time { return t.UTC().Round(0) }
