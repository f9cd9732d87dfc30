// Package near finds the known names that a person may have meant by one that is not known, and words the
// question. Names are compared without case, by the number of edits that lead from one to the other.
//
//tandem:pure
package near

import "strings"

// Best returns the candidate with the fewest edits from name, if that is at most a third of the name's length;
// otherwise "". The first of equals wins. That a candidate begins with the name counts as one edit. Of very many
// or very long candidates only the first are looked at.
func Best(name string, candidates []string) string {
	s := search{name: strings.ToLower(name), most: max(1, len(name)/3)}
	found := ""
	for _, c := range candidates {
		if d := s.edits(c); d <= s.most {
			s.most, found = d-1, c
		}
	}
	return found
}

// All returns every known name to which the fewest edits lead, in their order: one edit, or in a name of six
// bytes or more two. Of very many or very long names only the first are looked at.
func All(name string, known []string) (found []string) {
	s := search{name: strings.ToLower(name), most: max(1, min(2, len(name)/3))}
	for _, k := range known {
		d := s.edits(k)
		if d < s.most {
			found, s.most = nil, d
		}
		if d == s.most {
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

const (
	longest  = 256     // bytes; a longer name is no typing mistake, and comparing is quadratic
	mostWork = 1 << 22 // pairs of bytes that one search compares: some milliseconds
)

// search looks for the names that are near one.
type search struct {
	name string // in lower case
	most int    // edits that are still of interest
	work int    // pairs of bytes compared so far
}

// edits is how many edits lie between the name and one that there is; more than most if that is all that counts.
func (s *search) edits(known string) int {
	far := max(s.most, 0) + 1
	if s.name == "" || len(s.name) > longest || len(known) > longest {
		return far
	}
	known = strings.ToLower(known)
	if s.name != known && strings.HasPrefix(known, s.name) {
		return 1
	}
	if apart := len(s.name) - len(known); apart > s.most || -apart > s.most {
		return far
	}
	if s.work += len(s.name) * len(known); s.work > mostWork {
		return far
	}
	return edits(s.name, known)
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
