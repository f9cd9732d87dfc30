package components_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/components"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

var (
	set    = components.Set()
	source = set.Sources[0]
	of     = set.Kinds[0]
)

// hash is that of a file.
func hash(name string) string { return wire.Hash([]byte(name)) }

// entry is a component of a node as it is submitted.
func entry(node, name, version, more string) string {
	return fmt.Sprintf(`{"node":%q,"name":%q,"item":"item","version":%q,"hash":%q,"size":5,"urls":["https://x/a"]%s}`,
		node, name, version, hash(version), more)
}

func document(entries ...string) []byte {
	return []byte(`{"formatVersion":"1","components":[` + strings.Join(entries, ",") + `]}`)
}

func parse(doc []byte) kind.Parsed {
	return source.Parse(kind.Reading{Document: doc, Version: "1.0.0"})
}

func TestNodesGetTheirOwn(t *testing.T) {
	p := parse(document(entry("n1", "os", "7.0.0", ""), entry("n2", "os", "7.1.0", ""),
		entry("n1", "app", "1.0.0", `,"after":["os"],"subject":"press"`)))
	if p.Problems != nil || p.Version != "1.0.0" {
		t.Fatal(p.Problems)
	}
	body := p.Content.For(kind.Facts{Node: "n1"})
	c, err := wire.Decode[wire.Components](body.Bytes)
	if err != nil || len(c.Components) != 2 || c.Components[1].After[0] != "os" {
		t.Errorf("%v %s", err, body.Bytes)
	}
	if p.Content.For(kind.Facts{Node: "n3"}) != nil {
		t.Error("a node that is not named gets something")
	}
	if got := of.Artefacts("n1", body.Bytes); fmt.Sprint(got) != fmt.Sprint([]string{hash("7.0.0"), hash("1.0.0")}) {
		t.Errorf("artefacts %q", got)
	}
	q := parse(document(entry("n1", "os", "7.0.0", `,"encrypted":{"digest":"`+hash("os.age")+`","size":9}`)))
	if q.Problems != nil {
		t.Fatal(q.Problems)
	}
	if got := of.Artefacts("n1", q.Content.For(kind.Facts{Node: "n1"}).Bytes); fmt.Sprint(got) !=
		fmt.Sprint([]string{hash("os.age")}) {
		t.Errorf("artefacts %q of what is encrypted", got)
	}
	for _, bad := range []string{`{"digest":"sha256:x","size":9}`, `{"digest":"` + hash("a") + `","size":0}`} {
		p := parse(document(entry("n1", "os", "7.0.0", `,"encrypted":`+bad)))
		if len(p.Problems) != 1 || !strings.HasPrefix(p.Problems[0].Path, "/components/0/encrypted/") {
			t.Errorf("%s: %v", bad, p.Problems)
		}
	}
	named := map[string]bool{}
	source.Bodies(p.Content, func(node string, b *kind.Body) { named[node] = b != nil })
	if fmt.Sprint(named) != "map[n1:true n2:true]" {
		t.Errorf("nodes %v", named)
	}
	current := p.Content.(*components.Placement).Current()
	if len(current) != 3 || current[2].Subject != "press" || current[2].Runtime != "app" || current[2].Node != "n1" {
		t.Errorf("%+v", current)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ doc, place, says string }{
		{`[]`, "", ""},
		{`{"formatVersion":"2"}`, "/formatVersion", "the format is 1"},
		{`{"formatVersion":"1","more":1}`, "/more", ""},
		{`{"formatVersion":"1","components":[{"node":"n1"}]}`, "/components/0/name", ""},
		{string(document(entry("n 1", "os", "7", ""))), "/components/0/node", "ID of a node"},
		{string(document(entry("n1", "os", "7", ""), entry("n2", "os", "7", ""), entry("n2", "os", "8", ""))),
			"/components/2/name", "the component os is there already"},
		{string(document(entry("n1", "os", "7", `,"after":["a b"]`))), "/components/0/after/0", ""},
		{strings.Replace(string(document(entry("n1", "os", "7", ""))), `"size":5`, `"size":0`, 1), "/components/0/size",
			"the size of the file"},
		{`{"formatVersion":"1","components":[` + strings.Repeat(" ", components.MaxDocument) + `]}`, "", "longer than"},
	} {
		p := parse([]byte(c.doc))
		if len(p.Problems) == 0 || p.Content != nil {
			t.Errorf("%.80s is taken", c.doc)
			continue
		}
		if e := p.Problems[0]; e.Path != c.place || !strings.Contains(e.Message, c.says) {
			t.Errorf("%.80s: %q: %s", c.doc, e.Path, e.Message)
		}
	}
}

func TestTooMuchForANode(t *testing.T) {
	var all []string
	for i := range 32 {
		all = append(all, entry("n1", fmt.Sprint("c", i), "1", `,"minisign":"`+strings.Repeat("x", 2100)+`"`))
	}
	p := parse(document(all...))
	if len(p.Problems) != 1 || p.Problems[0].Code != wire.CodeTooLarge || p.Problems[0].Node != "n1" {
		t.Errorf("%v", p.Problems)
	}
}

func TestDiff(t *testing.T) {
	from, to := document(entry("n1", "os", "7", ""), entry("n1", "app", "1", "")), document(entry("n1", "os", "8", ""))
	all, err := source.Changes(kind.Reading{Document: from}, kind.Reading{Document: to})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range all.List {
		got = append(got, c.Entry+c.Pointer)
	}
	if s := strings.Join(got, " "); !strings.Contains(s, "os@n1/version") || !strings.Contains(s, "app@n1") {
		t.Errorf("%q", got)
	}
}

// report is what a node tells of one component.
func report(state wire.ComponentState, err *wire.Error) *wire.ComponentsReport {
	return &wire.ComponentsReport{Components: []wire.ComponentStatus{{Name: "os", Item: "base", Version: "7.0.0",
		State: state, Error: err}}}
}

func TestReports(t *testing.T) {
	broken := wire.New(wire.CodeApplyFailed, "", "it does not start")
	raw, fault := json.Marshal(report(wire.ComponentFailed, broken))
	if fault != nil {
		t.Fatal(fault)
	}
	d, err := of.Detail("n1", raw)
	if err != nil {
		t.Fatal(err)
	}
	if text, why := of.Words(raw); text != "os 7.0.0 failed" || why == nil || why.Message != broken.Message {
		t.Errorf("%q %v", text, why)
	}
	if all := of.Troubles(d); len(all) != 1 || all[0].Name != "component:os" {
		t.Errorf("%+v", all)
	}
	if all := of.Troubles(report(wire.ComponentInstalled, nil)); all != nil {
		t.Errorf("%+v", all)
	}
	other := wire.New(wire.CodeApplyFailed, "", "in other words")
	if !of.Same(d, report(wire.ComponentFailed, other)) || of.Same(d, report(wire.ComponentInstalled, nil)) ||
		of.Same(d, (*wire.ComponentsReport)(nil)) {
		t.Error("which reports differ in progress only")
	}
	if _, err := of.Detail("n1", jsontext.Value(`{"components":[{"name":"a b"}]}`)); err == nil {
		t.Error("a report that is malformed is taken")
	}
}

// unit is a unit of which some nodes have told of their components.
type unit struct {
	kind.Unit
	content kind.Content
	nodes   map[string]kind.Node
}

func (u *unit) Content(wire.Kind) kind.Content { return u.content }

func (u *unit) Node(_ wire.Kind, name string) (kind.Node, bool) {
	n, known := u.nodes[name]
	return n, known
}

func TestHowFar(t *testing.T) {
	at := func(version string, state wire.ComponentState, again time.Time) *wire.ComponentsReport {
		return &wire.ComponentsReport{Components: []wire.ComponentStatus{{Name: "os", Item: "item", Version: version,
			State: state, Again: again, Error: wire.New(wire.CodeApplyFailed, "", "broken")}}}
	}
	refused := &kind.Document{Desired: &kind.Doc{DocRef: wire.DocRef{Rev: 7}},
		Last: &wire.Attempt{Rev: 7, State: wire.StateRejected}}
	u := &unit{nodes: map[string]kind.Node{
		"has": {Up: true, Detail: at("7.0.0", wire.ComponentInstalled, time.Time{})}, "silent": {Up: true},
		"behind":  {Up: true, Detail: at("6.0.0", wire.ComponentInstalled, time.Time{})},
		"failed":  {Up: true, Detail: at("7.0.0", wire.ComponentFailed, time.Time{})},
		"again":   {Up: true, Detail: at("7.0.0", wire.ComponentFailed, time.Unix(1, 0))},
		"away":    {},
		"refused": {Up: true, Document: refused},
	}}
	var s view.SourceStatus
	source.Show(u, &s)
	if s.Slots.Slots != 0 {
		t.Errorf("%+v", s.Slots)
	}
	var all []string
	for _, node := range []string{"away", "has", "silent", "behind", "failed", "again", "refused", "never"} {
		all = append(all, entry(node, "os", "7.0.0", ""))
	}
	u.content = parse(document(all...)).Content
	source.Show(u, &s)
	var missing []string
	for _, m := range s.Slots.Missing {
		missing = append(missing, m.Slot+" "+m.State)
	}
	p := s.Slots
	want := "os@again failed, os@behind waiting, os@failed failed, os@refused waiting, os@silent waiting, " +
		"os@away waiting, os@never waiting"
	if p.Slots != 8 || p.Completed != 1 || p.Failed != 1 || p.OnlineMissing != 3 ||
		fmt.Sprint(s.Unknown) != "[never]" || strings.Join(missing, ", ") != want {
		t.Errorf("%+v\n%q %q", p, missing, s.Unknown)
	}
}

// TestDocumentedList: the example of the document is read, and the document has every field.
func TestDocumentedList(t *testing.T) {
	text, err := os.ReadFile("../../../../shared/docs/items.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### List of components\n")
	_, example, _ := strings.Cut(section, "```\n")
	example, tables, ok := strings.Cut(example, "```")
	p := parse([]byte(example))
	if !ok || len(p.Problems) > 0 || len(p.Content.(*components.Placement).Current()) != 2 {
		t.Fatalf("%v %v", ok, p.Problems)
	}
	for of, typ := range map[string]reflect.Type{"the list": reflect.TypeFor[components.Document](),
		"an entry": reflect.TypeFor[components.Entry](), "a node's": reflect.TypeFor[wire.NodeComponent]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name != "" && !strings.Contains(tables, "`"+name+"`") {
				t.Errorf("%s: no %s", of, name)
			}
		}
	}
}
