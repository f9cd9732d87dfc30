package kind

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
)

// Changes lists the values that differ between two lists of JSON values, by entry and pointer into it.
func Changes(from, to map[string]jsontext.Value) ([]view.Change, error) {
	before, err := leavesOf(from)
	if err != nil {
		return nil, err
	}
	after, err := leavesOf(to)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	changes := []view.Change{}
	for _, at := range slices.SortedFunc(maps.Keys(all), func(x, y leaf) int {
		return cmp.Or(strings.Compare(x.entry, y.entry), strings.Compare(x.pointer, y.pointer))
	}) {
		if !bytes.Equal(before[at], after[at]) {
			changes = append(changes, view.Change{
				Entry: at.entry, Pointer: at.pointer, Before: before[at], After: after[at],
			})
		}
	}
	return changes, nil
}

// leaf is a place in an entry that has a scalar or an empty container.
type leaf struct{ entry, pointer string }

func leavesOf(entries map[string]jsontext.Value) (map[leaf]jsontext.Value, error) {
	found := map[leaf]jsontext.Value{}
	for entry, v := range entries {
		if err := addLeaves(found, leaf{entry: entry}, v); err != nil {
			return nil, fmt.Errorf("reading %s: %w", cmp.Or(entry, "the document"), err)
		}
	}
	return found, nil
}

func addLeaves(to map[leaf]jsontext.Value, at leaf, v jsontext.Value) error {
	switch v.Kind() {
	case '{':
		var members map[string]jsontext.Value
		if err := json.Unmarshal(v, &members); err != nil || len(members) == 0 {
			to[at] = v
			return err
		}
		for name, member := range members {
			next := leaf{at.entry, string(jsontext.Pointer(at.pointer).AppendToken(name))}
			if err := addLeaves(to, next, member); err != nil {
				return err
			}
		}
	case '[':
		var elements []jsontext.Value
		if err := json.Unmarshal(v, &elements); err != nil || len(elements) == 0 {
			to[at] = v
			return err
		}
		for i, element := range elements {
			if err := addLeaves(to, leaf{at.entry, fmt.Sprintf("%s/%d", at.pointer, i)}, element); err != nil {
				return err
			}
		}
	default:
		to[at] = v
	}
	return nil
}
