package steer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kinds/moves"
	"tandem.internal/controller/internal/rebalance"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// plant is a unit of two nodes with two services on the first, which is overloaded while both run there. Its mover may
// be killed at each thing that it does, before or after that is done.
type plant struct {
	*unit
	mover *steer.Mover
	on    bool
	load  func(p *plant, node string) float64 // average of CPU; nil: as it follows from what runs
	did   []string
	kill  int  // at which thing; 0: never
	lost  bool // it was killed before that was done
	fails int  // how often applying fails
}

func newPlant(t *testing.T) *plant {
	p := &plant{unit: newUnit(t), on: true}
	p.Accept(wire.KindConfig, []byte(`{"formatVersion":"7","version":"1.0.0","nodes":[{"nodeGroupSubject":`+
		`{"codename":"press"},"alertRules":{"cpu":{"minTimeout":"PT1M","minThreshold":0.7,"maxThreshold":0.9}}}]}`))
	p.node("n1", "press", "amd64", nil)
	p.node("n2", "press", "amd64", nil)
	for _, name := range []string{"a", "b"} {
		p.has(items.Meta{Type: items.Service, Codename: name, Version: "1.0.0",
			Quotas: items.Amounts{CPU: 400}, Requested: items.Amounts{CPU: 400}}, items.File)
	}
	on := func(nodes ...string) {
		p.Subject(items.Subject{Codename: "hall", Type: items.Group, Nodes: nodes, Items: []items.Attachment{
			{Type: items.Service, Codename: "a"}, {Type: items.Service, Codename: "b"}}})
	}
	on("n1")
	p.Apply()
	on()
	p.mover = &steer.Mover{On: true}
	return p
}

// at are the nodes of a service, as it was applied.
func (p *plant) at(name string) (nodes []string) {
	for _, n := range p.decide().Nodes {
		for slot := range p.slots(n.Node) {
			if strings.HasPrefix(slot, name+".") {
				nodes = append(nodes, n.Node)
			}
		}
	}
	return nodes
}

// run lets time pass: every 15 seconds the mover looks at the unit.
func (p *plant) run(d time.Duration) {
	p.T.Helper()
	for end := p.At.Add(d); p.At.Before(end); p.At = p.At.Add(15 * time.Second) {
		for i := range p.Nodes {
			n := p.Nodes[i]
			cpu := 0.15 + 0.4*float64(len(p.slots(n.Name)))
			if p.load != nil {
				cpu = p.load(p, n.Name)
			}
			n.At, n.Detail = p.At, &wire.Health{Load: &wire.HealthLoad{CPU: cpu, RAM: 0.1}}
		}
		for round := 0; ; round++ {
			do, err := p.mover.Next(p.At, steer.Look(p, p.At))
			if err != nil || round > 9 {
				p.T.Fatalf("%d rounds: %v", round, err)
			}
			if do.Change == nil && do.Apply == nil {
				break
			}
			if !p.do(do) {
				break
			}
		}
	}
}

// do does what the mover says. false: it cannot be done.
func (p *plant) do(do steer.Do) bool {
	died := p.kill == len(p.did)+1
	if died {
		p.mover, p.kill = &steer.Mover{On: p.on}, 0
	}
	switch {
	case died && p.lost:
		p.did = append(p.did, "killed")
		return true
	case do.Apply != nil && p.fails > 0:
		p.fails--
		p.did = append(p.did, "fails")
		p.mover.Failed(p.At)
		return false
	case do.Apply != nil:
		p.Accept(wire.KindWorkloads, do.Apply)
		p.did = append(p.did, "apply")
		return true
	}
	c := do.Change
	p.Change(record.KindMoves, *c)
	word := "decided"
	if c.Ended != "" {
		word = c.Ended
	}
	p.did = append(p.did, fmt.Sprintf("%s %s %s>%s", word, c.Codename, c.From, c.To))
	return true
}

// TestOverloadedNodeIsRelieved: one service leaves, whatever is killed at which moment, and each thing is done once.
func TestOverloadedNodeIsRelieved(t *testing.T) {
	for kill := range 5 {
		for _, lost := range []bool{false, true} {
			p := newPlant(t)
			p.kill, p.lost = kill, lost
			p.run(30 * time.Minute)
			did := slices.DeleteFunc(p.did, func(s string) bool { return s == "killed" })
			const want = "decided b n1>n2, apply, arrived b n1>n2"
			if got := strings.Join(did, ", "); got != want {
				t.Errorf("killed at %d, before it was done %v: %s", kill, lost, got)
			}
			if a, b := fmt.Sprint(p.at("a")), fmt.Sprint(p.at("b")); a != "[n1]" || b != "[n2]" {
				t.Errorf("killed at %d: a on %s, b on %s", kill, a, b)
			}
			if d := p.decide(); d.Changes.Keep != 2 || len(moves.Of(p).Moves) != 0 {
				t.Errorf("killed at %d: %+v, moves %+v", kill, d.Changes, moves.Of(p))
			}
		}
	}
}

// TestNothingMoves: for a flap, while it is off, while there are changes that nobody has applied, or of what is old.
func TestNothingMoves(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(p *plant)
	}{
		{"a flap", func(p *plant) {
			p.load = func(p *plant, node string) float64 {
				if p.At.Second() == 45 { // below the maximum once a minute
					return 0.8
				}
				return map[string]float64{"n1": 0.95, "n2": 0.1}[node]
			}
		}},
		{"below the maximum", func(p *plant) {
			p.load = func(_ *plant, node string) float64 { return map[string]float64{"n1": 0.899, "n2": 0.1}[node] }
		}},
		{"it is off", func(p *plant) { p.mover.On, p.on = false, false }},
		{"changes that nobody has applied", func(p *plant) {
			p.Subject(items.Subject{Codename: "hall", Type: items.Group, Items: []items.Attachment{
				{Type: items.Service, Codename: "a", Env: items.Env{"X": "1"}},
				{Type: items.Service, Codename: "b"}}})
		}},
		{"the other node is as full", func(p *plant) { p.load = func(*plant, string) float64 { return 0.95 } }},
		{"it is offline", func(p *plant) { p.Nodes[0].Up = false }},
	} {
		p := newPlant(t)
		c.with(p)
		p.run(30 * time.Minute)
		if len(p.did) > 0 {
			t.Errorf("%s: %q", c.name, p.did)
		}
	}
}

// TestMovesWaitForChanges: a move that was decided is not applied together with what somebody is changing, and is taken
// back if that takes too long.
func TestMovesWaitForChanges(t *testing.T) {
	p := newPlant(t)
	p.fails = 1
	p.run(90 * time.Second)
	yard := items.Subject{Codename: "yard", Type: items.Group,
		Items: []items.Attachment{{Type: items.Service, Codename: "a"}}}
	p.Subject(yard)
	p.run(10 * time.Minute)
	if got := strings.Join(p.did, ", "); got != "decided b n1>n2, fails" {
		t.Fatal(got)
	}
	p.Apply() // by somebody: with the move
	p.run(time.Minute)
	if got := p.did[len(p.did)-1]; got != "arrived b n1>n2" || fmt.Sprint(p.at("b")) != "[n2]" {
		t.Errorf("%q, b on %v", p.did, p.at("b"))
	}
}

// TestApplyIsTriedAgain: what nodes refuse is tried again a minute later, and the move is taken back after an hour.
func TestApplyIsTriedAgain(t *testing.T) {
	p := newPlant(t)
	p.fails = 2
	p.run(10 * time.Minute)
	if got := strings.Join(p.did, ", "); got != "decided b n1>n2, fails, fails, apply, arrived b n1>n2" {
		t.Error(got)
	}
	p = newPlant(t)
	p.fails = 1000
	p.run(62*time.Minute + 30*time.Second)
	if got := p.did[len(p.did)-1]; got != "late b n1>n2" || len(p.did) > 63 {
		t.Errorf("%d: %q", len(p.did), p.did)
	}
}

// TestOverloadedIsShown: who is overloaded, and what could be done.
func TestOverloadedIsShown(t *testing.T) {
	p := newPlant(t)
	p.mover.On, p.on = false, false
	p.run(3 * time.Minute)
	all := p.mover.Overloaded().Reliefs(p.decide().Plan)
	const want = "n1 is overloaded: 0.95 of its CPU is used on average for 2m45s, and the maximum is 0.9: b of hall, " +
		"instance 0, goes to n2, if the controller is started with --rebalance"
	if len(all) != 1 || all[0].Why != want {
		t.Errorf("%+v", all)
	}
}

// TestRestSurvivesRestart: after a move nothing leaves the node for ten minutes, also if the controller is started
// anew.
func TestRestSurvivesRestart(t *testing.T) {
	p := newPlant(t)
	p.load = func(_ *plant, node string) float64 { return map[string]float64{"n1": 0.95, "n2": 0.1}[node] }
	p.run(90 * time.Second)
	p.mover = &steer.Mover{On: true}
	p.run(9 * time.Minute)
	if len(p.did) != 3 {
		t.Errorf("%q", p.did)
	}
	p.run(5 * time.Minute)
	if len(p.did) != 6 || p.did[3] != "decided a n1>n2" {
		t.Errorf("%q", p.did)
	}
}

// TestLiarsInTurn: two nodes that say in turn that they have too much to do do not send services to and fro: each moves
// after a rest that is twice as long each time, up to a day, also if the controller is started anew each hour. What did
// not move for long begins anew.
func TestLiarsInTurn(t *testing.T) {
	p := newPlant(t)
	p.load = func(p *plant, node string) float64 {
		for slot := range p.slots(node) {
			if strings.HasPrefix(slot, "b.") {
				return 0.95
			}
		}
		return 0.1
	}
	moved := func(d time.Duration) (a, b int) {
		t.Helper()
		before := len(p.did)
		for range d / time.Hour {
			p.run(time.Hour)
			p.mover = &steer.Mover{On: true}
		}
		for _, s := range p.did[before:] {
			switch {
			case strings.HasPrefix(s, "decided a "):
				a++
			case strings.HasPrefix(s, "decided b "):
				b++
			}
		}
		return a, b
	}
	if a, b := moved(11 * time.Hour); a > 6 || b > 6 || b < 4 {
		t.Errorf("a moved %d times in half a day, b %d times", a, b)
	}
	p.At = p.At.Add(3 * rebalance.MostRest)
	if _, b := moved(time.Hour); b < 2 {
		t.Errorf("after days b moved %d times in an hour", b)
	}
}
