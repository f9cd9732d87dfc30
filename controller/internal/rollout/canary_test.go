package rollout_test

import (
	"testing"

	"tandem.internal/controller/internal/rollout"
)

// In the canary wave nothing may fail, whatever the budget is and although others pass.
func TestCanaryWaveHasNoBudget(t *testing.T) {
	s := newSim(t, 10)
	p := thePlan(t, `failureBudget: {"count": 5}`, `waves: [{"count": 3, "canary": true}, {"percent": 100}]`)
	s.ranked("r1")[0].does = fails
	s.begin("r1", "B", config, p)
	s.reach("r1", rollout.Paused)
	if h := s.held("r1", rollout.HeldPaused, s.ranked("r1")[0]); h.Cause != rollout.CauseBudget {
		t.Errorf("%+v", h)
	}
	s.reachStatus("r1", s.ranked("r1")[1], rollout.Passed)
	s.order(rollout.Resume{ID: "r1", Who: "ann"}) // who knows of it goes on
	s.reach("r1", rollout.Done)
}
