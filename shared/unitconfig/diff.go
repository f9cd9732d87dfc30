package unitconfig

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/strictjson"
)

// Change is one value (a string, number, boolean or null) that differs between two documents of a kind. Before or
// After is nil if the value is absent there.
type Change struct {
	Entry string `json:"entry,omitzero"` // of a unit configuration: "node node-1" or "type mainType"
	// Pointer is a JSON pointer into the newer document, or into the older one if After is nil.
	Pointer string         `json:"pointer"`
	Before  jsontext.Value `json:"before,omitzero"` // compact JSON
	After   jsontext.Value `json:"after,omitzero"`  // likewise
}

// Diff yields the changes from a to b. formatVersion and version come first, then the entries in the order of b,
// followed by those that only a has. One entry is compared at a time.
//
// Entries are compared by the node or type that they are for, partition rules by name, labels by value, so a different
// order is no change. A value that equals the default is the same as an absent one, except in resourceRatios, where
// the presence of the object matters.
func Diff(a, b *UnitConfig) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for _, f := range []struct{ name, before, after string }{
			{"/formatVersion", a.FormatVersion, b.FormatVersion}, {"/version", a.Version, b.Version},
		} {
			if f.before != f.after && !yield(Change{"", f.name, encode(f.before), encode(f.after)}) {
				return
			}
		}
		older := make(map[string]int, len(a.Nodes))
		for i := range a.Nodes {
			older[a.Nodes[i].identity()] = i
		}
		for i := range b.Nodes {
			name := b.Nodes[i].identity()
			from := leaves{}
			if k, ok := older[name]; ok {
				from = leavesOf(a, k)
				delete(older, name)
			}
			if !changesOf(name, from, leavesOf(b, i), yield) {
				return
			}
		}
		for i := range a.Nodes {
			name := a.Nodes[i].identity()
			if _, left := older[name]; left && !changesOf(name, leavesOf(a, i), leaves{}, yield) {
				return
			}
		}
	}
}

// changesOf yields the changes within an entry, by key. It reports whether more are wanted.
func changesOf(name string, from, to leaves, yield func(Change) bool) bool {
	keys := slices.Collect(maps.Keys(to))
	for key := range from {
		if _, ok := to[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		before, after := from[key], to[key]
		if bytes.Equal(before.value, after.value) {
			continue
		}
		if !yield(Change{name, cmp.Or(after.ptr, before.ptr), before.value, after.value}) {
			return false
		}
	}
	return true
}

// leaves are the values of one entry, by a key that is the same for the corresponding value of another version.
type leaves map[string]pointed

// pointed is a value with its JSON pointer into the configuration.
type pointed struct {
	ptr   string
	value jsontext.Value
}

// leavesOf returns the values of entry i.
func leavesOf(uc *UnitConfig, i int) leaves {
	ls, e, base := leaves{}, &uc.Nodes[i], Source{Entry: i}.Pointer()
	walk("", encode(e), func(ptr string, v jsontext.Value) {
		if leaf(v) {
			ls[e.leafKey(ptr)] = pointed{base + ptr, v}
		}
	})
	return ls
}

// identity returns the node or type that the entry is for: "node node-1" or "type mainType".
func (e *NodeEntry) identity() string {
	if e.Node != nil {
		return "node " + e.Node.Codename
	}
	return "type " + e.NodeGroupSubject.Codename
}

// leafKey returns a pointer into the entry with the name of a partition, or the label, in place of an array index.
func (e *NodeEntry) leafKey(ptr string) string {
	if rest, ok := strings.CutPrefix(ptr, "/labels/"); ok {
		return strictjson.Member("/labels", e.Labels[index(rest)])
	}
	if rest, ok := strings.CutPrefix(ptr, "/alertRules/partitions/"); ok {
		i, field, _ := strings.Cut(rest, "/")
		return strictjson.Member("/alertRules/partitions", e.AlertRules.Partitions[index(i)].Name) + "/" + field
	}
	return ptr
}
