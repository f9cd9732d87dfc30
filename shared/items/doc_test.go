package items_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	fast "github.com/go-json-experiment/json"

	"tandem.internal/shared/items"
)

// formats are the formats by the headings under which items.md describes them.
var formats = []struct {
	heading, schema string
	headings        []string // that describe its parts
	read            func([]byte) (any, items.Problems)
	plain           func() any
}{
	{"Metadata", "meta", []string{"Metadata", "Dependencies"}, as(items.Parse), fresh[items.Meta]},
	{"Item", "item", []string{"Item", "Metadata", "Dependencies"}, as(items.ParseItem), fresh[items.Item]},
	{"Subject", "subject", []string{"Subject"}, as(items.ParseSubject), fresh[items.Subject]},
	{"Node", "node", []string{"Node"}, as(items.ParseNode), fresh[items.Node]},
	{"Current state", "current", []string{"Current state"}, as(items.ParseCurrent), fresh[items.Current]},
	{"Load", "load", []string{"Load"}, as(items.ParseLoad), fresh[items.Load]},
	{"Content", "content", []string{"Content", "Metadata"}, as(items.ParseContent), fresh[items.Content]},
}

func as[T any](parse func([]byte) (*T, items.Problems)) func([]byte) (any, items.Problems) {
	return func(data []byte) (any, items.Problems) {
		v, problems := parse(data)
		return v, problems
	}
}

func fresh[T any]() any { return new(T) }

// sections are the parts of items.md by heading.
func sections(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/items.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, part := range regexp.MustCompile(`(?m)^##+ `).Split(string(text), -1)[1:] {
		heading, body, _ := strings.Cut(part, "\n")
		all[heading] = body
	}
	return all
}

// example is the example of a format in the document.
func example(t testing.TB, heading string) []byte {
	t.Helper()
	_, rest, _ := strings.Cut(sections(t)[heading], "```json\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatalf("%s has no example", heading)
	}
	return []byte(text)
}

// definitions are the names of the members of each type in a schema.
func definitions(t *testing.T, schema string) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile("schema/" + schema + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Defs map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for name, d := range s.Defs {
		all[name] = d.Properties
	}
	return all
}

// TestDocumentedFormats: each example is read, is what the types say without the reader, and has every field that the
// schema has; the document has each of them, too.
func TestDocumentedFormats(t *testing.T) {
	for _, f := range formats {
		text := example(t, f.heading)
		v, problems := f.read(text)
		if problems != nil {
			t.Errorf("%s: %v", f.heading, problems)
			continue
		}
		plain := f.plain()
		if err := fast.Unmarshal(text, plain, fast.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%s: %v", f.heading, err)
		}
		if f.heading == "Item" { // its example leaves out what the reader sets
			m := plain.(*items.Item)
			if m.Meta.Codename != v.(*items.Item).Meta.Codename {
				t.Errorf("%+v", m)
			}
		} else if !same(v, plain) {
			t.Errorf("%s is read as\n%+v\nand not as\n%+v", f.heading, v, plain)
		}
		described := ""
		for _, h := range f.headings {
			described += sections(t)[h]
		}
		for name, members := range definitions(t, f.schema) {
			for member := range members {
				if !strings.Contains(described, "`"+member+"`") {
					t.Errorf("%s does not describe %s of %s", f.heading, member, name)
				}
				if f.heading != "Item" && !strings.Contains(sections(t)[f.heading], `"`+member+`"`) {
					t.Errorf("the example of %s does not have %s of %s", f.heading, member, name)
				}
			}
		}
	}
}

// same compares what was read, as JSON: ranges have parts that are not comparable.
func same(a, b any) bool {
	x, errA := fast.Marshal(a, fast.Deterministic(true))
	y, errB := fast.Marshal(b, fast.Deterministic(true))
	return errA == nil && errB == nil && reflect.DeepEqual(string(x), string(y))
}

// Every field in a table of the document is a member of some schema.
func TestDocumentHasNoOtherFields(t *testing.T) {
	known := map[string]bool{}
	for _, f := range formats {
		for _, members := range definitions(t, f.schema) {
			for member := range members {
				known[member] = true
			}
		}
	}
	seen := 0
	for _, heading := range []string{"Metadata", "Dependencies", "Item", "Content", "Subject", "Node",
		"Current state", "Load"} {
		rows := regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|")
		for _, row := range rows.FindAllStringSubmatch(sections(t)[heading], -1) {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
				if seen++; !known[name[1]] {
					t.Errorf("%s: there is no field %s", heading, name[1])
				}
			}
		}
	}
	if seen < 45 {
		t.Errorf("only %d fields were found", seen)
	}
}

// Whatever is read, nothing panics, and what is accepted is accepted again when it is written.
func FuzzFormats(f *testing.F) {
	for _, of := range formats {
		f.Add(example(f, of.heading))
	}
	f.Add([]byte(`{"codename": "x", "type": "layer",
		"dependencies": [{"type": "layer", "codename": "y", "versions": "<"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, of := range formats {
			v, problems := of.read(data)
			if problems != nil {
				continue
			}
			text, err := fast.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			again, problems := of.read(text)
			if problems != nil || !same(v, again) {
				t.Fatalf("%s: %s: %v", of.heading, text, problems)
			}
		}
	})
}
