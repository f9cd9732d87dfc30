package unitconfig

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/strictjson"
)

// Change is one value (a string, number, boolean or null) that differs between two unit configurations. Before or
// After is nil if the value is absent there.
type Change struct {
	Entry string `json:"entry,omitzero"` // "node node-1" or "type mainType"; "" for formatVersion and version
	// Pointer is a JSON pointer into the newer configuration, or into the older one if After is nil.
	Pointer string         `json:"pointer"`
	Before  jsontext.Value `json:"before,omitzero"` // compact JSON
	After   jsontext.Value `json:"after,omitzero"`  // likewise
}

// Diff returns the changes from a to b. formatVersion and version come first, then the entries in the order of b,
// followed by those that only a has.
//
// Entries are compared by the node or type that they are for, partition rules by name, labels by value, so a different
// order is no change. A value that equals the default is the same as an absent one, except in resourceRatios, where
// the presence of the object matters.
func Diff(a, b *UnitConfig) []Change {
	older, newer := leavesOf(a), leavesOf(b)
	rank := make(map[string]int)
	for _, l := range slices.Concat(newer.list, older.list) {
		if _, ok := rank[l.entry]; !ok && l.entry != "" {
			rank[l.entry] = len(rank) + 1
		}
	}
	type keyed struct {
		Change
		key string
	}
	var changes []keyed
	for _, l := range newer.list {
		before, ok := older.value[l.key]
		if !ok || !bytes.Equal(before, l.value) {
			changes = append(changes, keyed{Change{l.entry, l.ptr, before, l.value}, l.key})
		}
	}
	for _, l := range older.list {
		if _, ok := newer.value[l.key]; !ok {
			changes = append(changes, keyed{Change{l.entry, l.ptr, l.value, nil}, l.key})
		}
	}
	slices.SortStableFunc(changes, func(x, y keyed) int {
		return cmp.Or(cmp.Compare(rank[x.Entry], rank[y.Entry]), strings.Compare(x.key, y.key))
	})
	list := make([]Change, len(changes))
	for i, c := range changes {
		list[i] = c.Change
	}
	return list
}

// keyedLeaf is a value of a unit configuration.
type keyedLeaf struct {
	entry string // as in Change
	key   string // the same for the corresponding value of another version
	ptr   string // JSON pointer
	value jsontext.Value
}

// leaves are the values of one unit configuration.
type leaves struct {
	list  []keyedLeaf
	value map[string]jsontext.Value // by key
}

// leavesOf returns the values of uc in the order of the document.
func leavesOf(uc *UnitConfig) leaves {
	ls := leaves{value: make(map[string]jsontext.Value)}
	add := func(l keyedLeaf) {
		ls.list = append(ls.list, l)
		ls.value[l.key] = l.value
	}
	add(keyedLeaf{key: "/formatVersion", ptr: "/formatVersion", value: encode(uc.FormatVersion)})
	add(keyedLeaf{key: "/version", ptr: "/version", value: encode(uc.Version)})
	for i := range uc.Nodes {
		e := &uc.Nodes[i]
		base := Source{Entry: i}.Pointer()
		name := e.identity()
		walk("", encode(e), func(ptr string, v jsontext.Value) {
			if leaf(v) {
				add(keyedLeaf{name, name + "\x00" + e.leafKey(ptr), base + ptr, v})
			}
		})
	}
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
