package unitconfig

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

func TestAccepted(t *testing.T) {
	for _, in := range []string{
		"{\"formatVersion\":\"7\",\"version\":\"1.0.0\",\"nodes\":[]}",
		entry(`"priority":4294967295`),
		entry(`"priority":4.294967295e9`),
		entry(`"priority":10e-1`),
		entry(`"priority":-0`),
		entry(`"priority":0e99999999999`),
		entry(`"resourceRatios":{"cpu":100,"ram":0,"storage":50.0,"state":null}`),
		entry(`"alertRules":{"ram":{"minThreshold":-0.0,"maxThreshold":1.0}}`),
		entry(`"alertRules":{"ram":{"minThreshold":1e-400,"maxThreshold":10e-1}}`),
		entry(`"alertRules":{"upload":{"minThreshold":1e3,"maxThreshold":18446744073709551615}}`),
		entry(`"alertRules":null,"labels":null,"version":null`),
		entry(`"alertRules":{"partitions":[]},"labels":[]`),
		entry(`"node":{"codename":"n","id":"","title":"","type":null}`),
		"\r\n" + entry("") + "\n", // is refused below if the trailing comma is not removed
	} {
		in = strings.Replace(in, ",\n}", "\n}", 1)
		uc, ps := Parse([]byte(in))
		if ps != nil {
			t.Errorf("%s:\n%v", in, ps)
			continue
		}
		again, ps := Parse(Encode(uc))
		if ps != nil || !reflect.DeepEqual(uc, again) {
			t.Errorf("%s: written and read again: %+v (%v)", in, again, ps)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, ps := Parse([]byte(entry(`"labels":[` + strings.Repeat(`"",`, 200) + `""]`)))
	if len(ps) != MaxProblems {
		t.Errorf("%d problems", len(ps))
	}
	if !strings.Contains(ps.Error(), "there may be more") {
		t.Error("the text does not say that it was cut")
	}
	huge := strings.Repeat("k", 1<<20)
	_, ps = Parse([]byte(`{"` + huge + `":{"` + huge + `":1}}`))
	for _, p := range ps {
		if len(p.Path) > wire.MaxPath || len(p.Message) > wire.MaxMessage {
			t.Errorf("%s: path of %d bytes, message of %d", p.Code, len(p.Path), len(p.Message))
		}
	}
}

func TestHostileInputIsCheap(t *testing.T) {
	fill := func(unit string) string { return strings.Repeat(unit, MaxDocument/len(unit)) }
	for name, in := range map[string]string{
		"brackets":     fill("["),
		"objects":      fill(`{"":`),
		"flat array":   `{"nodes":[` + fill("0,"),
		"unknown":      "{" + fill(`"a":1,`),
		"long string":  `{"version":"` + fill("9"),
		"long number":  `{"nodes":[{"priority":1` + fill("0"),
		"exponent":     entry(`"priority":1e999999999999999999`),
		"newlines":     fill("\n") + "x",
		"one key":      `{"` + fill("x"),
		"deep skipped": `{"x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + "}",
	} {
		in = in[:min(len(in), MaxDocument)]
		start := time.Now()
		if uc, ps := Parse([]byte(in)); uc != nil || len(ps) == 0 {
			t.Errorf("%s: accepted", name)
		}
		if took := time.Since(start); took > 5*time.Second { // milliseconds, in truth; the machine may be busy
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestProblemsAsError(t *testing.T) {
	_, ps := Parse([]byte(`{"formatVersion":"8"}`))
	if err := ps.Err(); !errors.Is(err, &wire.Error{Code: wire.CodeWrongVersion}) {
		t.Errorf("not recognised: %v", err)
	}
	if w, ok := errors.AsType[*wire.Error](ps.Err()); !ok || w != ps.First() {
		t.Errorf("not unwrapped: %v", w)
	}
	if err := Problems(nil).Err(); err != nil || Problems(nil).First() != nil {
		t.Errorf("no problem is an error: %v", err)
	}
	if got := ps.Error(); !strings.HasPrefix(got, "line 1, column 18: wrong-version: ") {
		t.Errorf("text %q", got)
	}
}

func TestParseNode(t *testing.T) {
	c, ps := ParseNode([]byte(`{"formatVersion":"7","version":"1.0.0","node":{"codename":"n"},` +
		`"resourceRatios":{"cpu":0}}`))
	if ps != nil {
		t.Fatal(ps)
	}
	if want := (ResourceRatios{0, 50, 50, 50}); *c.ResourceRatios != want || c.Priority != 0 ||
		c.NodeGroupSubject != nil {
		t.Errorf("got %+v", c)
	}
	for in, want := range map[string]string{
		`{"formatVersion":"7"}`:                                           "/version",
		`{"version":"1.0.0"}`:                                             "/formatVersion",
		`{"formatVersion":"6","version":"x"}`:                             "/formatVersion",
		`{"formatVersion":"7","version":"1"}`:                             "/version",
		`{"formatVersion":"7","version":"1.0.0","nodes":[]}`:              "/nodes",
		`{"formatVersion":"7","version":"1.0.0","node":{"codename":" "}}`: "/node/codename",
		`{"formatVersion":"7","version":"1.0.0","alertRules":{"ram":{"minThreshold":2,` +
			`"maxThreshold":1}}}`: "/alertRules/ram/minThreshold",
	} {
		if c, ps := ParseNode([]byte(in)); c != nil || len(ps) != 1 || ps[0].Path != want {
			t.Errorf("%s: %v", in, ps)
		}
	}
}

func TestNegativeZeroIsZero(t *testing.T) {
	uc, ps := Parse([]byte(entry(`"alertRules":{"ram":{"minThreshold":-0.0,"maxThreshold":-0}}`)))
	if ps != nil || strings.Contains(string(Encode(uc)), "-0") {
		t.Errorf("%v %s", ps, Encode(uc))
	}
}
