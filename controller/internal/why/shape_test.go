package why

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// fails reports what is wrong with the shape of a Why; "": nothing.
func fails(v view.Why) string {
	switch {
	case v.About.Kind == "" || v.State == "":
		return fmt.Sprintf("about %+v, state %q", v.About, v.State)
	case len(v.Sentences) == 0:
		return "no sentence"
	}
	for _, s := range v.Sentences {
		if s.Text == "" || s.Source == "" || s.Changes == "" || urgency(s.Level) < 0 {
			return fmt.Sprintf("a sentence lacks something: %+v", s)
		}
	}
	return ""
}

func byLevel(v view.Why) bool {
	return slices.IsSortedFunc(v.Sentences, func(a, b view.Because) int { return urgency(a.Level) - urgency(b.Level) })
}

var (
	states = []wire.State{wire.StateReceived, wire.StateRejected, wire.StateApplying, wire.StateTrying,
		wire.StateInstalled, wire.StateFailed, wire.StateRolledBack, wire.StateSuperseded}
	broken = wire.New(wire.CodeApplyFailed, "", "exit status 1")
)

// documents are all that a node may tell of a document, against all that it should have.
func documents(each func(name string, d view.Document)) {
	doc := func(rev uint64, hash string) *wire.DocRef {
		return &wire.DocRef{Epoch: 1, Rev: rev, Version: fmt.Sprint("1.0.", rev), Hash: hash}
	}
	for _, mode := range []wire.Mode{"", wire.ModeApply, wire.ModeTry} {
		for _, running := range []*wire.DocRef{nil, doc(6, "a"), doc(7, "b"), doc(7, "c")} {
			for _, state := range append([]wire.State{""}, states...) {
				for _, rev := range []uint64{6, 7} {
					for _, err := range []*wire.Error{nil, broken, wire.New(wire.CodeDrift, "", "edited")} {
						k := kind.Document{Running: running, At: now}
						if mode != "" {
							k.Desired = &kind.Doc{DocRef: *doc(7, "b"), Mode: mode, Issued: now}
						}
						if state != "" {
							k.Last = &wire.Attempt{Epoch: 1, Rev: rev, Version: "1.0.7", Hash: "b", State: state,
								Error: err, At: now}
						}
						each(fmt.Sprintf("%s, runs %v, %s %d %v", mode, running, state, rev, err), k.View())
					}
				}
			}
		}
	}
}

// Whatever a node tells of a document, why says at least one thing, where it is known from and what would change it;
// and the first is bad if, and only if, the node does not run what it should.
func TestEveryDocument(t *testing.T) {
	seen := map[string]bool{}
	documents(func(name string, d view.Document) {
		for _, online := range []bool{true, false} {
			for _, unheard := range []bool{false, true} {
				one := d
				if unheard {
					one.Error, one.InSync = wire.New(wire.CodeNoAnswer, "", "it does not arrive"), false
				}
				v := Document(DocumentFacts{Now: now, Known: true, Kind: wire.KindConfig, Doc: one, Rollout: "r1",
					Node: view.Node{Node: "n", Online: online, Since: now}})
				seen[v.State] = true
				if why := fails(v); why != "" || !byLevel(v) {
					t.Fatalf("%s, online %v: %s %+v", name, online, why, v)
				}
				good := v.State == InForce || v.State == NoDocument
				if first := v.Sentences[0].Level; good != one.InSync && v.State != OnTrial && v.State != NotWished {
					t.Errorf("%s, online %v: it is %v that it is in step, and the first is %s: %s", name, online,
						one.InSync, first, v.Sentences[0].Text)
				}
			}
		}
	})
	for _, state := range []string{InForce, OnTrial, NoDocument, NotWished, Contradict, Withheld, Drifted, Awaited,
		Offline, "rejected", "failed", "rolledback", "superseded", "received", "applying"} {
		if !seen[state] {
			t.Errorf("no document is %s", state)
		}
	}
}

// Whoever has never connected, or is revoked, is told of so.
func TestNodesThatAreNotThere(t *testing.T) {
	for want, id := range map[string]*view.Identity{
		"n was revoked by ann, and gets nothing any more": {State: "revoked", RevokedBy: "ann", Revoked: now},
		"n was revoked by the controller, because its file revoked.txt has it, and gets nothing any more": {
			State: "revoked", RevokedBy: "revoked.txt", Revoked: now},
		"n may join, and has not yet":          {State: "enrolled"},
		"n has joined, and was never heard of": {State: "joined", Joined: now},
		"n was never heard of":                 nil,
	} {
		n := view.Node{Node: "n", Identity: id}
		for _, v := range []view.Why{
			Node(NodeFacts{Now: now, Node: n}),
			Document(DocumentFacts{Now: now, Node: n, Kind: wire.KindConfig}),
		} {
			first := v.Sentences[0]
			if why := fails(v); why != "" || first.Text != want {
				t.Errorf("%s %s; want %s", why, first.Text, want)
			}
			if !first.At.IsZero() && strings.Contains(first.Source, "ever come") {
				t.Errorf("%s: by %s, at %v", want, first.Source, first.At)
			}
		}
	}
}

// Whatever a node is, why says so, the worst first; and it is in step only with nothing wrong.
func TestEveryNode(t *testing.T) {
	var all []view.Document
	documents(func(_ string, d view.Document) { all = append(all, d) })
	rapid.Check(t, func(t *rapid.T) {
		f := drawn(t, all)
		v := Node(f)
		if why := fails(v); why != "" || !byLevel(v) {
			t.Fatalf("%s: %+v", why, v)
		}
		switch first := v.Sentences[0].Level; {
		case v.State == NodeInStep && first != view.LevelInfo, v.State != NodeInStep && first == view.LevelInfo:
			t.Fatalf("%s, and the first sentence is: %+v", v.State, v.Sentences[0])
		case v.State == Offline == f.Node.Online:
			t.Fatalf("online %v: %s", f.Node.Online, v.State)
		}
	})
}

// drawn is a node that has connected, with any of the documents.
func drawn(t *rapid.T, all []view.Document) NodeFacts {
	yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
	f := NodeFacts{Now: now, Known: true, Node: view.Node{Node: "n", Online: yes("online"), Since: now.Add(-time.Hour),
		FirstSeen: now, Documents: map[wire.Kind]view.Document{}}}
	for _, name := range []wire.Kind{wire.KindConfig, wire.KindHealth} {
		if yes("has a document") {
			f.Node.Documents[name] = rapid.SampledFrom(all).Draw(t, "document")
		}
	}
	if yes("in error") {
		f.Node.Info = &wire.NodeInfo{Error: broken}
	}
	if yes("alert") {
		f.Node.Raised = []view.Alert{{Tag: "ram", Parameter: "ram", Value: 0.97, Max: 0.9, Min: 0.8, Since: now}}
	}
	if yes("joined") {
		end := rapid.SampledFrom([]time.Duration{-time.Hour, time.Hour, 80 * 24 * time.Hour}).Draw(t, "end")
		f.Node.Identity = &view.Identity{State: "joined", Expires: now.Add(end)}
	}
	if yes("told of its health") {
		f.Report = &wire.Health{Indicator: rapid.SampledFrom([]wire.Indicator{4, 10, 13, 15}).Draw(t, "indicator"),
			Text: "text", Contact: wire.HealthContact{In: yes("contact")},
			Checks: []wire.HealthCheck{{Name: "disk", OK: yes("check"), Message: "full"}}}
		if yes("trial") {
			f.Report.Trial = &wire.HealthTrial{Slot: "b", Version: "2.0.0", Approval: wire.ApprovalNeeded,
				WaitsFor: []wire.HealthWait{{Code: wire.WaitApproval, Text: "approval"}}}
		}
		if yes("restart") {
			f.Report.Restart = &wire.HealthRestart{Reason: wire.BootReboot, At: now}
		}
		if yes("quarantine") {
			f.Report.Quarantine = []wire.HealthFailed{{Version: "1.9.0", Text: "three starts", At: now}}
		}
	}
	if yes("slots") {
		f.Node.Slots = []view.Slot{{Slot: "web@n", Node: "n", Settled: yes("settled"), Desired: "c",
			State: view.SlotWaiting, Online: f.Node.Online}}
	}
	return f
}

// Every reason of a slot, state of a policy and reason of a rollout has its level, source and what would change it.
func TestEveryReasonHasItsBasis(t *testing.T) {
	for _, c := range reasons {
		f := sound()
		c.change(&f)
		v := Slot(f)
		if why := fails(v.Why); why != "" || v.Sentences[0].Text != v.Answer || v.Why.State != v.Reason {
			t.Errorf("%s: %s %+v", c.name, why, v.Why)
		}
	}
	source, err := os.ReadFile("../../../shared/wire/policies.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`PolicyState = "(.+?)"`).FindAllStringSubmatch(string(source), -1)
	for _, m := range found {
		if _, there := policyTold[wire.PolicyState(m[1])]; !there {
			t.Errorf("the state %s of a policy has no basis", m[1])
		}
	}
	if len(found) != len(policyTold) {
		t.Errorf("%d states of policies, %d bases", len(found), len(policyTold))
	}
	for _, r := range []rollout.Reason{rollout.HeldPaused, rollout.HeldClaim, rollout.HeldWindow,
		rollout.HeldUnavailable, rollout.HeldSilent, rollout.HeldApplying, rollout.HeldSoak, rollout.HeldNoData} {
		v := RolloutWhy(now, &view.RolloutDetail{Rollout: view.Rollout{View: rollout.View{ID: "r1",
			Phase: rollout.Running, Held: &rollout.Held{Reason: r}}, Why: "r1 waits"}})
		if why := fails(v); why != "" {
			t.Errorf("held by %s: %s", r, why)
		}
	}
}

// What is still to come is rounded here as beside it, where its time stands.
func TestCertificateEndsWhenItIsShown(t *testing.T) {
	left := 90*24*time.Hour - time.Second
	id := &view.Identity{State: "joined", Joined: now, Expires: now.Add(left)}
	want := "its certificate ends in " + phrase.Ahead(left)
	v := Node(NodeFacts{Now: now, Known: true, Node: view.Node{Node: "n", Online: true, FirstSeen: now, Identity: id}})
	if !slices.ContainsFunc(v.Sentences, func(s view.Because) bool { return s.Text == want }) {
		t.Errorf("%+v, want %s", v.Sentences, want)
	}
}

// While the controller has no session with its broker nobody blames a node: that nothing is known is said first.
func TestWithoutASessionNoNodeIsBlamed(t *testing.T) {
	road := view.Broker{Address: "b:1883", Since: now, Error: "nothing listens there"}
	want := "the controller reaches no node: it has no session with the broker: nothing listens there"
	d := view.Document{Desired: &view.Desired{DocRef: wire.DocRef{Epoch: 1, Rev: 7, Version: "2.0.0"}, Issued: now}}
	n := view.Node{Node: "n", FirstSeen: now, Since: now, Documents: map[wire.Kind]view.Document{wire.KindConfig: d}}
	for _, road.Up = range []bool{false, true} {
		for _, v := range []view.Why{
			Node(NodeFacts{Now: now, Known: true, Node: n, Broker: road}),
			Document(DocumentFacts{Now: now, Known: true, Node: n, Kind: wire.KindConfig, Doc: d, Broker: road}),
			Slot(Facts{Now: now, Known: true, Node: n, Doc: d, Broker: road,
				Slot: view.Slot{Slot: "web@n", Node: "n", Desired: "web-1"}}).Why,
		} {
			first, blamed, times := v.Sentences[0].Text == want, false, 0
			for _, s := range v.Sentences {
				blamed = blamed || strings.Contains(s.Changes, "its power") ||
					strings.Contains(s.Text, "in force: it is offline")
				if s.Text == want {
					times++
				}
			}
			if why := fails(v); why != "" || v.State != Offline || first == road.Up || blamed && !road.Up || times > 1 {
				t.Errorf("%v, session %v: %s %+v", v.About, road.Up, why, v.Sentences)
			}
		}
	}
}
