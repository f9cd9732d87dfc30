package policies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/shared/wire"
)

const inWaves = `{"waves":[{"percent":100}],"deadline":"PT2H"}`

// TestWaves: a policy that acts on nodes comes to them by its rollout, with the time in which they begin; one that does
// not any more ends what goes on.
func TestWaves(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	u.must(u.line("n1", "4"))
	doc := func(enabled bool, upgrade, plan string) string {
		text := fmt.Sprintf(`{"constraints":["line == 4"],"enabled":%v,"agentUpgradePolicy":%s`, enabled, upgrade)
		if plan != "" {
			text += `,"rollout":` + plan
		}
		return text + "}"
	}
	auto := `{"autoUpgrade":true,"duration":9}`
	later := `{"start":"2031-01-01T00:00:00Z","duration":3600}`
	start := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	u.must(u.apply("off", doc(false, later, inWaves)))
	u.must(u.apply("on", doc(true, later, inWaves)))
	u.must(u.apply("plain", doc(true, later, "")))
	is := func(name string, yes bool, upgrade, plan string) Change {
		return Change{Name: name, Document: []byte(doc(yes, upgrade, plan))}
	}
	for name, c := range map[string]struct {
		change       Change
		rolled, ends bool
		start        time.Time
		over         time.Duration
		because      string // it is refused
	}{
		"enabled":           {Change{Name: "off", Enabled: new(true)}, true, false, start, time.Hour, ""},
		"disabled":          {Change{Name: "on", Enabled: new(false)}, false, true, time.Time{}, 0, ""},
		"removed":           {Change{Name: "on", Removed: true}, false, true, time.Time{}, 0, ""},
		"edited, disabled":  {is("on", false, later, inWaves), false, true, time.Time{}, 0, ""},
		"edited":            {is("on", true, `{}`, inWaves), true, false, time.Time{}, 0, ""},
		"without a rollout": {is("on", true, `{}`, ""), false, false, time.Time{}, 0, ""},
		"the same":          {is("on", true, later, inWaves), false, false, start, 0, "nothing to roll out"},
		"the same, plain":   {is("plain", true, later, ""), false, false, start, time.Hour, ""},
		"automatic":         {is("on", true, auto, inWaves), true, false, time.Time{}, 0, ""},
	} {
		c0 := u.contents[wire.KindPolicies]
		if err := judge(c0, c.change); c.because != "" {
			u.refused(err, wire.CodeAlreadyExists, c.because)
			continue
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w := waves(c0, c.change)
		if (w.Plan != nil) != c.rolled || w.Ends != c.ends || !w.Start.Equal(c.start) || w.Over != c.over {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// TestStanding: a node is at an end with a policy when it says so of the very version that its document has; with one
// that its document does not have, when it says nothing of it.
func TestStanding(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	u.must(u.line("n1", "4"))
	u.must(u.apply("p", `{`+onPress+`}`)) // 2
	m := build(u.contents)
	of := func(node string, all ...wire.PolicyStatus) string {
		n := u.nodes[node]
		st := standing(m, kind.Facts{Node: node, Type: "press", Info: n.Info}, &wire.PoliciesReport{Policies: all}, "p")
		text := fmt.Sprint(st.Done, " ", st.Idle)
		if st.Error != nil {
			text += " " + string(st.Error.Code)
		}
		return text
	}
	slow, oom := wire.New(wire.CodeTimeout, "", "slow"), wire.New(wire.CodeStorage, "", "full")
	for state, want := range map[wire.PolicyState]string{
		wire.PolicyConflict: "true true", wire.PolicySuccessful: "true true", wire.PolicyNoAction: "true true",
		wire.PolicyWaiting: "false true", wire.PolicyDownloadFailed: "false true",
		wire.PolicyDownloading: "false false", wire.PolicyDownloaded: "false false",
		wire.PolicyInitiated:       "false false",
		wire.PolicyRollbackStarted: "false false", "of a newer agent": "false false",
		wire.PolicyPrecheckFailed: "false true timeout", wire.PolicyFailed: "false true timeout",
		wire.PolicyRollbackSucceeded: "false true timeout",
	} {
		st := wire.PolicyStatus{Name: "p", Rev: 2, State: state, Error: slow}
		if got := of("n1", wire.PolicyStatus{Name: "q"}, st); got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
	done := wire.PolicyStatus{Name: "p", Rev: 1, State: wire.PolicySuccessful}
	for what, c := range map[string]struct{ got, want string }{
		"another version":        {of("n1", done), "false false"},
		"nothing yet":            {of("n1"), "false false"},
		"not hit, and silent":    {of("n2"), "true true"},
		"not hit, and says more": {of("n2", done), "false false"},
		"in the way of going back": {of("n1", wire.PolicyStatus{Name: "p", Rev: 2, State: wire.PolicyRollbackFailed,
			Error: slow, Rollback: oom}), "false true storage"},
		"without a reason": {of("n1", wire.PolicyStatus{Name: "p", Rev: 2, State: wire.PolicyFailed}),
			"false true apply-failed"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", what, c.got, c.want)
		}
	}
	if st := standing(nil, kind.Facts{}, nil, "p"); st != (kind.Standing{}) {
		t.Errorf("%+v", st)
	}
}

// TestWholeWindow: the document says of a policy in waves that its window is whole for whoever gets it.
func TestWholeWindow(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	u.must(u.line("n1", "4"))
	for plan, want := range map[string]bool{"": false, `,"rollout":` + inWaves: true} {
		u.must(u.apply("p", `{"constraints":["line == 4"],"enabled":true,"agentUpgradePolicy":{}`+plan+`}`))
		b := build(u.contents).For(kind.Facts{Node: "n1", Type: "press", Info: u.nodes["n1"].Info})
		doc, err := wire.Decode[wire.Policies](b.Bytes)
		if err != nil || doc.Policies[0].Agent.Whole != want {
			t.Errorf("%s, %v", b.Bytes, err)
		}
	}
}

// TestHistoryOfARollout: what an aborted rollout brought is not what the policy is, nor what one goes back to.
func TestHistoryOfARollout(t *testing.T) {
	doc := func(version string) Change {
		text := `{` + onPress + `,"agentUpgradePolicy":{"atLeastVersion":"` + version + `"}}`
		return Change{Name: "p", Document: []byte(text)}
	}
	rolled := func(version, id string) Change {
		d, _ := doc(version).ByRollout(id).(Change)
		return d
	}
	version := func(text string) string {
		_, text, _ = strings.Cut(text, `"atLeastVersion":"`)
		text, _, _ = strings.Cut(text, `"`)
		return text
	}
	for want, ends := range map[string]rollout.Phase{
		"now 1.1.0, back -": rollout.Aborted, "now 1.2.0, back 1.1.0": rollout.Done,
	} {
		past := func(want uint64) *Past {
			p := &Past{Name: "p", Want: want}
			p.Add(kind.Change{Seq: 1}, doc("1.1.0"))
			p.Add(kind.Change{Seq: 3}, rolled("1.2.0", "r3"))
			p.Ended(kind.Change{Seq: 6}, "r2", rollout.Aborted) // of another policy
			p.Ended(kind.Change{Seq: 7, Who: "ann"}, "r3", ends)
			return p
		}
		p, back := past(0), "-"
		if d, err := p.Back(false); err == nil {
			back = version(string(d.Document))
		}
		if got := fmt.Sprintf("now %s, back %s", version(string(p.now.Document)), back); got != want {
			t.Errorf("%s: %s, want %s", ends, got, want)
		}
		last, aborted := p.Versions[len(p.Versions)-1], ends == rollout.Aborted
		if aborted != (last.State == "aborted" && last.Who == "ann" && last.Enabled && last.Rev == 7) ||
			aborted != (past(7).wanted != nil) {
			t.Errorf("%s: %+v", ends, last)
		}
	}
}

// TestStatusInWaves: of a policy that is rolled out it is told which nodes it has not reached, or is taken back from;
// of others, what counts on each node.
func TestStatusInWaves(t *testing.T) {
	u := newUnit(t, "n1", "n2", "n3")
	u.must(u.line("n1", "4"))
	u.must(u.line("n2", "4"))
	second := `{"constraints":["line == 4"],"enabled":true,"agentUpgradePolicy":{"atLeastVersion":"1.2.0"}}`
	u.must(u.apply("second", second)) // 3
	next := apply(u.contents[wire.KindPolicies], kind.Change{Seq: 4, At: at},
		Change{Name: "p", Document: []byte(strings.Replace(second, "1.2.0", "1.3.0", 1))})
	next.(*Collection).List["p"].Since = 1 // it is ahead of the other
	u.rolled = &kind.Rolled{Content: next, Has: func(node string) bool { return node == "n1" }}
	u.rolled.ID, u.rolled.Element = "r4", "p"
	is := func(name, want string) {
		t.Helper()
		v, err := Status(u, name, "", 9)
		u.must(err)
		got := v.Rollout
		for _, n := range v.Nodes {
			got += fmt.Sprint(", ", n.Node, " ", n.State)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	is("p", "r4, n2 queued, n1 unknown")
	is("second", ", n1 conflict, n2 unknown")
	for node, want := range map[string]string{"n1": "false false p", "n2": "true false ", "n3": "true false "} {
		v, err := Judge(u, "p", node)
		u.must(err)
		if got := fmt.Sprintf("%v %v %s", v.Queued, v.Back, v.Winner.Name); got != want || v.Policy.Rollout != "r4" {
			t.Errorf("%s: %s, want %s", node, got, want)
		}
	}
	v, err := Judge(u, "second", "n2")
	u.must(err)
	if v.Place.Conflict || v.Policy.Rollout != "" {
		t.Errorf("%+v", v)
	}
	u.rolled.Back = true
	is("p", "r4, n2 taken-back, n1 unknown")
	if v, _ := Judge(u, "p", "n2"); !v.Back {
		t.Errorf("%+v", v)
	}
}
