package workloads

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

const topologies = `[
 {"@class":"TopologicalInstance","slot":"web@n1","properties":{"kind":"web"}},
 {"@class":"TopologicalInstance","slot":"web@n2","properties":{"kind":"web"}},
 {"@class":"Instance","slot":"map@n1","resources":{"iss_hook_start":
  {"@class":"Resource","uuid":"bin","urls":["http://127.0.0.2/bin"],"size":0,
   "verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}},
 {"@class":"InstanceFiller","name":"web","instance":{"properties":{"kind":"web"},"resources":{"iss_hook_start":
  {"@class":"Resource","uuid":"bin","urls":["http://127.0.0.1/bin"],"size":0,
   "verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}}
]`

// What a node gets is what it is to run: filled, named, with the addresses of all that are the same
// there, and always in the same bytes, in whatever order the set has its entries.
func TestPlace(t *testing.T) {
	set, problems := workload.Parse([]byte(topologies))
	if problems != nil {
		t.Fatal(problems)
	}
	p, errs := place(set, nil)
	if errs != nil {
		t.Fatal(errs)
	}
	if got := fmt.Sprint(p.names(), p.slots); got != "[n1 n2] 3" {
		t.Error(got)
	}
	for node, want := range map[string]string{
		"n1": "map@n1 [http://127.0.0.2/bin http://127.0.0.1/bin], web@n1 [http://127.0.0.2/bin http://127.0.0.1/bin]",
		"n2": "web@n2 [http://127.0.0.1/bin]",
	} {
		n := p.of(node)
		configs, errs := workload.ParseDocument(n.body.Bytes, node)
		if errs != nil {
			t.Fatal(errs[0])
		}
		var got []string
		for i, c := range configs {
			got = append(got, fmt.Sprint(c.Slot, " ", c.Resources[workload.HookStart].URLs))
			w := n.slots[i]
			if w.slot != c.Slot.String() || w.id != c.ConfigurationID || !strings.HasPrefix(w.id, "auto-") {
				t.Errorf("%+v, but %s gets %s", w, c.Slot, c.ConfigurationID)
			}
		}
		if strings.Join(got, ", ") != want || n.body.Hash != wire.Hash(n.body.Bytes) {
			t.Errorf("%s: %v", node, got)
		}
	}
	if p.of("n3") != nil || (*Placement)(nil).of("n1") != nil {
		t.Error("a node that is not named has something")
	}
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewSource(rapid.Int64().Draw(t, "order")))
		again := *set
		again.Configs, again.Topologies = slices.Clone(set.Configs), slices.Clone(set.Topologies)
		random.Shuffle(len(again.Topologies), func(i, j int) {
			again.Topologies[i], again.Topologies[j] = again.Topologies[j], again.Topologies[i]
		})
		q, errs := place(&again, nil)
		if errs != nil {
			t.Fatal(errs[0])
		}
		for _, node := range p.names() {
			if !bytes.Equal(q.of(node).body.Bytes, p.of(node).body.Bytes) {
				t.Fatalf("%s gets other bytes", node)
			}
		}
	})
}

// A set that was accepted before a rule is still read: the controller would not start without it.
func TestStoredSet(t *testing.T) {
	old := strings.Replace(topologies, `"slot":"map@n1"`, `"slot":"map@n1","container":{"constraints":{}},`+
		`"timeLimits":{"iss_hook_start":{"maxExecutionTimeMs":0}}`, 1)
	for _, lenient := range []bool{false, true} {
		if p := parse(kind.Reading{Document: []byte(old), Lenient: lenient}); p.Content != nil || len(p.Problems) != 2 {
			t.Errorf("submitted: %v", p.Problems)
		}
		stored := kind.Reading{Document: []byte(old), Lenient: lenient, Stored: true}
		if p := parse(stored); p.Content == nil || len(p.Problems) != 0 {
			t.Errorf("stored: %v", p.Problems)
		}
		if doc, err := Fill(stored); err != nil || !strings.Contains(string(doc), "maxExecutionTimeMs") {
			t.Errorf("filled: %s %v", doc, err)
		}
		if changes, err := diff(stored, stored); err != nil || len(changes.List) != 0 {
			t.Errorf("compared: %v %v", changes, err)
		}
	}
}

// A set is refused whole: for what cannot be filled, for what no document could carry, and if it would
// stop everything by mistake.
func TestPlaceRefuses(t *testing.T) {
	// texts that do not shrink, of more than a document has
	random := rand.New(rand.NewSource(1))
	noise := make([]string, 40)
	for i := range noise {
		b := make([]byte, 3000)
		for k := range b {
			b[k] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[random.Intn(62)]
		}
		noise[i] = fmt.Sprintf("%q:%q", fmt.Sprint("p", i), b)
	}
	large := `[{"@class":"Instance","slot":"web@n2","properties":{` +
		strings.Join(noise, ",") + `},"resources":{"iss_hook_start":
		{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/x"],"size":0,
   "verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}]`
	for _, c := range []struct {
		name, text string
		code       wire.Code
		node       string
	}{
		{"only fillers",
			`[{"@class":"InstanceFiller","name":"f","instance":{"properties":{"a":"1"},"resources":{}}}]`,
			wire.CodeMissing, ""},
		{"nothing fits",
			`[{"@class":"TopologicalInstance","slot":"web@n1","properties":{"kind":"web"}}]`, wire.CodeNotFound, ""},
		{"too large", large, wire.CodeTooLarge, "n2"},
		{"a long ID", strings.Replace(topologies, `"slot":"map@n1"`,
			`"slot":"map@n1","configurationId":"`+strings.Repeat("x", 257)+`"`, 1), wire.CodeBadValue, ""},
	} {
		set, problems := workload.Parse([]byte(c.text))
		if problems != nil {
			t.Fatalf("%s: %v", c.name, problems)
		}
		if p, errs := place(set, nil); p != nil || len(errs) == 0 || errs[0].Code != c.code || errs[0].Node != c.node {
			t.Errorf("%s: %v %v", c.name, p, errs)
		}
	}
	if p, errs := place(&workload.Set{}, nil); errs != nil || p.slots != 0 {
		t.Errorf("an empty set, which stops everything on purpose: %v", errs)
	}
}

// Where what a slot should run comes from is the set's own account: its topology, and the fillers that apply.
func TestOrigin(t *testing.T) {
	const hook = `"resources":{"iss_hook_start":{"@class":"Resource","uuid":"u","urls":["http://127.0.0.1/x"],` +
		`"size":0,"verification":{}}}`
	r := kind.Reading{Document: []byte(`[{"@class":"Instance","slot":"a@n","configurationId":"a","properties":{},` +
		hook + `},{"@class":"TopologicalInstance","slot":"b@n","properties":{}},` +
		`{"@class":"InstanceFiller","name":"base","filter":"instance[slot/service = 'b']","instance":{` +
		`"properties":{},` + hook + `}}]`)}
	for slot, want := range map[string]string{"a": "false []", "b": "true [base]", "c": ""} {
		o, err := Origin(r, workload.Slot{Service: slot, Node: "n"})
		got := ""
		if o != nil {
			got = fmt.Sprint(o.Topology, o.Fillers)
		}
		if err != nil || got != want || o != nil && o.Config.Slot.Service != slot {
			t.Errorf("%s: %q %v, want %q", slot, got, err, want)
		}
	}
	if _, err := Origin(kind.Reading{Document: []byte("[")}, workload.Slot{}); err == nil {
		t.Error("a set that cannot be read has origins")
	}
}
