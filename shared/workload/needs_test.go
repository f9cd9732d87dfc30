package workload

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// entryOf is an entry of a file, with these members besides.
func entryOf(class, slot, more string) string {
	return `{"@class":"` + class + `","slot":"` + slot + `","resources":{"iss_hook_start":{"@class":"Resource",` +
		`"uuid":"u","urls":["http://x/s"],"size":1,"verification":{"checksum":"SHA256:` + strings.Repeat("ab", 32) +
		`"}}}` + more + `}`
}

// Needs are read strictly, each with its place.
func TestParseNeeds(t *testing.T) {
	for _, row := range []struct{ needs, path, message string }{
		{`[{"slot":"db@n1","condition":"started"},{"slot":"x@n1","condition":"before"}]`, "", ""},
		{`[{"slot":"db@n1"}]`, "/0/needs/0/condition", "missing"},
		{`[{"condition":"started"}]`, "/0/needs/0/slot", "missing"},
		{`[{"slot":"db@n1","condition":"helthy"}]`, "/0/needs/0/condition", "did you mean \"healthy\""},
		{`[{"slot":"db","condition":"started"}]`, "/0/needs/0/slot", "service@node"},
		{`[{"slot":"db@n1","condition":"started","version":"1"}]`, "/0/needs/0/version", "unknown field"},
		{`[{"slot":"db@n2","condition":"started"}]`, "/0/needs/0", "another node"},
		{`[{"slot":"web@n1","condition":"after"}]`, "/0/needs/0", "itself"},
		{`[{"slot":"db@n1","condition":"started"},{"slot":"db@n1","condition":"healthy"}]`, "/0/needs/1", "already"},
		{`["db@n1"]`, "/0/needs/0", "object"},
		{`[` + strings.TrimSuffix(strings.Repeat(`{"slot":"db@n1","condition":"after"},`, MaxNeeds+1), ",") + `]`,
			"/0/needs/64", "more than 64"},
	} {
		set, problems := Parse([]byte("[" + entryOf("Instance", "web@n1", `,"needs":`+row.needs) + "]"))
		if row.path == "" {
			if problems != nil || len(set.Configs[0].Needs) != 2 {
				t.Errorf("%s: %v", row.needs, problems)
			}
			again, problems := Parse(Encode(set.Configs))
			if problems != nil || fmt.Sprint(again.Configs[0].Needs) != fmt.Sprint(set.Configs[0].Needs) {
				t.Errorf("written and read again: %v, %v", again, problems)
			}
			continue
		}
		found := false
		for _, p := range problems {
			found = found || p.Path == row.path && strings.Contains(p.Message, row.message) && p.Line == 1
		}
		if !found {
			t.Errorf("%.80s: %v", row.needs, problems)
		}
	}
	for _, class := range []string{"TopologicalInstance", "InstanceFiller"} {
		_, problems := Parse([]byte(`[{"@class":"` + class + `","needs":[]}]`))
		if len(problems) == 0 ||
			!strings.Contains(problems.Error(), "unknown-field: "+class+" has no field \"needs\"") {
			t.Errorf("%s: %v", class, problems)
		}
	}
}

// What is needed has to be in the set and able to be so; of slots that wait for each other the smallest circle is
// named. What is filled keeps its needs, and they reach the node.
func TestFillNeeds(t *testing.T) {
	need := func(pairs ...string) string {
		var all []string
		for _, p := range pairs {
			slot, condition, _ := strings.Cut(p, "=")
			all = append(all, `{"slot":"`+slot+`@n1","condition":"`+condition+`"}`)
		}
		return `,"needs":[` + strings.Join(all, ",") + "]"
	}
	slot := func(name string, pairs ...string) string { return entryOf("Instance", name+"@n1", need(pairs...)) }
	for _, row := range []struct {
		name    string
		entries []string
		want    string // of the message; "": it is good
	}{
		{"good", []string{slot("a", "b=started", "c=healthy", "d=completed"), slot("b"), slot("c"),
			entryOf("Job", "d@n1", "")}, ""},
		{"weak ones may be missing", []string{slot("a", "x=before", "y=after")}, ""},
		{"missing", []string{slot("a", "x=started")}, "slot a@n1: it needs x@n1, which is not in this set"},
		{"no job", []string{slot("a", "b=completed"), slot("b")}, "slot a@n1: it needs b@n1 to be completed, which"},
		{"two", []string{slot("a", "b=started"), slot("b", "a=healthy")}, "wait for each other: a@n1 → b@n1 → a@n1"},
		{"weak circles are circles", []string{slot("a", "b=after"), slot("b", "a=after")}, "a@n1 → b@n1 → a@n1"},
		{"before is the other way round", []string{slot("a", "b=before"), slot("b", "a=before")}, "a@n1 → b@n1 → a@n1"},
		{"before and after agree", []string{slot("a", "b=before"), slot("b", "a=after")}, ""},
		{"the smallest", []string{slot("a", "b=started"), slot("b", "c=started"), slot("c", "a=started", "d=started"),
			slot("d", "e=started"), slot("e", "d=started"), slot("f", "a=started")}, "other: d@n1 → e@n1 → d@n1"},
		{"a circle that others lead to", []string{slot("a", "b=started"), slot("b", "c=started"), slot("c", "d=after"),
			slot("d", "c=started")}, "other: c@n1 → d@n1 → c@n1"},
	} {
		set, problems := Parse([]byte("[" + strings.Join(row.entries, ",") + "]"))
		if problems != nil {
			t.Errorf("%s: %v", row.name, problems)
			continue
		}
		filled, problems := Fill(set)
		switch {
		case row.want == "" && problems != nil, row.want != "" && (len(problems) != 1 ||
			!strings.Contains(problems[0].Message, row.want) || problems[0].Line != 1):
			t.Errorf("%s: %v", row.name, problems)
		case row.want == "":
			body, err := EncodeDocument(ForNode(filled.Configs, "n1"))
			if err != nil {
				t.Fatal(err)
			}
			configs, errs := ParseDocument(body, "n1")
			if errs != nil || fmt.Sprint(configs[0].Needs) != fmt.Sprint(set.Configs[0].Needs) {
				t.Errorf("%s: the node gets %v, %v", row.name, configs, errs)
			}
		}
	}
}

// A set whose needs would take too long to judge is refused as one that is too large: every slot is in some circle.
func TestNeedsTooMuchWork(t *testing.T) {
	var configs []Config
	for i := range MaxEntries {
		c := Config{Class: Instance, Slot: Slot{fmt.Sprint("s", i), "n"}}
		for j := range MaxNeeds {
			c.Needs = append(c.Needs, Need{Slot{fmt.Sprint("s", (i+1+j*37)%MaxEntries), "n"}, After})
		}
		configs = append(configs, c)
	}
	f := newFilling(&Set{})
	f.checkNeeds(configs)
	if len(f.problems) == 0 || f.problems[0].Code != wire.CodeTooLarge || len(f.problems) > strictjson.MaxProblems {
		t.Errorf("%v", f.problems)
	}
}
