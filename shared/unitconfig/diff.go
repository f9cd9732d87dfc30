package unitconfig

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/strictjson"
)

// Change is one leaf that differs between two unit configurations. Before or After is nil where
// the leaf does not exist.
type Change struct {
	Entry string `json:"entry,omitzero"` // "node node-1", "type mainType"; "" for the unit's own fields
	// into the newer configuration, or into the older where After is nil
	Pointer string         `json:"pointer"`
	Before  jsontext.Value `json:"before,omitzero"` // compact JSON
	After   jsontext.Value `json:"after,omitzero"`
}

// Diff lists what changes from a to b, leaf by leaf: the unit's own fields first, then entry by
// entry as b, then a, has them. Entries are aligned by whom they are for, partition rules by name,
// labels by value; so the order of any of them, which has no effect, makes no difference, and
// neither does an explicit value that equals what its absence means (but for ratios, where the
// object's presence matters).
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

// aligned is a leaf with the key that it has in common with the same leaf of another version.
type aligned struct {
	entry, key, ptr string
	value           jsontext.Value
}

type leaves struct {
	list  []aligned
	value map[string]jsontext.Value // by key
}

func leavesOf(uc *UnitConfig) leaves {
	ls := leaves{value: make(map[string]jsontext.Value)}
	add := func(l aligned) {
		ls.list = append(ls.list, l)
		ls.value[l.key] = l.value
	}
	add(aligned{key: "/formatVersion", ptr: "/formatVersion", value: encode(uc.FormatVersion)})
	add(aligned{key: "/version", ptr: "/version", value: encode(uc.Version)})
	for i := range uc.Nodes {
		e := &uc.Nodes[i]
		base := Source{Entry: i}.Pointer()
		name := e.identity()
		walk("", encode(e), func(ptr string, v jsontext.Value) {
			if leaf(v) {
				add(aligned{name, name + "\x00" + e.alignedKey(ptr), base + ptr, v})
			}
		})
	}
	return ls
}

// identity names whom the entry is for: "node node-1" or "type mainType".
func (e *NodeEntry) identity() string {
	if e.Node != nil {
		return "node " + e.Node.Codename
	}
	return "type " + e.NodeGroupSubject.Codename
}

// alignedKey replaces the array indexes of a pointer into the entry by partition name and label.
func (e *NodeEntry) alignedKey(ptr string) string {
	if rest, ok := strings.CutPrefix(ptr, "/labels/"); ok {
		return strictjson.Member("/labels", e.Labels[index(rest)])
	}
	if rest, ok := strings.CutPrefix(ptr, "/alertRules/partitions/"); ok {
		i, field, _ := strings.Cut(rest, "/")
		return strictjson.Member("/alertRules/partitions", e.AlertRules.Partitions[index(i)].Name) + "/" + field
	}
	return ptr
}
