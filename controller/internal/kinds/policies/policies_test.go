package policies

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

var at = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)

// unit is a unit as the kind sees it.
type unit struct {
	kind.Unit
	t        *testing.T
	seq      uint64
	who      string // asks
	contents map[wire.Kind]kind.Content
	nodes    map[string]kind.Node
	journal  []entry // of policies
	rolled   *kind.Rolled
}

// entry is a change that was journaled.
type entry struct {
	at   kind.Change
	data Change
}

func newUnit(t *testing.T, nodes ...string) *unit {
	u := &unit{t: t, who: "token/ann", contents: map[wire.Kind]kind.Content{}, nodes: map[string]kind.Node{}}
	for _, name := range nodes {
		u.nodes[name] = kind.Node{Name: name, Up: true, Info: &wire.NodeInfo{
			Type: "press", OS: "linux", Arch: "amd64", CPUs: 4, RAM: 2 << 30, AgentVersion: "1.0.0"}}
	}
	return u
}

func (u *unit) Content(source wire.Kind) kind.Content { return u.contents[source] }

func (u *unit) Rolled(wire.Kind) *kind.Rolled { return u.rolled }

func (u *unit) Each(_ wire.Kind, fn func(kind.Node)) {
	for _, n := range u.nodes {
		fn(n)
	}
}

func (u *unit) Node(_ wire.Kind, name string) (kind.Node, bool) {
	n, ok := u.nodes[name]
	return n, ok
}

// change does what the fleet does with a change; the state goes through a checkpoint each time.
func (u *unit) change(source wire.Kind, data any) *wire.Error {
	u.t.Helper()
	fold := Set().Sources[0].Fold
	for _, s := range Set().Sources {
		if s.Name == source {
			fold = s.Fold
		}
	}
	raw, err := json.Marshal(data)
	if err != nil {
		u.t.Fatal(err)
	}
	read, err := fold.Decode(raw)
	if err != nil {
		u.t.Fatal(err)
	}
	c := u.contents[source]
	if err := fold.Judge(c, read); err != nil {
		return err
	}
	if fold.Weigh != nil {
		if err := fold.Weigh(u, c, read); err != nil {
			return err
		}
	}
	u.seq++
	made := kind.Change{Seq: u.seq, At: at.Add(time.Duration(u.seq) * time.Minute), Who: u.who}
	if d, ok := read.(Change); ok {
		u.journal = append(u.journal, entry{made, d})
	}
	c = fold.Apply(c, made, read)
	saved, err := json.Marshal(fold.Save(c), json.Deterministic(true))
	if err != nil {
		u.t.Fatal(err)
	}
	if u.contents[source], err = fold.Load(saved); err != nil {
		u.t.Fatal(err)
	}
	return nil
}

func (u *unit) apply(name, document string) *wire.Error {
	return u.change(wire.KindPolicies, Change{Name: name, Document: jsontext.Value(document)})
}

func (u *unit) must(err *wire.Error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

func (u *unit) refused(err *wire.Error, code wire.Code, words string) {
	u.t.Helper()
	if err == nil || err.Code != code || !strings.Contains(err.Message+" "+err.Path, words) {
		u.t.Errorf("%v, want %s with %q", err, code, words)
	}
}

// gets is what a node gets.
func (u *unit) gets(node string) string {
	u.t.Helper()
	n := u.nodes[node]
	b := build(u.contents).For(kind.Facts{Node: node, Type: n.Type(), Info: n.Info})
	if b == nil {
		return "nothing"
	}
	doc, err := wire.Decode[wire.Policies](b.Bytes)
	if err != nil {
		u.t.Fatal(err)
	}
	var all []string
	for _, p := range doc.Policies {
		text := p.Name
		if p.Agent != nil {
			text += " " + p.Agent.Version + " from " + p.Agent.Start.Format("15:04")
		}
		if p.DecidedBy != "" {
			text += " by " + p.DecidedBy
		}
		if p.Conflict {
			text += " conflict"
		}
		all = append(all, text)
	}
	for _, a := range doc.Agents {
		all = append(all, "offer "+a.Version+" "+strings.Join(a.URLs, " "))
	}
	return strings.Join(all, ", ")
}

func (u *unit) is(node, want string) {
	u.t.Helper()
	if got := u.gets(node); got != want {
		u.t.Errorf("%s gets %s, want %s", node, got, want)
	}
}

const onPress = `"constraints":["tandem.type == press && line == 4"],"enabled":true`

func (u *unit) line(node, value string) *wire.Error {
	c := PropertyChange{Node: node, Name: "line"}
	if value != "" {
		c.Value = jsontext.Value(value)
	}
	return u.change(KindProperties, c)
}

// TestMatching: a node gets what hits it, by what was measured, what it says, and what operators set; a change of any
// of these counts at once.
func TestMatching(t *testing.T) {
	u := newUnit(t, "n1", "n2", "n3")
	u.must(u.apply("p", `{`+onPress+`,"agentUpgradePolicy":{}}`))
	u.is("n1", "nothing")
	u.must(u.line("n1", "4"))
	u.is("n1", "p current from 09:01")
	u.is("n2", "nothing")
	n := u.nodes["n2"]
	n.Info = new(*n.Info)
	n.Info.Policy = jsontext.Value(`{"properties":[{"name":"line","value":4}],"constraints":["label == x"]}`)
	u.nodes["n2"] = n
	u.is("n2", "nothing") // its own constraints keep the policy out
	u.must(u.apply("p", `{`+onPress+`,"properties":[{"name":"label","value":"x"}],"agentUpgradePolicy":{}}`))
	u.is("n2", "p current from 09:03")
	u.must(u.line("n2", "5")) // an operator's word stands before the node's
	u.is("n2", "nothing")
	u.must(u.line("n2", ""))
	u.is("n2", "p current from 09:03")
	if b := build(u.contents).For(kind.Facts{Node: "n1", Type: "press"}); b != nil {
		t.Errorf("a node that has not described itself gets %s", b.Bytes)
	}
	if _, known := NodeProperties(u, "n9"); known {
		t.Error("n9 has properties, and nobody has set any")
	}
	u.must(u.line("n9", "7"))
	if v, known := NodeProperties(u, "n9"); !known || len(v.Properties) != 1 || v.Properties[0].Name != "line" ||
		v.Properties[0].From != "operator" || v.Properties[0].At.IsZero() {
		t.Errorf("what is set for a node that is to come: %+v", v)
	}
	n.Info = new(*n.Info)
	n.Info.Arch, n.Info.Policy = "arm64", jsontext.Value(`{"properties":[{"name":"openhorizon.arch","value":"amd64"}],
		"pattern":"a b c /"}`)
	u.nodes["n2"] = n
	u.is("n2", "nothing")
	if v, known := NodeProperties(u, "n2"); !known || v.Error == nil {
		t.Errorf("what the node says cannot be read: %+v", v)
	}
	n.Info = new(*n.Info)
	n.Info.Policy = jsontext.Value(`{"properties":[{"name":"openhorizon.arch","value":"amd64"}]}`)
	u.nodes["n2"] = n
	v, _ := NodeProperties(u, "n2")
	for _, p := range v.Properties {
		if p.Name == "openhorizon.arch" && (string(p.Value) != `"arm64"` || p.From != "measured") {
			t.Errorf("%+v", p) // nobody sets what is measured
		}
	}
}

// TestConflict: of two that want different things the one enabled first decides, whatever was edited since; whoever
// disables a policy gives its place up (seed 003, NMP Constraint Collisions).
func TestConflict(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	u.must(u.line("n1", "4"))
	doc := func(version string) string {
		return `{` + onPress + `,"agentUpgradePolicy":{"atLeastVersion":"` + version + `"}}`
	}
	u.must(u.apply("b", doc("1.1.0")))
	u.must(u.apply("a", doc("1.2.0")))
	u.must(u.apply("c", `{`+onPress+`}`))
	u.is("n1", "b 1.1.0 from 09:02, a 1.2.0 from 09:03 by b conflict, c")
	u.must(u.apply("b", doc("1.3.0")))
	u.is("n1", "b 1.3.0 from 09:05, a 1.2.0 from 09:03 by b conflict, c")
	u.must(u.apply("a", doc("1.3.0")))
	u.is("n1", "b 1.3.0 from 09:05, a 1.3.0 from 09:06 by b, c") // they agree
	u.must(u.change(wire.KindPolicies, Change{Name: "b", Enabled: new(false)}))
	u.is("n1", "a 1.3.0 from 09:06, c")
	u.must(u.change(wire.KindPolicies, Change{Name: "b", Enabled: new(true)}))
	u.is("n1", "a 1.3.0 from 09:06, b 1.3.0 from 09:08 by a, c")
	u.must(u.change(wire.KindPolicies, Change{Name: "a", Removed: true}))
	u.is("n1", "b 1.3.0 from 09:08, c")
	same := `{` + onPress + `,"agentUpgradePolicy":{"atLeastVersion":"1.3.0","start":"2026-11-25T00:00:00Z"}}`
	u.must(u.apply("b", same))
	u.must(u.apply("d", same))
	u.is("n1", "b 1.3.0 from 00:00, d 1.3.0 from 00:00 by b, c")
}

// TestSafety: what would hit every node has to be confirmed, by its logic and by its count; what is disabled or
// removed hits nobody (seed 003, In a large scale environment).
func TestSafety(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	for _, doc := range []string{
		`{"enabled":true}`,
		`{"enabled":true,"constraints":["openhorizon.arch == x || openhorizon.arch != x"]}`,
		`{"enabled":true,"patterns":["*"]}`,
		`{"enabled":true,"constraints":["tandem.type == press"]}`, // only by count
		`{"enabled":true,"constraints":["(openhorizon.cpu >= 0)"]}`,
	} {
		err := u.apply("p", doc)
		u.refused(err, wire.CodeNotAllowed, "every node")
		if err != nil && (err.Path != "/allNodes" || err.Nodes != 2) {
			t.Errorf("%s: refused at %s, %d nodes", doc, err.Path, err.Nodes)
		}
		u.must(u.apply("q", strings.Replace(doc, "true", "false", 1)))
		u.refused(u.change(wire.KindPolicies, Change{Name: "q", Enabled: new(true)}), wire.CodeNotAllowed, "every node")
		u.must(u.change(wire.KindPolicies, Change{Name: "q", Enabled: new(true), AllNodes: true}))
		u.must(u.change(wire.KindPolicies, Change{Name: "q", Removed: true}))
	}
	gone := u.nodes["n2"]
	gone.Info, gone.Revoked = new(*gone.Info), true
	gone.Info.Type = "other"
	u.nodes["n2"] = gone
	u.refused(u.apply("p", `{"enabled":true,"constraints":["tandem.type == press"]}`), wire.CodeNotAllowed, "1 of 1")
	gone.Revoked = false
	u.nodes["n2"] = gone
	u.must(u.apply("p", `{"enabled":true,"constraints":["tandem.type == press"]}`))
	// an edit is weighed as well
	u.refused(u.apply("p", `{"enabled":true,"constraints":["openhorizon.cpu == 4"]}`), wire.CodeNotAllowed, "2 of 2")
	u.is("n1", "p")
}

// TestNoOrganisation: a policy of a unit has no organisation, whoever has created it: its patterns are in the node's,
// and one of another names it (seed 003, Patterns).
func TestNoOrganisation(t *testing.T) {
	for _, who := range []string{"token/ann", "cloud/acme", "acme/ann"} {
		u := newUnit(t, "n1", "n2", "n3")
		u.who = who
		for node, org := range map[string]string{"n1": "acme", "n2": "other"} {
			n := u.nodes[node]
			n.Info = new(*n.Info)
			n.Info.Policy = jsontext.Value(`{"org":"` + org + `","pattern":"gate"}`)
			u.nodes[node] = n
		}
		u.refused(u.apply("p", `{"owner":"acme/ann","patterns":["gate"]}`), wire.CodeNotAllowed, "/owner")
		u.must(u.apply("any", `{"enabled":true,"patterns":["gate"]}`))
		u.must(u.apply("acme", `{"enabled":true,"patterns":["acme/gate"]}`))
		u.is("n1", "acme, any")
		u.is("n2", "any")
		u.is("n3", "nothing")
		if got := collectionOf(u.contents[wire.KindPolicies]).List["any"].policy; got.Org != "" ||
			got.Owner != strings.ReplaceAll(who, "/", ":") {
			t.Errorf("%s: of %q, organisation %q", who, got.Owner, got.Org)
		}
	}
}

// TestRefused: bad changes name place and reason, and change nothing.
func TestRefused(t *testing.T) {
	u := newUnit(t, "n1")
	u.refused(u.apply("p", `{"enabled":false,"constraint":["a == b"]}`), wire.CodeUnknownField, "/constraint")
	u.refused(u.apply("p", `{"constraints":["a => b"]}`), wire.CodeBadValue, "/constraints/0")
	u.refused(u.apply("p", `{"owner":"eve"}`), wire.CodeNotAllowed, "/owner")
	u.refused(u.apply("p", `{"rollout":{"waves":[{"percent":10}]}}`), wire.CodeBadValue, "/rollout/waves")
	u.refused(u.apply("p", `{"rollout":{"waves":[{"percent":100}],"deadline":"PT70M"},
		"agentUpgradePolicy":{"duration":3600}}`), wire.CodeBadValue, "/rollout/deadline")
	u.refused(u.apply("p", `{"rollout":{"waves":[{"percent":100}],"deadlin":"PT70M"}}`), wire.CodeUnknownField,
		"/rollout/deadlin")
	u.refused(u.apply("p", `{"lastUpdated":"2026-11-24T09:00:00Z"}`), wire.CodeWrongState, "/lastUpdated")
	u.refused(u.change(wire.KindPolicies, Change{Name: "p", Enabled: new(true)}), wire.CodeNotFound, "no policy p")
	u.refused(u.change(wire.KindPolicies, Change{Name: "p", Removed: true}), wire.CodeNotFound, "no policy p")
	u.must(u.apply("p", `{}`))
	u.refused(u.change(wire.KindPolicies, Change{Name: "p", Enabled: new(false)}), wire.CodeWrongState,
		"disabled already")
	shown, err := Show(u, "p")
	u.must(err)
	want := `{"owner":"token:ann","enabled":false,"lastUpdated":"2026-11-24T09:01:00Z"}`
	if string(shown.Document) != want {
		t.Errorf("%s, want %s", shown.Document, want)
	}
	u.must(u.apply("p", string(shown.Document))) // what is shown can be edited and applied
	u.refused(u.apply("p", string(shown.Document)), wire.CodeWrongState, "changed since")
	u.refused(u.line("n1", `{}`), wire.CodeBadValue, "/value")
	u.refused(u.line("n1", ""), wire.CodeNotFound, "no operator has set")
	measured := PropertyChange{Node: "n1", Name: "openhorizon.arch", Value: jsontext.Value(`"x"`)}
	u.refused(u.change(KindProperties, measured), wire.CodeNotAllowed, "measured")
	measured.Name, measured.Value = "openhorizon.allowPrivileged", jsontext.Value("true")
	u.must(u.change(KindProperties, measured))
}
