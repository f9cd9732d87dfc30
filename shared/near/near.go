// Package near finds known names that are similar to an unknown one, and makes the end of a message that suggests them.
// The measure is the number of edits that turn one name into the other; case does not count.
//
//tandem:pure
package near

import "strings"

// Best returns the first candidate with the fewest edits from name, if these are at most a third of the name's length;
// otherwise "". A candidate that begins with name counts as one edit away. Candidates are left out when they are longer
// than 256 bytes, or when comparing would take more than some milliseconds.
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

// All returns all known names with the fewest edits from name, in their order, if these are one edit, or at most two
// for a name of six or more bytes. Known names are left out as by Best.
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

// Hint returns the end of a message about an unknown name: `; did you mean "x"?` with the Best candidate, or "". It
// never suggests the name itself.
func Hint(name string, candidates []string) string {
	if c := Best(name, candidates); c != "" && c != name {
		return Suggest([]string{`"` + c + `"`}, "")
	}
	return ""
}

// Suggest returns the end of a message about an unknown name: the names found, if there are one to four, else
// otherwise.
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
	longest  = 256     // bytes of a name; the time of a comparison is quadratic in it
	mostWork = 1 << 22 // pairs of bytes that one search compares: some milliseconds
)

// search is one call of Best or All.
type search struct {
	name string // in lower case
	most int    // names with more edits than this are not of interest
	work int    // pairs of bytes compared so far
}

// edits returns the number of edits between the searched name and a known one; if it exceeds s.most, any larger number.
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

// edits returns the least number of insertions, deletions, replacements and swaps of adjacent bytes that turn a into b
// (optimal string alignment distance).
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
