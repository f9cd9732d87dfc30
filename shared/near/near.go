// Package near finds the known names that a person may have meant by one that is not known, and words the
// question. Names are compared without case, by the number of edits that lead from one to the other.
//
//tandem:pure
package near

import "strings"

// Best returns the candidate with the fewest edits from name, if that is at most a third of the name's length;
// otherwise "". The first of equals wins. That a candidate begins with the name counts as one edit.
func Best(name string, candidates []string) string {
	best, found := max(1, len(name)/3)+1, ""
	low := strings.ToLower(name)
	for _, c := range candidates {
		if d := apart(low, strings.ToLower(c)); d < best {
			best, found = d, c
		}
	}
	return found
}

// All returns every known name to which the fewest edits lead, in their order: one edit, or in a name of six
// bytes or more two.
func All(name string, known []string) (found []string) {
	low, least := strings.ToLower(name), max(1, min(2, len(name)/3))
	for _, k := range known {
		d := apart(low, strings.ToLower(k))
		if d < least {
			found, least = nil, d
		}
		if d == least {
			found = append(found, k)
		}
	}
	return found
}

// Hint ends a message about a name that is not known: `; did you mean "x"?` for the Best candidate, or nothing.
func Hint(name string, candidates []string) string {
	if c := Best(name, candidates); c != "" {
		return Suggest([]string{`"` + c + `"`}, "")
	}
	return ""
}

// Suggest ends a message about a name that is not known: with the names that were found, or, if there are none
// or too many to help, with otherwise.
func Suggest(found []string, otherwise string) string {
	switch {
	case len(found) == 1:
		return "; did you mean " + found[0] + "?"
	case len(found) > 1 && len(found) <= 4:
		return "; did you mean one of " + strings.Join(found, ", ") + "?"
	case otherwise != "":
		return "; " + otherwise
	}
	return ""
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
