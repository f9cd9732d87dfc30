package unitconfig

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"tandem.internal/shared/wire"
)

// checkProblems holds for every refusal: bounded, placed inside the input, with a known code.
func checkProblems(t *testing.T, data []byte, ps Problems) {
	t.Helper()
	if len(ps) > MaxProblems {
		t.Fatalf("%d problems", len(ps))
	}
	lines := bytes.Count(data, []byte("\n")) + 1
	line, column := 1, 1
	for _, p := range ps {
		if _, ok := wire.Meanings[p.Code]; !ok || p.Message == "" || len(p.Path) > wire.MaxPath ||
			len(p.Message) > wire.MaxMessage {
			t.Fatalf("bad problem: %+v", p)
		}
		if p.Line < line || p.Line == line && p.Column < column || p.Line > lines || p.Column > len(data)+1 {
			t.Fatalf("out of place: %+v", p)
		}
		line, column = p.Line, p.Column
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file(f, "seed000.json"))
	f.Add(file(f, "fleet.json"))
	for _, s := range []string{"", "{}", `{"formatVersion":"6"}`, entry(`"priority":1e3`), entry(`"labels":["a",]`),
		entry(`"a":1,"a":2`), entry(`"alertRules":{"ram":{}}`)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		uc, ps := Parse(data)
		checkProblems(t, data, ps)
		if (uc == nil) == (ps == nil) {
			t.Fatalf("%v with %v", uc, ps)
		}
		if uc == nil {
			return
		}
		text := Encode(uc)
		again, ps := Parse(text)
		if ps != nil || !reflect.DeepEqual(uc, again) {
			t.Fatalf("%+v\nread again: %+v\n%v", uc, again, ps)
		}
		if d := slices.Collect(Diff(uc, again)); len(d) > 0 {
			t.Fatalf("differs from itself: %+v", d)
		}
		r := NewResolver(uc)
		for i, e := range uc.Nodes {
			id := "nobody"
			if e.Node != nil {
				id = e.Node.Codename
			}
			body, _, src := r.Body(id, e.NodeGroupSubject.Codename)
			if src.Entry != i {
				t.Fatalf("entry %d is never used: %v", i, src)
			}
			if _, ps := ParseNode(body); ps != nil {
				t.Fatalf("%s: %v", body, ps)
			}
		}
	})
}

func FuzzParseNode(f *testing.F) {
	for _, name := range []string{"seed000.json", "fleet.json"} {
		r := NewResolver(parsed(f, name))
		for _, who := range [][2]string{{"node-1", ""}, {"cam-8", "camera"}, {"lone", ""}} {
			body, _, _ := r.Body(who[0], who[1])
			f.Add(body)
		}
	}
	f.Add([]byte(`{"formatVersion":"7","version":"1.0.0","resourceRatios":{"cpu":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, ps := ParseNode(data)
		checkProblems(t, data, ps)
		if (c == nil) == (ps == nil) {
			t.Fatalf("%v with %v", c, ps)
		}
		if c == nil {
			return
		}
		body := EncodeNode(*c)
		again, ps := ParseNode(body)
		if ps != nil || !reflect.DeepEqual(c, again) || !bytes.Equal(body, EncodeNode(*again)) {
			t.Fatalf("%+v\nread again: %+v\n%v", c, again, ps)
		}
		LocalRules{MaxPriority: new(uint32), AllowedLabels: []string{}, Partitions: []string{}}.Check(c)
	})
}
