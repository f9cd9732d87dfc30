package rollout_test

import (
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
)

// scenario is a row: what is given, and what has to follow.
type scenario struct {
	number          int
	given, expected string
	nodes           int      // 0: ten
	plan            []string // changes of the plan
	play            func(s *sim, p *plan.Plan)
}

const one = `maxUnavailable: {"count": 1}`

// The scenarios that a rollout has to master. Each runs undisturbed, and again for every record of its journal, with
// the controller killed when that record is durable and nothing after it has happened.
func TestScenarios(t *testing.T) {
	all := slices.Concat(waveScenarios, failureScenarios, silenceScenarios, orderScenarios, windowScenarios)
	var seen []int
	for _, c := range all {
		seen = append(seen, c.number)
		t.Run(c.given, func(t *testing.T) {
			whole := c.run(t, 0)
			for n := range len(whole.log) {
				c.run(t, n+1)
			}
			whole.prefixes()
		})
	}
	slices.Sort(seen)
	for i := range 31 {
		if !slices.Contains(seen, i+1) && i+1 != 5 { // the plan's reader has that one: TestPlanRefusals
			t.Errorf("scenario %d is missing", i+1)
		}
	}
}

func (c *scenario) run(t *testing.T, killAt int) *sim {
	t.Helper()
	n := c.nodes
	if n == 0 {
		n = 10
	}
	s := newSim(t, n)
	s.killAt = killAt
	s.watch = s.withinLimits
	c.play(s, thePlan(t, c.plan...))
	if t.Failed() {
		t.FailNow()
	}
	return s
}

// prefixes checks that every prefix of the journal that ends with a step gives the state of then.
func (s *sim) prefixes() {
	s.Helper()
	checked := 0
	for n := 1; n <= len(s.log); n++ {
		set := s.replayed(n)
		if want, ok := s.states[n]; ok {
			checked++
			if got := s.durable(set); got != want {
				s.Fatalf("replay of %d records gives\n%s\nwant\n%s", n, got, want)
			}
		}
	}
	if checked == 0 && s.killAt == 0 {
		s.Fatal("no prefix was checked")
	}
}

// withinLimits checks that no rollout makes more nodes unavailable than it may.
func (s *sim) withinLimits() {
	s.Helper()
	for _, id := range s.set.IDs() {
		if ours, limit := rollout.Ours(s.set, id); ours > limit {
			s.Fatalf("%s has made %d nodes unavailable, and may %d; %s", id, ours, limit, s.story())
		}
	}
}

var waveScenarios = []scenario{
	{1, "all well", "1, 2, 7 nodes; done", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		s.reach("r1", rollout.Done)
		s.want("waves", s.waves("r1"), "1 2 7")
	}},
	{
		2, "three nodes, 10, 50 and 100 %", "1, 1, 1", 3,
		[]string{`waves: [{"percent": 10}, {"percent": 50}, {"percent": 100}]`},
		func(s *sim, p *plan.Plan) {
			s.begin("r1", "B", config, p)
			s.reach("r1", rollout.Done)
			s.want("waves", s.waves("r1"), "1 1 1")
		},
	},
	{3, "one node", "one wave", 1, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		s.reach("r1", rollout.Done)
		s.want("waves", s.waves("r1"), "1 0 0")
	}},
	{
		4, "maxUnavailable 10 % of 5", "1", 5,
		[]string{`maxUnavailable: {"percent": 10}`, `waves: [{"percent": 100}]`}, func(s *sim, p *plan.Plan) {
			s.begin("r1", "B", config, p)
			s.want("issued at once", len(s.wave("r1", 1)), 1)
			s.reach("r1", rollout.Done)
		},
	},
	{
		15, "a sick node of wave 3, maxUnavailable 1", "pulled into wave 1, first", 10, []string{one},
		func(s *sim, p *plan.Plan) {
			sick := s.ranked("r1")[7]
			s.sick(sick)
			s.begin("r1", "B", config, p)
			s.want("first", s.wave("r1", 1), []string{sick.name})
			s.reach("r1", rollout.Done)
			s.want("waves", s.waves("r1"), "2 1 7")
		},
	},
	{17, "a node joins in wave 2", "old version, last wave", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		s.until("wave 2", func() bool { return len(s.wave("r1", 2)) > 0 })
		s.addNode("x1")
		s.tell("x1")
		s.targets["r1"]["x1"] = "B"
		s.order(rollout.Target{ID: "r1", Node: "x1", Hash: "B"})
		s.want("side", s.set.Side("r1", "x1"), rollout.OldContent)
		s.reach("r1", rollout.Done)
		s.want("waves", s.waves("r1"), "1 2 8")
		s.want("in the last wave", slices.Contains(s.wave("r1", 3), "x1"), true)
		s.want("side", s.set.Side("r1", "x1"), rollout.NewContent)
	}},
	{18, "a passed node is replaced", "issued again", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		canary := s.ranked("r1")[0]
		s.reachStatus("r1", canary, rollout.Passed)
		rev := canary.doc(config).desired.Rev
		canary.docs[config] = &simDoc{}
		s.reboot(canary)
		s.reach("r1", rollout.Done)
		if again := canary.doc(config).installed; again.Rev <= rev || again.Hash != "B" {
			s.Fatalf("the replaced node has %v, and had %d; %s", again, rev, s.story())
		}
		s.want("status", s.status("r1", canary), rollout.Passed)
	}},
	{30, "all have the version", "done, nothing issued", 10, nil, func(s *sim, p *plan.Plan) {
		for _, n := range s.nodes {
			n.doc(config).installed.Hash = "B"
		}
		s.tell(s.names()...)
		s.begin("r1", "B", config, p)
		s.reach("r1", rollout.Done)
		s.want("waves", s.waves("r1"), "0 0 0")
		s.want("time", s.now, monday)
	}},
}

var failureScenarios = []scenario{
	{
		6, "budget 10 % of 9", "0: the first failure pauses", 9, []string{`failureBudget: {"percent": 10}`},
		func(s *sim, p *plan.Plan) {
			s.ranked("r1")[1].does = fails
			s.begin("r1", "B", config, p)
			s.reach("r1", rollout.Paused)
			h := s.held("r1", rollout.HeldPaused, s.ranked("r1")[1])
			s.want("cause", h.Cause, rollout.CauseBudget)
			s.want("waves", s.waves("r1"), "1 2 0")
		},
	},
	{
		7, "budget 1, one node of wave 2 fails twice", "goes on", 10, []string{`failureBudget: {"count": 1}`},
		func(s *sim, p *plan.Plan) {
			n := s.ranked("r1")[1]
			n.does = fails
			s.begin("r1", "B", config, p)
			s.reachStatus("r1", n, rollout.Failed)
			n.doc(config).failed.Reason = "apply-failed: exit status 2"
			s.tell(n.name)
			s.reach("r1", rollout.Done)
			s.want("waves", s.waves("r1"), "1 2 7")
		},
	},
	{
		8, "the canary fails, budget 5", "paused", 10, []string{`failureBudget: {"count": 5}`},
		func(s *sim, p *plan.Plan) {
			s.ranked("r1")[0].does = fails
			s.begin("r1", "B", config, p)
			s.reach("r1", rollout.Paused)
			s.run(48 * time.Hour)
			s.want("waves", s.waves("r1"), "1 0 0")
		},
	},
	{9, "an alert older than the issue", "passes", 10, nil, func(s *sim, p *plan.Plan) {
		s.sick(s.ranked("r1")[0])
		s.begin("r1", "B", config, p)
		s.reach("r1", rollout.Done)
		s.want("status", s.status("r1", s.ranked("r1")[0]), rollout.Passed)
	}},
	{10, "a restart in the soak's last second", "soak anew", 10, nil, func(s *sim, p *plan.Plan) {
		s.begin("r1", "B", config, p)
		canary := s.ranked("r1")[0]
		s.run(11*time.Minute - time.Second)
		s.reboot(canary)
		s.run(2 * time.Second)
		s.want("status", s.status("r1", canary), rollout.Issued)
		s.held("r1", rollout.HeldSoak, canary)
		s.run(10*time.Minute - 2*time.Second)
		s.want("status", s.status("r1", canary), rollout.Passed)
		s.reach("r1", rollout.Done)
	}},
	{31, "failed and still sick, maxUnavailable 1, budget 1", "held, node named", 10,
		[]string{`waves: [{"percent": 30}, {"percent": 100}]`, one, `failureBudget: {"count": 1}`},
		func(s *sim, p *plan.Plan) {
			n := s.ranked("r1")[0]
			n.does = breaks
			s.begin("r1", "B", config, p)
			s.reachStatus("r1", n, rollout.Failed)
			s.run(48 * time.Hour)
			s.want("phase", s.phase("r1"), rollout.Running)
			s.held("r1", rollout.HeldUnavailable, n)
			s.want("waves", s.waves("r1"), "1 0 0")
			s.recover(n)
			s.reach("r1", rollout.Done)
		}},
}
