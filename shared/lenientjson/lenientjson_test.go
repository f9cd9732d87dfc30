package lenientjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestMend(t *testing.T) {
	for _, c := range []struct {
		in, out string // out "": in
		warned  string // line:column of each
	}{
		{`{"a":[1,true,"x"]}`, "", ""},
		{`{"a":1,}`, `{"a":1 }`, "1:7"},
		{`[1,,2]`, `[1, 2]`, "1:4"},
		{`[,1]`, `[ 1]`, "1:2"},
		{"{\"a\":\"b\"\n  \"c\":1}", "{\"a\":\"b\"\n, \"c\":1}", "1:9"},
		{"{\"a\":\"b\"\n\"c\":1}", "{\"a\":\"b\",\n\"c\":1}", "1:9"},
		{`[{} {}]`, `[{},{}]`, "1:4"},
		{`[1"x"]`, `[1,"x"]`, "1:3"},
		{`[{"a":{"b":1 ]`, `[{"a":{"b":1}}]`, "1:14 1:14"},
		{"[1,\n {\"a\":1}\n", "[1,\n {\"a\":1}]\n", "3:1"},
		{"[1, // one\n 2 /* two */]", "[1,       \n 2          ]", "1:5 2:4"},
		{`{"é":1 "b":2}`, `{"é":1,"b":2}`, "1:7"},
		// brackets left open behind a comment, and before one
		{`[{"a":[1 // one`, `[{"a":[1]}]      `, "1:10 1:16 1:16 1:16"},
		{"[{\"a\":1  // one\n", "[{\"a\":1}]      \n", "1:10 2:1 2:1"},
		{`[{"a":{"b":1 /* one */ ]`, `[{"a":{"b":1}}          ]`, "1:14 1:24 1:24"},
		{`[{"a":[{"b":1 /* one */ } ]`, `[{"a":[{"b":1           } ]}]`, "1:15 1:28 1:28"},
		// brackets that close nothing
		{`[{"a":1}} ,2]`, `[{"a":1}  ,2]`, "1:9"},
		{`{"a":[1]],"b":2}`, `{"a":[1] ,"b":2}`, "1:9"},
		{`[1,}]`, `[1  ]`, "1:4 1:3"},
		// what is more than punctuation stays, for the strict reader
		{`{"a" 1}`, "", ""},
		{`{"a":}`, "", ""},
		{`]`, "", ""},
		{`[1]]`, "", ""},
		{`["a`, "", ""},
		{`[1] [2]`, "", ""},
		{`/x`, "", ""},
	} {
		want := c.out
		if want == "" {
			want = c.in
		}
		out, ws := Repair([]byte(c.in))
		var places []string
		for _, w := range ws {
			places = append(places, fmt.Sprintf("%d:%d", w.Line, w.Column))
		}
		if string(out) != want || strings.Join(places, " ") != c.warned {
			t.Errorf("%s:\n got %s %v\nwant %s %s", c.in, out, ws, want, c.warned)
		}
	}
}

func TestWarningsAreBounded(t *testing.T) {
	if _, ws := Repair([]byte("[" + strings.Repeat("1 ", 1000) + "]")); len(ws) != maxWarnings {
		t.Errorf("%d warnings", len(ws))
	}
}

// FuzzMend: what is valid stays as it is, without a word, and mending what was mended changes nothing.
func FuzzMend(f *testing.F) {
	for _, s := range []string{`{"a":[1,2]}`, `{"a":1,}`, `[1 2`, "[1//\n", `{"a":{"b":1]`, `[,,]`,
		`{"a":"\"" "b":0}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		out, ws := Repair(in)
		if !bytes.Equal(in, before) {
			t.Fatal("the input was changed")
		}
		if json.Valid(in) && (len(ws) > 0 || !bytes.Equal(out, in)) {
			t.Fatalf("%q is valid and became %q: %v", in, out, ws)
		}
		if json.Valid(out) && !bytes.Equal(in, out) && len(ws) == 0 {
			t.Fatalf("%q became %q without a word", in, out)
		}
	})
}
