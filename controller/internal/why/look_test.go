package why

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// night is when the nodes of these tests are looked at.
var night = time.Date(2026, 3, 1, 5, 30, 0, 0, time.UTC)

// sick are n nodes that are well, but for what change makes of each.
func sick(n int, change func(i int, f *NodeFact)) []NodeFact {
	all := make([]NodeFact, n)
	for i := range all {
		all[i] = NodeFact{Node: fmt.Sprintf("n%05d", i), Type: "press", State: "joined", Known: true, Online: true,
			Since: night.Add(-time.Hour), Health: view.HealthOK, Certificate: night.Add(80 * 24 * time.Hour)}
		change(i, &all[i])
	}
	return all
}

// facts are those of the nodes that matter: what is said of the others would be missing.
func facts(nodes []NodeFact) FleetFacts {
	matter := slices.DeleteFunc(slices.Clone(nodes), func(f NodeFact) bool { return !f.Matters(night) })
	return FleetFacts{Now: night, Nodes: func(yield func(*NodeFact) bool) {
		for i := range matter {
			if !yield(&matter[i]) {
				return
			}
		}
	}}
}

// looked are the sentences as lines: level, text, filter.
func looked(in FleetFacts) string {
	var all []string
	for _, s := range Look(in) {
		all = append(all, strings.TrimSuffix(string(s.Level)+" | "+s.Text+" | "+s.Filter, " | "))
	}
	return strings.Join(all, "\n")
}

// What is wrong is said in few sentences, with the nodes that it is about.
func TestLook(t *testing.T) {
	went := time.Date(2026, 3, 1, 2, 8, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		nodes  int
		change func(i int, f *NodeFact)
		want   string
	}{
		{"nothing", 100, func(int, *NodeFact) {}, ""},
		{"a site has lost its line", 10_000, func(i int, f *NodeFact) {
			switch {
			case i < 640:
				f.Online, f.Since = false, went.Add(time.Duration(i)*time.Second/10)
			case i < 700:
				f.Online, f.Since = false, went.Add(-time.Duration(i)*time.Hour)
			}
		}, "error | 700 nodes are offline, 640 of them since 02:08 UTC, all of type press | state:offline type:press"},
		{"one node is off", 10, func(i int, f *NodeFact) {
			if i == 3 {
				f.Online, f.Since, f.Type = false, night.Add(-50*time.Hour), ""
			}
		}, "error | n00003 is offline since 2026-02-27 03:30 UTC | name:n00003"},
		{"what an offline node told last says nothing", 10, func(i int, f *NodeFact) {
			f.Online, f.Since, f.InError, f.Alerts = false, went, wire.CodeStorage, []string{"cpu"}
		}, "error | 10 nodes are offline since 02:08 UTC, all of type press | state:offline type:press"},
		{"documents are refused", 30, func(i int, f *NodeFact) {
			switch {
			case i < 20:
				f.Refused = []RefusedDoc{{wire.KindConfig, wire.CodeNotSupported}}
			case i < 22:
				f.Refused = []RefusedDoc{{wire.KindConfig, wire.CodeApplyFailed}}
			}
		}, "error | 20 nodes did not take the newest document of config: not-supported (the receiver does not " +
			"know how to do this), all of type press | state:failed type:press\n" +
			"error | 2 nodes did not take the newest document of config: apply-failed (the node's apply command " +
			"failed), all of type press | name:n00020,n00021"},
		{"alerts, checks and workloads", 30, func(i int, f *NodeFact) {
			if i%2 == 0 {
				f.Alerts, f.Type = []string{"cpu", "partition:data"}[:1+i%4/2], []string{"press", "oven"}[i/15]
			}
			if i < 8 {
				f.Checks, f.Workloads = []string{"disk"}, 1+i%2
			}
		}, "error | 12 workload slots do not stay up, on 8 nodes, all of type press | state:unwell type:press\n" +
			"error | the check disk fails on 8 nodes, all of type press | health:check type:press\n" +
			"warning | an alert on cpu is raised on 15 nodes | alert:cpu\n" +
			`warning | an alert on partition:data is raised on 7 nodes | alert:"partition:data"`},
		{"trials", 30, func(i int, f *NodeFact) {
			f.Trial, f.TrialUntil, f.Approval = "1.5.0", night.Add(time.Duration(12+i)*time.Minute), i < 3
		}, "warning | version 1.5.0 is on trial on 30 nodes, rolled back in 12m unless it may stay; approval is " +
			"needed on 3 nodes, all of type press | health:trial type:press"},
		{"certificates, clocks and those who never came", 30, func(i int, f *NodeFact) {
			switch {
			case i < 2:
				f.Certificate = night.Add(time.Duration(i+3) * 24 * time.Hour)
			case i < 3:
				f.ClockOff, f.Health, f.HealthText = true, view.HealthError, "the clock is too far off"
			case i < 4:
				f.Known, f.Online = false, false
			case i < 5:
				f.State, f.Online = "revoked", false
			}
		}, "error | the clock is wrong on n00002, of type press | name:n00002\n" +
			"warning | the certificate of 2 nodes ends soon, the first in 3d, all of type press | " +
			"name:n00000,n00001\n" +
			"info | n00003 has never connected, of type press | name:n00003"},
	} {
		if got := looked(facts(sick(c.nodes, c.change))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// What is about the unit as a whole comes before what is about nodes.
func TestLookUnit(t *testing.T) {
	in := facts(sick(10, func(_ int, f *NodeFact) { f.InError = wire.CodeStorage }))
	in.Clock = &view.ClockJump{Since: night.Add(-time.Minute), Seconds: -3 * 24 * 3600}
	in.Broker = view.Broker{Address: "h:1", Error: "refused"}
	in.Trials = []TrialFact{{"configuration", "2.0.0", night.Add(5 * time.Minute)}}
	ended := view.Rollout{View: rollout.View{ID: "r0", Ended: night, Held: &rollout.Held{Reason: rollout.HeldPaused}}}
	in.Rollouts = []view.Rollout{ended,
		{View: rollout.View{ID: "r1", Held: &rollout.Held{Reason: rollout.HeldPaused, Cause: rollout.CauseBudget,
			Nodes: []string{"a", "b"}, Count: 2, Failures: []string{"late", "failed"}}}},
		{View: rollout.View{ID: "r2", Held: &rollout.Held{Reason: rollout.HeldSoak, Count: 5}}},
		{View: rollout.View{ID: "r3", Held: &rollout.Held{Reason: rollout.HeldSilent, Nodes: []string{"c"}, Count: 1}}}}
	want := "error | nothing is said to the nodes: the controller's clock has jumped by 3d, at 05:29 UTC; if it is " +
		"right: tandem clock confirm\n" +
		"error | the controller reaches no node: it has no session with the broker: refused\n" +
		"error | rollout r1 is paused, since more nodes have failed than may: a (late), b (failed); somebody has to " +
		"resume or abort it | name:a,b\n" +
		"error | 10 nodes are in error: storage (the disk refused a write, so nothing was accepted), all of type " +
		"press | state:unwell type:press\n" +
		"warning | the configuration 2.0.0 is on trial, for 5m more; then it is taken back, unless it is confirmed\n" +
		"warning | rollout r3 waits for what is offline: c | name:c"
	if got := looked(in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Of nodes that are well nothing is kept.
func TestWellMattersNot(t *testing.T) {
	for _, f := range sick(10, func(i int, f *NodeFact) {
		if i == 3 { // nothing is said of what was told away
			f.State, f.Online, f.Checks = "revoked", false, []string{"disk"}
		}
	}) {
		if f.Matters(night) {
			t.Errorf("%+v matters", f)
		}
	}
}

// However many causes there are, few sentences are said, and the errors are among them.
func TestLookIsShort(t *testing.T) {
	all := Look(facts(sick(10_000, func(i int, f *NodeFact) {
		f.Alerts, f.Type = []string{fmt.Sprint("p", i%50)}, fmt.Sprint("t", i%7)
		if i%10 == 0 {
			f.Checks = []string{fmt.Sprint("c", i%200)}
		}
		if i == 17 {
			f.InError = wire.CodeStorage
		}
	})))
	if len(all) != MaxLook || all[MaxLook-1].Text != "64 further things are to be looked at" {
		t.Errorf("%d sentences, the last is %+v", len(all), all[len(all)-1])
	}
	if !slices.IsSortedFunc(all, func(a, b view.Sentence) int { return urgency(a.Level) - urgency(b.Level) }) {
		t.Errorf("not by level: %+v", all)
	}
}

func BenchmarkLook(b *testing.B) {
	nodes := sick(10_000, func(i int, f *NodeFact) {
		if i < 700 {
			f.Online, f.Since = false, night.Add(-time.Duration(i)*time.Second)
		} else if i%3 == 0 {
			f.Alerts, f.Checks = []string{"cpu", "ram"}, []string{"disk"}
		}
	})
	b.ReportAllocs()
	in := facts(nodes)
	for b.Loop() {
		Look(in)
	}
}

// A rollout that somebody has paused is no error; as many things as are said at most are all said.
func TestLookSaysAll(t *testing.T) {
	in := facts(sick(MaxLook-1, func(i int, f *NodeFact) { f.Alerts = []string{fmt.Sprint("p", i)} }))
	in.Rollouts = []view.Rollout{{View: rollout.View{ID: "r1", Held: &rollout.Held{Reason: rollout.HeldPaused,
		Cause: rollout.CauseOrder, Who: "ann"}}}}
	const first = "warning | rollout r1 is paused by ann; somebody has to resume or abort it\n"
	if got := looked(in); !strings.HasPrefix(got, first) || strings.Contains(got, "further") {
		t.Error(got)
	}
}
