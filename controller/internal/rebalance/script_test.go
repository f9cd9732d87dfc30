package rebalance_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/rebalance"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/items"
	"tandem.internal/shared/scripttest"
	"tandem.internal/shared/unitconfig"
)

// crun is what every node has.
var crun = []items.Runtime{{ID: "crun", Type: "crun", Architecture: "amd64"}}

var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// script plays one file of testdata: lines go in, what was decided stands below them, indented.
//
//	node NAME [cpu=N] [ram=N] [prio=N]           a node; the rule of its CPU is 0.6 to 0.9 for 5m, of RAM for 0s
//	rule NAME MINTIMEOUT MIN MAX                 the rule of its CPU from now on; "none": there is none
//	runs SERVICE NODE [cpu=N] [ram=N] [prio=N] [balancing=disabled] [nodes=NAME,…] [state=deprecated]
//	                                             a service with quotas, for a subject of its own; or nowhere
//	TIME NODE=CPU[/RAM] SERVICE@NODE=CPU …       what is measured; ? is not known; without a RAM it is 0.1
//	TIME away NODE                               a node is offline
//	TIME back NODE                               it is online, and tells something new of itself
//	TIME done                                    what is planned is carried out, except on nodes that are offline
//	TIME starts                                  what is planned starts, and nothing stops yet
//	TIME put SERVICE NODE                        a service runs on another node
//	TIME tick                                    the time has come
//	restart                                      from what was saved
type script struct {
	t     *testing.T
	state *rebalance.State
	unit  desired.Input
	out   *strings.Builder
}

func TestReliefStories(t *testing.T) {
	scripttest.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		s := &script{t: t, out: out, state: rebalance.New(rebalance.Durable{}, rebalance.Limits{})}
		return s.line
	}, "scenario-17", "one-at-a-time", "flap", "late", "places", "elsewhere")
}

func (s *script) line(line string) {
	words := strings.Fields(line)
	set := map[string]string{}
	for _, w := range words {
		if name, value, ok := strings.Cut(w, "="); ok {
			set[name] = value
		}
	}
	switch words[0] {
	case "node":
		n := desired.Node{Info: &items.Node{Node: words[1], State: items.Provisioned, CPU: s.number(set["cpu"], 1000),
			RAM: s.number(set["ram"], 1000), Runtimes: crun}, Priority: int(s.number(set["prio"], 0)),
			Ratios: unitconfig.EntryRatios{}.Resolved()}
		n.CPURule = &unitconfig.FractionRule{MinTimeout: duration.Duration(5 * time.Minute), MinThreshold: 0.6,
			MaxThreshold: 0.9}
		n.RAMRule = &unitconfig.FractionRule{MinThreshold: 0.6, MaxThreshold: 0.9}
		s.unit.Nodes = append(s.unit.Nodes, n)
	case "rule":
		n := s.node(words[1])
		if n.CPURule = nil; words[2] != "none" {
			n.CPURule = &unitconfig.FractionRule{MinTimeout: duration.Duration(s.span(words[2])),
				MinThreshold: s.share(words[3]), MaxThreshold: s.share(words[4])}
		}
	case "runs":
		s.runs(words[1], words[2], set)
	case "restart":
		s.state = rebalance.New(s.state.Durable(), rebalance.Limits{})
	default:
		s.event(s.span(words[0]), words[1:])
	}
}

func (s *script) runs(name, node string, set map[string]string) {
	state := items.Ready
	if set["state"] != "" {
		state = items.State(set["state"])
	}
	s.unit.Items = append(s.unit.Items, items.Item{State: state, Meta: items.Meta{Codename: name, Type: items.Service,
		Version: "1.0.0", Priority: int(s.number(set["prio"], 0)), BalancingPolicy: items.Balancing(set["balancing"]),
		Quotas: items.Amounts{CPU: s.number(set["cpu"], 0), RAM: s.number(set["ram"], 0)}}})
	sub := items.Subject{Codename: "for-" + name, Type: items.Group,
		Items: []items.Attachment{{Type: items.Service, Codename: name, Instances: 1}}}
	if set["nodes"] != "" {
		sub.Nodes = strings.Split(set["nodes"], ",")
	}
	s.unit.Subjects = append(s.unit.Subjects, sub)
	if node == "nowhere" {
		return
	}
	s.unit.Current.Instances = append(s.unit.Current.Instances, items.Instance{Type: items.Service, Codename: name,
		Version: "1.0.0", Subject: sub.Codename, Node: node, Runtime: "crun"})
}

func (s *script) node(name string) *desired.Node {
	return &s.unit.Nodes[slices.IndexFunc(s.unit.Nodes, func(n desired.Node) bool { return n.Info.Node == name })]
}

func (s *script) event(at time.Duration, words []string) {
	switch words[0] {
	case "away":
		s.node(words[1]).Info.OfflineFor = duration.Duration(time.Second)
		s.step(at, rebalance.Away{Nodes: words[1:2]})
	case "back":
		s.node(words[1]).Info.OfflineFor = 0
		s.node(words[1]).Info.Used.RAM = 1
		s.step(at, rebalance.Tick{})
	case "done", "starts":
		s.carryOut(words[0] == "done")
		s.step(at, rebalance.Tick{})
	case "put":
		for i := range s.unit.Current.Instances {
			if c := &s.unit.Current.Instances[i]; c.Codename == words[1] {
				c.Node = words[2]
			}
		}
		s.step(at, rebalance.Tick{})
	case "tick":
		s.step(at, rebalance.Tick{})
	default:
		var m rebalance.Measured
		for _, w := range words {
			name, value, _ := strings.Cut(w, "=")
			if service, node, ok := strings.Cut(name, "@"); ok {
				cpu := s.number(value, 0)
				m.Instances = append(m.Instances, items.InstanceLoad{Codename: service, Subject: "for-" + service,
					Node: node, CPU: &cpu})
				continue
			}
			n := items.NodeLoad{Node: name}
			cpu, ram, both := strings.Cut(value, "/")
			if !both {
				ram = "0.1"
			}
			for _, p := range []struct {
				text string
				to   **float64
			}{{cpu, &n.CPU}, {ram, &n.RAM}} {
				if p.text != "?" {
					v := s.share(p.text)
					*p.to = &v
				}
			}
			m.Nodes = append(m.Nodes, n)
		}
		s.step(at, m)
	}
}

// carryOut has nodes that are online do what is planned. stop: also stop what is not.
func (s *script) carryOut(stop bool) {
	in := s.unit
	in.Moves = s.state.Moves()
	p, err := desired.Make(&in)
	if err != nil {
		s.t.Fatal(err)
	}
	now := slices.DeleteFunc(slices.Clone(s.unit.Current.Instances), func(i items.Instance) bool {
		return stop && s.node(i.Node).Info.OfflineFor == 0
	})
	for _, n := range p.Nodes {
		for _, i := range n.Instances {
			c := items.Instance{Type: i.Type, Codename: i.Codename, Version: i.Version, Subject: i.Subject,
				Index: i.Index, Node: n.Node, Runtime: i.Runtime}
			if s.node(n.Node).Info.OfflineFor == 0 && !slices.Contains(now, c) {
				now = append(now, c)
			}
		}
	}
	s.unit.Current.Instances = now
}

func (s *script) step(at time.Duration, ev rebalance.Event) {
	effects, err := s.state.Step(epoch.Add(at), &s.unit, ev)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range effects {
		switch e := e.(type) {
		case rebalance.Decided:
			fmt.Fprintf(s.out, "  %v %s\n", at, why.Relief(&e.Relief))
			for i := range e.Stays {
				fmt.Fprintf(s.out, "    %s\n", why.Stay(&e.Stays[i]))
			}
		case rebalance.Ended:
			fmt.Fprintf(s.out, "  %v %s to %s: %s\n", at, e.Move.Codename, e.Move.To, e.As)
		}
	}
	if _, tick := ev.(rebalance.Tick); len(effects) == 0 && !tick {
		return
	}
	if next := s.state.NextDeadline(); !next.IsZero() {
		fmt.Fprintf(s.out, "  next %v\n", next.Sub(epoch))
	}
}

func (s *script) span(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *script) share(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *script) number(text string, otherwise int64) int64 {
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}
