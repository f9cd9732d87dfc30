package policies_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/policytest"
	agent "tandem.internal/nodeagent/policytest"
	"tandem.internal/shared/wire"
)

// story is a unit of two nodes, to which documents go at once.
type story struct {
	t      *testing.T
	unit   *controller.Unit
	nodes  []*agent.Node
	stamps uint64
}

func newStory(t *testing.T) *story {
	s := &story{t: t, unit: controller.New()}
	for i := range 2 {
		name := fmt.Sprint("n", i+1)
		n := agent.New(name, "1.0.0", begin, rand.New(rand.NewPCG(7, uint64(i))))
		n.Smooth = true
		s.nodes = append(s.nodes, n)
		s.unit.Describe(name, wire.NodeInfo{Arch: "amd64", OS: "linux", AgentVersion: "1.0.0"})
		s.does(s.unit.Set(begin, name, "line", "4"))
	}
	for _, version := range []string{"1.1.0", "1.2.0", "1.3.0"} {
		s.does(s.unit.Release(begin, version, "amd64"))
	}
	return s
}

func (s *story) at() time.Time { return s.nodes[0].Wall() }

func (s *story) does(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// policy applies an enabled policy of line 4.
func (s *story) policy(name, version string) {
	s.t.Helper()
	s.does(s.unit.Apply(s.at(), name, fmt.Sprintf(`{"enabled":true,"constraints":["line == 4"],`+
		`"agentUpgradePolicy":{"atLeastVersion":%q,"start":"2026-11-24T09:00:00Z","allowDowngrade":true}}`, version)))
}

// hears brings a node what it is to have now.
func (s *story) hears(i int) {
	if body := s.unit.Document(s.nodes[i].Name); body != nil {
		s.stamps++
		s.nodes[i].Deliver(s.stamps, body)
	}
}

// passes brings every node what it is to have, and lets time pass.
func (s *story) passes(d time.Duration) {
	for i, n := range s.nodes {
		s.hears(i)
		n.Wait(d)
		s.unit.Report(n.Name, n.Report())
	}
}

func (s *story) is(i int, want string) {
	s.t.Helper()
	if n := s.nodes[i]; n.Says() != want {
		s.t.Errorf("%s: %s, want %s", n.Name, n.Says(), want)
	}
}

// log is what the events of a node say of a policy.
func (s *story) log(i int, name string) string {
	var all []string
	for _, e := range s.nodes[i].Events {
		if e.Name == name && e.State == wire.PolicyConflict {
			all = append(all, "conflict behind "+e.DecidedBy)
		}
	}
	return strings.Join(all, ", ")
}

func (s *story) whole() {
	s.t.Helper()
	for _, n := range s.nodes {
		if len(n.Broken) > 0 {
			s.t.Error(n.Broken)
		}
	}
}

// TestSeed003Causes: each of the three changes of the seed that may result in a collision does, with the same outcome:
// the policy that was enabled first decides, the other one does nothing, and node and controller say so by the name of
// the first (seed 003, NMP Constraint Collisions).
func TestSeed003Causes(t *testing.T) {
	const want = "first successful 1.1.0, second conflict behind first"
	for name, cause := range map[string]func(s *story){
		"new node policy": func(s *story) {
			s.does(s.unit.Set(s.at(), "n1", "line", "5"))
			s.policy("first", "1.1.0")
			s.policy("second", "1.2.0")
			s.passes(time.Hour)
			s.is(0, "nothing")
			s.does(s.unit.Set(s.at(), "n1", "line", "4"))
		},
		"enabled": func(s *story) {
			s.policy("second", "1.2.0")
			s.does(s.unit.Enable(s.at(), "second", false))
			s.policy("first", "1.1.0")
			s.passes(time.Hour)
			s.is(0, "first successful 1.1.0")
			s.does(s.unit.Enable(s.at(), "second", true))
		},
		"enabled and edited": func(s *story) {
			s.policy("first", "1.1.0")
			s.policy("second", "1.1.0")
			s.passes(time.Hour)
			s.is(0, "first successful 1.1.0, second successful 1.1.0 behind first") // they want the same
			s.policy("second", "1.2.0")
		},
		"new and enabled": func(s *story) {
			s.policy("first", "1.1.0")
			s.passes(time.Hour)
			s.policy("second", "1.2.0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			cause(s)
			if got := s.unit.Status("second")["n1"]; got != "conflict behind first" {
				t.Errorf("before the node knows, policy status shows %q", got)
			}
			s.passes(time.Hour)
			s.is(0, want)
			if got := s.log(0, "second"); got != "conflict behind first" {
				t.Errorf("the event log has %q", got)
			}
			if got := s.unit.Status("second")["n1"]; got != "conflict behind first" {
				t.Errorf("policy status shows %q", got)
			}
			if got := s.unit.Status("first")["n1"]; got != "successful" {
				t.Errorf("policy status shows %q of the first", got)
			}
			s.nodes[0].Crash(time.Minute)
			s.passes(time.Hour)
			if got := s.log(0, "second"); got != "conflict behind first" {
				t.Errorf("after a restart the event log has %q", got)
			}
			s.does(s.unit.Remove(s.at(), "first"))
			s.passes(time.Hour)
			s.is(0, "second successful 1.2.0")
			if got := s.unit.Status("second")["n1"]; got != "successful" {
				t.Errorf("policy status shows %q", got)
			}
			s.whole()
		})
	}
}

// TestSeed003Reversal: two policies that adjust the same setting are introduced within seconds, and the first is taken
// back. A node that hears of both at once acts on what stands then; one that heard of the first alone acts on it, and
// reverses that. Both end at the same (seed 003, conflicting actions in close temporal proximity).
func TestSeed003Reversal(t *testing.T) {
	s := newStory(t)
	s.policy("first", "1.3.0")
	s.hears(1)
	s.nodes[1].Wait(time.Hour) // it knows of the first only, and acts on it
	s.is(1, "first successful 1.3.0")
	s.policy("second", "1.2.0")
	s.hears(1)
	s.does(s.unit.Enable(s.at(), "first", false))
	s.passes(2 * time.Hour)
	for i, n := range s.nodes {
		s.is(i, "second successful 1.2.0")
		if n.Running != "1.2.0" {
			t.Errorf("%s runs %s", n.Name, n.Running)
		}
	}
	if got := s.nodes[0].Tried; !slices.Equal(got, []string{"1.2.0"}) {
		t.Errorf("the first node has tried %v", got)
	}
	if got := s.nodes[1].Tried; !slices.Equal(got, []string{"1.3.0", "1.2.0"}) {
		t.Errorf("the second node has tried %v", got)
	}
	s.whole()
}

// TestSeed003ThreePolicies: of three policies the third conflicts with the first and is ignored; one of another kind is
// not concerned (seed 003: NMP1, NMP2, NMP3).
func TestSeed003ThreePolicies(t *testing.T) {
	s := newStory(t)
	s.policy("nmp1", "1.1.0")
	s.does(s.unit.Apply(s.at(), "nmp2", `{"enabled":true,"constraints":["line == 4"]}`))
	s.policy("nmp3", "1.2.0")
	s.passes(time.Hour)
	s.is(0, "nmp1 successful 1.1.0, nmp3 conflict behind nmp1, nmp2 no-action-required")
	s.whole()
}

// TestSeed003Rollback: what a rollback brings back is in force on the nodes, as any other change is.
func TestSeed003Rollback(t *testing.T) {
	s := newStory(t)
	s.policy("p", "1.1.0")
	s.passes(time.Hour)
	s.policy("p", "1.2.0")
	s.passes(time.Hour)
	s.is(0, "p successful 1.2.0")
	s.does(s.unit.RollBack(s.at(), "p"))
	s.does(s.unit.Crash(3))
	s.passes(time.Hour)
	s.is(0, "p successful 1.1.0")
	s.whole()
}
