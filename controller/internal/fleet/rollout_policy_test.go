package fleet

import (
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

const everyNode = "tandem.type == mainType"

// policyBegun is a unit of six nodes that all have the policy line in the version 1.1.0.
func policyBegun(u *rolloutUnit) {
	u.policies = true
	for _, name := range u.names() {
		u.sayAll(u.nodes[name])
	}
	u.pump()
	u.change(record.PolicyData{Name: "line", Document: []byte(policyDocument(everyNode, "1.1.0", ""))})
	u.wait(time.Hour)
	u.wantTold("line", "successful 1.1.0: 6")
}

// rollLine begins to roll the policy line out.
func (u *rolloutUnit) rollLine(version, plan string) string {
	u.Helper()
	return u.change(record.PolicyData{Name: "line", Document: []byte(policyDocument(everyNode, version, plan))})
}

// half lets a rollout go on until three nodes have said that they are done with a version of a policy.
func (u *rolloutUnit) halfOf(name, version string) {
	u.Helper()
	done := "successful " + version + ": 3"
	if !u.until(100*time.Hour, func() bool { return strings.Contains(u.told(name), done) }) {
		u.Fatalf("%s is never half done: %s", name, u.told(name))
	}
}

// united reports whether all nodes should have the same of the policies again.
func (u *rolloutUnit) united() {
	u.Helper()
	s := u.w.live.source(wire.KindPolicies)
	if s.split || len(s.versions)+len(s.contents) > 0 || s.State.Rollout != nil || s.Hash != "" {
		u.Fatalf("nodes have different policies: %+v", s.versions)
	}
}

// policyStories end as told, whenever the controller is killed.
var policyStories = map[string]func(u *rolloutUnit){
	"an edit, all well": func(u *rolloutUnit) {
		id := u.rollLine("2.0.0", threeWaves)
		u.reach(id, rollout.Done)
		u.wait(time.Hour)
		u.wantTold("line", "successful 2.0.0: 6")
		u.united()
	},
	"a policy that was not there": func(u *rolloutUnit) {
		id := u.change(record.PolicyData{Name: "second",
			Document: []byte(policyDocument(everyNode, "1.1.0", threeWaves))})
		u.halfOf("second", "1.1.0")
		u.decide(rollout.Abort{ID: id, How: plan.TakeBack})
		u.reach(id, rollout.Aborted)
		u.wantTold("second", "")
		u.wantTold("line", "successful 1.1.0: 6")
		u.united()
	},
	"enabled": func(u *rolloutUnit) {
		doc := strings.Replace(policyDocument("line == 4", "2.0.0", threeWaves), "true", "false", 1)
		u.change(record.PolicyData{Name: "line", Removed: true})
		u.change(record.PolicyData{Name: "second", Document: []byte(doc)})
		for _, node := range []string{"n01", "n02", "n03"} {
			u.set(node, "line", "4")
		}
		u.wait(time.Hour)
		u.wantTold("second", "")
		id := u.change(record.PolicyData{Name: "second", Enabled: new(true)})
		u.reach(id, rollout.Done)
		u.wantTold("second", "successful 2.0.0: 3")
		u.united()
	},
	"a bad version stops at the canary": func(u *rolloutUnit) {
		for _, n := range u.nodes {
			n.does = fails
		}
		id := u.rollLine("2.0.0", threeWaves)
		u.reach(id, rollout.Paused)
		u.wait(48 * time.Hour)
		h := u.w.live.Rollouts().Why(u.now, id)
		if h == nil || !strings.Contains(strings.Join(h.Failures, ""), "three starts") {
			u.Fatalf("%+v", h)
		}
		u.wantTold("line", "rollback-successful 2.0.0: 1, successful 1.1.0: 5")
		u.decide(rollout.Abort{ID: id, How: plan.TakeBack})
		u.reach(id, rollout.Aborted)
		u.wait(time.Hour)
		u.wantTold("line", "successful 1.1.0: 6")
		u.united()
	},
	"left, and changed for all": func(u *rolloutUnit) {
		id := u.rollLine("2.0.0", threeWaves)
		u.halfOf("line", "2.0.0")
		u.decide(rollout.Abort{ID: id, How: plan.Leave})
		u.wait(time.Hour)
		u.wantTold("line", "successful 1.1.0: 3, successful 2.0.0: 3")
		if _, err := u.tryChange(record.PolicyData{Name: "other",
			Document: []byte(policyDocument(everyNode, "1.2.0", threeWaves))}); err == nil ||
			!strings.Contains(err.Error(), "different versions of policy line") {
			u.Fatalf("another one is rolled out: %v", err)
		}
		u.rollLine("1.2.0", "")
		u.wait(time.Hour)
		u.wantTold("line", "successful 1.2.0: 6")
		u.united()
	},
	"left, and rolled out again": func(u *rolloutUnit) {
		id := u.rollLine("2.0.0", threeWaves)
		u.halfOf("line", "2.0.0")
		u.decide(rollout.Abort{ID: id, How: plan.Leave})
		u.wait(time.Hour)
		again := u.rollLine("3.0.0", threeWaves)
		u.halfOf("line", "3.0.0")
		u.decide(rollout.Abort{ID: again, How: plan.TakeBack})
		u.reach(again, rollout.Aborted)
		u.wait(time.Hour)
		u.wantTold("line", "successful 1.1.0: 3, successful 2.0.0: 3")
	},
	"another policy is changed meanwhile": func(u *rolloutUnit) {
		id := u.rollLine("2.0.0", threeWaves)
		u.halfOf("line", "2.0.0")
		u.decide(rollout.Pause{ID: id})
		u.change(record.PolicyData{Name: "second", Document: []byte(policyDocument(everyNode, "1.2.0", ""))})
		u.wait(time.Hour)
		u.wantTold("second", "conflict: 6")
		u.wantTold("line", "successful 1.1.0: 3, successful 2.0.0: 3")
		u.change(record.PolicyData{Name: "second", Removed: true})
		u.decide(rollout.Resume{ID: id})
		u.reach(id, rollout.Done)
		u.wantTold("line", "successful 2.0.0: 6")
		u.wantTold("second", "")
		u.united()
	},
	"disabled while it goes on": func(u *rolloutUnit) {
		id := u.rollLine("2.0.0", threeWaves)
		u.halfOf("line", "2.0.0")
		u.change(record.PolicyData{Name: "line", Enabled: new(false)})
		u.wait(time.Hour)
		u.wantTold("line", "")
		u.united()
		if p := u.phase(id); p != rollout.Aborted || u.w.live.Rollouts().Going() {
			u.Fatalf("its rollout is %s, and may have nodes in flight", p)
		}
	},
	"hit by a property later": func(u *rolloutUnit) {
		doc := policyDocument("line == 4", "2.0.0", threeWaves)
		u.change(record.PolicyData{Name: "line", Removed: true})
		for _, node := range []string{"n01", "n02", "n03"} {
			u.set(node, "line", "4")
		}
		id := u.change(record.PolicyData{Name: "second", Document: []byte(doc)})
		u.until(100*time.Hour, func() bool { return u.told("second") == "successful 2.0.0: 1" })
		u.set("n05", "line", "4")
		u.wait(time.Minute)
		if status, _ := u.w.live.Rollouts().Status(id, "n05"); status == "" {
			u.Fatal("the node is not in the rollout")
		}
		u.reach(id, rollout.Done)
		u.wait(time.Hour)
		u.wantTold("second", "successful 2.0.0: 4")
		u.united()
	},
	"taken back to what had failed": func(u *rolloutUnit) {
		does := func(what conduct) {
			for _, n := range u.nodes {
				n.does = what
			}
		}
		does(fails)
		u.rollLine("2.0.0", "")
		u.wait(time.Hour)
		u.wantTold("line", "rollback-successful 2.0.0: 6")
		does(obeys)
		id := u.rollLine("3.0.0", threeWaves)
		u.halfOf("line", "3.0.0")
		does(fails)
		u.decide(rollout.Abort{ID: id, How: plan.TakeBack})
		u.reach(id, rollout.Aborted)
		u.wait(time.Hour)
		u.wantTold("line", "rollback-successful 2.0.0: 6")
		u.united()
	},
	"one that was away": func(u *rolloutUnit) {
		away := u.nodes["n03"]
		u.leave(away)
		u.pump()
		id := u.rollLine("2.0.0", `{"waves": [{"percent": 100}], "absentAfter": "P1D"}`)
		u.reach(id, rollout.Done)
		u.wantTold("line", "successful 1.1.0: 1, successful 2.0.0: 5")
		u.connect(away)
		u.wait(time.Hour)
		u.wantTold("line", "successful 2.0.0: 6")
		u.united()
	},
}

// What would give nodes a policy that cannot pass, or two rollouts at a time, is refused with the reason; what is tried
// only is judged alike.
func TestPolicyRolloutsThatAreRefused(t *testing.T) {
	u := newRolloutUnit(t, 6)
	policyBegun(u)
	refused := func(d record.PolicyData, code wire.Code, path, because string) {
		t.Helper()
		d.AllNodes = true
		_, err := u.tryChange(d)
		tried := u.w.live.Against(wire.KindPolicies, d, u.now)
		if err == nil || tried == nil || err.Error() != tried.Error() {
			t.Errorf("%v, tried %v; want %s", err, tried, because)
		} else if tried.Code != code || tried.Path != path || !strings.Contains(tried.Message, because) {
			t.Errorf("%v at %q, want %s at %q: %s", tried, tried.Path, code, path, because)
		}
	}
	with := func(upgrade, more string) []byte {
		return []byte(`{"enabled":true,"constraints":["` + everyNode + `"],"agentUpgradePolicy":{` + upgrade +
			`},"rollout":{"waves":[{"percent":100}]` + more + `}}`)
	}
	soon := u.now.Add(15 * time.Minute).Format(time.RFC3339)
	refused(record.PolicyData{Name: "p", Document: with(`"start":"`+soon+`","duration":300`, "")}, wire.CodeBadValue,
		"/rollout/deadline", "the deadline PT30M is too short")
	const onMars = `,"windows":[{"cron":"0 2 * * *","zone":"Mars/Base","duration":"PT1H"}]`
	refused(record.PolicyData{Name: "p", Document: with("", onMars)}, wire.CodeBadValue, "/rollout/windows",
		"Mars/Base")
	if id, err := u.tryChange(record.PolicyData{Name: "p",
		Document: with(`"start":"`+soon+`","duration":299`, "")}); err != nil {
		t.Errorf("%s, %v", id, err)
	}
	u.change(record.PolicyData{Name: "p", Removed: true})
	id := u.rollLine("2.0.0", threeWaves)
	edit := record.PolicyData{Name: "line", Document: with(`"atLeastVersion":"3.0.0"`, "")}
	refused(edit, wire.CodeWrongState, "", "the rollout "+id+" of policy line goes on")
	edit.Document = []byte(policyDocument(everyNode, "3.0.0", ""))
	refused(edit, wire.CodeWrongState, "", id)
	refused(record.PolicyData{Name: "line", Enabled: new(true)}, wire.CodeWrongState, "", "enabled already")
	refused(record.PolicyData{Name: "other", Document: with("", "")}, wire.CodeWrongState, "/rollout",
		"the rollout "+id+" of policy line goes on")
	u.change(record.PolicyData{Name: "line", Removed: true})
	u.united()
	u.change(record.PolicyData{Name: "other", Document: with("", "")})
}

// A rollout of the unit configuration and one of a policy go on beside each other: a node has one of both in flight.
func TestPolicyBesideAConfiguration(t *testing.T) {
	u := newRolloutUnit(t, 6)
	u.apply("1.0.0", "")
	policyBegun(u)
	const all = `{"waves": [{"percent": 100}], "maxUnavailable": {"count": 2}, "deadline": "PT2H"}`
	config, line := u.apply("2.0.0", all), u.rollLine("2.0.0", all)
	u.watch = func() {
		for _, name := range u.names() {
			a, _ := u.w.live.Rollouts().Status(config, name)
			b, _ := u.w.live.Rollouts().Status(line, name)
			if a == rollout.Issued && b == rollout.Issued {
				t.Fatalf("%s has both in flight", name)
			}
		}
	}
	u.reach(config, rollout.Done)
	u.reach(line, rollout.Done)
	u.wantTold("line", "successful 2.0.0: 6")
	u.wantRunning("2.0.0", 6, 6)
}

// A checkpoint taken at any time while a policy goes in waves says the same as the journal.
func TestPoliciesInCheckpoints(t *testing.T) {
	u := newRolloutUnit(t, 6)
	policyBegun(u)
	checked := 0
	u.watch = func() {
		if len(u.w.journal)%5 == 0 {
			u.w.check()
			checked++
		}
	}
	id := u.rollLine("2.0.0", threeWaves)
	u.halfOf("line", "2.0.0")
	u.change(record.PolicyData{Name: "other", Document: []byte(policyDocument(everyNode, "1.2.0", ""))})
	u.wait(5 * time.Minute)
	u.decide(rollout.Abort{ID: id, How: plan.Leave})
	u.wait(time.Hour)
	again := u.rollLine("3.0.0", threeWaves)
	u.halfOf("line", "3.0.0")
	u.restore, u.from = u.w.live.Checkpoint(), len(u.w.journal)
	u.restart()
	u.reach(again, rollout.Done)
	u.wait(time.Hour)
	u.wantTold("line", "successful 3.0.0: 6")
	u.united()
	if checked < 10 {
		t.Errorf("checked %d times", checked)
	}
}
