package fleet

import (
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/shared/wire"
)

const threeWaves = `{"waves": [{"count": 1, "canary": true}, {"percent": 50}, {"percent": 100}],
	"maxUnavailable": {"percent": 100}}`

// apply submits a configuration, by a plan unless that is "".
func (u *rolloutUnit) apply(version, plan string, labels ...string) string {
	u.Helper()
	r, err := u.order(func() Event {
		s := u.w.submit("s"+version, version, labels...)
		s.Sub.Offline = true
		if plan != "" {
			s.Plan = rolloutPlan(u, plan)
		}
		return s
	})
	if err != nil || r.State != "accepted" {
		u.Fatalf("%s: %+v, %v", version, r, err)
	}
	return r.Rollout
}

// running counts the nodes that run a version.
func (u *rolloutUnit) running(version string) (n int) {
	for _, name := range u.names() {
		if r := u.nodes[name].doc(wire.KindConfig).running; r != nil && r.Version == version {
			n++
		}
	}
	return n
}

func TestRolloutGoesInWaves(t *testing.T) {
	u := newRolloutUnit(t, 10)
	u.apply("1.0.0", "")
	u.wait(time.Hour)
	if n := u.running("1.0.0"); n != 10 {
		t.Fatalf("%d nodes run the first version", n)
	}
	id := u.apply("2.0.0", threeWaves, "y")
	var seen []int
	for u.phase(id) == rollout.Running {
		if n := u.running("2.0.0"); len(seen) == 0 || seen[len(seen)-1] != n {
			seen = append(seen, n)
		}
		u.wait(30 * time.Second)
		if u.now.Sub(origin) > 5*time.Hour {
			v, _ := u.w.live.Rollouts().Show(u.now, id)
			t.Fatalf("%+v %+v", v, v.Held)
		}
	}
	t.Log(seen, u.phase(id), u.now.Sub(origin))
	u.w.check()
}
