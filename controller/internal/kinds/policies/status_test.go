package policies

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// TestStatus: nodes that are not done come first, and each is counted once.
func TestStatus(t *testing.T) {
	u := newUnit(t, "n1", "n2", "n3", "n4", "n5")
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		u.must(u.line(name, "4"))
	}
	u.must(u.apply("p", `{`+onPress+`}`))
	for name, state := range map[string]wire.PolicyState{"n1": wire.PolicySuccessful,
		"n2": wire.PolicyRollbackSucceeded, "n3": wire.PolicyWaiting} {
		n := u.nodes[name]
		n.Detail = &wire.PoliciesReport{Policies: []wire.PolicyStatus{{Name: "p", Rev: 5, State: state}}}
		u.nodes[name] = n
	}
	v, err := Status(u, "p", "", 3)
	u.must(err)
	var got []string
	for _, n := range v.Nodes {
		got = append(got, n.Node+" "+string(n.State))
	}
	if text := strings.Join(got, ","); text != "n2 rollback-successful,n4 unknown,n3 waiting" || v.Omitted != 1 {
		t.Errorf("%s, %d omitted", text, v.Omitted)
	}
	if got := fmt.Sprint(v.States); got != "[{rollback-successful 1} {unknown 1} {waiting 1} {successful 1}]" {
		t.Error(got)
	}
	if l := List(u); len(l.Policies) != 1 || l.Policies[0].Matching != 4 {
		t.Errorf("%+v", l)
	}
	_, err = Status(u, "p", "n5", 3)
	u.refused(err, wire.CodeNotFound, "does not hit")
}

// TestStatusOfConflict: who decides is the controller's to say: the loser is in conflict with the winner's name also
// on a node that has said nothing of it, or that knows it otherwise; what a node says of an earlier version of a
// policy, or of a conflict that is none any more, counts as nothing.
func TestStatusOfConflict(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	u.must(u.line("n1", "4"))
	doc := func(version string) string {
		return `{` + onPress + `,"agentUpgradePolicy":{"atLeastVersion":"` + version + `"}}`
	}
	says := func(all ...wire.PolicyStatus) {
		n := u.nodes["n1"]
		n.Detail = &wire.PoliciesReport{Policies: all}
		u.nodes["n1"] = n
	}
	is := func(name, want string) {
		t.Helper()
		v, err := Status(u, name, "n1", 1)
		u.must(err)
		got := string(v.Nodes[0].State)
		if by := v.Nodes[0].DecidedBy; by != "" {
			got += " behind " + by
		}
		counted := fmt.Sprintf("[{%s 1}]", v.Nodes[0].State)
		if got != want || v.Enabled && fmt.Sprint(v.States) != counted {
			t.Errorf("%s is %s, want %s; %v", name, got, want, v.States)
		}
		if why, err := Judge(u, name, "n1"); err != nil || why.Place.Conflict != strings.HasPrefix(want, "conflict") {
			t.Errorf("%s: %+v %v", name, why.Place, err)
		}
	}
	u.must(u.apply("z", doc("1.1.0"))) // 2
	u.must(u.apply("m", doc("1.1.0"))) // 3: it wants the same
	u.must(u.apply("a", doc("1.2.0"))) // 4
	is("z", "unknown")
	is("m", "unknown")
	is("a", "conflict behind z")
	says(wire.PolicyStatus{Name: "z", Rev: 2, State: wire.PolicyWaiting},
		wire.PolicyStatus{Name: "m", Rev: 3, State: wire.PolicyWaiting, DecidedBy: "z"},
		wire.PolicyStatus{Name: "a", Rev: 4, State: wire.PolicySuccessful})
	is("z", "waiting")
	is("m", "waiting behind z")
	is("a", "conflict behind z")
	says(wire.PolicyStatus{Name: "z", Rev: 1, State: wire.PolicySuccessful},
		wire.PolicyStatus{Name: "a", Rev: 4, State: wire.PolicyConflict, DecidedBy: "z"})
	is("z", "unknown")
	is("a", "conflict behind z")
	u.must(u.change(wire.KindPolicies, Change{Name: "z", Enabled: new(false)}))
	is("a", "conflict behind m")
	is("z", "unknown")
	u.must(u.change(wire.KindPolicies, Change{Name: "m", Removed: true}))
	is("a", "unknown")
	u.must(u.change(wire.KindPolicies, Change{Name: "z", Enabled: new(true)}))
	is("z", "conflict behind a")
}

// TestBodiesAreShared: nodes of one architecture that are hit by the same policies get one body; of another one, the
// builds for that.
func TestBodiesAreShared(t *testing.T) {
	u := newUnit(t, "n1", "n2", "n3", "n4")
	for _, name := range []string{"n1", "n2", "n3"} {
		u.must(u.line(name, "4"))
	}
	n := u.nodes["n3"]
	n.Info = new(*n.Info)
	n.Info.Arch = "arm64"
	u.nodes["n3"] = n
	u.must(u.apply("p", `{`+onPress+`,"agentUpgradePolicy":{}}`))
	u.must(u.change(KindReleases, Offer{Version: "1.1.0", Builds: []view.AgentBuild{buildOf("amd64", "a"),
		buildOf("arm64", "b")}}))
	m := build(u.contents)
	of := func(name string) *kind.Body {
		n := u.nodes[name]
		return m.For(kind.Facts{Node: name, Type: n.Type(), Info: n.Info})
	}
	if of("n1") != of("n2") || of("n1") == of("n3") || of("n4") != nil ||
		!strings.Contains(string(of("n3").Bytes), "https://c/b") {
		t.Errorf("%s, %s", of("n1").Bytes, of("n3").Bytes)
	}
}

// TestOwnerStays: who has created a policy owns it, whoever edits it.
func TestOwnerStays(t *testing.T) {
	u := newUnit(t, "n1")
	u.must(u.apply("p", `{}`))
	u.who = "token/bob"
	u.must(u.apply("p", `{"label":"x"}`))
	shown, err := Show(u, "p")
	u.must(err)
	if !strings.Contains(string(shown.Document), `"owner":"token:ann"`) || shown.Who != "token/bob" {
		t.Errorf("%s by %s", shown.Document, shown.Who)
	}
}
