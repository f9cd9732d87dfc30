package kind

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
)

// MaxChanges bounds the changes that are listed; of what comes after, only the number is known.
const MaxChanges = 10_000

// Changed gathers the changes between two documents, in order.
type Changed struct {
	List    []view.Change // at most MaxChanges
	Omitted int
}

// Add adds one change, or only counts it.
func (c *Changed) Add(change view.Change) {
	if len(c.List) >= MaxChanges {
		c.Omitted++
		return
	}
	c.List = append(c.List, change)
}

// Changes lists the values that differ between two lists of JSON values, by entry and pointer into it. It compares one
// entry at a time, so that it takes little memory, and gives up with stop's error if stop, unless it is nil, has one.
func Changes(from, to map[string]jsontext.Value, stop func() error) (all Changed, err error) {
	names := slices.Sorted(maps.Keys(from))
	for name := range to {
		if _, ok := from[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if stop != nil {
			if err := stop(); err != nil {
				return Changed{}, err
			}
		}
		if bytes.Equal(from[name], to[name]) {
			continue
		}
		if err := all.entry(name, from[name], to[name]); err != nil {
			return Changed{}, fmt.Errorf("reading %s: %w", cmp.Or(name, "the document"), err)
		}
	}
	return all, nil
}

// Conceal replaces the values of members that are secret.
func (c *Changed) Conceal(secret func(member string) bool, instead string) {
	value := jsontext.Value(`"` + instead + `"`)
	for i := range c.List {
		one := &c.List[i]
		for token := range jsontext.Pointer(one.Pointer).Tokens() {
			if !secret(token) {
				continue
			}
			if one.Before != nil {
				one.Before = value
			}
			if one.After != nil {
				one.After = value
			}
		}
	}
}

// entry adds the changes within one entry; a value that is nil is absent.
func (c *Changed) entry(name string, from, to jsontext.Value) error {
	before, after := map[string]jsontext.Value{}, map[string]jsontext.Value{}
	if from != nil {
		if err := addLeaves(before, "", from); err != nil {
			return err
		}
	}
	if to != nil {
		if err := addLeaves(after, "", to); err != nil {
			return err
		}
	}
	pointers := slices.Collect(maps.Keys(before))
	for at := range after {
		if _, ok := before[at]; !ok {
			pointers = append(pointers, at)
		}
	}
	slices.Sort(pointers)
	for _, at := range pointers {
		if !bytes.Equal(before[at], after[at]) {
			c.Add(view.Change{Entry: name, Pointer: at, Before: before[at], After: after[at]})
		}
	}
	return nil
}

// addLeaves adds the scalars and empty containers of a value, by JSON pointer.
func addLeaves(to map[string]jsontext.Value, at string, v jsontext.Value) error {
	switch v.Kind() {
	case '{':
		var members map[string]jsontext.Value
		if err := json.Unmarshal(v, &members); err != nil || len(members) == 0 {
			to[at] = v
			return err
		}
		for name, member := range members {
			if err := addLeaves(to, string(jsontext.Pointer(at).AppendToken(name)), member); err != nil {
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
			if err := addLeaves(to, fmt.Sprintf("%s/%d", at, i), element); err != nil {
				return err
			}
		}
	default:
		to[at] = v
	}
	return nil
}

// Values counts the scalars and empty containers of a value; none in nil.
func Values(v jsontext.Value) (int, error) {
	if v == nil {
		return 0, nil
	}
	all := map[string]jsontext.Value{}
	err := addLeaves(all, "", v)
	return len(all), err
}
