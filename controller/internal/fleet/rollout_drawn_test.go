package fleet

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// rolloutPlans are what properties draw from.
func rolloutPlans(t testing.TB) (all []*plan.Plan) {
	for _, text := range []string{
		`{"waves": [{"count": 1, "canary": true}, {"percent": 100}], "gate": {"soak": "PT1M"}, "deadline": "PT10M"}`,
		`{"waves": [{"percent": 100}], "gate": {"soak": "PT1M"}, "deadline": "PT5M", "failureBudget": {"count": 2},
			"maxUnavailable": {"count": 3}, "onAbort": "take-back", "absentAfter": "PT10M"}`,
		`{"waves": [{"type": "sideType"}, {"percent": 100}], "gate": {"soak": "PT1M", "healthy": ["alerts"]},
			"groups": [{"type": "mainType", "maxUnavailable": {"count": 1}}],
			"windows": [{"cron": "*/10 * * * *", "zone": "UTC", "duration": "PT5M"}]}`,
	} {
		all = append(all, rolloutPlan(t, text))
	}
	return all
}

// plan is one in three, and none in the others.
func (d *drawn) plan() *plan.Plan {
	if rapid.IntRange(0, 2).Draw(d.T, "rollout") > 0 {
		return nil
	}
	return rapid.SampledFrom(d.plans).Draw(d.T, "plan")
}

// quiet adds how long nothing has happened on a node, as it may say.
func (d *drawn) quiet(node string, h *wire.Health) *wire.Health {
	n := d.w.live.Lookup(node)
	if n == nil || rapid.IntRange(0, 3).Draw(d.T, "quiet") == 0 {
		return h
	}
	long := wire.Span(time.Duration(d.small("minutes")) * time.Minute)
	h.Quiet = &wire.HealthQuiet{Alerts: long, Checks: long, Restarts: long, Workloads: long,
		Revs: map[wire.Kind]uint64{}}
	for k, s := range n.Kinds {
		if s.Running != nil {
			h.Quiet.Revs[k] = s.Running.Rev
		}
	}
	return h
}

// ofRollouts is an order about a rollout, or what a node says that has just installed what it should.
func (d *drawn) ofRollouts() Event {
	ids := append(d.w.live.Rollouts().IDs(), "config-0")
	id := rapid.SampledFrom(ids).Draw(d.T, "rollout")
	switch rapid.IntRange(0, 9).Draw(d.T, "order") {
	case 0:
		return RolloutOrder{Ticket: 1, Who: "ann", Order: rollout.Pause{ID: id, Reason: "x"}}
	case 1:
		return RolloutOrder{Ticket: 1, Who: "ann", Order: rollout.Resume{ID: id}}
	case 2:
		how := rapid.SampledFrom([]plan.OnAbort{"", plan.Leave, plan.TakeBack}).Draw(d.T, "how")
		return RolloutOrder{Ticket: 1, Who: "ann", Order: rollout.Abort{ID: id, How: how, Now: true}}
	}
	node := d.node()
	n := d.w.live.Lookup(node)
	if n == nil || n.Boot == "" {
		return Tick{}
	}
	k := rapid.SampledFrom([]wire.Kind{wire.KindConfig, wire.KindWorkloads, wire.KindHealth}).Draw(d.T, "kind")
	s := n.Kinds[k]
	r := &wire.Reported{V: wire.Version, Node: node, Kind: k, Boot: n.Boot, Seq: 1}
	if s != nil {
		r.Seq = s.heard() + 1
		r.Running, r.Last = s.Running, s.Last
		if s.Desired != nil && rapid.IntRange(0, 3).Draw(d.T, "installs") > 0 {
			ref := s.Desired.DocRef
			r.Running = &ref
			r.Last = &wire.Attempt{Epoch: ref.Epoch, Rev: ref.Rev, Version: ref.Version, Hash: ref.Hash, Attempt: 1,
				State: wire.StateInstalled, At: d.now}
		}
	}
	if k == wire.KindHealth {
		r.Detail = wire.Encode(d.quiet(node, told(d.w, nil, nil)))
	}
	return d.w.heard(node, r)
}
