package unitconfig

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/duration"
)

// configs generates valid unit configurations, as Parse would return them.
func configs() *rapid.Generator[*UnitConfig] {
	return rapid.Custom(func(t *rapid.T) *UnitConfig {
		uc := &UnitConfig{FormatVersion: FormatVersion, Version: drawVersion(t)}
		nodes := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,4}`), 0, 4, rapid.ID).Draw(t,
			"nodes")
		types := rapid.SliceOfNDistinct(drawText(), 0, 4, rapid.ID).Draw(t, "types")
		for _, n := range nodes {
			e := drawEntry(t)
			e.Node = &Identity{Codename: n, Title: rapid.SampledFrom([]string{"", "a title"}).Draw(t, "title")}
			e.NodeGroupSubject.Codename = rapid.SampledFrom(append(types, "other")).Draw(t, "type")
			uc.Nodes = append(uc.Nodes, e)
		}
		for _, typ := range types {
			e := drawEntry(t)
			e.NodeGroupSubject.Codename = typ
			uc.Nodes = append(uc.Nodes, e)
		}
		if len(uc.Nodes) > 0 {
			uc.Nodes = rapid.Permutation(uc.Nodes).Draw(t, "order")
		}
		return uc
	})
}

func drawText() *rapid.Generator[string] {
	return rapid.StringMatching(`[ -~äé☂]{1,6}`)
}

func drawVersion(t *rapid.T) string {
	n := rapid.IntRange(0, 20)
	return fmt.Sprintf("%d.%d.%d%s", n.Draw(t, "major"), n.Draw(t, "minor"), n.Draw(t, "patch"),
		rapid.SampledFrom([]string{"", "-rc.1", "+b", "-alpha+x.y"}).Draw(t, "suffix"))
}

func drawEntry(t *rapid.T) NodeEntry {
	maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
	var e NodeEntry
	if maybe("version?") {
		e.Version = drawVersion(t)
	}
	if maybe("ram?") {
		e.AlertRules.RAM = ptr(drawFraction(t))
	}
	if maybe("cpu?") {
		e.AlertRules.CPU = ptr(drawFraction(t))
	}
	for _, name := range rapid.SliceOfNDistinct(drawText(), 0, 3, rapid.ID).Draw(t, "partitions") {
		f := drawFraction(t)
		e.AlertRules.Partitions = append(e.AlertRules.Partitions,
			PartitionRule{name, f.MinTimeout, f.MinThreshold, f.MaxThreshold})
	}
	if maybe("upload?") {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		e.AlertRules.Upload = &TrafficRule{duration.Duration(durations().Draw(t, "delay")), min(a, b), max(a, b)}
	}
	if maybe("ratios?") {
		ratio := func(name string) *int {
			if !maybe(name + "?") {
				return nil
			}
			return ptr(rapid.IntRange(0, 100).Draw(t, name))
		}
		e.ResourceRatios = &EntryRatios{ratio("cpu"), ratio("ram"), ratio("storage"), ratio("state")}
	}
	if labels := rapid.SliceOfNDistinct(drawText(), 0, 3, rapid.ID).Draw(t, "labels"); len(labels) > 0 {
		e.Labels = labels
	}
	e.Priority = rapid.Uint32().Draw(t, "priority")
	return e
}

func drawFraction(t *rapid.T) FractionRule {
	fraction := rapid.OneOf(rapid.Float64Range(0, 1),
		rapid.SampledFrom([]float64{0, 1, math.SmallestNonzeroFloat64, 0.1, math.Nextafter(1, 0)}))
	a, b := fraction.Draw(t, "a")+0, fraction.Draw(t, "b")+0
	return FractionRule{duration.Duration(durations().Draw(t, "delay")), min(a, b), max(a, b)}
}

// drawTarget draws a node that some entry may or may not match.
func drawTarget(t *rapid.T, uc *UnitConfig) (node, typ string) {
	ids, types := []string{"nobody"}, []string{"nothing"}
	for _, e := range uc.Nodes {
		types = append(types, e.NodeGroupSubject.Codename)
		if e.Node != nil {
			ids = append(ids, e.Node.Codename)
		}
	}
	return rapid.SampledFrom(ids).Draw(t, "node"), rapid.SampledFrom(types).Draw(t, "node type")
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uc := configs().Draw(t, "uc")
		text := Encode(uc)
		again, ps := Parse(text)
		if ps != nil {
			t.Fatalf("%v\n%s", ps, text)
		}
		if !reflect.DeepEqual(uc, again) {
			t.Fatalf("%+v\nread again: %+v\n%s", uc, again, text)
		}
		if !bytes.Equal(text, Encode(again)) {
			t.Fatal("written differently the second time")
		}
	})
}

func TestResolveProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uc := configs().Draw(t, "uc")
		node, typ := drawTarget(t, uc)
		c, src := Resolve(uc, node, typ)
		body, hash, src2 := NewResolver(uc).Body(node, typ)
		if src != src2 || !bytes.Equal(body, EncodeNode(c)) {
			t.Fatalf("two ways: %v %s, %v %s", src, EncodeNode(c), src2, body)
		}
		copied, _ := Parse(Encode(uc))
		if again, hash2, _ := NewResolver(copied).Body(node, typ); hash2 != hash {
			t.Fatalf("an equal configuration gives other bytes: %s, %s", body, again)
		}
		back, ps := ParseNode(body)
		if ps != nil || !reflect.DeepEqual(*back, c) {
			t.Fatalf("%s read again: %+v, %v", body, back, ps)
		}
		if c.Version != uc.Version {
			t.Fatalf("version %s, want %s", c.Version, uc.Version)
		}
		// The seed's three steps, said again the slow way.
		want := Source{Default, -1}
		for i := len(uc.Nodes) - 1; i >= 0; i-- {
			if e := uc.Nodes[i]; e.Node == nil && e.NodeGroupSubject.Codename == typ {
				want = Source{ByType, i}
			}
		}
		for i := len(uc.Nodes) - 1; i >= 0; i-- {
			if e := uc.Nodes[i]; e.Node != nil && e.Node.Codename == node {
				want = Source{ByNode, i}
			}
		}
		if src != want {
			t.Fatalf("%v, want %v", src, want)
		}
		if (src.Rule == ByType) != (c.Node == nil) || c.Node != nil && c.Node.Codename != node {
			t.Fatalf("%v with node %+v", src, c.Node)
		}
	})
}

func durations() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, math.MaxInt64), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, 1e6), func(n int64) time.Duration { return time.Duration(n) * time.Second }),
	)
}
