package api_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
)

// shapes returns the types of the operations' bodies and answers, by name.
func shapes() map[string]reflect.Type {
	all := map[string]reflect.Type{"Problem": reflect.TypeFor[op.Problem]()}
	for _, s := range op.All() {
		for _, t := range []reflect.Type{s.In, s.Out} {
			all[t.Name()] = t
			if t.Kind() != reflect.Struct {
				continue
			}
			for i := range t.NumField() {
				if f := t.Field(i); f.Anonymous {
					all[f.Type.Name()] = f.Type
				}
			}
		}
	}
	return all
}

// TestExamples: the examples of shared/docs/http.md are what the types read.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("../../../shared/docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	var block []string
	kind, seen := "", 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```") && kind == "":
			kind, block = strings.TrimPrefix(line, "```"), nil
		case line == "```":
			format, name, _ := strings.Cut(kind, " ")
			kind = ""
			shape := shapes()[name]
			if shape == nil {
				t.Errorf("an example of %q, which is no shape of the API", name)
				continue
			}
			if format == "json" {
				block = []string{strings.Join(block, "\n")}
			}
			for _, example := range block {
				if example == "" {
					continue // a keep-alive
				}
				seen++
				v := reflect.New(shape).Interface()
				if err := json.Unmarshal([]byte(example), v, json.RejectUnknownMembers(true)); err != nil {
					t.Errorf("%s: %v\n%s", name, err, example)
				}
			}
		case kind != "":
			block = append(block, line)
		}
	}
	if seen < 30 {
		t.Errorf("only %d examples", seen)
	}
}
