package cli

import (
	"cmp"
	"context"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
)

// begun is a unit of six nodes in whose rollout r2 one has failed, one is late, and the others wait; and r1, which was
// aborted.
func begun(t *testing.T) (set *rollout.Set, now time.Time) {
	t.Helper()
	p, problems := plan.Parse([]byte(goodPlan), time.LoadLocation)
	if problems != nil {
		t.Fatal(problems)
	}
	p.FailureBudget.Percent, p.MaxUnavailable = new(50), plan.Amount{Count: new(3)}
	p.Windows = nil
	set, now = rollout.NewSet(time.LoadLocation), apitest.Now.Add(-time.Hour)
	seq := uint64(0)
	step := func(ev rollout.Event) {
		var out rollout.Out
		if err := set.Step(now, seq, ev, &out); err != nil {
			t.Fatalf("%T: %s", ev, err)
		}
		seq += uint64(len(out.Records))
	}
	fact := func(node string, online bool) rollout.Fact {
		since := apitest.Now.Add(-2 * time.Hour)
		return rollout.Fact{Node: node, Type: "mainType", Online: online, Since: since, Boot: "b"}
	}
	targets := map[string]string{}
	for _, n := range []string{"node-1", "node-2", "node-3", "node-4", "node-5", "node-6"} {
		step(rollout.Facts{fact(n, n != "node-6")})
		targets[n] = "B"
	}
	step(rollout.Begin{ID: "r1", Who: "token/ci", Salt: "x", Kind: wire.KindWorkloads, Plan: p, Targets: targets})
	step(rollout.Abort{ID: "r1", Who: "uid:0(root)", How: plan.Leave})
	now = now.Add(30 * time.Minute)
	step(rollout.Begin{ID: "r2", Who: "uid:0(root)", Salt: "x", Kind: wire.KindConfig, Plan: p, Targets: targets})
	shown, _ := set.Members(now, "r2", rollout.Issued, 1)
	now = now.Add(time.Minute)
	failed := &rollout.Failure{Ref: rollout.Ref{Rev: seq, Hash: "B"}, Reason: "apply-failed: exit status 1"}
	step(rollout.Doc{Node: shown[0].Node, Kind: wire.KindConfig, Failed: failed})
	step(rollout.Resume{ID: "r2", Who: "uid:0(root)"})
	return set, apitest.Now.Add(-20 * time.Minute)
}

// showing is a rig that shows the rollouts of a set.
func showing(r *apitest.Rig, set *rollout.Set, now time.Time) api.Core {
	version := func(string) string { return "2.1.0" }
	detail := func(in op.RolloutNodesIn) (view.RolloutDetail, error) {
		v, err := why.RolloutDetail(set, now, in.Rollout, version, in.Status, int(cmp.Or(in.Limit, 100)))
		if err != nil {
			return v, err
		}
		return v, nil
	}
	return apitest.Instead(r,
		api.Ask(op.ListRollouts, func(context.Context) (view.Rollouts, error) {
			return why.Rollouts(set, now, version), nil
		}),
		api.Bind(op.ShowRollout, func(_ context.Context, in op.RolloutNodesIn) (view.RolloutDetail, error) {
			return detail(in)
		}),
		api.Bind(op.WhyRollout, func(_ context.Context, in op.RolloutIn) (view.Why, error) {
			v, err := detail(op.RolloutNodesIn{RolloutIn: in})
			return why.RolloutWhy(now, &v), err
		}),
		api.Follow(op.WatchRollout, func(_ context.Context, in op.RolloutWatchIn) (view.RolloutDetail, error) {
			return detail(in.RolloutNodesIn)
		}))
}
