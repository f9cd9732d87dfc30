package rebalance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/rebalance"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/items"
	"tandem.internal/shared/unitconfig"
)

// world is a unit on its way, and what an oracle remembers of it.
type world struct {
	*rapid.T
	unit    desired.Input
	state   *rebalance.State
	now     time.Time
	heard   map[string][]reading // by node, since it was last heard of without a break
	rests   map[string]time.Time
	moved   map[desired.Service][]time.Time
	moves   []desired.ReliefMove
	decided int // moves
	refused int
}

// reading is what was measured of a node.
type reading struct {
	at       time.Time
	cpu, ram *float64
	uses     map[string]int64 // CPU, by service
}

var limits = rebalance.Limits{CoolDown: 6 * time.Minute, Patience: 20 * time.Minute, MaxGap: 3 * time.Minute}

func (w *world) upTo(most int, name string) int { return rapid.IntRange(0, most).Draw(w.T, name) }

// rarely is true once in so many times.
func (w *world) rarely(in int, name string) bool { return rapid.IntRange(1, in).Draw(w.T, name) == in }

func newWorld(t *rapid.T) *world {
	w := &world{T: t, state: rebalance.New(rebalance.Durable{}, limits), now: epoch, heard: map[string][]reading{},
		rests: map[string]time.Time{}, moved: map[desired.Service][]time.Time{}}
	for i := range 2 + w.upTo(3, "nodes") {
		n := desired.Node{Info: &items.Node{Node: fmt.Sprintf("n%d", i), State: items.Provisioned, CPU: 1000, RAM: 2000,
			Runtimes: crun}, Priority: w.upTo(1, "priority"), Ratios: unitconfig.EntryRatios{}.Resolved()}
		n.CPURule, n.RAMRule = w.rule("cpu"), w.rule("ram")
		w.unit.Nodes = append(w.unit.Nodes, n)
	}
	for i := range 1 + w.upTo(5, "services") {
		m := items.Meta{Codename: fmt.Sprintf("s%d", i), Type: items.Service, Version: "1.0.0",
			Priority: w.upTo(2, "itempriority"), Quotas: items.Amounts{CPU: 100 * int64(w.upTo(4, "cpu")),
				RAM: 200 * int64(w.upTo(4, "ram"))}}
		if w.rarely(5, "disabled") {
			m.BalancingPolicy = items.Unbalanced
		}
		s := items.Subject{Codename: m.Codename, Type: items.Group, Items: []items.Attachment{{Type: items.Service,
			Codename: m.Codename, Instances: 1 + w.upTo(1, "instances")}}}
		if w.rarely(4, "pinned") {
			s.Nodes = []string{"n0"}
		}
		w.unit.Items = append(w.unit.Items, items.Item{State: items.Ready, Meta: m})
		w.unit.Subjects = append(w.unit.Subjects, s)
	}
	w.carryOut()
	return w
}

func (w *world) rule(name string) *unitconfig.FractionRule {
	if w.rarely(5, name+"rule") {
		return nil
	}
	return &unitconfig.FractionRule{MinTimeout: duration.Duration(w.upTo(3, name+"timeout")) *
		duration.Duration(time.Minute), MinThreshold: 0.6, MaxThreshold: 0.9}
}

// plan is what should run where with some moves.
func (w *world) plan(moves []desired.ReliefMove) *desired.Plan {
	in := w.unit
	in.Moves = moves
	p, err := desired.Make(&in)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) carryOut() {
	w.unit.Current.Instances = nil
	for _, n := range w.plan(w.state.Moves()).Nodes {
		for _, i := range n.Instances {
			w.unit.Current.Instances = append(w.unit.Current.Instances, items.Instance{Type: i.Type,
				Codename: i.Codename, Version: i.Version, Subject: i.Subject, Index: i.Index, Node: n.Node,
				Runtime: i.Runtime})
		}
	}
}

// measure draws what is measured of most nodes: mostly much of the first, and little of the others.
func (w *world) measure() rebalance.Measured {
	var m rebalance.Measured
	for i, n := range w.unit.Nodes {
		if w.rarely(12, "nothing") {
			continue
		}
		share := func(name string) *float64 {
			v := rapid.SampledFrom([]float64{0.1, 0.3, 0.5, 0.6, 0.9}).Draw(w.T, name)
			if i == 0 && !w.rarely(12, "less") {
				v = 0.95
			}
			if w.rarely(25, "unknown") {
				return nil
			}
			return &v
		}
		m.Nodes = append(m.Nodes, items.NodeLoad{Node: n.Info.Node, CPU: share("cpu"), RAM: share("ram")})
	}
	for _, c := range w.unit.Current.Instances {
		if w.rarely(3, "measured") {
			cpu := int64(w.upTo(300, "uses"))
			m.Instances = append(m.Instances, items.InstanceLoad{Codename: c.Codename, Subject: c.Subject,
				Index: c.Index, Node: c.Node, CPU: &cpu})
		}
	}
	return m
}

// remember is what the oracle knows of nodes before a step.
func (w *world) remember(m *rebalance.Measured) {
	for i := range m.Nodes {
		n := &m.Nodes[i]
		list := w.heard[n.Node]
		if k := len(list); k > 0 && w.now.Sub(list[k-1].at) > limits.MaxGap {
			list = nil
		}
		r := reading{w.now, n.CPU, n.RAM, map[string]int64{}}
		for j := range m.Instances {
			if u := &m.Instances[j]; u.Node == n.Node {
				r.uses[fmt.Sprint(u.Codename, u.Index)] = *u.CPU
			}
		}
		w.heard[n.Node] = append(list, r)
	}
}

// overloaded reports whether all that was heard of a node for the rule's time, up to now, is at or above the maximum.
func (w *world) overloaded(n *desired.Node, p desired.Parameter) bool {
	rule := n.CPURule
	if p == desired.RAM {
		rule = n.RAMRule
	}
	list := w.heard[n.Info.Node]
	if rule == nil || len(list) == 0 || !list[len(list)-1].at.Equal(w.now) {
		return false
	}
	for k := len(list) - 1; k >= 0; k-- {
		v := list[k].cpu
		if p == desired.RAM {
			v = list[k].ram
		}
		if v == nil || *v < rule.MaxThreshold {
			return false
		}
		if w.now.Sub(list[k].at) >= rule.MinTimeout.Std() {
			return true
		}
	}
	return false
}

// judge checks a decision against what is remembered.
func (w *world) judge(d rebalance.Decided) {
	from := w.node(d.Node)
	if !w.overloaded(from, d.Parameter) {
		w.Fatalf("%+v: it is not overloaded; %+v", d, w.heard[d.Node])
	}
	if w.resting(d.Node) {
		w.Fatalf("%+v: it rests", d)
	}
	if d.Move == nil {
		w.refused++
		return
	}
	w.decided++
	m := d.Move
	item := w.unit.Items[slices.IndexFunc(w.unit.Items, func(i items.Item) bool {
		return i.Meta.Codename == m.Codename
	})]
	sub := w.unit.Subjects[slices.IndexFunc(w.unit.Subjects, func(s items.Subject) bool {
		return s.Codename == m.Subject
	})]
	ran := slices.ContainsFunc(w.unit.Current.Instances, func(c items.Instance) bool {
		return c.Codename == m.Codename && c.Index == m.Index && c.Node == m.From
	})
	if m.From != d.Node || m.From == m.To || !ran || item.Meta.BalancingPolicy == items.Unbalanced ||
		len(sub.Nodes) > 0 {
		w.Fatalf("%+v may not leave", m)
	}
	list := w.heard[m.To]
	if len(list) == 0 || w.now.Sub(list[len(list)-1].at) > limits.MaxGap || w.resting(m.To) {
		w.Fatalf("%+v: nothing is known of it, or it rests", m)
	}
	for i, at := range w.moved[m.Service()] { // drawn worlds take less than a day
		if w.now.Before(at.Add(rebalance.FirstRest << i)) {
			w.Fatalf("%+v has moved at %v, and rests", m, w.moved[m.Service()])
		}
	}
	to, last := w.node(m.To), list[len(list)-1]
	cpu, ram := (item.Meta.Quotas.CPU+1)/2, (item.Meta.Quotas.RAM+1)/2
	ofFrom := w.heard[m.From]
	if used, known := ofFrom[len(ofFrom)-1].uses[fmt.Sprint(m.Codename, m.Index)]; known {
		cpu = max(cpu, used)
	}
	for _, n := range w.plan(w.moves).Nodes {
		for _, i := range n.Instances {
			if n.Node == m.To && !slices.ContainsFunc(w.unit.Current.Instances, func(c items.Instance) bool {
				return c.Codename == i.Codename && c.Index == i.Index && c.Node == n.Node
			}) {
				cpu, ram = cpu+i.CPU, ram+i.RAM
			}
		}
	}
	below := func(average *float64, used, total int64, rule *unitconfig.FractionRule) bool {
		most := 1.0
		if rule != nil {
			most = rule.MinThreshold
		}
		return average != nil && *average*float64(total)+float64(used) < most*float64(total)-1e-6
	}
	if !below(last.cpu, cpu, 1000, to.CPURule) || !below(last.ram, ram, 2000, to.RAMRule) {
		w.Fatalf("%+v: %+v with %d, %d is not below the minimum", m, last, cpu, ram)
	}
}

func (w *world) node(name string) *desired.Node {
	return &w.unit.Nodes[slices.IndexFunc(w.unit.Nodes, func(n desired.Node) bool { return n.Info.Node == name })]
}

func (w *world) resting(node string) bool {
	return w.now.Before(w.rests[node]) || slices.ContainsFunc(w.moves, func(m desired.ReliefMove) bool {
		return m.From == node || m.To == node
	})
}

// step takes one event, and judges what follows.
func (w *world) step(ev rebalance.Event) {
	effects, err := w.state.Step(w.now, &w.unit, ev)
	if err != nil {
		w.Fatal(err)
	}
	var due []string
	if m, measured := ev.(rebalance.Measured); measured {
		for _, n := range m.Nodes {
			over := w.overloaded(w.node(n.Node), desired.CPU) || w.overloaded(w.node(n.Node), desired.RAM)
			if over && !w.resting(n.Node) {
				due = append(due, n.Node)
			}
		}
	}
	was := len(w.moves)
	rests := map[string]bool{}
	for _, e := range effects {
		switch e := e.(type) {
		case rebalance.Ended:
			w.moves = slices.DeleteFunc(w.moves, func(m desired.ReliefMove) bool { return m == e.Move })
			if e.As != rebalance.Late {
				w.moved[e.Move.Service()] = append(w.moved[e.Move.Service()], w.now)
			}
			w.rests[e.Move.From], w.rests[e.Move.To] = w.now.Add(limits.CoolDown), w.now.Add(limits.CoolDown)
		case rebalance.Decided:
			w.judge(e)
			due = slices.DeleteFunc(due, func(n string) bool { return n == e.Node })
			rests[e.Node] = true
			if e.Move != nil {
				w.moves = append(w.moves, *e.Move)
			}
		}
	}
	for n := range rests {
		w.rests[n] = w.now.Add(limits.CoolDown)
	}
	for _, n := range due {
		if !w.resting(n) {
			w.Fatalf("%s is overloaded, and nothing was decided: %+v", n, w.heard[n])
		}
	}
	if bytesOf(w.moves) != bytesOf(w.state.Moves()) {
		w.Fatalf("the moves are %s, not %s", bytesOf(w.state.Moves()), bytesOf(w.moves))
	}
	w.carried(was)
}

// carried checks that the moves that were decided just now are what is planned.
func (w *world) carried(was int) {
	p := w.plan(w.moves)
	for _, m := range w.moves[min(was, len(w.moves)):] {
		at := slices.IndexFunc(p.Nodes, func(n desired.NodePlan) bool { return n.Node == m.To })
		if !slices.ContainsFunc(p.Nodes[at].Instances, func(i desired.Placed) bool {
			return i.Codename == m.Codename && i.Index == m.Index && i.Chosen == desired.ByRelief
		}) {
			w.Fatalf("%+v is not planned", m)
		}
	}
}

func bytesOf(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Whatever is measured: only what is overloaded for the rule's time loses a service, to a node that stays below the
// minimum; everything that is overloaded is looked at; and what was decided is planned.
func TestMovesAreForRelief(t *testing.T) {
	decided, refused, ended := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range 30 {
			w.now = w.now.Add(time.Duration(w.upTo(8, "passes")) * 30 * time.Second)
			n := rapid.SampledFrom(w.unit.Nodes).Draw(t, "node").Info
			switch w.upTo(11, "event") {
			case 0:
				delete(w.heard, n.Node)
				n.OfflineFor = 1
				w.step(rebalance.Away{Nodes: []string{n.Node}})
			case 1:
				n.Used.RAM = int64(w.upTo(100, "used"))
				w.step(rebalance.Tick{})
			case 2, 3:
				w.carryOut()
				w.step(rebalance.Tick{})
			case 4:
				if next := w.state.NextDeadline(); !next.IsZero() && w.rarely(3, "wait") {
					w.now = next
				}
				w.step(rebalance.Tick{})
			default:
				for i := range w.unit.Nodes {
					w.unit.Nodes[i].Info.OfflineFor = 0
				}
				m := w.measure()
				w.remember(&m)
				w.step(m)
			}
		}
		decided, refused = decided+w.decided, refused+w.refused
		ended += w.decided - len(w.moves)
	})
	if decided == 0 || refused == 0 || ended == 0 {
		t.Errorf("%d decided, %d refused, %d ended", decided, refused, ended)
	}
}

// In whatever order the unit and what is measured are, and from what was saved, the same is decided.
func TestOrderOfLoadDoesNotCount(t *testing.T) {
	decided := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		mixed := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		other := rebalance.New(rebalance.Durable{}, limits)
		for range 12 {
			w.now = w.now.Add(time.Minute)
			m := w.measure()
			unit, shuffled := w.unit, rebalance.Measured{Nodes: slices.Clone(m.Nodes),
				Instances: slices.Clone(m.Instances)}
			unit.Items, unit.Subjects, unit.Nodes = slices.Clone(unit.Items), slices.Clone(unit.Subjects),
				slices.Clone(unit.Nodes)
			unit.Current.Instances = slices.Clone(unit.Current.Instances)
			shuffle(mixed, unit.Items)
			shuffle(mixed, unit.Subjects)
			shuffle(mixed, unit.Nodes)
			shuffle(mixed, unit.Current.Instances)
			shuffle(mixed, shuffled.Nodes)
			shuffle(mixed, shuffled.Instances)
			before := bytesOf(unit)
			a, err := w.state.Step(w.now, &w.unit, m)
			if err != nil {
				t.Fatal(err)
			}
			b, err := other.Step(w.now, &unit, shuffled)
			if err != nil || bytesOf(a) != bytesOf(b) || bytesOf(unit) != before {
				t.Fatalf("%s\n%s, %v", bytesOf(a), bytesOf(b), err)
			}
			if x, y := bytesOf(w.state.Durable()), bytesOf(other.Durable()); x != y {
				t.Fatalf("%s\n%s", x, y)
			}
			decided += len(a)
			if w.rarely(3, "done") {
				w.carryOut()
			}
		}
	})
	if decided == 0 {
		t.Error("nothing was ever decided")
	}
}

func shuffle[T any](r *rand.Rand, all []T) {
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}
