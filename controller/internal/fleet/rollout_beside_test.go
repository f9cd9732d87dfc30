package fleet

import (
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// half is a unit in which five of ten nodes have a version that is rolled out, and nothing is under way.
func half(t *testing.T) (*rolloutUnit, string) {
	u := newRolloutUnit(t, 10)
	begun(u)
	id := u.apply("2.0.0", threeWaves)
	u.until(100*time.Hour, func() bool { runs, _ := u.running("2.0.0"); return runs == 5 })
	u.decide(rollout.Pause{ID: id})
	u.wait(30 * time.Minute)
	u.wantRunning("2.0.0", 5, 5)
	return u, id
}

// What else is done to a unit while a rollout goes on leaves every node with its own version, and the rollout goes on.
func TestBesideARollout(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, u *rolloutUnit, id string){
		"the epoch is raised": func(t *testing.T, u *rolloutUnit, _ string) {
			u.w.opt.Epoch++
			before := len(u.w.journal)
			u.step(EpochRaised{Epoch: u.w.opt.Epoch, Why: "x"})
			u.wait(time.Hour)
			if n := u.issuedSince(before); n != 10 {
				t.Errorf("%d documents were issued", n)
			}
		},
		"the journal was lost, and is an old copy": func(t *testing.T, u *rolloutUnit, _ string) {
			u.w.opt.Epoch += 2
			u.restart()
			u.wait(time.Hour)
		},
		"a restart": func(t *testing.T, u *rolloutUnit, _ string) {
			before := len(u.w.journal)
			u.restart()
			u.wait(time.Hour)
			if n := u.issuedSince(before); n != 0 {
				t.Errorf("%d documents were issued", n)
			}
		},
		"a retry": func(t *testing.T, u *rolloutUnit, _ string) {
			if r, err := u.order(func() Event { return Retry{Source: wire.KindConfig, Who: "ann"} }); err != nil ||
				r.Issued != 0 {
				t.Errorf("%+v, %v", r, err)
			}
		},
		"a submission, a trial, and one by force": func(t *testing.T, u *rolloutUnit, id string) {
			for _, force := range []bool{false, true} {
				if _, err := u.submitted("3.0.0", "", force); err == nil || err.Code != wire.CodeWrongState ||
					!strings.Contains(err.Message, id) {
					t.Errorf("force %v: %v", force, err)
				}
			}
			r, err := u.order(func() Event {
				s := u.w.submit("t", "3.0.0")
				s.Sub.Mode, s.Sub.ConfirmWithin, s.Sub.Offline = wire.ModeTry, time.Minute, true
				return s
			})
			if err != nil || r.State != "refused" || !strings.Contains(r.Error.Message, id) {
				t.Errorf("a trial: %+v, %v", r, err)
			}
		},
		"the copy is altered, and restored": func(t *testing.T, u *rolloutUnit, _ string) {
			u.step(Copy{Hash: "sha256:altered"})
			if s := u.w.live.State(wire.KindConfig).State; s != kind.Failed {
				t.Fatal(s)
			}
			if _, err := u.order(func() Event { return Restore{Who: "ann"} }); err != nil {
				t.Error(err)
			}
			u.wait(time.Hour)
		},
		"nodes reboot": func(t *testing.T, u *rolloutUnit, _ string) {
			for _, name := range u.names() {
				u.start(u.nodes[name])
			}
			u.wait(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, id := half(t)
			do(t, u, id)
			u.wantRunning("2.0.0", 5, 5)
			u.wantRunning("1.0.0", 5, 5)
			u.w.check()
			u.decide(rollout.Resume{ID: id})
			u.reach(id, rollout.Done)
			u.wantRunning("2.0.0", 10, 10)
			u.wantInstalled("2.0.0")
			u.w.check()
		})
	}
}

// A node that goes down while it applies a document has not failed at it: not even a canary, and no failure is allowed.
func TestRolloutGoesOnAfterInterruptions(t *testing.T) {
	u := newRolloutUnit(t, 10)
	begun(u)
	for _, n := range u.nodes {
		n.does = downs
	}
	id := u.apply("2.0.0", `{"waves": [{"count": 1, "canary": true}, {"percent": 100}], "deadline": "PT2H"}`)
	u.reach(id, rollout.Done)
	u.wantInstalled("2.0.0")
	for _, n := range u.nodes {
		if n.does != obeys {
			t.Errorf("%s was not interrupted", n.name)
		}
	}
	u.w.check()
}

// What the copy's damage holds back is issued once that is over.
func TestRolloutGoesOnAfterTheCopyIsRestored(t *testing.T) {
	u := newRolloutUnit(t, 10)
	begun(u)
	id := u.apply("2.0.0", `{"waves": [{"percent": 100}], "maxUnavailable": {"count": 1}, "deadline": "PT2H"}`)
	u.until(time.Hour, func() bool { runs, _ := u.running("2.0.0"); return runs == 1 })
	u.step(Copy{Hash: "sha256:altered"})
	u.wait(time.Hour)
	u.wantRunning("2.0.0", 1, 1) // the second is decided, and not issued
	if _, err := u.order(func() Event { return Restore{Who: "ann"} }); err != nil {
		t.Fatal(err)
	}
	u.wait(5 * time.Minute)
	u.wantRunning("2.0.0", 2, 2)
	u.reach(id, rollout.Done)
	u.wantRunning("2.0.0", 10, 10)
}

// Nodes that leave the unit hold nothing up.
func TestNodesLeaveDuringARollout(t *testing.T) {
	u := newRolloutUnit(t, 10)
	begun(u)
	id := u.apply("2.0.0", `{"waves": [{"percent": 100}], "maxUnavailable": {"count": 2}, "deadline": "PT20H"}`)
	var both []*rolloutNode // that were issued to
	for _, name := range u.names() {
		if n := u.nodes[name]; !n.doc(wire.KindConfig).at.IsZero() {
			n.does = hangs
			both = append(both, n)
		}
	}
	for i, n := range both {
		name := n.name
		if i == 0 {
			u.step(Enrolment{Event: enrol.Revoke{Subject: "node/" + name}, Who: "ann"})
		} else {
			u.leave(n)
			u.pump()
			if _, err := u.order(func() Event { return Forget{Nodes: []string{name}, Who: "ann"} }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(both) != 2 {
		t.Fatalf("%d nodes were issued to", len(both))
	}
	u.until(2*time.Hour, func() bool { return u.phase(id) == rollout.Done })
	if u.phase(id) != rollout.Done {
		v, _ := u.w.live.Rollouts().Show(u.now, id)
		t.Fatalf("%+v, %+v", v, v.Held)
	}
	u.wantRunning("2.0.0", 8, 8)
	u.w.check()
}

// What is taken back from a node is what it ran, not what it had failed at before.
func TestTakenBackToWhatRan(t *testing.T) {
	u := newRolloutUnit(t, 10)
	begun(u)
	for _, n := range u.nodes {
		n.does = fails
	}
	bad := u.apply("2.0.0", threeWaves)
	u.reach(bad, rollout.Paused)
	u.decide(rollout.Abort{ID: bad, How: plan.Leave})
	for _, n := range u.nodes {
		n.does = obeys
	}
	id := u.apply("3.0.0", `{"waves": [{"percent": 100}], "maxUnavailable": {"percent": 100}}`)
	u.wait(5 * time.Minute)
	u.wantRunning("3.0.0", 10, 10)
	u.decide(rollout.Abort{ID: id, How: plan.TakeBack})
	u.reach(id, rollout.Aborted)
	u.wantRunning("1.0.0", 10, 10)
}

// A node that changes its type has its version made anew, and one that should get another document is told of it.
func TestTypeChangesDuringARollout(t *testing.T) {
	u, id := half(t)
	for _, name := range u.names() {
		u.nodes[name].nodeType = "sideType"
		u.start(u.nodes[name])
	}
	u.wait(time.Hour)
	u.wantRunning("2.0.0", 5, 5)
	u.wantRunning("1.0.0", 5, 5)
	u.decide(rollout.Resume{ID: id})
	u.reach(id, rollout.Done)
	u.wantRunning("2.0.0", 10, 10)
}

// A node that says nothing of how long it was well never passes, and why is said.
func TestAgentsThatDoNotTell(t *testing.T) {
	u := newRolloutUnit(t, 3)
	for _, n := range u.nodes {
		n.mute = true
	}
	u.apply("1.0.0", "")
	u.wait(time.Hour)
	id := u.apply("2.0.0", `{"waves": [{"percent": 100}], "deadline": "PT2H", "maxUnavailable": {"count": 1}}`)
	u.wait(time.Hour)
	if h := u.w.live.Rollouts().Why(u.now, id); h == nil || h.Reason != rollout.HeldUnavailable {
		t.Errorf("%+v", h)
	}
	if h := u.w.live.Rollouts().Why(u.now, id); h != nil && h.Count != 1 {
		t.Errorf("%+v", h)
	}
	u.reach(id, rollout.Paused)
	u.wantRunning("2.0.0", 1, 1)
}

// A set of workloads goes in waves, too: only to those whose part changes, also while slots are stopped; what is taken
// back is what each had, or nothing.
func TestRolloutOfWorkloads(t *testing.T) {
	for _, back := range []bool{false, true} {
		u := newRolloutUnit(t, 4)
		set := func(version, text string, entries ...string) string {
			r, err := u.order(func() Event {
				s := u.w.set("w"+version, entries...)
				s.Sub.Offline, s.Sub.Version, s.Version = true, version, version
				if text != "" {
					s.Plan = rolloutPlan(u, text)
				}
				return s
			})
			if err != nil || r.State != "accepted" {
				t.Fatalf("%+v, %v", r, err)
			}
			return r.Rollout
		}
		has := func(node string) (version, hash string) {
			if r := u.nodes[node].doc(wire.KindWorkloads).running; r != nil {
				return r.Version, r.Hash
			}
			return "", ""
		}
		set("1.0.0", "", "web@n01:a", "web@n02:a")
		u.wait(time.Hour)
		_, first := has("n01")
		id := set("2.0.0", `{"waves": [{"count": 1}, {"percent": 100}]}`, "web@n01:b", "web@n02:a", "web@n03:b")
		u.wait(5 * time.Minute)
		if v, _ := u.w.live.Rollouts().Show(u.now, id); v.Nodes.All != 2 || v.Nodes.Soaking != 1 {
			t.Fatalf("%+v", v)
		}
		if !back {
			u.reach(id, rollout.Done)
			for node, want := range map[string]string{"n01": "2.0.0", "n02": "1.0.0", "n03": "2.0.0", "n04": ""} {
				if v, _ := has(node); v != want {
					t.Errorf("%s has %s", node, v)
				}
			}
			if st := u.w.live.State(wire.KindWorkloads); st.Version != "2.0.0" {
				t.Errorf("%+v", st)
			}
			u.w.check()
			continue
		}
		u.until(time.Hour, func() bool {
			v, _ := u.w.live.Rollouts().Show(u.now, id)
			return v.Nodes.Passed == 1 && v.Nodes.Soaking == 1
		})
		u.decide(rollout.Abort{ID: id, How: plan.TakeBack})
		u.reach(id, rollout.Aborted)
		if _, hash := has("n01"); hash != first {
			t.Errorf("n01 has another document than before")
		}
		if _, hash := has("n03"); hash != u.w.live.output(wire.KindWorkloads).Empty.Hash {
			t.Errorf("n03, which had nothing, has %s", hash)
		}
		if st := u.w.live.State(wire.KindWorkloads); st.Version != "1.0.0" {
			t.Errorf("%+v", st)
		}
		u.w.check()
	}
}

// How long nothing has happened on a node is progress: it is known, and not journaled.
func TestQuietIsNotJournaled(t *testing.T) {
	u := newRolloutUnit(t, 1)
	u.wait(time.Minute)
	n := u.nodes["n01"]
	before := len(u.w.journal)
	for range 5 {
		u.wait(time.Minute)
		n.seqs[wire.KindHealth]++
		u.report(n, wire.KindHealth)
		u.pump()
	}
	if len(u.w.journal) != before {
		t.Errorf("%d records", len(u.w.journal)-before)
	}
	if h := u.w.live.fact("n01").Health; h.Alerts < 5*time.Minute {
		t.Errorf("%+v", h)
	}
}
