package workload

import (
	"fmt"
	"slices"
	"strings"

	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// MaxNeeds is the most needs of one configuration.
const MaxNeeds = 64

// Need is another slot of the node, and how its start and that of the slot that has the need go together (seed 001,
// dependencies). It delays starts alone: no update, and no stop.
type Need struct {
	Slot      Slot      `json:"slot"`
	Condition Condition `json:"condition"`
}

// Condition is what the other slot has to be before the process is started.
type Condition string

// The conditions. Before and after are an order among what is there.
const (
	Started   Condition = "started"   // its process runs, or its job has succeeded
	Healthy   Condition = "healthy"   // its status hook says so; without one, it has run for the window
	Completed Condition = "completed" // its job has succeeded
	Before    Condition = "before"    // the other one starts after this one
	After     Condition = "after"     // this one starts after the other one
)

// conditions has them all.
var conditions = []string{string(After), string(Before), string(Completed), string(Healthy), string(Started)}

// Weak reports whether a condition counts only if the other slot is there.
func (c Condition) Weak() bool { return c == Before || c == After }

// given are the needs of an entry as they were read, with the place of each.
type given struct {
	Need
	at strictjson.At
}

// needs reads needs.
func (p *parser) needs(a strictjson.At) (all []given) {
	p.Array(a, MaxNeeds, func(_ int, e strictjson.At) {
		n := given{at: e}
		p.Object(e,
			strictjson.Required("slot", func(a strictjson.At) {
				text, ok := p.Str(a)
				if !ok {
					return
				}
				var err error
				if n.Slot, err = ParseSlot(text); err != nil {
					p.Bad(a, err.Error())
				}
			}),
			strictjson.Required("condition", func(a strictjson.At) {
				text, ok := p.Str(a)
				if n.Condition = Condition(text); ok && !slices.Contains(conditions, text) {
					p.Bad(a, fmt.Sprintf("the condition %s is none of %s%s", strictjson.Show(text),
						strings.Join(conditions, ", "), near.Hint(text, conditions)))
				}
			}))
		all = append(all, n)
	})
	return all
}

// needsOf returns the needs of the entry of a slot. Each is another slot of its node, and there once.
func (p *parser) needsOf(x *raw, slot Slot) (all []Need) {
	known := map[Slot]bool{slot: true}
	for _, n := range x.needs {
		switch {
		case n.Slot == (Slot{}) || slot == (Slot{}): // which was reported
		case n.Slot.Node != slot.Node:
			p.Bad(n.at, fmt.Sprintf("%s is on another node than %s: a slot can wait for slots of its node only", n.Slot,
				slot))
		case n.Slot == slot:
			p.Bad(n.at, fmt.Sprintf("%s cannot wait for itself", slot))
		case known[n.Slot]:
			p.Add(n.at, wire.CodeDuplicate, fmt.Sprintf("%s is needed already", n.Slot))
		}
		known[n.Slot] = true
		all = append(all, n.Need)
	}
	return all
}

// checkNeeds reports needs of slots that are not there, jobs that are none, and the smallest circle of slots that wait
// for each other.
func (f *filling) checkNeeds(configs []Config) {
	if !slices.ContainsFunc(configs, func(c Config) bool { return len(c.Needs) > 0 }) {
		return
	}
	index := make(map[Slot]int, len(configs))
	for i, c := range configs {
		index[c.Slot] = i
	}
	waits := make([][]int, len(configs)) // for which others each one waits
	for i, c := range configs {
		for j, n := range c.Needs {
			bad := func(code wire.Code, message string) {
				f.add(f.slot(c.Slot), code, fmt.Sprintf("/needs/%d", j), "%s",
					About(c.Slot, "it needs "+n.Slot.String()+message))
			}
			other, there := index[n.Slot]
			switch {
			case !there && n.Condition.Weak():
			case !there:
				bad(wire.CodeNotFound, ", which is not in this set")
			case n.Condition == Completed && configs[other].Class != Job:
				bad(wire.CodeBadValue, " to be completed, which is no job")
			case n.Condition == Before:
				waits[other] = append(waits[other], i)
			default:
				waits[i] = append(waits[i], other)
			}
		}
	}
	if circle := f.circle(waits); circle != nil {
		var names []string
		for _, i := range append(circle, circle[0]) {
			names = append(names, configs[i].Slot.String())
		}
		f.add(f.slot(configs[circle[0]].Slot), wire.CodeBadValue, "/needs", "slots wait for each other: %s",
			strings.Join(names, " → "))
	}
}

// circle returns the smallest circle of slots that wait for each other, nil if there is none; of equals the first.
func (f *filling) circle(waits [][]int) (smallest []int) {
	open := make([]int, len(waits)) // for how many each one waits that may be in a circle
	after := make([][]int, len(waits))
	var free []int
	for i, others := range waits {
		if open[i] = len(others); open[i] == 0 {
			free = append(free, i)
		}
		for _, o := range others {
			after[o] = append(after[o], i)
		}
	}
	for ; len(free) > 0; free = free[1:] {
		for _, i := range after[free[0]] {
			if open[i]--; open[i] == 0 {
				free = append(free, i)
			}
		}
	}
	came, seen := make([]int, len(waits)), make([]int, len(waits))
	for i := range waits {
		if open[i] == 0 {
			continue
		}
		found := f.back(i, waits, open, came, seen)
		if found != nil && (smallest == nil || len(found) < len(smallest)) {
			smallest = found
		}
	}
	return smallest
}

// back returns the shortest way from a slot to itself. came and seen are room for it: from where it came to each slot,
// and for which slot it was there last, from 1.
func (f *filling) back(from int, waits [][]int, open, came, seen []int) []int {
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if !f.spend(1 + len(waits[at])) {
			return nil
		}
		for _, next := range waits[at] {
			if next == from {
				way := []int{at}
				for ; at != from; way = append(way, at) {
					at = came[at]
				}
				slices.Reverse(way)
				return way
			}
			if seen[next] != from+1 && open[next] > 0 {
				seen[next], came[next] = from+1, at
				queue = append(queue, next)
			}
		}
	}
	return nil
}
