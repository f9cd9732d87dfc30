package env_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	program "tandem.internal/shared/settings"
	"tandem.internal/testenv/env"
)

// policyInWaves is a policy for every node, of which these have no slots: version 0.9.0 they have surpassed, a higher
// one they cannot go to.
func policyInWaves(e *env.Env, version, start string, deadline time.Duration) string {
	e.Helper()
	v, err := asked(e, func(ctx context.Context, u controller.Unit) (controller.PolicyChange, error) {
		return u.ApplyPolicy(controller.As(ctx, "ann"), controller.ApplyPolicy{
			PolicyIn: controller.PolicyIn{Policy: "line"}, AllNodes: true,
			Document: fmt.Appendf(nil, `{"enabled": true, "constraints": ["openhorizon.cpu > 0"],
				"agentUpgradePolicy": {"atLeastVersion": %q, "start": %q, "duration": 900},
				"rollout": {"waves": [{"count": 2, "canary": true}, {"percent": 100}], "gate": {"soak": "PT2M"},
				"deadline": "PT%dM", "maxUnavailable": {"count": 2}}}`, version, start, int(deadline.Minutes())),
		})
	})
	if err != nil || v.Rollout == "" {
		e.Fatalf("%+v, %v", v, err)
	}
	return v.Rollout
}

// policyStatus is how far the nodes are; nothing while the controller is down.
func policyStatus(e *env.Env) (v controller.PolicyStatus) {
	v, _ = asked(e, func(ctx context.Context, u controller.Unit) (controller.PolicyStatus, error) {
		return u.PolicyStatus(ctx, controller.PolicyHow{PolicyIn: controller.PolicyIn{Policy: "line"}})
	})
	return v
}

func phaseOf(e *env.Env, id string) string {
	v, _ := asked(e, func(ctx context.Context, u controller.Unit) (controller.RolloutDetail, error) {
		in := controller.RolloutIn{}
		in.Rollout = id
		return u.Rollout(ctx, in)
	})
	return string(v.Phase)
}

func versioned(t *testing.T, version string) {
	before := program.Version
	program.Version = version
	t.Cleanup(func() { program.Version = before })
}

// A policy reaches real agents in waves, while the controller is killed again and again: nodes of a wave to come have
// nothing of it until those before are at an end with it, and were in good health for the soak time.
func TestPolicyByRealAgentsInWaves(t *testing.T) {
	versioned(t, "1.0.0")
	env.Run(t, env.Setup{Nodes: sixNodes}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		e.Pass(10 * time.Minute)
		begin := time.Now()
		id := policyInWaves(e, "0.9.0", "2000-01-01T00:00:00Z", 30*time.Minute)
		issued, done := map[string]time.Duration{}, map[string]time.Duration{}
		look := func() {
			for _, n := range policyStatus(e).Nodes {
				if n.State == "queued" {
					continue
				}
				if _, ok := issued[n.Node]; !ok {
					issued[n.Node] = time.Since(begin)
				}
				if _, ok := done[n.Node]; !ok && n.State == "no-action-required" {
					done[n.Node] = time.Since(begin)
				}
			}
		}
		for i := 0; phaseOf(e, id) != "done"; i++ {
			look()
			if i%31 == 30 {
				e.Controller.Kill()
				e.Pass(7 * time.Second)
				e.Controller.Start()
			}
			if time.Since(begin) > 2*time.Hour {
				t.Fatalf("it is %s after two hours: %v, %v", phaseOf(e, id), issued, done)
			}
			e.Pass(5 * time.Second)
		}
		look()
		names := slices.Collect(maps.Keys(issued))
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(issued[a], issued[b]) })
		const slack = 10 * time.Second
		if len(done) != 6 || len(names) != 6 ||
			issued[names[2]] < max(done[names[0]], done[names[1]], 2*time.Minute)-slack {
			t.Errorf("nodes are issued to after %v, and are done after %v", issued, done)
		}
		if v := policyStatus(e); v.Rollout != "" || len(v.States) != 1 || v.States[0].Nodes != 6 {
			t.Errorf("%+v", v)
		}
		e.Calm()
	})
}

// A policy that cannot be begun stops at the first nodes; the others have nothing of it, and so has everybody when it
// is disabled.
func TestBadPolicyStopsAtTheCanary(t *testing.T) {
	versioned(t, "1.0.0")
	env.Run(t, env.Setup{Nodes: sixNodes}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		offer(e, "9.0.0")
		id := policyInWaves(e, "9.0.0", "now", time.Hour)
		e.Pass(30 * time.Minute)
		if p := phaseOf(e, id); p != "paused" {
			t.Errorf("it is %s half an hour before the deadline", p)
		}
		e.Controller.Kill()
		e.Pass(time.Minute)
		e.Controller.Start()
		e.Pass(time.Hour)
		states := map[string]int{}
		for _, s := range policyStatus(e).States {
			states[string(s.State)] = s.Nodes
		}
		if phaseOf(e, id) != "paused" || states["queued"] < 4 || states["precheck-failed"] == 0 {
			t.Errorf("%s: %v", phaseOf(e, id), states)
		}
		if _, err := asked(e, func(ctx context.Context, u controller.Unit) (controller.PolicyChange, error) {
			return u.DisablePolicy(controller.As(ctx, "ann"), controller.PolicyIn{Policy: "line"})
		}); err != nil {
			t.Error(err)
		}
		e.Pass(time.Minute)
		if phaseOf(e, id) != "aborted" {
			t.Errorf("it is %s", phaseOf(e, id))
		}
		for _, n := range e.Nodes() {
			if v, _ := e.View(n.Name); !v.InSync {
				t.Errorf("%+v", v)
			}
		}
		e.Calm()
	})
}

// offer puts a version on offer that nodes cannot fetch.
func offer(e *env.Env, version string) {
	e.Helper()
	in := controller.ReleaseAgent{}
	in.Version = version
	in.Builds = []controller.AgentBuild{{Arch: runtime.GOARCH, Size: 1, Hash: "sha256:" + fmt.Sprintf("%064d", 1),
		URLs: []string{"https://files.example/x"}}}
	if _, err := asked(e, func(ctx context.Context, u controller.Unit) (controller.PolicyChange, error) {
		return u.ReleaseAgent(controller.As(ctx, "ann"), in)
	}); err != nil {
		e.Fatal(err)
	}
}
