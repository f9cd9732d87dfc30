package enrol

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/controller/internal/cli/command"
)

// told is a problem as tests compare it: its place and code.
func told(file, text string) (nodes []listed, problems []string) {
	nodes, all := parse(command.Source{File: file, Text: []byte(text)})
	for _, p := range all {
		problems = append(problems, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Code))
	}
	return nodes, problems
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ file, text string }{
		{"a.csv", "node,type,expires,property.line,property.tags\n" +
			"press-1,mainType,12h,4,\"[\"\"a\"\",\"\"b\"\"]\"\npress-2,,,left,\n"},
		{"a.csv", "\ufeffnode;type;expires;property.line;property.tags\r\n" +
			"press-1;mainType;12h;4;[\"a\",\"b\"]\r\npress-2;;;left;\r\n"},
		{"a.yml", "- {node: press-1, type: mainType, expires: 12h, properties: {line: 4, tags: [a, b]}}\n" +
			"- node: press-2\n  property.line: left\n"},
	} {
		text := c.text
		if strings.Contains(text, ";") {
			text = strings.ReplaceAll(text, `["a","b"]`, `"[""a"",""b""]"`)
		}
		nodes, problems := told(c.file, text)
		if len(problems) > 0 || len(nodes) != 2 {
			t.Errorf("%q: %v %v", text, nodes, problems)
			continue
		}
		a, b := nodes[0], nodes[1]
		if a.Node != "press-1" || a.Type != "mainType" || a.TTL != "PT12H" || len(a.properties) != 2 ||
			string(a.properties[0].Value) != "4" || string(a.properties[1].Value) != `["a","b"]` {
			t.Errorf("%q: %+v", text, a)
		}
		if b.Node != "press-2" || b.Type != "" || b.TTL != "" || len(b.properties) != 1 ||
			string(b.properties[0].Value) != `"left"` {
			t.Errorf("%q: %+v", text, b)
		}
	}
	if nodes, problems := told("standard input", "- press-1\n- press-2\n"); len(nodes) != 2 || problems != nil {
		t.Error(nodes, problems)
	}
	nodes, _ := told("a.yaml", "- node: press-1\n  properties: {line: \"4\"}\n")
	if string(nodes[0].properties[0].Value) != `"4"` {
		t.Errorf("a text became %s", nodes[0].properties[0].Value)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"a.csv", "", "1:1 missing"},
		{"a.csv", "name,type\nx,y\n", "1:1 unknown-field"},
		{"a.csv", "type\ny\n", "1:1 missing"},
		{"a.csv", "node,node\nx,y\n", "1:6 duplicate"},
		{"a.csv", "node,property.\nx,y\n", "1:6 unknown-field"},
		{"a.csv", "node\n\"x\n", "2:4 malformed"},
		{"a.csv", "node,type\nx\n", "2:1 malformed"},
		{"a.csv", "node,type\nx,y,z\n", "2:1 malformed"},
		{"a.csv", "node\n\n\npress-1\nno/de\n", "5:1 bad-value"},
		{"a.csv", "node,type\npress-1,a\x1b[2Jb\n", "2:9 bad-value"},
		{"a.csv", "node,expires\npress-1,0s\n", "2:9 bad-value"},
		{"a.csv", "node,expires\npress-1,30d\npress-2,45d\n", "3:9 bad-value"},
		{"a.yaml", "- node: press-1\n  expires: 30s\n", "2:12 bad-value"},
		{"a.csv", "node,property.a b\npress-1,x\n", "2:9 bad-value"},
		{"a.csv", "\x00\x01\x02", "1:1 unknown-field"},
		{"a.yaml", "node: press-1\n", "1:1 bad-value"},
		{"a.yaml", "- press-1\n- [press-2]\n", "2:3 bad-value"},
		{"a.yaml", "- node: &a press-1\n- node: *a\n", "2:9 bad-value"},
		{"a.yaml", "- node: press-1\n  type: null\n", "2:9 bad-value"},
		{"a.yaml", "- node: press-1\n   type: x\n", "2:1 malformed"},
		{"a.yaml", "- node: press-1\n  node: press-2\n", "2:3 duplicate"},
		{"a.yaml", "- node: press-1\n  propertys: {a: 1}\n", "2:3 unknown-field"},
	} {
		nodes, problems := told(c.file, c.text)
		if got := strings.Join(problems, " "); got != c.want && !strings.HasPrefix(got, c.want+" ") {
			t.Errorf("%q: %v %q, want %q", c.text, nodes, got, c.want)
		}
	}
}

// FuzzList: whatever the file has, there is an answer, and each mistake has a place.
func FuzzList(f *testing.F) {
	for _, s := range []string{"node\npress-1\n", "- press-1\n", "node,type\n\"a\n", "- node: *a\n", "- {a: [{b}]}\n",
		"\xff,\x00"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, yaml bool) {
		file := "a.csv"
		if yaml {
			file = "a.yaml"
		}
		nodes, problems := parse(command.Source{File: file, Text: []byte(text)})
		if len(nodes) == 0 && len(problems) == 0 {
			t.Error("neither nodes nor problems")
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 0 {
				t.Errorf("%d:%d of %q: %s", p.Line, p.Column, text, p.Message)
			}
		}
	})
}
