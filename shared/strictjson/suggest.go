package strictjson

import (
	"slices"
	"strconv"
	"strings"
)

// DidYouMean returns `; did you mean "x"?` for the candidate nearest to name, or nothing when none
// is near.
func DidYouMean(name string, candidates []string) string {
	if c := Nearest(name, candidates); c != "" {
		return `; did you mean "` + c + `"?`
	}
	return ""
}

// Nearest returns the candidate with the fewest edits from name, case aside, if that is at most a
// third of the name's length; otherwise "". The first of equals wins.
func Nearest(name string, candidates []string) string {
	const longest = 256 // a longer name is no typing mistake, and comparing is quadratic
	if len(name) > longest {
		return ""
	}
	best, found := max(1, len(name)/3)+1, ""
	low := strings.ToLower(name)
	for _, c := range candidates {
		if len(c) > longest {
			continue
		}
		if d := edits(low, strings.ToLower(c)); d < best {
			best, found = d, c
		}
	}
	return found
}

// edits counts the insertions, deletions, replacements and swaps of neighbours that turn a into b
// (optimal string alignment), byte by byte.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Show quotes s for a message, shortened if it is long.
func Show(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}

// Among lists a few values for a message.
func Among(values []string) string {
	const most = 8
	if len(values) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) > most {
		return strings.Join(sorted[:most], ", ") + ", …"
	}
	return strings.Join(sorted, ", ")
}
