package metrics

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"tandem.internal/shared/wire"
)

// other is the value of a label that stands for all that have no place of their own.
const other = "other"

// Bounds of the values of one label that strangers choose.
const (
	maxValues = 32
	maxLength = 64 // bytes
)

// places are the values that a label has, at most maxValues of them. Who has a place keeps it while there is something
// to count; free ones go to those with most to count. So a series does not come and go with each scrape, and no node
// makes more of them.
type places struct{ taken map[string]bool }

// give says which of the values that are counted have a place.
func (p *places) give(counted map[string]int) {
	still := map[string]bool{}
	var waiting []string
	for value, n := range counted {
		switch {
		case n <= 0 || !showable(value):
		case p.taken[value]:
			still[value] = true
		default:
			waiting = append(waiting, value)
		}
	}
	slices.SortFunc(waiting, func(a, b string) int {
		return cmp.Or(cmp.Compare(counted[b], counted[a]), strings.Compare(a, b))
	})
	for _, value := range waiting[:min(len(waiting), maxValues-len(still))] {
		still[value] = true
	}
	p.taken = still
}

// of is the value under which a value is counted.
func (p *places) of(value string) string {
	switch {
	case value == "":
		return "none"
	case p.taken[value]:
		return value
	}
	return other
}

// showable reports whether a value may be one of a label: it is short and misleads nobody.
func showable(value string) bool {
	return value != "" && value != other && len(value) <= maxLength && utf8.ValidString(value) &&
		!strings.ContainsFunc(value, wire.Misleads)
}
