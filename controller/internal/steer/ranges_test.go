package steer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/components"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// decided is what is decided of metadata and subjects for nodes with these runtimes.
func decided(t *testing.T, nodes map[string][]string, metas, subjects []string) (*Unit, *desired.Plan) {
	t.Helper()
	u := &Unit{infos: map[string]*wire.NodeInfo{}, byName: map[string]*items.Node{}}
	for name, runtimes := range nodes {
		n := &items.Node{Node: name, State: items.Provisioned, CPU: 1000, RAM: 1 << 30}
		for _, r := range runtimes {
			n.Runtimes = append(n.Runtimes, items.Runtime{ID: r, Type: r, Architecture: "amd64"})
		}
		u.infos[name], u.byName[name] = &wire.NodeInfo{}, n
		u.Nodes = append(u.Nodes, desired.NodeOf(n, nil))
	}
	versions := map[items.Ref]map[string]*kinditems.Version{}
	for _, text := range metas {
		m, problems := items.Parse([]byte(text))
		if problems != nil {
			t.Fatal(problems)
		}
		u.Items = append(u.Items, items.Item{State: items.Ready, Meta: *m})
		if versions[m.Ref()] == nil {
			versions[m.Ref()] = map[string]*kinditems.Version{}
		}
		versions[m.Ref()][m.Version] = &kinditems.Version{Meta: *m, Content: items.Content{Form: items.File,
			Builds: []items.Build{{Blobs: []items.Blob{{Digest: wire.Hash([]byte(text)), Size: 5}}}}}}
	}
	u.Find = func(ref items.Ref, version string) *kinditems.Version { return versions[ref][version] }
	for _, text := range subjects {
		s, problems := items.ParseSubject([]byte(text))
		if problems != nil {
			t.Fatal(problems)
		}
		u.Subjects = append(u.Subjects, *s)
	}
	p, err := desired.Make(&u.Input)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.Reasons {
		if r.Reason != desired.Superseded {
			t.Fatalf("not there: %+v", r)
		}
	}
	return u, p
}

// placed is what nodes would be given of a set.
func placed(t *testing.T, u *Unit, p *desired.Plan) map[string]workload.Config {
	t.Helper()
	doc, misfits := u.Set(p)
	if len(misfits) > 0 {
		t.Fatal(misfits)
	}
	set, problems := workload.Parse(doc)
	if len(problems) > 0 {
		t.Fatal(problems[0])
	}
	f, problems := workload.Fill(set)
	if len(problems) > 0 {
		t.Fatal(problems[0])
	}
	all := map[string]workload.Config{}
	for _, c := range f.Configs {
		all[c.Slot.String()] = c
	}
	return all
}

// What waits for a version in a range does not wait for another version that is there, too: that one may wait for it.
func TestNeedsAreOfVersionsInRange(t *testing.T) {
	u, p := decided(t, map[string][]string{"n": {"process"}}, []string{
		`{"codename":"a","type":"service","version":"1.0.0","runtimes":["process"],
			"dependencies":[{"type":"service","codename":"b","versions":">=2.0.0"}]}`,
		`{"codename":"b","type":"service","version":"1.0.0","runtimes":["process"],
			"dependencies":[{"type":"service","codename":"a"}]}`,
		`{"codename":"b","type":"service","version":"2.0.0","runtimes":["process"]}`,
	}, []string{
		`{"codename":"x","type":"group","items":[{"type":"service","codename":"a"},
			{"type":"service","codename":"b","versions":"^2.0.0"}]}`,
		`{"codename":"y","type":"group","items":[{"type":"service","codename":"b","versions":"^1.0.0"}]}`,
	})
	all := placed(t, u, p)
	if needs := all["a.x.0@n"].Needs; len(needs) != 1 || needs[0].Slot.Service != "b.x.0" {
		t.Errorf("a waits for %+v", needs)
	}
	if needs := all["b.y.0@n"].Needs; len(needs) != 1 || needs[0].Slot.Service != "a.x.0" {
		t.Errorf("b 1.0.0 waits for %+v", needs)
	}
}

// Components of one node do not come after each other for ever, because a version on another node is what one needs.
func TestOrderIsOfVersionsInRange(t *testing.T) {
	u, p := decided(t, map[string][]string{"n": {"app", "os"}, "m": {"os"}}, []string{
		`{"codename":"panel","type":"component","version":"1.0.0","runtimes":["app"],
			"dependencies":[{"type":"component","codename":"base","versions":">=2.0.0"}]}`,
		`{"codename":"base","type":"component","version":"1.0.0","runtimes":["os"],
			"dependencies":[{"type":"component","codename":"panel"}]}`,
		`{"codename":"base","type":"component","version":"2.0.0","runtimes":["os"]}`,
	}, []string{
		`{"codename":"x","type":"group","nodes":["n"],"items":[{"type":"component","codename":"panel"},
			{"type":"component","codename":"base","versions":"^1.0.0"}]}`,
		`{"codename":"y","type":"group","nodes":["m"],"items":[{"type":"component","codename":"base"}]}`,
	})
	doc, misfits := u.Components(p)
	if len(misfits) > 0 {
		t.Fatal(misfits)
	}
	parsed := components.Set().Sources[0].Parse(kind.Reading{Document: doc})
	if len(parsed.Problems) > 0 {
		t.Fatal(parsed.Problems[0])
	}
	body := string(parsed.Content.For(kind.Facts{Node: "n"}).Bytes)
	if !strings.Contains(body, `"after":["app"]`) || strings.Contains(body, `"after":["os"]`) {
		t.Errorf("the node gets %s", body)
	}
}

// A variable may have several lines.
func TestEnvironmentOfLines(t *testing.T) {
	u, p := decided(t, map[string][]string{"n": {"process"}}, []string{
		`{"codename":"a","type":"service","version":"1.0.0","runtimes":["process"],
			"env":{"LINES":"one\n\ttwo","NONE":"","TEMPLATE":"@{prop(\"slot\")} @{"}}`,
	}, []string{`{"codename":"x","type":"group","items":[{"type":"service","codename":"a"}]}`})
	got := placed(t, u, p)["a.x.0@n"].Properties
	for name, want := range map[string]string{"env.LINES": "one\n\ttwo", "env.NONE": "",
		"env.TEMPLATE": `@{prop("slot")} @{`} {
		if text, there := got[name]; text != want || !there {
			t.Errorf("%s is %q", name, text)
		}
	}
}

// A node that tells of a runtime that cannot be is not given what would have the whole unit's documents refused.
func TestRuntimesThatCannotBe(t *testing.T) {
	info := &wire.NodeInfo{Runtimes: []wire.Runtime{{ID: "process", Type: "process"}, {ID: "os", Type: "os"},
		{ID: "os-2", Type: "os"}, {ID: "more", Type: "process"},
		{ID: "boot loader", Type: "os"}, {ID: "..", Type: "os"}}}
	var got []string
	for _, r := range describe(&kind.Node{Name: "n", Info: info}, time.Time{}).Runtimes {
		got = append(got, r.ID)
	}
	if want := []string{"process", "os", "os-2"}; !slices.Equal(got, want) {
		t.Errorf("runtimes %q, want %q", got, want)
	}
	info.Runtimes[0].Type = "os"
	if got := describe(&kind.Node{Name: "n", Info: info}, time.Time{}).Runtimes; len(got) != 2 {
		t.Errorf("a component called process: %+v", got)
	}
	for i := range 60 {
		info.Runtimes = append(info.Runtimes, wire.Runtime{ID: fmt.Sprint("os.", i), Type: "os"})
	}
	if got := describe(&kind.Node{Name: "n", Info: info}, time.Time{}).Runtimes; len(got) != wire.MaxComponents {
		t.Errorf("%d components", len(got))
	}
}
