package fleet

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

const threeWaves = `{"waves": [{"count": 1, "canary": true}, {"percent": 50}, {"percent": 100}],
	"maxUnavailable": {"percent": 100}}`

// submitted submits a configuration, by a plan unless that is "".
func (u *rolloutUnit) submitted(version, plan string, force bool) (string, *wire.Error) {
	u.Helper()
	r, err := u.order(func() Event {
		s := u.w.submit("s"+version, version)
		s.Sub.Offline, s.Sub.Force = true, force
		if plan != "" {
			s.Plan = rolloutPlan(u, plan)
		}
		return s
	})
	if err != nil {
		return "", wire.AsError(err)
	}
	return r.Rollout, r.Error
}

// apply submits a configuration that is accepted; if the controller was killed before it said so, it may be already.
func (u *rolloutUnit) apply(version, plan string) string {
	u.Helper()
	id, err := u.submitted(version, plan, false)
	st := u.w.live.State(wire.KindConfig)
	if err != nil && u.killed && st.Rollout != nil && st.Rollout.Version.Version == version {
		return st.Rollout.ID
	}
	if err != nil && !(u.killed && st.Version == version) {
		u.Fatalf("%s: %v", version, err)
	}
	return id
}

// decide is an order about a rollout; if the controller was killed before it answered, it may be followed already.
func (u *rolloutUnit) decide(order rollout.Event) {
	u.Helper()
	_, err := u.order(func() Event { return RolloutOrder{Who: "ann", Order: order} })
	if err != nil && !u.killed {
		u.Fatalf("%+v: %v", order, err)
	}
}

// running counts the nodes that run a version, and those of which it is the desired one.
func (u *rolloutUnit) running(version string) (runs, desired int) {
	for _, name := range u.names() {
		if r := u.nodes[name].doc(wire.KindConfig).running; r != nil && r.Version == version {
			runs++
		}
		if n := u.w.live.Lookup(name); n != nil && n.Kinds[wire.KindConfig] != nil {
			if d := n.Kinds[wire.KindConfig].Desired; d != nil && d.Version == version {
				desired++
			}
		}
	}
	return runs, desired
}

func (u *rolloutUnit) wantRunning(version string, runs, desired int) {
	u.Helper()
	if r, d := u.running(version); r != runs || d != desired {
		u.Fatalf("%d nodes run %s, and %d should; want %d and %d", r, version, d, runs, desired)
	}
}

func (u *rolloutUnit) reach(id string, phase rollout.Phase) {
	u.Helper()
	if !u.until(100*time.Hour, func() bool { return u.phase(id) == phase }) {
		v, _ := u.w.live.Rollouts().Show(u.now, id)
		u.Fatalf("never %s: %+v, %+v", phase, v, v.Held)
	}
}

// begun is a unit of ten nodes with 1.0.0, in the middle of things.
func begun(u *rolloutUnit) {
	u.apply("1.0.0", "")
	u.wait(time.Hour)
	u.wantRunning("1.0.0", 10, 10)
}

func (u *rolloutUnit) wantInstalled(version string) {
	u.Helper()
	st := u.w.live.State(wire.KindConfig)
	if st.Version != version || st.State != kind.Installed || st.Rollout != nil {
		u.Fatalf("the unit has %+v; want %s", st, version)
	}
}

// rolloutStories end as told, whenever the controller is killed.
var rolloutStories = map[string]func(u *rolloutUnit){
	"all well": func(u *rolloutUnit) {
		id := u.apply("2.0.0", threeWaves)
		u.reach(id, rollout.Done)
		u.pump()
		u.wantRunning("2.0.0", 10, 10)
		u.wantInstalled("2.0.0")
		if s := u.w.live.source(wire.KindConfig); s.split || len(s.versions) > 0 {
			u.Fatalf("it remembers %v", s.versions)
		}
	},
	"a bad document stops at the canary": func(u *rolloutUnit) {
		for _, n := range u.nodes {
			n.does = fails
		}
		id := u.apply("2.0.0", threeWaves)
		u.reach(id, rollout.Paused)
		u.wait(48 * time.Hour)
		u.wantRunning("1.0.0", 10, 9)
		u.decide(rollout.Abort{ID: id, How: plan.Leave})
		u.wait(time.Hour)
		u.wantRunning("1.0.0", 10, 9)
		u.wantRunning("2.0.0", 0, 1)
		u.wantInstalled("1.0.0")
		if _, err := u.submitted("2.0.0", threeWaves, false); err == nil || err.Code != wire.CodeQuarantined ||
			!strings.Contains(err.Message, "its rollout "+id+" was aborted") {
			u.Fatalf("the same document again: %v", err)
		}
		u.apply("3.0.0", "")
		u.until(time.Hour, func() bool { runs, _ := u.running("3.0.0"); return runs == 10 })
		u.wantRunning("3.0.0", 0, 10) // it is bad, too, and for all
		u.wantInstalled("3.0.0")
	},
	"taken back": func(u *rolloutUnit) {
		id := u.apply("2.0.0", threeWaves)
		u.until(100*time.Hour, func() bool { runs, _ := u.running("2.0.0"); return runs == 5 })
		u.decide(rollout.Abort{ID: id, How: plan.TakeBack})
		u.reach(id, rollout.Aborted)
		u.wantRunning("1.0.0", 10, 10)
		u.wantInstalled("1.0.0")
	},
	"left, and begun again": func(u *rolloutUnit) {
		id := u.apply("2.0.0", threeWaves)
		u.until(100*time.Hour, func() bool { runs, _ := u.running("2.0.0"); return runs == 5 })
		u.decide(rollout.Abort{ID: id, How: plan.Leave})
		u.wait(time.Hour)
		u.wantRunning("1.0.0", 5, 5)
		u.wantInstalled("1.0.0")
		before := len(u.w.journal)
		again := u.apply("2.0.0", threeWaves)
		u.reach(again, rollout.Done)
		u.wantRunning("2.0.0", 10, 10)
		u.wantInstalled("2.0.0")
		if n := u.issuedSince(before); n != 5 && !u.killed {
			u.Fatalf("%d documents were issued to five nodes", n)
		}
	},
	"from three versions, each to its own": func(u *rolloutUnit) {
		one := u.apply("2.0.0", threeWaves)
		u.until(100*time.Hour, func() bool { runs, _ := u.running("2.0.0"); return runs == 5 })
		u.decide(rollout.Abort{ID: one, How: plan.Leave})
		u.wait(time.Hour)
		two := u.apply("3.0.0", `{"waves": [{"percent": 100}], "maxUnavailable": {"count": 1}}`)
		u.until(100*time.Hour, func() bool { runs, _ := u.running("3.0.0"); return runs == 9 })
		u.decide(rollout.Abort{ID: two, How: plan.TakeBack})
		u.reach(two, rollout.Aborted)
		u.wantRunning("2.0.0", 5, 5)
		u.wantRunning("1.0.0", 5, 5)
	},
	"a newcomer": func(u *rolloutUnit) {
		id := u.apply("2.0.0", threeWaves)
		u.until(100*time.Hour, func() bool { runs, _ := u.running("2.0.0"); return runs == 5 })
		u.join("x1", "sideType")
		u.until(10*time.Minute, func() bool { return u.nodes["x1"].doc(wire.KindConfig).running != nil })
		if r := u.nodes["x1"].doc(wire.KindConfig).running; r.Version != "1.0.0" {
			u.Fatalf("the newcomer runs %s", r.Version)
		}
		u.reach(id, rollout.Done)
		u.wantRunning("2.0.0", 11, 11)
	},
	"one that was away": func(u *rolloutUnit) {
		away := u.nodes["n03"]
		u.leave(away)
		id := u.apply("2.0.0", `{"waves": [{"percent": 100}], "absentAfter": "P1D"}`)
		u.reach(id, rollout.Done)
		u.wantRunning("2.0.0", 9, 9)
		u.connect(away)
		u.wait(time.Hour)
		u.wantRunning("2.0.0", 10, 10)
	},
}

// issuedSince counts the documents of configurations in the journal.
func (u *rolloutUnit) issuedSince(record int) (n int) {
	for i := record; i < len(u.w.journal); i++ {
		r := &u.w.journal[i]
		if data, err := u.w.live.decode(r); err == nil && r.Kind == string(wire.KindConfig) {
			n += issuedTo(data)
		}
	}
	return n
}

// Each story is played undisturbed, and again for every record of its journal, with the controller killed when that
// record is durable and nothing after it has happened; half of these times it starts again from a checkpoint.
func TestRolloutsSurviveEveryKill(t *testing.T) {
	for name, play := range rolloutStories {
		t.Run(name, func(t *testing.T) { survivesEveryKill(t, 10, begun, play) })
	}
	for name, play := range policyStories {
		t.Run("policy, "+name, func(t *testing.T) { survivesEveryKill(t, 6, policyBegun, play) })
	}
}

func survivesEveryKill(t *testing.T, nodes int, begin, play func(*rolloutUnit)) {
	run := func(killAt int, checkpoint bool) *rolloutUnit {
		u := newRolloutUnit(t, nodes)
		begin(u)
		if u.killAt = killAt; checkpoint {
			u.restore, u.from = u.w.live.Checkpoint(), len(u.w.journal)
		}
		first := len(u.w.journal)
		play(u)
		u.w.check()
		if killAt > 0 && !u.killed {
			t.Fatalf("not killed at %d", killAt)
		}
		u.from = first
		return u
	}
	whole := run(0, false)
	interesting := 0
	for n := whole.from + 1; n <= len(whole.w.journal); n++ {
		r := &whole.w.journal[n-1]
		if slices.Contains([]string{"rollout", "issued", "accepted", "settings"}, r.Type.String()) || n%7 == 0 {
			interesting++
			run(n, n%2 == 0)
		}
	}
	if interesting < 10 {
		t.Errorf("only %d kills", interesting)
	}
}

// A checkpoint taken at any time says the same as the journal.
func TestRolloutsInCheckpoints(t *testing.T) {
	u := newRolloutUnit(t, 10)
	begun(u)
	checked := 0
	var old []byte
	u.watch = func() {
		if len(u.w.journal)%5 == 0 && !bytes.Equal(old, u.w.live.Checkpoint()) {
			old = u.w.live.Checkpoint()
			u.w.check()
			checked++
		}
	}
	id := u.apply("2.0.0", threeWaves)
	u.until(100*time.Hour, func() bool { runs, _ := u.running("2.0.0"); return runs == 5 })
	u.decide(rollout.Pause{ID: id, Reason: "lunch"})
	u.wait(time.Hour)
	u.decide(rollout.Resume{ID: id})
	u.wait(5 * time.Minute)
	u.decide(rollout.Abort{ID: id, How: plan.TakeBack})
	u.reach(id, rollout.Aborted)
	if checked < 10 {
		t.Errorf("checked %d times", checked)
	}
	if ids := u.w.live.Rollouts().IDs(); !slices.Equal(ids, []string{id}) {
		t.Error(ids)
	}
}
