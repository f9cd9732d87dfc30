package apidoc_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/apidoc"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

var update = flag.Bool("update", false, "write the documents")

// operations are those of the table, and those of the sources.
var operations = append(op.All(), kinds.All().Specs()...)

// TestDocuments: the document that is served, and the table for people, are what the operations and the
// comments say.
func TestDocuments(t *testing.T) {
	document, err := apidoc.Make("../../..", operations)
	if err != nil {
		t.Error(err)
	}
	same(t, "../api/openapi.json", func(string) string { return string(document) })
	same(t, "../../../shared/docs/http.md", func(text string) string {
		before, rest, ok := strings.Cut(text, "<!-- operations -->\n")
		_, after, end := strings.Cut(rest, "<!-- end of operations -->\n")
		if !ok || !end {
			t.Fatal("there is no place for the operations")
		}
		return before + "<!-- operations -->\n" + apidoc.Table(operations) + "<!-- end of operations -->\n" + after
	})
}

// TestRolloutSchema: the published schema of a rollout's file is what its types say.
func TestRolloutSchema(t *testing.T) {
	schema, err := apidoc.Schema("../../..", "Plan of a rollout", reflect.TypeFor[plan.Plan]())
	if err != nil {
		t.Error(err)
	}
	same(t, "../rollout/plan/schema.json", func(string) string { return string(schema) })
}

// TestItemSchemas: the published schemas of items, subjects, nodes and what runs are what their types say.
func TestItemSchemas(t *testing.T) {
	for file, c := range map[string]struct {
		title string
		of    reflect.Type
	}{
		"meta":    {"Metadata of an update item", reflect.TypeFor[items.Meta]()},
		"item":    {"Version of an update item", reflect.TypeFor[items.Item]()},
		"subject": {"Subject", reflect.TypeFor[items.Subject]()},
		"node":    {"What a node tells of itself", reflect.TypeFor[items.Node]()},
		"current": {"What runs now", reflect.TypeFor[items.Current]()},
		"load":    {"What was measured", reflect.TypeFor[items.Load]()},
		"content": {"Content of a version of an update item", reflect.TypeFor[items.Content]()},
	} {
		schema, err := apidoc.Schema("../../..", c.title, c.of)
		if err != nil {
			t.Error(err)
		}
		same(t, "../../../shared/items/schema/"+file+".json", func(string) string { return string(schema) })
	}
}

func same(t *testing.T, file string, want func(string) string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := want(string(got))
	if text == string(got) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the source says; run this test with -update", file)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReferences: what the document refers to is there, and what is there is referred to; names are unique.
func TestReferences(t *testing.T) {
	text, err := apidoc.Make("../../..", operations)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc["openapi"] != "3.1.0" {
		t.Errorf("openapi %v", doc["openapi"])
	}
	used, ids := map[string]bool{}, map[string]bool{}
	walk(doc, func(name string, v any) {
		switch name {
		case "$ref":
			used[v.(string)] = true
			at := any(doc)
			for part := range strings.SplitSeq(strings.TrimPrefix(v.(string), "#/"), "/") {
				at = at.(map[string]any)[part]
			}
			if at == nil {
				t.Errorf("%s is not there", v)
			}
		case "operationId":
			if ids[v.(string)] {
				t.Errorf("%s is there twice", v)
			}
			ids[v.(string)] = true
		case "description":
			if v == "" {
				t.Error("an empty description")
			}
		}
	})
	for name := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if !used["#/components/schemas/"+name] {
			t.Errorf("nothing refers to %s", name)
		}
	}
	if len(ids) < 40 {
		t.Errorf("%d operations", len(ids))
	}
}

// TestDemanded: a member that an operation's Check misses is required in the document, and so is its body.
func TestDemanded(t *testing.T) {
	text, err := apidoc.Make("../../..", operations)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Required bool
				Content  map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			} `json:"requestBody"`
		}
		Components struct {
			Schemas map[string]struct{ Required []string }
		}
	}
	if err := json.Unmarshal(text, &doc, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range operations {
		body := doc.Paths[s.Path()][strings.ToLower(s.Method())].RequestBody
		ref := strings.TrimPrefix(body.Content["application/json"].Schema.Ref, "#/components/schemas/")
		required := doc.Components.Schemas[ref].Required
		if s.Optional && body.Required != (len(required) > 0) {
			t.Errorf("%s: the body is required: %v, and its members %q", s.Name, body.Required, required)
		}
		in, ok := reflect.New(s.In).Interface().(op.Checker)
		if !ok {
			if s.Optional && len(required) > 0 {
				t.Errorf("%s: %q is required, and nothing checks it in a body that is left out", s.Name, required)
			}
			continue
		}
		e := in.Check()
		if e == nil || e.Code != wire.CodeMissing || e.Path == "" {
			continue
		}
		seen[s.Name+e.Path] = true
		if !body.Required || !slices.Contains(required, strings.TrimPrefix(e.Path, "/")) {
			t.Errorf("%s misses %s; in the document a body is required: %v, with %q",
				s.Name, e.Path, body.Required, required)
		}
	}
	for _, want := range []string{"node.reboot/reason", "node.approve/version", "config.rollback/version"} {
		if !seen[want] {
			t.Errorf("%s is not missed; these are: %v", want, seen)
		}
	}
}

// walk calls see for every member with a plain value.
func walk(v any, see func(string, any)) {
	switch v := v.(type) {
	case map[string]any:
		for name, v := range v {
			if _, ok := v.(string); ok {
				see(name, v)
			}
			walk(v, see)
		}
	case []any:
		for _, v := range v {
			walk(v, see)
		}
	}
}

// TestNothingGoesUndescribed: without its comments an operation's types are refused by name.
func TestNothingGoesUndescribed(t *testing.T) {
	type bare struct {
		Count int `json:"count"`
	}
	workspace, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	here := filepath.Join(root, "controller", "internal", "apidoc_test")
	if err := os.MkdirAll(here, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"shared", "controller/internal/op"} {
		if err := os.Symlink(filepath.Join(workspace, dir), filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	ops := []op.Spec{op.Op[op.None, bare]{Name: "bare", Route: "GET /bare", About: "Is not described."}.Spec()}
	for text, want := range map[string]string{
		"type bare struct { Count int }":                                    "bare has no comment",
		"// bare counts.\ntype bare struct { Count int }":                   "bare.Count has no comment",
		"// bare counts.\ntype bare struct {\n Count int // of things\n}\n": "",
	} {
		if err := os.WriteFile(filepath.Join(here, "bare.go"), []byte("package bare\n\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := apidoc.Make(root, ops)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
