package unitconfig

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// What could go wrong: an entry that names another node serves a type (as elsewhere in the field);
// a type-level body carries a node ID and is no longer shared; the entry's version gets into the
// document; a default loses the node ID; an absent ratio becomes 0 or an explicit 0 becomes 50.
func TestResolveGolden(t *testing.T) {
	var got strings.Builder
	for _, name := range []string{"seed000.json", "fleet.json"} {
		uc := parsed(t, name)
		r := NewResolver(uc)
		for _, who := range [][2]string{
			{"node-1", "mainType"}, {"node-1", "other"}, {"node-2", "mainType"},
			{"cam-7", "camera"}, {"cam-8", "camera"}, {"cam-9", "camera"}, {"x", "main type ☂"},
			{"gw", "anything"}, {"gw-2", "gateway"}, {"x", ""}, {"Cam-7", "Camera"},
		} {
			body, hash, src := r.Body(who[0], who[1])
			fmt.Fprintf(&got, "%s: node %q of type %q: %s %d\n  %s\n", name, who[0], who[1], src.Rule, src.Entry, body)
			c, single := Resolve(uc, who[0], who[1])
			if single != src || !bytes.Equal(EncodeNode(c), body) {
				t.Errorf("%v: Resolve gives %v %s, the Resolver %v %s", who, single, EncodeNode(c), src, body)
			}
			if c2, src2 := r.Config(who[0], who[1]); src2 != src || !reflect.DeepEqual(c, c2) {
				t.Errorf("%v: Config gives %v %+v", who, src2, c2)
			}
			if hash != wire.Hash(body) {
				t.Errorf("%v: hash %s", who, hash)
			}
			again, ps := ParseNode(body)
			if ps != nil || !reflect.DeepEqual(*again, c) {
				t.Errorf("%v: read again: %+v %v", who, again, ps)
			}
		}
	}
	golden(t, "resolve.txt", got.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(file(t, name)); got != want {
		t.Errorf("%s differs (go test -rewrite writes it anew); got:\n%s", path, got)
	}
}

func TestBodyIsShared(t *testing.T) {
	r := NewResolver(parsed(t, "fleet.json"))
	a, _, _ := r.Body("cam-8", "camera")
	b, _, _ := r.Body("cam-9", "camera")
	if &a[0] != &b[0] {
		t.Error("two nodes of a type got two copies")
	}
	if bytes.Contains(a, []byte(`"node"`)) {
		t.Errorf("a shared body names a node: %s", a)
	}
}

// A configuration that was not parsed may have entries for the same name: the first one wins.
func TestFirstEntryWins(t *testing.T) {
	uc := &UnitConfig{FormatVersion: "7", Version: "1.0.0", Nodes: []NodeEntry{
		{Node: &Identity{Codename: "n"}, NodeGroupSubject: Identity{Codename: "t"}},
		{NodeGroupSubject: Identity{Codename: "t"}, Priority: 1},
		{NodeGroupSubject: Identity{Codename: "t"}, Priority: 2},
		{Node: &Identity{Codename: "n"}, NodeGroupSubject: Identity{Codename: "t"}, Priority: 3},
	}}
	for who, want := range map[string]Source{"n": {ByNode, 0}, "m": {ByType, 1}} {
		if got := NewResolver(uc).Source(who, "t"); got != want {
			t.Errorf("%s: %v", who, got)
		}
		if _, got := Resolve(uc, who, "t"); got != want {
			t.Errorf("%s: %v", who, got)
		}
	}
}

func TestEncodeGolden(t *testing.T) {
	golden(t, "fleet.canonical.json", string(Encode(parsed(t, "fleet.json"))))
}

// One new configuration for 10,000 nodes of three types, one of which has an entry of its own.
func BenchmarkResolveAll(b *testing.B) {
	uc := parsed(b, "seed000.json")
	for _, typ := range []string{"mainType", "camera", "gateway"} {
		e := uc.Nodes[0]
		e.Node, e.NodeGroupSubject = nil, Identity{Codename: typ}
		uc.Nodes = append(uc.Nodes, e)
	}
	ids, types := make([]string, 10_000), make([]string, 10_000)
	for i := range ids {
		ids[i], types[i] = fmt.Sprint("node-", i), uc.Nodes[1+i%3].NodeGroupSubject.Codename
	}
	b.ReportAllocs()
	for b.Loop() {
		r := NewResolver(uc)
		for i := range ids {
			if body, _, _ := r.Body(ids[i], types[i]); len(body) == 0 {
				b.Fatal("nothing")
			}
		}
	}
}

// 10,000 nodes that no entry matches: each default carries its node's ID.
func BenchmarkResolveDefaults(b *testing.B) {
	r := NewResolver(parsed(b, "seed000.json"))
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprint("x-", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range ids {
			r.Body(ids[i], "none")
		}
	}
}

func BenchmarkParse5000Entries(b *testing.B) {
	uc := parsed(b, "seed000.json")
	e := uc.Nodes[0]
	uc.Nodes = nil
	for i := range 5_000 {
		e.Node = &Identity{Codename: fmt.Sprint("node-", i)}
		uc.Nodes = append(uc.Nodes, e)
	}
	data := encode(uc)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ps := Parse(data); ps != nil {
			b.Fatal(ps)
		}
	}
}
