package strictjson

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

// sample reads {"on": bool, "list": [string], "free": {any: string}}.
type sample struct {
	on   bool
	list []string
	free map[string]string
}

func parse(in string) (sample, Problems) {
	s := sample{free: map[string]string{}}
	ps := Read([]byte(in), Limits{Size: 400, Depth: 4}, func(r *Reader) {
		r.Object(r.Here(),
			Required("on", func(a At) { s.on, _ = r.Bool(a) }),
			Optional("list", func(a At) {
				r.Array(a, 3, func(_ int, e At) {
					if v, ok := r.Str(e); ok {
						s.list = append(s.list, v)
					}
				})
			}),
			Optional("free", func(a At) {
				r.Members(a, 3, func(name string, e At) {
					if v, ok := r.Str(e); ok {
						s.free[name] = v
					}
				})
			}),
		)
	})
	return s, ps
}

func TestRead(t *testing.T) {
	s, ps := parse(` {"on":true,"list":["a","b"],"free":{"x/y":"1","":"2","gone":null}} `)
	if ps.Err() != nil || !s.on || fmt.Sprint(s.list) != "[a b]" || len(s.free) != 2 || s.free["x/y"] != "1" ||
		s.free[""] != "2" {
		t.Errorf("%+v: %v", s, ps)
	}
	if s, ps := parse(`{"on":false}`); ps != nil || s.on {
		t.Errorf("%+v: %v", s, ps)
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string // code, pointer, line:column of each
	}{
		{``, "malformed  1:1"},
		{strings.Repeat(" ", 401), "too-large  1:1"},
		{"\ufeff{}", "malformed  1:1"},
		{`[[[[[]]]]]`, "malformed /0/0/0/0 1:5"},
		{`{"on":true,"on":{"a":[[[[`, "malformed /on/a/0/0 1:24"},
		{`{"on":1}`, "bad-value /on 1:7"},
		{`{"on":"true"}`, "bad-value /on 1:7"},
		{`{"on":null}`, "missing /on 1:7"},
		{`null`, "bad-value  1:1"},
		{"\n not json", "malformed  2:3"}, // which is no null
		{`{"on":truth}`, "malformed /on 1:10"},
		{`{"on":[1,tru]}`, "bad-value /on 1:7; malformed /on/1 1:13"},
		{"{\n \"On\":true}", "missing /on 1:1; unknown-field /On 2:2"},
		{`{"on":true,"on":true}`, "duplicate /on 1:12"},
		{`{"on":true,"free":{"a":"1","a":"2"}}`, "duplicate /free/a 1:28"},
		{`{"on":true,"free":{"a":1,"b":[2],"c":"x"}}`, "bad-value /free/a 1:24; bad-value /free/b 1:30"},
		{`{"on":true,"free":{"a":"","b":"","c":"","d":""},"more":1}`, "too-large /free/d 1:41"},
		{`{"on":true,"free":[]}`, "bad-value /free 1:19"},
		{`{"on":true,"list":["a",null,1,"d"]}`, "bad-value /list/1 1:24; bad-value /list/2 1:29; too-large " +
			"/list/3 1:31"},
		{`{"on":true,"list":["a",]}`, "malformed /list 1:23"},
		{`{"on":true} x`, "malformed  1:13"},
		{`{"on":tr`, "malformed /on 1:9"},
		{`{"on":true,"free":{"a`, "malformed /free 1:22"},
	} {
		_, ps := parse(c.in)
		var got []string
		for _, p := range ps {
			got = append(got, fmt.Sprintf("%s %s %d:%d", p.Code, p.Path, p.Line, p.Column))
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%.60q:\n got %s\nwant %s\n%v", c.in, s, c.want, ps)
		}
	}
}

// TestNotJSON: of a text that is no JSON it is said that it is none, and not what it begins like.
func TestNotJSON(t *testing.T) {
	for in, where := range map[string]string{"not json": "1:2", "\n\n  # x": "3:3", "tomorrow": "1:2"} {
		_, ps := parse(in)
		if len(ps) != 1 || !strings.HasPrefix(ps[0].Message, "the document is not JSON: ") ||
			fmt.Sprintf("%d:%d", ps[0].Line, ps[0].Column) != where {
			t.Errorf("%q: %v", in, ps)
		}
	}
}

// TestProblemsAreBounded: what one pass reports does not grow with the document.
func TestProblemsAreBounded(t *testing.T) {
	in := "[" + strings.Repeat("1,", 4*MaxProblems) + "1]"
	ps := Read([]byte(in), Limits{Size: len(in), Depth: 2}, func(r *Reader) {
		r.Array(r.Here(), len(in), func(_ int, e At) { r.Str(e) })
	})
	if len(ps) != MaxProblems || !strings.HasSuffix(ps.Error(), "there may be more") {
		t.Errorf("%d problems", len(ps))
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"on":true,"list":["a"],"free":{"a":"b"}}`, `{"on":}`, `{"free":{"a":{"b":1}}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, ps := parse(in)
		for _, p := range ps {
			if p.Line < 1 || p.Column < 1 || wire.AsError(p) == nil {
				t.Fatalf("%+v", p)
			}
		}
		if len(s.list) > 3 || len(slices.Collect(maps.Keys(s.free))) > 3 {
			t.Fatalf("more than asked for: %+v", s)
		}
	})
}
