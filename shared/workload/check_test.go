package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// TestFillChecks: what comes out of fillers is checked as what is written is, with its slot, place and rule.
func TestFillChecks(t *testing.T) {
	url := func(list string) string {
		return start + `,"x":{"@class":"Resource","uuid":"x","urls":[` + list + `],"size":0,"verification":{}}`
	}
	summed := func(uuid, sum string) string {
		return start + `,"x":{"@class":"Resource",` + uuid + `"urls":["http://h/"],"size":0,"verification":{` +
			`"checksum":"` + sum + `","checkPeriod":"0d0h0m"}}`
	}
	constraint := func(name, value string) string {
		return `"container":{"constraints":{"` + name + `":"` + value + `"}}`
	}
	line := strings.Split(signature, `\n`)
	long := func(prefix string) string {
		return many(200, func(i int) string { return fmt.Sprintf(`"%s%d":""`, prefix, i) })
	}
	for name, c := range map[string]struct{ properties, resources, rest, want string }{
		"one address twice": {`"p":"h"`, url(`"http://h/","http://@{prop(\"p\")}/"`), "",
			"duplicate: slot a@n: this URL is there already (at /resources/x/urls/1)"},
		"no torrent": {`"p":"abc"`, url(`"rbtorrent:@{prop(\"p\")}"`), "", "(at /resources/x/urls/0)"},
		"no uuid": {`"p":""`, summed(`"uuid":"@{prop(\"p\")}",`, "MD5:99300b5d1e10ec1d72cb45d023fe86ac"), "",
			"a uuid must not be empty (at /resources/x)"},
		"no content and no uuid": {`"p":"EMPTY"`, summed("", `@{prop(\"p\")}:`), "",
			"missing: slot a@n: a resource needs a checksum or a uuid (at /resources/x/verification/checksum)"},
		"a signature": {`"p":"` + line[0] + `"`, start + `,"x":{` +
			minisigned(sha, `@{prop(\"p\")}\n`+line[1]+`\n`+line[2]) + `}`, "", ""},
		"no signature": {`"p":"x"`, start + `,"x":{` + minisigned(sha, `@{prop(\"p\")}`) + `}`, "",
			"bad-value: slot a@n: it is not what minisign writes: three lines"},
		"a signature of any content": {`"p":"EMPTY:"`, start + `,"x":{"uuid":"u",` +
			minisigned(`@{prop(\"p\")}`, signature) + `}`, "",
			"needs a checksum of SHA256, too (at /resources/x/verification/minisign)"},
		"no checksum": {`"p":"0"`, summed("", `MD5:@{prop(\"p\")}`), "", "needs 32 hex digits"},
		"a long configurationId": {`"p":"` + strings.Repeat("x", MaxID) + `"`, start,
			`"configurationId":"x@{prop(\"p\")}"`, "at most 256 bytes, without control characters (at " +
				"/configurationId)"},
		"too many properties": {long("p"), start + `},"properties":{` + long("q"), "", ""},
		"a constraint of no node": {`"p":"1"`, start, constraint("cpu.smart", `@{prop(\"p\")}`),
			"not-supported: slot a@n: cpu.smart is a property of Porto"},
		"a bad value of a constraint": {`"p":"20GB"`, start, constraint("memory.max", `@{prop(\"p\")}`),
			"(at /container/constraints/memory.max)"},
		"an unknown constraint": {`"p":"1"`, start, constraint("memory.limit", "1"), "memory.limit"},
		"a good one":            {`"p":"20G"`, start, constraint("memory.max", `@{prop(\"p\")}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			properties := ""
			if before, after, ok := strings.Cut(c.resources, `},"properties":{`); ok { // of the filler
				c.resources, properties, c.want = before, after, "too-large: slot a@n: more than 256 fields"
			}
			_, ps := fillAll(t, topo("a@n", c.properties), filler("f", `"filter":"instance[slot]"`, properties,
				c.resources, slices.DeleteFunc([]string{c.rest}, func(s string) bool { return s == "" })...))
			if got := ps.Error(); c.want == "" && ps != nil || !strings.Contains(got, c.want) {
				t.Errorf("%v, want %s", ps, c.want)
			}
			if c.want != "" && len(ps) != 1 {
				t.Errorf("%d problems: %v", len(ps), ps)
			}
		})
	}
}

// Fillers alone would stop everything that runs.
func TestFillersAlone(t *testing.T) {
	if f, ps := fillAll(t, filler("f", "", "", start)); f != nil || len(ps) != 1 || ps[0].Code != wire.CodeMissing {
		t.Errorf("%v %v", f, ps)
	}
	if f, ps := fillAll(t); f == nil || ps != nil {
		t.Errorf("an empty set, which stops everything on purpose: %v", ps)
	}
}

// TestStored: what was accepted before the rules of today stays readable, fillable and as it was written; nothing else
// is read that would be refused.
func TestStored(t *testing.T) {
	old := `[` + instance("a@n", start+`,"x":{"@class":"Resource","urls":["rbtorrent:abc","magnet:?xt=urn:btih:x"],`+
		`"size":0,"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}},`+
		`"y":{"@class":"Resource","urls":["http://h/"],`+
		`"size":0,"verification":{"checksum":"MD5:99300B5D1E10EC1D72CB45D023FE86AC","checkPeriod":"0d0h0m"}}`) + `,
		{"@class":"Instance","slot":"b@n","container":{"constraints":{}},"resources":{` + start + `},
		"timeLimits":{"iss_hook_start":{"maxExecutionTimeMs":0}}},
		{"@class":"Instance","slot":"c@n","container":{"constraints":{"cpu.smart":"1"}},"resources":{` + start + `}}]`
	_, ps := Parse([]byte(old))
	if len(ps) != 5 {
		t.Errorf("today: %v", ps)
	}
	for _, read := range []func([]byte) (*Set, Problems){ParseStored, ParseStoredLenient} {
		set, ps := read([]byte(old))
		if ps != nil {
			t.Fatal(ps)
		}
		other := &Set{}
		other.Add(set, "file")
		for _, s := range []*Set{set, other} {
			filled, ps := Fill(s)
			if ps != nil || len(filled.Configs) != 3 {
				t.Fatal(ps)
			}
			if sum := filled.Configs[0].Resources["y"].Verification.Checksum; !strings.Contains(sum, "99300B5D") {
				t.Errorf("%s was changed", sum)
			}
			body, err := EncodeDocument(ForNode(filled.Configs, "n"))
			if err != nil {
				t.Fatal(err)
			}
			if configs, errs := ParseDocument(body, "n"); errs != nil || len(configs) != 3 {
				t.Errorf("the node does not read what it ran: %v", errs)
			}
		}
	}
	if _, ps := ParseStored([]byte(`[{"@class":"Instance","slot":"a","resources":{}}]`)); len(ps) != 2 {
		t.Errorf("%v", ps)
	}
}

// TestChecksumsOfOneContent: a checksum in capital digits is that in small ones, written or filled.
func TestChecksumsOfOneContent(t *testing.T) {
	sum := func(s string) string {
		return start + `,"x":{"@class":"Resource","uuid":"x","urls":["http://h/"],"size":0,` +
			`"verification":{"checksum":"` + s + `"}}`
	}
	const small, capital = "MD5:99300b5d1e10ec1d72cb45d023fe86ac", "MD5:99300B5D1E10EC1D72CB45D023FE86AC"
	f, ps := fillAll(t, instance("a@n", sum(small)), instance("b@n", sum(capital)), topo("c@n", `"p":"AC"`),
		filler("f", "", `"p":"AC"`, sum(`MD5:99300B5D1E10EC1D72CB45D023FE86@{prop(\"p\")}`)),
		topo("d@n", `"q":"1"`),
		filler("h", "", `"q":"1"`, sum(small)), filler("i", "", `"q":"1"`, sum(capital)))
	if ps != nil {
		t.Fatal(ps)
	}
	for _, c := range f.Configs {
		if got := c.Resources["x"].Verification.Checksum; got != small {
			t.Errorf("%s has %s", c.Slot, got)
		}
	}
	if len(f.Configs) != 4 {
		t.Errorf("%+v", f.Configs)
	}
}

// TestTopologyOfAnInstance: a topology changes single properties of an instance or job of its slot, before fillers
// look at it (seed 004, Inapplicable).
func TestTopologyOfAnInstance(t *testing.T) {
	own := func(slot, properties string) string {
		return fmt.Sprintf(`{"@class":"Job","slot":%q,"configurationId":"c","properties":{%s},"resources":{%s}}`, slot,
			properties, start)
	}
	for name, c := range map[string]struct {
		entries []string
		want    string
	}{
		"a property changes": {[]string{own("a@n", `"p":"1","q":"1"`), topo("a@n", `"p":"2"`)},
			"a@n Job p=2 q=1 iss_hook_start=s []"},
		"a property is added": {[]string{own("a@n", ""), topo("a@n", `"p":"2"`)}, "a@n Job p=2 iss_hook_start=s []"},
		"it has no properties": {[]string{instance("a@n", start), topo("a@n", `"p":"2"`)},
			"a@n p=2 iss_hook_start=s []"},
		"nothing changes": {[]string{own("a@n", `"p":"1"`), topo("a@n")}, "a@n Job p=1 iss_hook_start=s []"},
		"fillers see it": {[]string{own("a@n", `"p":"1"`), topo("a@n", `"p":"2"`),
			filler("f", "", `"p":"2"`, res("x", "new")), filler("g", "", `"p":"1"`, res("x", "old"))},
			"a@n Job p=2 iss_hook_start=s x=new [f]"},
		"two instances": {[]string{own("a@n", ""), topo("b@n")}, "no filler applies to the slot b@n"},
	} {
		for turn, entries := range [][]string{c.entries, reversed(c.entries)} {
			filled, ps := fillAll(t, entries...)
			if ps != nil && !strings.Contains(ps.Error(), c.want) || ps == nil && summary(filled) != c.want {
				t.Errorf("%s (%d): %v %v, want %s", name, turn, filled, ps, c.want)
			}
		}
	}
	set := &Set{}
	set.Add(mustParse(t, "["+topo("a@n")+"]"), "one")
	set.Add(mustParse(t, "["+own("a@n", "")+",\n"+topo("a@n")+"]"), "two")
	if _, ps, files := FillFiles(set, false); len(ps) != 1 || files[0] != "two" || ps[0].Line != 2 ||
		ps[0].Message != "the slot a@n has two entries, the first one at one:1:2" {
		t.Errorf("%v in %v", ps, files)
	}
}

// TestJobsOfParents: a job's time limits, and all else that a filler needs, may be a parent's (seed 004, Filler).
func TestJobsOfParents(t *testing.T) {
	job := func(name, more, rest string) string {
		return fmt.Sprintf(`{"@class":"InstanceFiller","name":%q,%s"instance":{"@class":"Job"%s}}`, name, more, rest)
	}
	limited := filler("limited", `"filter":"instance[never]"`, "", start,
		`"timeLimits":{"iss_hook_start":{"maxExecutionTimeMs":5}}`)
	plain := filler("plain", `"filter":"instance[never]"`, "", start)
	for name, c := range map[string]struct {
		entries []string
		want    string
	}{
		"of a parent": {[]string{topo("a@n"), limited, job("f", `"parentFillers":"limited",`, "")},
			"a@n Job iss_hook_start=s [f]"},
		"of its parent": {[]string{topo("a@n"), limited, filler("between", `"filter":"instance[never]",`+
			`"parentFillers":"limited"`, "", ""), job("f", `"parentFillers":["between"],`, "")},
			"a@n Job iss_hook_start=s [f]"},
		"of none": {[]string{topo("a@n"), plain, job("f", `"parentFillers":"plain",`, "")},
			`missing: filler "f": the filler of a job needs "timeLimits", its own or those of a parent (at ` +
				`/timeLimits)`},
		"its own": {[]string{topo("a@n"), plain, job("f", `"parentFillers":"plain",`, `,"timeLimits":{}`)},
			"a@n Job iss_hook_start=s [f]"},
	} {
		filled, ps := fillAll(t, c.entries...)
		if ps != nil && !strings.Contains(ps.Error(), c.want) || ps == nil && summary(filled) != c.want {
			t.Errorf("%s: %v, want %s", name, ps, c.want)
		}
	}
}

// TestNoOtherName: what is suggested is never the name that was refused.
func TestNoOtherName(t *testing.T) {
	for in, want := range map[string]string{"app.cfg": "", "iss_hook_strat": `"iss_hook_start"`} {
		_, ps := Parse([]byte(`[{"@class":"Instance","slot":"a@n","resources":{` + start + `,` + res("app.cfg", "c") +
			`},"timeLimits":{"` + in + `":{}}}]`))
		_, hint, _ := strings.Cut(ps.Error(), "did you mean ")
		if hint, _, _ = strings.Cut(hint, "?"); len(ps) != 1 || hint != want {
			t.Errorf("%s: %v", in, ps)
		}
	}
}

// TestEqualPriority: of lists that differ, none goes first everywhere; a list that all have keeps its order.
func TestEqualPriority(t *testing.T) {
	resource := func(urls ...string) Artifact { return Artifact{Class: Resource, UUID: "u", URLs: urls} }
	first := map[string]int{}
	for i := range 200 {
		node := fmt.Sprint("n", i)
		config := func(service string, urls ...string) Config {
			return Config{Slot: Slot{service, node}, Resources: map[string]Artifact{HookStart: resource(urls...)}}
		}
		alike := ForNode([]Config{config("a", "z", "y", "x"), config("b", "z", "y", "x")}, node)
		mine := ForNode([]Config{config("a", "1", "2"), config("b", "3"), config("c", "2", "1")}, node)
		turned := ForNode([]Config{config("c", "2", "1"), config("b", "3"), config("a", "1", "2")}, node)
		urls := mine[0].Resources[HookStart].URLs
		if first[urls[0]]++; fmt.Sprint(slices.Sorted(slices.Values(urls))) != "[1 2 3]" {
			t.Fatal(urls)
		}
		for _, c := range slices.Concat(mine, turned) {
			if !slices.Equal(c.Resources[HookStart].URLs, urls) {
				t.Fatalf("%s: %v, not %v", c.Slot, c.Resources[HookStart].URLs, urls)
			}
		}
		if got := fmt.Sprint(alike[1].Resources[HookStart].URLs); got != "[z y x]" {
			t.Errorf("a list that all have: %s", got)
		}
	}
	for _, u := range []string{"1", "2", "3"} {
		if first[u] < 40 { // of 200, a third each
			t.Errorf("%s goes first on %d of 200 nodes", u, first[u])
		}
	}
}

// TestDocumentOfManySlots: what a node would not read is not written.
func TestDocumentOfManySlots(t *testing.T) {
	many := make([]Config, MaxEntries+1)
	for i := range many {
		many[i] = Config{Class: Instance, Slot: Slot{fmt.Sprint("s", i), "n"}}
	}
	large := started("a", "n")
	for i := range 1100 {
		large.Properties[fmt.Sprint(i)] = strings.Repeat("x", MaxText)
	}
	for _, configs := range [][]Config{many, {large}} {
		if _, err := EncodeDocument(configs); err == nil || err.Code != wire.CodeTooLarge {
			t.Errorf("%v", err)
		}
	}
}

// TestMaxExecution: a hook without a limit, or with one that no clock reaches, has none.
func TestMaxExecution(t *testing.T) {
	for ms, want := range map[int64]time.Duration{1: time.Millisecond, 60_000: time.Minute,
		math.MaxInt64 / 1_000_000:   math.MaxInt64 / 1_000_000 * time.Millisecond,
		math.MaxInt64/1_000_000 + 1: 0, math.MaxInt64: 0} {
		if d, ok := (Limit{MaxExecutionTimeMs: &ms}).MaxExecution(); d != want || ok != (want > 0) {
			t.Errorf("%d ms: %v, %v", ms, d, ok)
		}
	}
	if d, ok := (Limit{}).MaxExecution(); ok {
		t.Errorf("none: %v", d)
	}
}
