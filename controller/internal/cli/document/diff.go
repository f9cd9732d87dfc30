package document

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// change is a value that differs between two documents; Before or After is nil where there is none.
type change = unitconfig.Change

// diffJSON is what diff prints with --json.
type diffJSON struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Changes []change `json:"changes"`
}

// isFile reports whether an argument of diff is a file and not a version.
func isFile(arg string) bool {
	if arg == "-" {
		return true
	}
	_, err := unitconfig.Compare(arg, arg)
	return err != nil
}

// neither says more about an argument that is no version and no file that exists.
func neither(arg string, err error) error {
	f, ok := errors.AsType[*command.Failure](err)
	if ok && f.Err.Code == wire.CodeNotFound && f.From.File == arg && isFile(arg) {
		return command.Usage("%.200q is neither a version such as 2.0.0 nor a file", arg)
	}
	return err
}

func printDiff(a *command.App, from, to *input, changes []change) error {
	if a.JSON {
		return a.PrintJSON(diffJSON{from.File, to.File, changes})
	}
	if len(changes) == 0 {
		a.Print("no difference between %s and %s\n", term.Clean(from.File), term.Clean(to.File))
		return nil
	}
	entry := ""
	for _, c := range changes {
		if c.Entry != entry {
			entry = c.Entry
			a.Print("%s\n", term.Clean(entry))
		}
		sign, colour, what := "~", term.Yellow, string(c.Before)+" -> "+string(c.After)
		switch {
		case c.Before == nil:
			sign, colour, what = "+", term.Green, string(c.After)
		case c.After == nil:
			sign, colour, what = "-", term.Red, string(c.Before)
		}
		line := a.Paint(colour, fmt.Sprintf("%s %s: %s", sign, term.Clean(c.Pointer), term.Clean(what)))
		if entry != "" {
			line = "  " + line
		}
		a.Print("%s\n", line)
	}
	return nil
}

// compareSets lists what changes in the slots, by slot and pointer into its configuration.
func compareSets(from, to *input) ([]change, error) {
	before, err := slotLeaves(from)
	if err != nil {
		return nil, err
	}
	after, err := slotLeaves(to)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	var changes []change
	for _, at := range slices.SortedFunc(maps.Keys(all), func(x, y leaf) int {
		return cmp.Or(strings.Compare(x.slot, y.slot), strings.Compare(x.pointer, y.pointer))
	}) {
		if !bytes.Equal(before[at], after[at]) {
			changes = append(changes, change{Entry: at.slot, Pointer: at.pointer, Before: before[at], After: after[at]})
		}
	}
	return changes, nil
}

// leaf is a place in a slot's configuration that has a scalar or an empty container.
type leaf struct{ slot, pointer string }

// slotLeaves reads the configurations of a set that was filled.
func slotLeaves(in *input) (map[leaf]jsontext.Value, error) {
	found := map[leaf]jsontext.Value{}
	for _, c := range in.content.(*workload.Filled).Configs {
		var one []jsontext.Value
		if err := json.Unmarshal(workload.Encode([]workload.Config{c}), &one); err != nil {
			return nil, fmt.Errorf("reading the slot %s: %w", c.Slot, err)
		}
		if err := addLeaves(found, leaf{slot: c.Slot.String()}, one[0]); err != nil {
			return nil, fmt.Errorf("reading the slot %s: %w", c.Slot, err)
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
			next := leaf{at.slot, string(jsontext.Pointer(at.pointer).AppendToken(name))}
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
			if err := addLeaves(to, leaf{at.slot, fmt.Sprintf("%s/%d", at.pointer, i)}, element); err != nil {
				return err
			}
		}
	default:
		to[at] = v
	}
	return nil
}
