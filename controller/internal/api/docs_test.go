package api_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/event"
)

// shapes returns the types of the operations' bodies and answers, by name.
func shapes() map[string]reflect.Type {
	all := map[string]reflect.Type{"Problem": reflect.TypeFor[op.Problem]()}
	for _, s := range append(op.All(), kinds.All().Specs()...) {
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

// TestTypesOfEntries: the tables of shared/docs/http.md name every type of records, and of nodes' events.
func TestTypesOfEntries(t *testing.T) {
	text, err := os.ReadFile("../../../shared/docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	var records []string
	for _, r := range record.Types() {
		records = append(records, r.String())
	}
	for header, c := range map[string]struct {
		column int
		want   []string
	}{
		"| type | what happened | data |": {1, records},
		"| events about | types |":        {2, event.Types()},
	} {
		_, table, ok := strings.Cut(string(text), header+"\n")
		if !ok {
			t.Fatalf("no table %s", header)
		}
		var got []string
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "|") {
				break
			}
			for i, part := range strings.Split(strings.Split(line, "|")[c.column], "`") {
				if i%2 == 1 {
					got = append(got, part)
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s names %q, the code %q", header, got, c.want)
		}
	}
}
