package env_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	controller "tandem.internal/controller/app"
	"tandem.internal/testenv/env"
)

// inWaves is one node, then half of them, then all, two at a time.
const inWaves = `{"waves": [{"count": 1, "canary": true}, {"percent": 50}, {"percent": 100}],
	"gate": {"soak": "PT2M"}, "deadline": "PT10M", "maxUnavailable": {"count": 2}}`

var sixNodes = []env.NodeSpec{
	{Name: "n1"}, {Name: "n2"}, {Name: "n3"}, {Name: "n4"}, {Name: "n5"}, {Name: "n6"},
}

// rollOut submits a unit configuration by a plan, and returns the ID of its rollout.
func rollOut(e *env.Env, doc []byte) string {
	e.Helper()
	r, err := e.Submit(controller.Submission{Kind: "config", Document: doc, Rollout: jsontext.Value(inWaves)})
	if err != nil || r.State != "accepted" || r.Rollout == "" {
		e.Fatalf("%+v, %v", r, err)
	}
	return r.Rollout
}

func runs(e *env.Env, version string) (n int) {
	for _, node := range e.Nodes() {
		if e.Runs(node.Name, version) {
			n++
		}
	}
	return n
}

// Real agents tell for how long they were in good health; wave follows upon wave, and no two nodes more than may be are
// at it at a time, while the controller is killed again and again, and a node, too.
func TestRolloutByRealAgents(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		s.Nodes = sixNodes
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			e.Pass(10 * time.Minute)
			begin := time.Now()
			rollOut(e, env.Doc("2.0.0", env.Entry{Labels: []string{"new"}}))
			var at [7]time.Duration // when so many nodes ran it
			for i := 0; e.Status().Version != "2.0.0"; i++ {
				n := runs(e, "2.0.0")
				for k := 1; k <= n; k++ {
					if at[k] == 0 {
						at[k] = time.Since(begin)
					}
				}
				switch {
				case i%31 == 30:
					e.Controller.Kill()
					e.Pass(7 * time.Second)
					e.Controller.Start()
				case i == 45:
					e.Node("n3").Kill()
					e.Pass(3 * time.Second)
					e.Node("n3").Start()
				}
				if time.Since(begin) > time.Hour {
					t.Fatalf("%d nodes run it after an hour: %v", n, at)
				}
				e.Pass(5 * time.Second)
			}
			const soak = 2 * time.Minute
			if at[6] == 0 || at[2]-at[1] < soak-5*time.Second || at[4]-at[3] < soak-5*time.Second ||
				at[6]-at[4] < soak-5*time.Second {
				t.Errorf("so many ran it after: %v", at)
			}
			e.Reached("2.0.0")
			e.Calm()
		})
	})
}

// What breaks the first node reaches no other, and the unit stays at what it has.
func TestBadRolloutStopsAtTheCanary(t *testing.T) {
	env.Run(t, env.Setup{Nodes: sixNodes}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		rollOut(e, env.Doc("2.0.0", env.Entry{Labels: []string{env.Boom}}))
		e.Pass(5 * time.Minute)
		e.Controller.Kill()
		e.Pass(time.Minute)
		e.Controller.Start()
		e.Pass(24 * time.Hour)
		if v := e.Status().Version; v != "1.0.0" {
			t.Errorf("the unit has %s", v)
		}
		touched := 0
		for _, n := range e.Nodes() {
			v, _ := e.View(n.Name)
			if v.Documents["config"].Running.Version != "1.0.0" {
				t.Errorf("%s runs %+v", n.Name, v.Documents["config"].Running)
			}
			if v.Documents["config"].Desired.Version == "2.0.0" {
				touched++
			}
		}
		if touched != 1 {
			t.Errorf("it was issued to %d nodes", touched)
		}
		r, err := e.Submit(controller.Submission{Kind: "config", Document: env.Doc("3.0.0")})
		if err != nil || r.State != "refused" || !strings.Contains(r.Error.Message, "the rollout config-") {
			t.Errorf("another one while it is paused: %+v, %v", r, err)
		}
	})
}

// A plan that cannot be read is refused with the place of its mistake.
func TestPlanIsReadWithTheSubmission(t *testing.T) {
	env.Run(t, env.Setup{Nodes: sixNodes[:1]}, func(e *env.Env) {
		for _, dry := range []bool{true, false} {
			r, err := e.Submit(controller.Submission{Kind: "config", Document: env.Doc("1.0.0"), DryRun: dry,
				Rollout: jsontext.Value(`{"waves": [{"percent": 50}]}`)})
			if err != nil || r.State != "refused" || r.Error.Path != "/rollout/waves/0" {
				t.Errorf("dry %v: %+v, %v, %v", dry, r, r.Error, err)
			}
		}
		r, err := e.Submit(controller.Submission{Kind: "config", Document: env.Doc("1.0.0"), Mode: "try",
			ConfirmWithin: time.Minute, Rollout: jsontext.Value(inWaves)})
		if err != nil || r.State != "refused" || r.Error.Path != "/rollout" {
			t.Errorf("tried: %+v, %v, %v", r, r.Error, err)
		}
	})
}
