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
// third of the name's length; otherwise "". The first of equals wins. That a candidate begins with the name counts as one edit.
func Nearest(name string, candidates []string) string {
	best, found := max(1, len(name)/3)+1, ""
	low := strings.ToLower(name)
	for _, c := range candidates {
		if d := apart(low, strings.ToLower(c)); d < best {
			best, found = d, c
		}
	}
	return found
}

// Near returns all the names that a person may have meant by one that is not known, in their order: those to which the fewest edits
// lead, one, or in a longer name two.
func Near(name string, known []string) (near []string) {
	low, least := strings.ToLower(name), max(1, min(2, len(name)/3))
	for _, k := range known {
		d := apart(low, strings.ToLower(k))
		if d < least {
			near, least = nil, d
		}
		if d == least {
			near = append(near, k)
		}
	}
	return near
}

// apart is how many edits lie between a name that was given and one that there is.
func apart(name, known string) int {
	const longest = 256 // a longer name is no typing mistake, and comparing is quadratic
	switch {
	case len(name) > longest || len(known) > longest || name == "":
		return longest
	case name != known && strings.HasPrefix(known, name):
		return 1
	}
	return edits(name, known)
}

// Meant ends a message about a name that is not known: with the names that are near, or, if there are none or so many that
// they are no help, with otherwise.
func Meant(near []string, otherwise string) string {
	switch {
	case len(near) == 1:
		return "; did you mean " + near[0] + "?"
	case len(near) > 1 && len(near) <= 4:
		return "; did you mean one of " + strings.Join(near, ", ") + "?"
	case otherwise != "":
		return "; " + otherwise
	}
	return ""
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
