package plan_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/duration"
)

const (
	samples  = "../../../../deploy/samples/rollouts"
	document = "../../../../shared/docs/rollouts.md"
)

// The samples are plans, and the one in the documents is the sample, with every field that a plan has.
func TestPlansInTheSamples(t *testing.T) {
	files, err := filepath.Glob(samples + "/*.json")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parse(t, string(data))
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, pasted, _ := bytes.Cut(text, []byte("```json\n"))
	pasted, _, ok := bytes.Cut(pasted, []byte("```"))
	sample, err := os.ReadFile(samples + "/plan.json")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	a, b := jsontext.Value(pasted), jsontext.Value(sample)
	if err := a.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	if err := b.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("the document has\n%s\nthe sample is\n%s", a, b)
	}
	for _, field := range fields(reflect.TypeFor[plan.Plan]()) {
		if !regexp.MustCompile("[`.]" + field + "[`.]").Match(text) {
			t.Errorf("%s has nothing about the field %s", document, field)
		}
	}
	p := parse(t, "{"+waves+"}")
	for field, value := range map[string]duration.Duration{
		"`gate.soak`": p.Gate.Soak, "`deadline`": p.Deadline, "`absentAfter`": p.AbsentAfter,
	} {
		row := regexp.MustCompile(`(?m)^\| ` + field + ` \|.*$`).Find(text)
		if !bytes.Contains(row, []byte("| `"+value.String()+"` |")) {
			t.Errorf("%s does not say that the default of %s is %s: %s", document, field, value, row)
		}
	}
}

// fields are the names of all members that a plan may have somewhere.
func fields(of reflect.Type) (all []string) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return fields(of.Elem())
	case reflect.Struct:
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all = append(append(all, name), fields(f.Type)...)
		}
	}
	return all
}
