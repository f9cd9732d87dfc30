package unitconfig

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/duration"
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

func parsed(t testing.TB, name string) *UnitConfig {
	t.Helper()
	uc, ps := Parse(file(t, name))
	if ps != nil {
		t.Fatalf("%s:\n%v", name, ps)
	}
	return uc
}

func ptr[T any](v T) *T { return &v }

func TestParseSeed(t *testing.T) {
	sec := func(n int) duration.Duration { return duration.Duration(time.Duration(n) * time.Second) }
	want := &UnitConfig{FormatVersion: "7", Version: "2.0.0", Nodes: []NodeEntry{{
		Version:          "1.0.0",
		Node:             &Identity{Codename: "node-1"},
		NodeGroupSubject: Identity{Codename: "mainType"},
		AlertRules: AlertRules{
			RAM:        &FractionRule{sec(1), 0.1, 0.9},
			CPU:        &FractionRule{sec(2), 0.3, 0.8},
			Partitions: []PartitionRule{{"services", sec(3), 0.5, 0.9}},
			Download:   &TrafficRule{sec(5), 100, 200},
			Upload:     &TrafficRule{sec(6), 300, 400},
		},
		ResourceRatios: &EntryRatios{ptr(50), ptr(51), ptr(52), ptr(53)},
		Labels:         []string{"mainNode"},
		Priority:       1,
	}}}
	if got := parsed(t, "seed000.json"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestParseNullIsAbsent(t *testing.T) {
	uc := parsed(t, "fleet.json")
	if n := uc.Nodes[2]; n.Node != nil {
		t.Errorf("a null node was read as %+v", n.Node)
	}
	if n := uc.Nodes[1]; n.Priority != 0 || n.ResourceRatios.RAM != nil || *n.ResourceRatios.CPU != 0 {
		t.Errorf("nulls in %+v", n)
	}
}

// entry is a whole document with one entry; its extra fields begin on line 3, column 47 with the
// entry's end on the same line.
func entry(extra string) string {
	return "{\"formatVersion\":\"7\",\n\"version\":\"1.0.0\"," +
		"\n\"nodes\":[{\"nodeGroupSubject\":{\"codename\":\"t\"},\n" + extra + "}]}"
}

func TestProblems(t *testing.T) {
	type want struct {
		code      wire.Code
		ptr       string
		line, col int
		message   string // a part of it
	}
	one := func(code wire.Code, ptr string, line, col int, message string) []want {
		return []want{{code, ptr, line, col, message}}
	}
	const head = "{\"formatVersion\":\"7\",\"version\":\"1.0.0\",\n"
	rule := func(body string) string { return entry("\"alertRules\":{\n " + body + "}") }
	long := strings.Repeat("x", MaxName+1)
	tests := []struct {
		name, in string
		want     []want
	}{
		// Syntax and bounds.
		{"empty", "", one(wire.CodeMalformed, "", 1, 1, "empty")},
		{"blank", " \n ", one(wire.CodeMalformed, "", 1, 1, "empty")},
		{"byte order mark", "\ufeff{}", one(wire.CodeMalformed, "", 1, 1, "byte order mark")},
		{"cut off", "{\"formatVersion\":\"7\",\n\"ver", one(wire.CodeMalformed, "", 2, 5, "ends too early")},
		{"trailing comma", "{\"formatVersion\":\"7\",\n}", one(wire.CodeMalformed, "", 1, 21, "comma")},
		{"trailing comma in array", entry("\"labels\":[\"a\",\n]"),
			one(wire.CodeMalformed, "/nodes/0/labels", 4, 14, "comma")},
		{"comment", "{\n  // hello\n}", one(wire.CodeMalformed, "", 2, 3, "invalid character")},
		{"two documents", head + "\"nodes\":[]}\n {}", one(wire.CodeMalformed, "", 3, 2, "follows the end")},
		{"garbage after", head + "\"nodes\":[]}\nx", one(wire.CodeMalformed, "", 3, 1, "invalid character")},
		{"NaN", rule(`"ram":{"minThreshold":NaN,"maxThreshold":1}`),
			one(wire.CodeMalformed, "/nodes/0/alertRules/ram/minThreshold", 5, 24, "invalid character")},
		{"broken UTF-8", entry("\"labels\":[\"\xff\"]"), one(wire.CodeMalformed, "/nodes/0/labels/0", 4, 12, "UTF-8")},
		{"lone surrogate", entry(`"labels":["\ud800"]`),
			one(wire.CodeMalformed, "/nodes/0/labels/0", 4, 12, "surrogate")},
		{"not an object", "[]", one(wire.CodeBadValue, "", 1, 1, "must be an object, not an array")},
		{"null document", "null", one(wire.CodeBadValue, "", 1, 1, "must be an object, not null")},
		{"deep", strings.Repeat("[", 100_000),
			one(wire.CodeMalformed, strings.Repeat("/0", 32), 1, 33, "nested more than 32")},
		{"deep inside", "{\"nodes\":[{},\n{\"x\":1,\"y\":" + strings.Repeat("[", 100_000),
			one(wire.CodeMalformed, "/nodes/1/y"+strings.Repeat("/0", 29), 2, 41, "nested more than 32")},
		{"huge", strings.Repeat(" ", MaxDocument+1), one(wire.CodeTooLarge, "", 1, 1, "4194305 bytes")},

		// Format version and version.
		{"format missing", "{\"version\":\"1.0.0\",\n\"nodes\":[]}",
			one(wire.CodeMissing, "/formatVersion", 1, 1, `"formatVersion" is missing`)},
		{"format null", "{\"version\":\"1.0.0\",\n\"formatVersion\":null,\"nodes\":[]}",
			one(wire.CodeMissing, "/formatVersion", 2, 17, "null")},
		{"format other", "{\"x\":1,\n\"formatVersion\":\"6\",\"nodes\":3}",
			one(wire.CodeWrongVersion, "/formatVersion", 2, 17, `"6"; this program reads "7" only`)},
		{"format number", "{\"formatVersion\":7,\"version\":\"1.0.0\",\"nodes\":[]}",
			one(wire.CodeBadValue, "/formatVersion", 1, 18, "not a number")},
		{"format array", "{\"formatVersion\":[],\"version\":\"1.0.0\",\"nodes\":[]}",
			one(wire.CodeBadValue, "/formatVersion", 1, 18, "must be a string, not an array")},
		{"version missing", "{\"formatVersion\":\"7\",\"nodes\":[]}",
			one(wire.CodeMissing, "/version", 1, 1, "missing")},
		{"version v", "{\"formatVersion\":\"7\",\"version\":\"v1.0.0\",\"nodes\":[]}",
			one(wire.CodeInvalidArgument, "/version", 1, 32, "not a semantic version")},
		{"version short", "{\"formatVersion\":\"7\",\"version\":\"1.0\",\"nodes\":[]}",
			one(wire.CodeInvalidArgument, "/version", 1, 32, "not a semantic version")},
		{"version empty", "{\"formatVersion\":\"7\",\"version\":\"\",\"nodes\":[]}",
			one(wire.CodeInvalidArgument, "/version", 1, 32, "not a semantic version")},
		{"version number", "{\"formatVersion\":\"7\",\"version\":1.0,\"nodes\":[]}",
			one(wire.CodeBadValue, "/version", 1, 32, "must be a string, not a number")},
		{"entry version", entry(`"version":"01.0.0"`),
			one(wire.CodeInvalidArgument, "/nodes/0/version", 4, 11, "starts with 0")},
		{"nodes missing", "{\"formatVersion\":\"7\",\"version\":\"1.0.0\"}",
			one(wire.CodeMissing, "/nodes", 1, 1, "missing")},
		{"nodes object", head + "\"nodes\":{}}",
			one(wire.CodeBadValue, "/nodes", 2, 9, "must be an array, not an object")},
		{"node null", head + "\"nodes\":[null]}", one(wire.CodeBadValue, "/nodes/0", 2, 10, "null")},
		{"node string", head + "\"nodes\":[\"x\"]}",
			one(wire.CodeBadValue, "/nodes/0", 2, 10, "must be an object, not a string")},

		// Names of fields.
		{"unknown top", head + "\"nodes\":[],\"node\":[]}",
			one(wire.CodeUnknownField, "/node", 2, 12, `"node"; did you mean "nodes"?`)},
		{"unknown far", head + "\"nodes\":[],\n \"umbrella\":[{}]}",
			one(wire.CodeUnknownField, "/umbrella", 3, 2, `unknown field "umbrella"`)},
		{"unknown case", entry(`"Labels":[]`),
			one(wire.CodeUnknownField, "/nodes/0/Labels", 4, 1, `did you mean "labels"?`)},
		{"unknown deep", rule(`"ram":{"minThreshold":0,"maxTreshold":1,"maxThreshold":1}`),
			one(wire.CodeUnknownField, "/nodes/0/alertRules/ram/maxTreshold", 5, 26, `did you mean "maxThreshold"?`)},
		{"unknown escaped", entry(`"a/b~":1`), one(wire.CodeUnknownField, "/nodes/0/a~1b~0", 4, 1, `"a/b~"`)},
		{"unknown in identity", head + "\"nodes\":[{\"nodeGroupSubject\":{\"codename\":\"t\",\"codeName\":\"t\"}}]}",
			one(wire.CodeUnknownField, "/nodes/0/nodeGroupSubject/codeName", 2, 46, `did you mean "codename"?`)},
		{"duplicate key", entry("\"priority\":1,\n \"priority\":1"),
			one(wire.CodeDuplicate, "/nodes/0/priority", 5, 2, "twice")},
		{"duplicate escaped key", entry("\"priority\":1,\n \"\\u0070riority\":1"),
			one(wire.CodeDuplicate, "/nodes/0/priority", 5, 2, "twice")},
		{"duplicate null", entry("\"priority\":null,\n \"priority\":1"),
			one(wire.CodeDuplicate, "/nodes/0/priority", 5, 2, "twice")},

		// Identities.
		{"no subject", head + "\"nodes\":[{\"node\":{\"codename\":\"n\"}}]}",
			one(wire.CodeMissing, "/nodes/0/nodeGroupSubject", 2, 10, "missing")},
		{"no type codename", head + "\"nodes\":[{\"nodeGroupSubject\":{\"id\":\"x\"}}]}",
			one(wire.CodeMissing, "/nodes/0/nodeGroupSubject/codename", 2, 30, "missing")},
		{"empty type", head + "\"nodes\":[{\"nodeGroupSubject\":{\"codename\":\"\"}}]}",
			one(wire.CodeBadValue, "/nodes/0/nodeGroupSubject/codename", 2, 42, "empty")},
		{"long type", head + "\"nodes\":[{\"nodeGroupSubject\":{\"codename\":\"" + long + "\"}}]}",
			one(wire.CodeBadValue, "/nodes/0/nodeGroupSubject/codename", 2, 42, "129 bytes; at most 128")},
		{"unprintable type", head + `"nodes":[{"nodeGroupSubject":{"codename":"a\nb"}}]}`,
			one(wire.CodeBadValue, "/nodes/0/nodeGroupSubject/codename", 2, 42, "cannot be printed")},
		{"node without codename", entry(`"node":{}`), one(wire.CodeMissing, "/nodes/0/node/codename", 4, 8, "missing")},
		{"node string", entry(`"node":"n"`), one(wire.CodeBadValue, "/nodes/0/node", 4, 8, "must be an object")},
		{"node with space", entry(`"node":{"codename":"my node"}`),
			one(wire.CodeBadValue, "/nodes/0/node/codename", 4, 20, `no node can have the ID "my node"`)},
		{"node empty", entry(`"node":{"codename":""}`),
			one(wire.CodeBadValue, "/nodes/0/node/codename", 4, 20, "no node can have the ID")},
		{"node too long", entry(`"node":{"codename":"` + strings.Repeat("n", 64) + `"}`),
			one(wire.CodeBadValue, "/nodes/0/node/codename", 4, 20, "63")},
		{"title too long", entry(`"node":{"codename":"n","title":"` + strings.Repeat("n", 257) + `"}`),
			one(wire.CodeBadValue, "/nodes/0/node/title", 4, 32, "257 bytes")},
		{"same node twice", head + "\"nodes\":[{\"node\":{\"codename\":\"n\"}," +
			"\"nodeGroupSubject\":{\"codename\":\"t\"}},\n{\"node\":{\"codename\":\"n\"}," +
			"\"nodeGroupSubject\":{\"codename\":\"u\"}}]}",
			one(wire.CodeDuplicate, "/nodes/1/node/codename", 3, 21, `the node "n" already has an entry, /nodes/0`)},
		{"same type twice", head + "\"nodes\":[{\"nodeGroupSubject\":{\"codename\":\"t\"}}," +
			"\n{\"nodeGroupSubject\":{\"codename\":\"u\"}},\n{\"nodeGroupSubject\":{\"codename\":\"t\"}}]}",
			one(wire.CodeDuplicate, "/nodes/2/nodeGroupSubject/codename", 4, 33,
				`the node type "t" already has an entry, /nodes/0`)},

		// Alert rules.
		{"percentage", rule(`"ram":{"minThreshold":0.5,"maxThreshold":90}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/ram/maxThreshold", 5, 43,
				"90 is too large: a fraction from 0.0 to 1.0, not a percentage")},
		{"just above one", rule(`"cpu":{"minThreshold":0.5,"maxThreshold":1.0000001}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/cpu/maxThreshold", 5, 43, "not a percentage")},
		{"exponent", rule(`"cpu":{"minThreshold":0.5,"maxThreshold":1e400}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/cpu/maxThreshold", 5, 43, "1e400 is too large")},
		{"negative fraction", rule(`"cpu":{"minThreshold":-0.1,"maxThreshold":1}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/cpu/minThreshold", 5, 24, "negative")},
		{"fraction as text", rule(`"cpu":{"minThreshold":"0.1","maxThreshold":1}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/cpu/minThreshold", 5, 24, "must be a number, not a string")},
		{"partition percentage", rule(`"partitions":[{"name":"p","minThreshold":0,"maxThreshold":80}]`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/partitions/0/maxThreshold", 5, 60, "not a percentage")},
		{"min above max", rule(`"ram":{"maxThreshold":0.5,"minThreshold":0.6}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/ram/minThreshold", 5, 43,
				"minThreshold 0.6 is above maxThreshold 0.5")},
		{"min above max, traffic",
			rule(`"upload":{"minThreshold":18446744073709551615,"maxThreshold":18446744073709551614}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/upload/minThreshold", 5, 27, "above")},
		{"min above max, partition", rule(`"partitions":[{"name":"p","minThreshold":0.2,"maxThreshold":0.1}]`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/partitions/0/minThreshold", 5, 43, "above")},
		{"no thresholds", rule(`"ram":{"minTimeout":"PT1S"}`), []want{
			{wire.CodeMissing, "/nodes/0/alertRules/ram/minThreshold", 5, 8, "missing"},
			{wire.CodeMissing, "/nodes/0/alertRules/ram/maxThreshold", 5, 8, "missing"}}},
		{"null threshold", rule(`"upload":{"minThreshold":1,"maxThreshold":null}`),
			one(wire.CodeMissing, "/nodes/0/alertRules/upload/maxThreshold", 5, 44, "null")},
		{"traffic negative", rule(`"upload":{"minThreshold":-1,"maxThreshold":1}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/upload/minThreshold", 5, 27, "bytes per second")},
		{"traffic fraction", rule(`"download":{"minThreshold":0.5,"maxThreshold":1}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/download/minThreshold", 5, 29, "whole number")},
		{"traffic too large", rule(`"download":{"minThreshold":0,"maxThreshold":18446744073709551616}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/download/maxThreshold", 5, 46, "whole number")},
		{"duration garbage", rule(`"ram":{"minTimeout":"1s","minThreshold":0,"maxThreshold":1}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/ram/minTimeout", 5, 22, `"1s": a duration begins with P`)},
		{"duration negative", rule(`"ram":{"minTimeout":"-PT1S","minThreshold":0,"maxThreshold":1}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/ram/minTimeout", 5, 22, "negative")},
		{"duration number", rule(`"ram":{"minTimeout":5,"minThreshold":0,"maxThreshold":1}`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/ram/minTimeout", 5, 22, "must be a string")},
		{"partition without name", rule(`"partitions":[{"minThreshold":0,"maxThreshold":1}]`),
			one(wire.CodeMissing, "/nodes/0/alertRules/partitions/0/name", 5, 16, "missing")},
		{"partition empty name", rule(`"partitions":[{"name":"","minThreshold":0,"maxThreshold":1}]`),
			one(wire.CodeBadValue, "/nodes/0/alertRules/partitions/0/name", 5, 24, "empty")},
		{"partition twice", rule("\"partitions\":[{\"name\":\"p\",\"minThreshold\":0,\"maxThreshold\":1}," +
			"\n{\"name\":\"p\",\"minThreshold\":0,\"maxThreshold\":1}]"), one(wire.CodeDuplicate,
			"/nodes/0/alertRules/partitions/1/name", 6, 9, `"p" already has a rule, at index 0`)},

		// Ratios, labels, priority.
		{"ratio above 100", entry(`"resourceRatios":{"cpu":101}`),
			one(wire.CodeBadValue, "/nodes/0/resourceRatios/cpu", 4, 25, "0 to 100, not 101")},
		{"ratio negative", entry(`"resourceRatios":{"ram":-1}`),
			one(wire.CodeBadValue, "/nodes/0/resourceRatios/ram", 4, 25, "not -1")},
		{"ratio fraction", entry(`"resourceRatios":{"state":0.5}`),
			one(wire.CodeBadValue, "/nodes/0/resourceRatios/state", 4, 27, "whole number")},
		{"label empty", entry(`"labels":["a",""]`), one(wire.CodeBadValue, "/nodes/0/labels/1", 4, 15, "empty")},
		{"label long", entry(`"labels":["` + long + `"]`),
			one(wire.CodeBadValue, "/nodes/0/labels/0", 4, 11, "129 bytes")},
		{"label twice", entry(`"labels":["ä","b","ä"]`),
			one(wire.CodeDuplicate, "/nodes/0/labels/2", 4, 19, "already there, at index 0")},
		{"label null", entry(`"labels":[null]`), one(wire.CodeBadValue, "/nodes/0/labels/0", 4, 11, "null")},
		{"label number", entry(`"labels":[1]`), one(wire.CodeBadValue, "/nodes/0/labels/0", 4, 11, "must be a string")},
		{"labels string", entry(`"labels":"a"`), one(wire.CodeBadValue, "/nodes/0/labels", 4, 10, "must be an array")},
		{"labels many", entry(`"labels":["` + numbered(MaxLabels+2) + `"]`),
			one(wire.CodeTooLarge, "/nodes/0/labels/256", 4, 0, "more than 256")},
		{"priority negative", entry(`"priority":-1`),
			one(wire.CodeBadValue, "/nodes/0/priority", 4, 12, "4294967295, not -1")},
		{"priority large", entry(`"priority":4294967296`),
			one(wire.CodeBadValue, "/nodes/0/priority", 4, 12, "not 4294967296")},
		{"priority bool", entry(`"priority":true`),
			one(wire.CodeBadValue, "/nodes/0/priority", 4, 12, "must be a number, not true or false")},

		// Several at once, in order of place, the syntax error last.
		{"many", entry("\"labels\":[\"\"],\n\"foo\":1,\n\"resourceRatios\":{\"cpu\":500},\n\"priority\":]"), []want{
			{wire.CodeBadValue, "/nodes/0/labels/0", 4, 11, "empty"},
			{wire.CodeUnknownField, "/nodes/0/foo", 5, 1, "foo"},
			{wire.CodeBadValue, "/nodes/0/resourceRatios/cpu", 6, 25, "500"},
			{wire.CodeMalformed, "/nodes/0", 7, 12, "invalid character"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			uc, ps := Parse([]byte(tt.in))
			if uc != nil || len(ps) != len(tt.want) {
				t.Fatalf("got %d problems, want %d:\n%v", len(ps), len(tt.want), ps)
			}
			for i, w := range tt.want {
				g := ps[i]
				if g.Code != w.code || g.Path != w.ptr || g.Line != w.line || w.col != 0 && g.Column != w.col {
					t.Errorf("got %s %s %d:%d, want %s %s %d:%d (%s)", g.Code, g.Path, g.Line, g.Column, w.code,
						w.ptr, w.line, w.col, g.Message)
				}
				if !strings.Contains(g.Message, w.message) {
					t.Errorf("message %q lacks %q", g.Message, w.message)
				}
			}
		})
	}
}

// numbered returns n different labels joined for a JSON array.
func numbered(n int) string {
	labels := make([]string, n)
	for i := range labels {
		labels[i] = fmt.Sprint("l", i)
	}
	return strings.Join(labels, `","`)
}
