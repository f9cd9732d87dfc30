package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFilter(t *testing.T) {
	e := &entry{class: TopologicalInstance, slot: Slot{"web", "n1"}, properties: map[string]string{"a": "1", "b": "",
		"with space": "x y", "zone/2": "z", "and": "&"}}
	for in, want := range map[string]bool{
		`instance[a]`: true, `instance[properties/a]`: true, `instance[c]`: false, `instance[b]`: true,
		`instance[a = 1]`: true, `instance[a=="1"]`: true, `instance[a='2']`: false, `instance[b=""]`: true,
		`instance[c=""]`: false,
		`instance[a!=2]`: true, `instance[a!=1]`: false, `instance[c!=1]`: true,
		`instance[a and b]`: true, `instance[a and c]`: false, `instance[c or a]`: true, `instance[c or d]`: false,
		`instance[not c]`: true, `instance[not not a]`: true, `instance[not (a and c)]`: true,
		`instance[not a and c]`:  false,
		`instance[c and d or a]`: true, `instance[c and (d or a)]`: false, `instance[ ( ( a ) ) ]`: true,
		`instance["with space" = 'x y']`: true, `instance[properties/"with space"]`: true, `instance[zone/2=z]`: true,
		`instance["and"]`:        true,
		`instance[slot/node=n1]`: true, `instance[slot/service=db]`: false, `instance[slot="web@n1"]`: true,
		`instance[slot=web@n1]`:                true,
		`instance[@class=TopologicalInstance]`: true, `instance[@class=ru.yandex.iss.TopologicalInstance]`: true,
		`instance[configurationId]`: false,
	} {
		f, err := ParseFilter(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if f.holds(e) != want {
			t.Errorf("%s: %v", in, !want)
		}
	}
	for in, want := range map[string]string{
		``: "column 1", `x[a]`: "column 1", `instance`: "column 9", `instance[`: "column 10", `instance[a`: "column 11",
		`instance[a]]`:  "column 12",
		`instance[a b]`: "column 12", `instance[a and]`: "column 15", `instance[or a]`: "column 10",
		`instance[a=]`: "column 12", `instance[=1]`: "column 10",
		`instance["a]`: "column 10", `instance[(a]`: "column 12", `instance[a\b]`: "column 11",
		`instance[slot/host]`: "column 10", `instance[properties/]`: "column 10",
		`instance[é=ü ü]`: "column 14", `instance[` + strings.Repeat("not ", 100) + `a]`: "more than 64", `instance[` +
			strings.Repeat("a", MaxText) + `]`: "at most",
		`"instance"[a]`: "column 1", `instance[a=(b)]`: "column 12", `instance[!a]`: "column 10",
	} {
		if _, err := ParseFilter(in); err == nil || !strings.Contains(err.Message, want) {
			t.Errorf("%.60s: %v, want %s", in, err, want)
		}
	}
}

func TestTemplate(t *testing.T) {
	e := &entry{slot: Slot{"web", "n1"}, properties: map[string]string{"a": "1", "q\"": "2"}}
	for in, want := range map[string]string{
		``: "", `plain`: "plain", `@{prop("properties/a")} `: "1 ", `x@{prop("a")}y@{prop("slot/node")}`: "x1yn1",
		`@{ prop ( "slot" ) }`: "web@n1",
		`@{prop("q\"")}`:       "2", `@{"@{"}x}`: "@{x}", `@x {}`: "@x {}",
	} {
		if got, err := e.fill(in); err != nil || got != want {
			t.Errorf("%s: %q, %v", in, got, err)
		}
		if err := checkTemplate(in); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, in := range []string{`@{`, `@{}`, `@{a}`, `@{prop}`, `@{prop(a)}`, `@{prop("a"}`, `@{prop("a")`, `@{"a`,
		`@{prop("slot/x")}`, `@{prop("properties/")}`} {
		if err := checkTemplate(in); err == nil {
			t.Errorf("%s was taken", in)
		}
	}
	if _, err := e.fill(`@{prop("b")}`); err == nil || !strings.Contains(err.Error(), `web@n1 has no "properties/b"`) {
		t.Errorf("%v", err)
	}
}

// topo, filler and res are short ways to write JSON.
func topo(slot string, properties ...string) string {
	return fmt.Sprintf(`{"@class":"TopologicalInstance","slot":%q,"properties":{%s}}`, slot,
		strings.Join(properties, ","))
}

func filler(name, more, properties, resources string, rest ...string) string {
	if more != "" {
		more += ","
	}
	return fmt.Sprintf(`{"@class":"InstanceFiller","name":%q,%s"instance":{"properties":{%s},"resources":{%s}%s}}`,
		name, more, properties, resources, strings.Join(append([]string{""}, rest...), ","))
}

func res(name, uuid string) string {
	return fmt.Sprintf(`%q:{"@class":"Resource","uuid":%q,"urls":["http://h/%s"],"size":1,"verification":{}}`, name,
		uuid, uuid)
}

func fillAll(t testing.TB, entries ...string) (*Filled, Problems) {
	t.Helper()
	filled, ps, _ := FillFiles(mustParse(t, "["+strings.Join(entries, ",")+"]"), true)
	return filled, ps
}

func TestFill(t *testing.T) {
	base := filler("base", "", "", start)
	for _, c := range []struct {
		name    string
		entries []string
		want    string // slot: properties; resources by uuid; fillers. Or the problem
	}{
		{"a filler without conditions", []string{topo("a@n", `"p":"1"`), base}, "a@n p=1 iss_hook_start=s [base]"},
		{"equal properties", []string{topo("a@n", `"p":"1"`), topo("b@n", `"p":"2"`),
			filler("one", "", `"p":"1"`, start), filler("two", "", `"p":"2"`, res("iss_hook_start", "t"))},
			"a@n p=1 iss_hook_start=s [one]; b@n p=2 iss_hook_start=t [two]"},
		{"a property that is not there", []string{topo("a@n"), filler("one", "", `"p":"1"`, start)},
			`no filler applies to the slot a@n; "one": there is no property "p"`},
		{"another value", []string{topo("a@n", `"p":"2"`), filler("one", "", `"p":"1"`, start)},
			`"one": the property "p" is "2", not "1"`},
		{"another value of a secret",
			[]string{topo("a@n", `"secret.p":"2"`), filler("one", "", `"secret.p":"1"`, start)},
			`"one": the property "secret.p" has another value`},
		{"a filter adds properties",
			[]string{topo("a@n", `"p":"2"`), filler("one", `"filter":"instance[p=2]"`,
				`"q":"@{prop(\"p\")}@{prop(\"slot/node\")}","r":"new"`, start)},
			"a@n p=2 q=2n r=new iss_hook_start=s [one]"},
		{"a filter and another value",
			[]string{topo("a@n", `"p":"2"`), filler("one", `"filter":"instance[p]"`, `"p":"1"`, start)},
			`the property "p" is "2", not "1"`},
		{"no filter holds", []string{topo("a@n"), filler("one", `"filter":"instance[p]"`, ``, start)},
			`"one": its filter does not hold`},
		{"two fillers together", []string{topo("a@n"), base, filler("more", "", "", res("x", "x"))},
			"a@n iss_hook_start=s x=x [base more]"},
		{"two fillers of one mind", []string{topo("a@n"), base, filler("same", "", "", start)},
			"a@n iss_hook_start=s [base same]"},
		{"two fillers disagree", []string{topo("a@n"), base, filler("other", "", "", res("iss_hook_start", "t"))},
			`two fillers apply to the slot a@n and disagree: "base" (line 1) and "other" (line 1)`},
		{"a child goes before its parent",
			[]string{topo("a@n"), base, filler("child", `"parentFillers":"base"`, "", res("iss_hook_start", "t"))},
			"a@n iss_hook_start=t [child]"},
		{"a grandchild", []string{topo("a@n"), base, filler("child", `"parentFillers":"base"`, "", res("x", "c")),
			filler("grandchild", `"parentFillers":["child"]`, "", res("x", "g"))},
			"a@n iss_hook_start=s x=g [grandchild]"},
		{"inherited properties are conditions too", []string{topo("a@n"), filler("parent", "", `"p":"1"`, start),
			filler("child", `"parentFillers":"parent"`, "", res("x", "x"))}, `"child": there is no property "p"`},
		{"two parents", []string{topo("a@n"), filler("p1", `"filter":"instance[never]"`, "", start),
			filler("p2", `"filter":"instance[never]"`, "", res("x", "x")),
			filler("child", `"parentFillers":["p1","p2"]`, "", "")}, "a@n iss_hook_start=s x=x [child]"},
		{"two parents set the same", []string{topo("a@n"), filler("p1", "", "", start), filler("p2", "", "", start),
			filler("child", `"parentFillers":["p1","p2"]`, "", start)},
			`the parents of filler "child" disagree: "p1" (line 1) and "p2" (line 1)`},
		{"one ancestor by two ways",
			[]string{topo("a@n"), base, filler("p1", `"parentFillers":"base"`, "", res("x", "x")),
				filler("p2", `"parentFillers":"base"`, "", res("y", "y")),
				filler("child", `"parentFillers":["p1","p2"]`,
					"", "")}, "a@n iss_hook_start=s x=x y=y [child]"},
		{"a circle", []string{filler("p1", `"parentFillers":"p3"`, "", ""), filler("p2", `"parentFillers":"p1"`, "",
			""), filler("p3", `"parentFillers":"p2"`, "", "")}, "each other's parents: p1 ← p3 ← p2 ← p1"},
		{"its own parent", []string{filler("p1", `"parentFillers":"p1"`, "", "")}, "p1 ← p1"},
		{"no such parent", []string{filler("p1", `"parentFillers":"bse"`, "", ""), base},
			`"bse" that is not there; did you mean "base"?`},
		{"no such parent, and none like it", []string{topo("a@n"), filler("p1", `"parentFillers":"p2"`, "", "")},
			"\"p2\" that is not there\n"},
		{"nothing to start", []string{topo("a@n"), filler("one", "", "", res("x", "x"))}, HookStart + " is needed"},
		{"a property that a template lacks", []string{topo("a@n"), filler("one", "", `"p":"@{prop(\"q\")}"`, start)},
			`a@n has no "properties/q" (at /properties/p)`},
		{"a template that makes a bad URL",
			[]string{topo("a@n", `"p":"ftp"`),
				filler("one", "", "", start+
					`,"x":{"@class":"Resource","uuid":"x","urls":["@{prop(\"p\")}://h/"],"size":0,"verification":{}}`)},
			"http, https, rbtorrent and magnet"},
		{"an instance is modified", []string{`{"@class":"Instance","slot":"a@n","properties":{"p":"1"},"resources":{` +
			start + `,` + res("x", "old") + `}}`, filler("one", "", `"p":"1"`, res("x", "new"))},
			"a@n p=1 iss_hook_start=s x=new [one]"},
		{"an instance stays", []string{`{"@class":"Instance","slot":"a@n","resources":{` + start + `}}`},
			"a@n iss_hook_start=s []"},
		{"a job", []string{topo("a@n"),
			`{"@class":"InstanceFiller","name":"j","instance":{"@class":"Job","properties":{},"resources":{` + start +
				`},"timeLimits":{"iss_hook_start":{"maxExecutionTimeMs":5}}}}`}, "a@n Job iss_hook_start=s [j]"},
		{"a limit for no hook", []string{topo("a@n"),
			filler("one", "", "", start, `"timeLimits":{"iss_hook_stop":{}}`)}, `"iss_hook_stop" is none`},
		{"one uuid, two contents", []string{topo("a@n", `"p":"1"`), topo("b@n", `"p":"2"`),
			filler("one", "", `"p":"1"`, start+
				`,"x":{"@class":"Resource","uuid":"u","urls":["http://h/"],"size":0,`+
				`"verification":{"checksum":"MD5:00112233445566778899aabbccddeeff"}}`),
			filler("two", "", `"p":"2"`, start+
				`,"x":{"@class":"Resource","uuid":"u","urls":["http://h/"],"size":0,`+
				`"verification":{"checksum":"MD5:ff112233445566778899aabbccddeeff"}}`)}, "one uuid is one content"},
	} {
		for turn, entries := range [][]string{c.entries, reversed(c.entries)} {
			filled, ps := fillAll(t, entries...)
			got := ps.Error()
			if ps == nil {
				got = summary(filled)
				if got != c.want {
					t.Errorf("%s (%d):\n got %s\nwant %s", c.name, turn, got, c.want)
				}
			} else if !strings.Contains(got, c.want) {
				t.Errorf("%s (%d):\n got %s\nwant %s", c.name, turn, got, c.want)
			}
		}
	}
}

func reversed(in []string) []string {
	out := slices.Clone(in)
	slices.Reverse(out)
	return out
}

func summary(f *Filled) string {
	var all []string
	for _, c := range f.Configs {
		line := []string{c.Slot.String()}
		if c.Class != Instance {
			line = append(line, c.Class.Short())
		}
		for _, n := range slices.Sorted(maps.Keys(c.Properties)) {
			line = append(line, n+"="+c.Properties[n])
		}
		for _, n := range slices.Sorted(maps.Keys(c.Resources)) {
			line = append(line, n+"="+c.Resources[n].UUID)
		}
		all = append(all, strings.Join(append(line, fmt.Sprint(f.Slots[c.Slot].Fillers)), " "))
	}
	return strings.Join(all, "; ")
}

func TestOrigins(t *testing.T) {
	f, ps := fillAll(t, topo("a@n", `"p":"1"`), filler("parent", `"filter":"instance[never]"`, "", start),
		filler("child", `"filter":"instance[p]","parentFillers":"parent"`, `"q/r":"2"`, ""))
	if ps != nil {
		t.Fatal(ps)
	}
	x := f.Slots[Slot{"a", "n"}]
	want := map[string]string{"/properties/p": "", "/properties/q~1r": "child", "/resources/iss_hook_start": "parent"}
	if !maps.Equal(x.Origins, want) || x.Passed["parent"] != "its filter does not hold" {
		t.Errorf("%+v", x)
	}
}

func TestForNode(t *testing.T) {
	f, ps := fillAll(t, topo("a@n"), topo("b@n"), topo("c@m"),
		filler("one", `"filter":"instance[slot/service=a]"`, "", start+
			`,"x":{"@class":"Resource","uuid":"u","urls":["http://1/"],"size":0,"verification":{}}`),
		filler("two", `"filter":"instance[not slot/service=a]"`, "", start+
			`,"y":{"@class":"Resource","uuid":"u","urls":["http://2/","http://1/"],"size":0,"verification":{}}`))
	if ps != nil {
		t.Fatal(ps)
	}
	mine := ForNode(f.Configs, "n")
	if len(mine) != 2 || fmt.Sprint(mine[0].Resources["x"].URLs) != "[http://1/ http://2/]" ||
		fmt.Sprint(mine[1].Resources["y"].URLs) != "[http://1/ http://2/]" {
		t.Errorf("%+v", mine)
	}
	if other := ForNode(f.Configs, "m"); len(other) != 1 ||
		fmt.Sprint(other[0].Resources["y"].URLs) != "[http://2/ http://1/]" {
		t.Errorf("%+v", other)
	}
	if len(ForNode(f.Configs, "x")) != 0 || string(Encode(nil)) != "[]" {
		t.Error("a node with nothing to run")
	}
	a, b := mine[0].Identified(), mine[1].Identified()
	if a.ConfigurationID == b.ConfigurationID || a.ConfigurationID != mine[0].Identified().ConfigurationID ||
		a.Identified().ConfigurationID != a.ConfigurationID {
		t.Errorf("%s, %s", a.ConfigurationID, b.ConfigurationID)
	}
}

// someSet draws topologies and fillers that mostly fit together.
func someSet(t *rapid.T) *Set {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-d]`), 1, 4, rapid.ID[string]).Draw(t, "names")
	var entries []string
	for i, n := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]@[nm]`), 0, 4, rapid.ID[string]).Draw(t,
		"slots") {
		entries = append(entries, topo(n, fmt.Sprintf(`"p":"%d","q":"x"`, i%2)))
	}
	for i, n := range names {
		parents := []string{}
		for _, p := range names[:i] {
			if rapid.IntRange(0, 3).Draw(t, "parent") == 0 {
				parents = append(parents, fmt.Sprintf("%q", p))
			}
		}
		more := `"parentFillers":[` + strings.Join(parents, ",") + `]`
		if rapid.Bool().Draw(t, "filtered") {
			more += `,"filter":` + rapid.SampledFrom([]string{`"instance[p=0]"`, `"instance[p=1 or slot/node=m]"`,
				`"instance[not q=x]"`}).Draw(t, "filter")
		}
		props := rapid.SampledFrom([]string{``, `"p":"0"`, `"r":"@{prop(\"p\")}"`}).Draw(t, "properties")
		resources := rapid.SampledFrom([]string{``, start, res("x", "x"+n), start + "," + res("x"+n, "y")}).Draw(t,
			"resources")
		entries = append(entries, filler(n, more, props, resources))
	}
	entries = rapid.Permutation(entries).Draw(t, "order")
	set, ps := Parse([]byte("[" + strings.Join(entries, ",") + "]"))
	if ps != nil {
		t.Fatalf("%v", ps)
	}
	return set
}

// TestFillProperties: filling is deterministic whatever the order, and what is filled stays as it is.
func TestFillProperties(t *testing.T) {
	filledAny := false
	rapid.Check(t, func(t *rapid.T) {
		set := someSet(t)
		one, ps := Fill(set)
		shuffled := &Set{Topologies: rapid.Permutation(set.Topologies).Draw(t, "topologies"),
			Fillers: rapid.Permutation(set.Fillers).Draw(t, "fillers")}
		two, ps2 := Fill(shuffled)
		if (ps == nil) != (ps2 == nil) {
			t.Fatalf("%v\n%v", ps, ps2)
		}
		explained, ps3, _ := FillFiles(set, true)
		if fmt.Sprint(ps3) != fmt.Sprint(ps) {
			t.Fatalf("%v\n%v", ps, ps3)
		}
		if ps != nil {
			return
		}
		if len(explained.Slots) != len(one.Configs) ||
			string(Encode(one.Configs)) != string(Encode(explained.Configs)) {
			t.Fatalf("%s\n%s", Encode(one.Configs), Encode(explained.Configs))
		}
		filledAny = filledAny || len(one.Configs) > 0
		if string(Encode(one.Configs)) != string(Encode(two.Configs)) {
			t.Fatalf("%s\n%s", Encode(one.Configs), Encode(two.Configs))
		}
		written, ps := Parse(Encode(one.Configs))
		if ps != nil {
			t.Fatalf("what was filled cannot be read: %v\n%s", ps, Encode(one.Configs))
		}
		alone, ps := Fill(written)
		if ps != nil || string(Encode(alone.Configs)) != string(Encode(one.Configs)) {
			t.Fatalf("filled again: %v\n%s", ps, Encode(one.Configs))
		}
		again, ps := Fill(&Set{Configs: one.Configs, Fillers: set.Fillers})
		if ps != nil || string(Encode(again.Configs)) != string(Encode(one.Configs)) {
			t.Fatalf("filled again by the same: %v\n%s", ps, Encode(one.Configs))
		}
	})
	if !filledAny {
		t.Error("nothing was ever filled")
	}
}

func FuzzParse(f *testing.F) {
	for _, n := range []string{"seed-applicable.txt", "seed-topology.txt", "seed-filler.txt", "seed-result.json"} {
		f.Add(file(f, n))
	}
	f.Add([]byte(`[` + topo("a@n") + `,` + filler("base", `"filter":"instance[not (a or b='c')]","parentFillers":["x"]`,
		`"p":"@{prop(\"slot\")}"`, start) + `]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		set, ps := Parse(in)
		if ps == nil {
			if filled, ps := Fill(set); ps == nil {
				if _, ps := Parse(Encode(filled.Configs)); ps != nil {
					t.Fatalf("what was filled cannot be read: %v", ps)
				}
			}
		}
	})
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{`instance[a]`, `instance[not (properties/a = "x" or b!=c) and slot/node=n]`,
		`instance["a\"b"='\\']`} {
		f.Add(s)
	}
	e := &entry{properties: map[string]string{"a": "1"}}
	f.Fuzz(func(t *testing.T, s string) {
		if filter, err := ParseFilter(s); err == nil {
			filter.holds(e)
		} else if err.Message == "" {
			t.Fatal("no message")
		}
	})
}
