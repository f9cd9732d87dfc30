package rebalance

import (
	"maps"
	"slices"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/items"
	"tandem.internal/shared/unitconfig"
)

// step is one Step on its way.
type step struct {
	*State
	unit    desired.Input // with the moves that count
	nodes   map[string]*desired.Node
	effects []Effect
}

// Step takes one event. unit is the input of desired.Make as it is now, without moves; it is not written to. The error
// is that of desired.Make, of a unit for which nothing can be decided.
func (s *State) Step(now time.Time, unit *desired.Input, ev Event) ([]Effect, error) {
	if s.now.Before(now) {
		s.now = now // the clock is not taken back
	}
	t := &step{State: s, unit: *unit}
	t.wake()
	t.end()
	var err error
	switch ev := ev.(type) {
	case Measured:
		t.index()
		t.take(&ev)
		if !s.Hold {
			err = t.decide(&ev)
		}
	case Away:
		for _, node := range ev.Nodes {
			delete(s.nodes, node)
		}
	case Tick:
	}
	return t.effects, err
}

// index finds the nodes of the unit, and forgets what was measured of others.
func (t *step) index() {
	t.nodes = make(map[string]*desired.Node, len(t.unit.Nodes))
	for i := range t.unit.Nodes {
		t.nodes[t.unit.Nodes[i].Info.Node] = &t.unit.Nodes[i]
	}
	for name := range t.State.nodes {
		if t.nodes[name] == nil {
			delete(t.State.nodes, name)
		}
	}
}

// wake ends the rests whose time is over.
func (t *step) wake() {
	for node, until := range t.rests {
		if !t.now.Before(until) {
			delete(t.rests, node)
		}
	}
}

// end drops the moves that are carried out, or will not be.
func (t *step) end() {
	if len(t.moves) == 0 {
		return
	}
	var left []Flight
	for _, f := range t.moves {
		outcome := t.outcome(&f)
		if outcome == "" {
			left = append(left, f)
			continue
		}
		t.rest(f.Move.From)
		t.rest(f.Move.To)
		if outcome != Late {
			t.moved = Move(t.moved, f.Move.Service(), t.now)
		}
		t.effects = append(t.effects, Ended{f.Move, outcome})
	}
	t.moves = left
}

// outcome is what has become of a move; "": it is under way. One that has reached its node waits for the end where it
// was, however long that takes: the node may be offline.
func (t *step) outcome(f *Flight) Outcome {
	from, to, other := false, false, false
	for i := range t.unit.Current.Instances {
		c := &t.unit.Current.Instances[i]
		if c.Type != items.Service || c.Codename != f.Move.Codename || c.Subject != f.Move.Subject ||
			c.Index != f.Move.Index {
			continue
		}
		from, to = from || c.Node == f.Move.From, to || c.Node == f.Move.To
		other = other || c.Node != f.Move.From && c.Node != f.Move.To
	}
	f.there = to
	switch {
	case to && !from:
		return Arrived
	case other && !from && !to:
		return Elsewhere
	case !to && !t.now.Before(f.Until):
		return Late
	}
	return ""
}

func (t *step) rest(node string) { t.rests[node] = t.now.Add(t.limits.CoolDown) }

// busy reports whether a node has part in a move, or has had a moment ago.
func (t *step) busy(node string) bool {
	_, rests := t.rests[node]
	return rests || slices.ContainsFunc(t.moves, func(f Flight) bool {
		return f.Move.From == node || f.Move.To == node
	})
}

// take takes over what was measured.
func (t *step) take(l *Measured) {
	for i := range l.Nodes {
		n := &l.Nodes[i]
		node := t.nodes[n.Node]
		if node == nil {
			continue
		}
		m := t.State.nodes[n.Node]
		if m == nil || t.now.Sub(m.at) > t.limits.MaxGap {
			m = &measured{}
			t.State.nodes[n.Node] = m
		}
		m.at, m.average, m.uses = t.now, desired.Average{CPU: n.CPU, RAM: n.RAM}, map[desired.Runs]desired.Uses{}
		since := t.now.Add(-n.For.Std())
		m.cpu.measured(n.CPU, node.CPURule, since)
		m.ram.measured(n.RAM, node.RAMRule, since)
	}
	for i := range l.Instances {
		u := &l.Instances[i]
		if m := t.State.nodes[u.Node]; m != nil && m.at.Equal(t.now) {
			m.uses[desired.Runs{Node: u.Node, Codename: u.Codename, Subject: u.Subject, Index: u.Index}] =
				desired.Uses{CPU: u.CPU, RAM: u.RAM}
		}
	}
}

// measured starts a timer, leaves it running, or stops it.
func (m *timer) measured(average *float64, rule *unitconfig.FractionRule, since time.Time) {
	switch {
	case average == nil || rule == nil || !(*average >= rule.MaxThreshold):
		*m = timer{}
	case !m.running || m.rule != *rule || since.Before(m.since):
		*m = timer{true, since, *rule}
	}
}

// due is the overload that a timer shows.
func (t *step) due(node string, p desired.Parameter, m *timer, average *float64) (o desired.Overload, due bool) {
	held := t.now.Sub(m.since)
	if !m.running || held < m.rule.MinTimeout.Std() {
		return o, false
	}
	return desired.Overload{Node: node, Parameter: p, Average: *average, Max: m.rule.MaxThreshold,
		For: duration.Duration(held)}, true
}

// overloads are those of a node, in the order in which they are relieved.
func (t *step) overloads(node string) (all []desired.Overload) {
	m := t.State.nodes[node]
	if m == nil {
		return nil
	}
	if o, due := t.due(node, desired.CPU, &m.cpu, m.average.CPU); due {
		all = append(all, o)
	}
	if o, due := t.due(node, desired.RAM, &m.ram, m.average.RAM); due {
		all = append(all, o)
	}
	return all
}

// Overloads are those of the unit at the newest Step, by node.
func (s *State) Overloads() (all []desired.Overload) {
	t := &step{State: s}
	for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
		all = append(all, t.overloads(node)...)
	}
	return all
}

// Due reports whether there is a node for which something would be decided.
func (s *State) Due() bool {
	t := &step{State: s}
	return slices.ContainsFunc(s.Overloads(), func(o desired.Overload) bool { return !t.busy(o.Node) })
}

// Load is what is known of the unit's load at the newest Step.
func (s *State) Load() *desired.Load { return (&step{State: s}).load() }

// decide relieves the nodes of which something was measured, in the order of their names.
func (t *step) decide(l *Measured) error {
	var names []string
	for i := range l.Nodes {
		names = append(names, l.Nodes[i].Node)
	}
	slices.Sort(names)
	var plan *desired.Plan
	for _, node := range slices.Compact(names) {
		overloads := t.overloads(node)
		if len(overloads) == 0 || t.busy(node) {
			continue
		}
		if plan == nil {
			t.unit.Moves = t.Moves()
			p, err := desired.Make(&t.unit)
			if err != nil {
				return err
			}
			plan = p
		}
		for _, o := range overloads {
			r := plan.Relieve(o, t.load())
			t.effects = append(t.effects, Decided{r})
			if r.Move != nil {
				t.moves = append(t.moves, Flight{Move: *r.Move, Until: t.now.Add(t.limits.Patience)})
				plan = nil // it has another place for the service
				break
			}
		}
		t.rest(node)
	}
	return nil
}

// load is what is known of the unit's load now.
func (t *step) load() *desired.Load {
	l := &desired.Load{Nodes: map[string]desired.Average{}, Instances: map[desired.Runs]desired.Uses{},
		Settling: map[string]bool{}, Resting: map[desired.Service]bool{}}
	for _, m := range t.moved {
		if t.now.Before(m.Until) {
			l.Resting[m.Service] = true
		}
	}
	for name, m := range t.State.nodes {
		if t.now.Sub(m.at) > t.limits.MaxGap {
			continue
		}
		l.Nodes[name] = m.average
		for of, uses := range m.uses {
			l.Instances[of] = uses
		}
		l.Settling[name] = t.busy(name)
	}
	return l
}
