package workload

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
)

func file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustParse(t testing.TB, data string) *Set {
	t.Helper()
	set, ps := Parse([]byte(data))
	if ps != nil {
		t.Fatalf("%s\n%v", data, ps)
	}
	return set
}

// lenient reads a file of the seed and returns its warnings as line: message.
func lenient(t *testing.T, name string) (*Set, []string) {
	t.Helper()
	strict, ws, ps := Strict(file(t, name))
	if ps != nil {
		t.Fatalf("%s: %v", name, ps)
	}
	set := mustParse(t, string(strict))
	var got []string
	for _, w := range ws {
		got = append(got, fmt.Sprintf("%d: %s", w.Line, w.Message))
	}
	slices.Sort(got)
	return set, got
}

// TestSeedApplicable: the seed's applicable configuration, with every slip that is in it.
func TestSeedApplicable(t *testing.T) {
	if _, ps := Parse(file(t, "seed-applicable.txt")); ps.First() == nil || ps.First().Line != 9 ||
		ps.First().Code != wire.CodeMalformed {
		t.Errorf("strictly: %v", ps)
	}
	set, ws := lenient(t, "seed-applicable.txt")
	want := []string{
		`12: the required field "size" is missing; read as 0, which reserves nothing`,
		`13: a comma is missing here`,
		`18: a checksum begins with its algorithm: MD5:c8f1f9626698f46f88b6e70b2c6d132d; read so`,
		`20: a comma before a closing bracket`,
		`21: a comma before a closing bracket`,
		`23: } is missing here`,
		`9: a comma before a closing bracket`,
	}
	if !slices.Equal(ws, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(ws, "\n"), strings.Join(want, "\n"))
	}
	c := set.Configs[0]
	r := c.Resources[HookStart]
	if len(set.Configs) != 1 || c.Class != Instance || c.Slot.String() != "2259@sheridan.yandex.ru" ||
		c.Container.Constraints["memory.limit_in_bytes"] != "20G" ||
		c.Container.Constraints["memory.recharge_on_pgfault"] != "1" ||
		r.Class != Resource || r.UUID != "iss_hook_start_mollari-1.0" ||
		r.URLs[0] != "http://kosh.yandex-team.ru/download/files/starter" ||
		!r.Cached || r.Verification.Checksum != "MD5:c8f1f9626698f46f88b6e70b2c6d132d" ||
		time.Duration(r.Verification.CheckPeriod) != time.Hour {
		t.Errorf("%+v", c)
	}
}

// TestSeedResult: the result of filling as the seed prints it, with every slip that is in it, is that of filling.
func TestSeedResult(t *testing.T) {
	set, ws := lenient(t, "seed-result.txt")
	want := []string{
		`23: a comma is missing here`, `26: a comma before a closing bracket`, `33: a comma too many`,
		`35: a comma is missing here`, `37: the field "all-tags" appears twice; the first one counts`,
		`59: } closes nothing`, `6: a comma is missing here`,
		`8: the field "all-tags" appears twice; the first one counts`,
	}
	ws = slices.DeleteFunc(ws, func(w string) bool { // four of each
		return strings.Contains(w, "size") || strings.Contains(w, "checkPeriod")
	})
	if !slices.Equal(ws, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(ws, "\n"), strings.Join(want, "\n"))
	}
	filled, ps := Fill(set)
	if ps != nil {
		t.Fatal(ps)
	}
	if g, w := string(Encode(filled.Configs)), string(Encode(mustParse(t, string(file(t,
		"seed-result.json"))).Configs)); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// TestSeedMutation is the seed's worked example. Its result is printed with all-tags twice: as the
// filler's template gives it, with a space at the end, and as the topology had it. The filler's
// wins, because what a filler names is replaced by what it says (seed 004, Filler, properties).
func TestSeedMutation(t *testing.T) {
	topology, ws := lenient(t, "seed-topology.txt")
	if len(ws) != 0 {
		t.Errorf("topology: %v", ws)
	}
	filler, ws := lenient(t, "seed-filler.txt")
	if len(ws) != 3 { // a trailing comma, and two sizes
		t.Errorf("filler: %q", ws)
	}
	topology.Add(filler, "")
	got, ps, _ := FillFiles(topology, true)
	if ps != nil {
		t.Fatal(ps)
	}
	want := mustParse(t, string(file(t, "seed-result.json")))
	if g, w := string(Encode(got.Configs)), string(Encode(want.Configs)); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	x := got.Slots[Slot{"27777", "ws10-332.search.yandex.net"}]
	for at, from := range map[string]string{"/properties/all-tags": "not-platinum-loop-base-search",
		"/properties/port":               "",
		"/resources/apache.ywsearch.cfg": "not-platinum-loop-base-search",
		"/resources/iss_hook_start":      "not-platinum-loop-base-search"} {
		if x.Origins[at] != from {
			t.Errorf("%s comes from %q, want %q", at, x.Origins[at], from)
		}
	}
}

const start = `"iss_hook_start":{"@class":"Resource","uuid":"s","urls":["http://h/s"],"size":1,"verification":{}}`

func TestParse(t *testing.T) {
	res := `"resources":{` + start + `}`
	for _, c := range []struct{ in, want string }{ // want: code, pointer and column of each problem; "" for none
		{`[]`, ""},
		{`[{"@class":"Instance","slot":"a@n",` + res + `}]`, ""},
		{`[{"@class":"ru.yandex.iss.Job","slot":"a@n",` + res +
			`,"timeLimits":{"iss_hook_start":{"minRestartPeriodMs":1,"restartPeriodBackoff":1.5}}}]`, ""},
		{`[{` + res + `,"slot":"a@n","@class":"Instance"}]`, ""},
		{`{}`, "bad-value  1"},
		{`[{}]`, "missing /0/@class 2"},
		{`[{"@class":"Instanc","slot":"a@n"}]`, "bad-value /0/@class 12"},
		{`[{"@class":"Instance"}]`, "missing /0/resources 2; missing /0/slot 2"},
		{`[{"@class":"Instance","slot":"a",` + res + `}]`, "bad-value /0/slot 30"},
		{`[{"@class":"Instance","slot":"a@n@m",` + res + `}]`, "bad-value /0/slot 30"},
		{`[{"@class":"Instance","slot":"../a@n",` + res + `}]`, "bad-value /0/slot 30"},
		{`[{"@class":"Instance","slot":"a@n","resources":{}}]`, "missing /0/resources 48"},
		{`[{"@class":"Instance","slot":"a@n","filter":"instance[a]",` + res + `}]`, "unknown-field /0/filter 45"},
		{`[{"@class":"TopologicalInstance","slot":"a@n"}]`, "missing /0/properties 2"},
		{`[{"@class":"TopologicalInstance","slot":"a@n","properties":{"p":1}}]`, "bad-value /0/properties/p 65"},
		{`[{"@class":"TopologicalInstance","slot":"a@n","properties":{}},{"@class":"TopologicalInstance",` +
			`"slot":"a@n","properties":{}}]`, "duplicate /1/slot 103"},
		{`[{"@class":"InstanceFiller","name":"f","instance":{"properties":{},"resources":{}}}]`, ""},
		{`[{"@class":"InstanceFiller","name":"f","instance":{}}]`, "missing /0/instance/properties 51; missing " +
			"/0/instance/resources 51"},
		{`[{"@class":"InstanceFiller","name":"f","instance":{"@class":"Job","properties":{},"resources":{}}}]`,
			"missing /0/instance/timeLimits 51"},
		{`[{"@class":"InstanceFiller","name":"f","filter":"instance[","instance":{"properties":{},"resources":{}}}]`,
			"bad-value /0/filter 49"},
		{`[{"@class":"InstanceFiller","name":"f","parentFillers":["a","a",1],"instance":{"properties":{},` +
			`"resources":{}}}]`, "duplicate /0/parentFillers/1 61; bad-value /0/parentFillers/2 65"},
		{`[{"@class":"InstanceFiller","name":"f","instance":{"properties":{"p":"@{prop(\"x\")"},"resources":{}}}]`,
			"bad-value /0/instance/properties/p 70"},
		{`[{"@class":"Instance","slot":"a@n","resources":{` + start +
			`,"iss_hook_strat":{"@class":"Resource","uuid":"s","urls":["http://h/s"],"size":1,"verification":{}}}}]`,
			"bad-value /0/resources/iss_hook_strat 165"},
		{`[{"@class":"Instance","slot":"a@n","resources":{` + start +
			`,"../x":{"@class":"Resource","uuid":"s","urls":["http://h/s"],"size":1,"verification":{}}}}]`,
			"bad-value /0/resources/..~1x 155"},
		{`[{"@class":"Instance","slot":"a@n",` + res + `,"timeLimits":{"iss_hook_stop":{}}}]`,
			"bad-value /0/timeLimits/iss_hook_stop 179"},
		{`[{"@class":"Instance","slot":"a@n",` + res +
			`,"timeLimits":{"iss_hook_start":{"minRestartPeriodMs":-1,"restartPeriodBackoff":-0.5}}}]`,
			"bad-value /0/timeLimits/iss_hook_start/minRestartPeriodMs 202; bad-value " +
				"/0/timeLimits/iss_hook_start/restartPeriodBackoff 228"},
		{`[{"@class":"Instance","slot":"a@n",` + res + `,"timeLimits":{"iss_hook_start":{"maxExecutionTimeMs":0}}}]`,
			"bad-value /0/timeLimits/iss_hook_start/maxExecutionTimeMs 202"},
		{`[{"@class":"Instance","slot":"a@n",` + res + `,"container":{"constraints":{}}}]`,
			"missing /0/container/constraints 176"},
		{`[{"@class":"InstanceFiller","name":"f","instance":{"properties":{},"resources":{},` +
			`"container":{"constraints":{"a":null}}}}]`, "missing /0/instance/container/constraints 110"},
		{`[{"@class":"Instance","slot":"a@n",` + res + `,"properties":{"p":"1","p":"1"}}]`,
			"duplicate /0/properties/p 171"},
		{`[{"@class":"Instance","slot":"a@n",` + res + `},{"@class":"TopologicalInstance","slot":"a@n",` +
			`"properties":{}},{"@class":"Job","slot":"a@n",` + res + `}]`, "duplicate /2/slot 235"},
		{`[{"@class":"InstanceFiller","name":"f","parentFillers":"g","instance":{}}]`, ""},
		{`[{"@class":"Instance","slot":"a@n",` + res + `,"configurationId":"x","configurationId":"x"}]`,
			"duplicate /0/configurationId 171"},
	} {
		_, ps := Parse([]byte(c.in))
		var got []string
		for _, p := range ps {
			got = append(got, fmt.Sprintf("%s %s %d", p.Code, p.Path, p.Column))
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s\n got %s\nwant %s\n%v", c.in, s, c.want, ps)
		}
	}
}

// sha is a checksum, and signature somebody's signature in the text of a JSON string.
var (
	sha       = "SHA256:" + strings.Repeat("0", 64)
	signature = strings.ReplaceAll(publishertest.New(1).Sign(nil), "\n", `\n`)
)

// minisigned is a resource with a checksum and a signature.
func minisigned(checksum, signature string) string {
	return `"@class":"Resource","urls":["http://h/x"],"size":1,"verification":{"checksum":"` + checksum +
		`","checkPeriod":"0d0h0m","minisign":"` + signature + `"}`
}

// TestParseResource goes through the tables of resources and verification.
func TestParseResource(t *testing.T) {
	const sum = `"verification":{"checksum":"MD5:00112233445566778899aabbccddeeff","checkPeriod":"1d2h3m"}`
	for _, c := range []struct{ in, want string }{
		{`"@class":"Resource","uuid":"u","urls":["http://h/x"],"size":0,"verification":{}`, ""},
		{`"@class":"ru.yandex.iss.Resource","urls":["https://h/x",` +
			`"rbtorrent:00112233445566778899AABBCCDDEEFF00112233",` +
			`"magnet:?xt=urn:btih:00112233445566778899aabbccddeeff00112233&tr=http://h/a",` +
			`"magnet:?xt=urn:btih:AERUKZ4JVPG66AJDIVTYTK6N54ASGRLH&xt=urn:btmh:1220"],` +
			`"size":9,"cached":true,` + sum, ""},
		{`"@class":"Resource","uuid":"u","urls":["http://h/x"],"verification":{}`, "missing /size"},
		{`"@class":"Resource","uuid":"u","urls":["http://h/x"],"size":0`, "missing /verification"},
		{`"@class":"Resource","urls":["http://h/x"],"size":0,"verification":{}`, "missing /verification/checksum; " +
			"missing /verification/checkPeriod"},
		{`"@class":"Resource","urls":["http://h/x"],"size":0,"verification":{"checksum":"EMPTY:"}`,
			"missing /verification/checkPeriod; missing /verification/checksum"},
		{`"@class":"Resource","urls":["http://h/x"],"size":0,"verification":{"checksum":"","checkPeriod":"0d0h0m"}`,
			"missing /verification/checksum"},
		{`"@class":"Resource","uuid":"u","urls":["http://h/x"],"size":0,"verification":{"checksum":"EMPTY:"}`, ""},
		{`"@class":"Resource","urls":["rbtorrent:abc","rbtorrent:0011223344556677889900112233445566778899ff",` +
			`"rbtorrent:001122334455667788990011223344556677889z","magnet:?xt=urn:btih:abc","magnet:?xt=urn:btih:",` +
			`"magnet:?xt=urn:btmh:122000112233445566778899","magnet:?xt=urn:btih:aerukz4jvpg66ajdivtytk6n54asgrlh",` +
			`"magnet:?xt=urn:btih:AERUKZ4JVPG66AJDIVTYTK6N54ASGRL%0A"],"size":0,` + sum,
			"bad-value /urls/0; bad-value /urls/1; bad-value /urls/2; bad-value /urls/3; bad-value /urls/4; " +
				"bad-value /urls/5; bad-value /urls/6; bad-value /urls/7"},
		{`"@class":"Resource","urls":[],"size":0,` + sum, "missing /urls"},
		{`"@class":"Resource","urls":["ftp://h/x","http:///x","http://u:p@h/x","http://h/ x","rbtorrent:",` +
			`"magnet:?x"],"size":0,` + sum,
			"bad-value /urls/0; bad-value /urls/1; bad-value /urls/2; bad-value /urls/4; bad-value /urls/5"},
		{`"@class":"Resource","urls":["http://h/x","http://h/x"],"size":0,` + sum, "duplicate /urls/1"},
		{`"@class":"Resource","urls":["http://h/x"],"size":-1,` + sum, "bad-value /size"},
		{`"@class":"Resource","urls":["http://h/x"],"size":1.5,"cached":1,` + sum,
			"bad-value /size; bad-value /cached"},
		{`"@class":"Resource","uuid":"","urls":["http://h/x"],"size":1,` + sum, "bad-value /uuid"},
		{`"@class":"Instance","urls":["http://h/x"],"size":1,` + sum, "bad-value /@class"},
		{`"@class":"Resource","urls":["http://h/x"],"size":1,"verification":{"checksum":"MD5:00","checkPeriod":"1h"}`,
			"bad-value /verification/checksum; bad-value /verification/checkPeriod"},
		{`"@class":"Resource","urls":["http://h/x"],"size":1,"verification":{"checksum":"SHA1:00",` +
			`"checkPeriod":"0d0h0m"}`, "bad-value /verification/checksum"},
		{`"@class":"Resource","urls":["http://h/x"],"size":1,` +
			`"verification":{"checksum":"c8f1f9626698f46f88b6e70b2c6d132d","checkPeriod":"0d0h0m"}`,
			"bad-value /verification/checksum"},
		{minisigned(sha, signature), ""},
		{minisigned(sha, signature[1:]), "bad-value /verification/minisign"},
		{minisigned(sha, strings.Repeat(" ", 1025)), "bad-value /verification/minisign"},
		{minisigned("MD5:00112233445566778899aabbccddeeff", signature), "missing /verification/minisign"},
		{minisigned("SHA256:00", signature), "bad-value /verification/checksum"},
		{`"@class":"Resource","uuid":"u","urls":["http://h/x"],"size":0,"verification":{"minisign":"` +
			signature + `"}`,
			"missing /verification/minisign"},
		{`"@class":"Resource","uuid":"u","urls":["http://h/x"],"size":0,"verification":{"minisign":1}`,
			"bad-value /verification/minisign"},
	} {
		_, ps := Parse([]byte(`[{"@class":"Instance","slot":"a@n","resources":{` + start + `,"r":{` + c.in + `}}}]`))
		var got []string
		for _, p := range ps {
			got = append(got, fmt.Sprintf("%s %s", p.Code, strings.TrimPrefix(p.Path, "/0/resources/r")))
		}
		slices.Sort(got)
		want := strings.Split(c.want, "; ")
		slices.Sort(want)
		if s := strings.Join(got, "; "); s != strings.Join(want, "; ") {
			t.Errorf("%s\n got %s\nwant %s\n%v", c.in, s, c.want, ps)
		}
	}
	dynamic := `"d":{"@class":"DynamicResource","uuid":"u","urls":["http://h/x"],"size":0,"verification":{}}`
	if _, ps := Parse([]byte(`[{"@class":"Instance","slot":"a@n","resources":{` + start + `,` + dynamic + `}}]`)); len(
		ps) != 1 || !strings.Contains(ps[0].Message, HookNotify) {
		t.Errorf("a dynamic resource without a notify hook: %v", ps)
	}
}

func TestCheckPeriod(t *testing.T) {
	for in, want := range map[string]time.Duration{"0d0h0m": 0, "0d1h0m": time.Hour, "2d3h4m": 51*time.Hour +
		4*time.Minute, "0d0h90m": 90 * time.Minute} {
		got, err := ParseCheckPeriod(in)
		if err != nil || time.Duration(got) != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
		if again, err := ParseCheckPeriod(got.String()); err != nil || again != got {
			t.Errorf("%s is written as %s", in, got)
		}
	}
	for _, in := range []string{"", "1h", "1d1h", "1d1h1m1", "-1d0h0m", "1h1d1m", "999999d0h0m", "0d0h0M", " 0d0h0m"} {
		if _, err := ParseCheckPeriod(in); err == nil {
			t.Errorf("%q was read", in)
		}
	}
}

// TestRestartPause is the seed's formula against a table (seed 004, timeLimits).
func TestRestartPause(t *testing.T) {
	ms := func(v int64) *int64 { return &v }
	f := func(v float64) *float64 { return &v }
	const forever = time.Duration(math.MaxInt64)
	for _, c := range []struct {
		limit Limit
		step  int
		want  time.Duration
	}{
		{Limit{}, 0, 0},
		{Limit{}, 1 << 30, 0},
		{Limit{MinRestartPeriodMs: ms(500)}, 0, 500 * time.Millisecond},
		{Limit{MinRestartPeriodMs: ms(500)}, 99, 500 * time.Millisecond},
		{Limit{MinRestartPeriodMs: ms(500), MaxRestartPeriodMs: ms(100)}, 0, 100 * time.Millisecond},
		{Limit{MinRestartPeriodMs: ms(100), RestartPeriodScaleMs: ms(1000), RestartPeriodBackoff: f(2)}, 0,
			1100 * time.Millisecond},
		{Limit{MinRestartPeriodMs: ms(100), RestartPeriodScaleMs: ms(1000), RestartPeriodBackoff: f(2)}, 3,
			8100 * time.Millisecond},
		{Limit{MinRestartPeriodMs: ms(100), RestartPeriodScaleMs: ms(1000), RestartPeriodBackoff: f(2),
			MaxRestartPeriodMs: ms(5000)}, 3, 5 * time.Second},
		{Limit{RestartPeriodScaleMs: ms(1000)}, 0, time.Second}, // 0^0 is 1
		{Limit{RestartPeriodScaleMs: ms(1000)}, 1, 0},
		{Limit{RestartPeriodScaleMs: ms(1000), RestartPeriodBackoff: f(0)}, 5, 0},
		{Limit{RestartPeriodBackoff: f(2)}, 5, 0}, // no scale
		{Limit{RestartPeriodScaleMs: ms(1), RestartPeriodBackoff: f(1)}, 7, time.Millisecond},
		{Limit{RestartPeriodScaleMs: ms(1000), RestartPeriodBackoff: f(0.5)}, 1, 500 * time.Millisecond},
		{Limit{RestartPeriodScaleMs: ms(1), RestartPeriodBackoff: f(2)}, 5000, forever}, // beyond float64
		{Limit{RestartPeriodScaleMs: ms(1), RestartPeriodBackoff: f(2), MaxRestartPeriodMs: ms(60000)}, 5000,
			time.Minute},
		{Limit{RestartPeriodScaleMs: ms(0), RestartPeriodBackoff: f(2)}, 5000, 0}, // nothing times infinity
		{Limit{MinRestartPeriodMs: ms(1 << 43)}, 0, (1 << 43) * time.Millisecond},
		{Limit{MinRestartPeriodMs: ms(1 << 53)}, 0, forever}, // longer than a time.Duration
		{Limit{MinRestartPeriodMs: ms(1 << 53), RestartPeriodScaleMs: ms(1 << 53), RestartPeriodBackoff: f(9)}, 9,
			forever},
	} {
		if got := c.limit.RestartPause(c.step); got != c.want {
			t.Errorf("%+v step %d: %v, want %v", c.limit, c.step, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{}
		opt := rapid.Ptr(rapid.Int64Range(0, 1<<53), true)
		l.MinRestartPeriodMs, l.MaxRestartPeriodMs, l.RestartPeriodScaleMs = opt.Draw(t, "min"), opt.Draw(t, "max"),
			opt.Draw(t, "scale")
		l.RestartPeriodBackoff = rapid.Ptr(rapid.Float64Range(0, 1e300), true).Draw(t, "backoff")
		step := rapid.IntRange(0, math.MaxInt32).Draw(t, "step")
		got := l.RestartPause(step)
		if got < 0 || l.MaxRestartPeriodMs != nil && got.Milliseconds() > *l.MaxRestartPeriodMs {
			t.Fatalf("%+v step %d: %v", l, step, got)
		}
		if value(l.RestartPeriodBackoff) >= 1 && l.RestartPause(step+1) < got {
			t.Fatalf("%+v: the pause after step %d is shorter", l, step)
		}
	})
}
