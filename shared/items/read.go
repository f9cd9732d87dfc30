package items

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Problems are the reasons why a file is refused.
type Problems = strictjson.Problems

// at is where a value stands.
type at = strictjson.At

// reader reads the parts of the formats.
type reader struct{ *strictjson.Reader }

// read reads a document of at most most bytes. If there are problems, the value is nil.
func read[T any](data []byte, most int, root func(reader, at, *T)) (*T, Problems) {
	v := new(T)
	ps := strictjson.Read(data, strictjson.Limits{Size: most, Depth: maxDepth}, func(r *strictjson.Reader) {
		root(reader{r}, r.Here(), v)
	})
	if ps != nil {
		return nil, ps
	}
	return v, nil
}

// must and may describe members that are read by read.
func must[T any](name string, dst *T, read func(at) T) strictjson.Field {
	return strictjson.Required(name, func(a at) { *dst = read(a) })
}

func may[T any](name string, dst *T, read func(at) T) strictjson.Field {
	return strictjson.Optional(name, func(a at) { *dst = read(a) })
}

// among returns what reads one of these texts.
func among[T ~string](r reader, known ...T) func(at) T {
	return func(a at) T {
		s, ok := r.Str(a)
		if ok && !slices.Contains(known, T(s)) {
			var all []string
			for _, k := range known {
				all = append(all, string(k))
			}
			r.Bad(a, "must be "+strictjson.Among(all)+", not "+strictjson.Show(s)+near.Hint(s, all))
		}
		return T(s)
	}
}

// whole returns what reads a whole number of a thing.
func whole[T int | int64](r reader, what string, low, high uint64) func(at) T {
	return func(a at) T {
		n, _ := r.Whole(a, low, high, fmt.Sprintf("%s is a whole number from %d to %d", what, low, high))
		return T(n)
	}
}

// priority, cpu and bytes read what several formats have.
func (r reader) priority(a at) int { return whole[int](r, "a priority", 0, MaxPriority)(a) }
func (r reader) cpu(a at) int64    { return whole[int64](r, "a quantity of DMIPS", 0, MaxCPU)(a) }
func (r reader) bytes(a at) int64  { return whole[int64](r, "a quantity of bytes", 0, MaxBytes)(a) }

func (r reader) flag(a at) bool {
	v, _ := r.Bool(a)
	return v
}

// name reads a codename, or a node's ID, which obeys the same rule.
func (r reader) name(a at) string {
	s, ok := r.Str(a)
	if ok && !wire.ValidName(s) {
		r.Bad(a, strictjson.Show(s)+" is no name: letters, digits, '.', '_' and '-' only, a letter or digit first, "+
			"1 to 63 characters")
	}
	return s
}

// text reads a printable text of 1 to MaxText bytes.
func (r reader) text(a at) string { return r.printable(a, MaxText, unicode.IsPrint) }

// long reads a text of 1 to MaxLong bytes, which may have several lines.
func (r reader) long(a at) string {
	return r.printable(a, MaxLong, func(c rune) bool { return unicode.IsPrint(c) || c == '\n' })
}

func (r reader) printable(a at, most int, allowed func(rune) bool) string {
	s, ok := r.Str(a)
	switch {
	case !ok:
	case s == "" || len(s) > most:
		r.Bad(a, fmt.Sprintf("the text must have 1 to %d bytes, not %d", most, len(s)))
	case strings.ContainsFunc(s, func(c rune) bool { return !allowed(c) }):
		r.Bad(a, strictjson.Show(s)+" has a character that cannot be printed")
	}
	return s
}

func (r reader) version(a at) string {
	s, ok := r.Str(a)
	if !ok {
		return ""
	}
	if _, err := ParseVersion(s); err != nil {
		r.Add(a, wire.CodeInvalidArgument, err.Error())
	}
	return s
}

func (r reader) versions(a at) Range {
	s, ok := r.Str(a)
	if !ok {
		return Range{}
	}
	v, err := ParseRange(s)
	if err != nil {
		r.Add(a, wire.CodeInvalidArgument, err.Error())
	}
	return v
}

// reachable refuses a range that has pre-releases only, which are not asked for.
func (r reader) reachable(a at, v *Range, preReleases bool) {
	if !preReleases && len(v.comparisons) > 0 && !v.possible(false) {
		r.Bad(a, fmt.Sprintf("only pre-releases can be in the range %s, and includePreRelease is not set",
			strictjson.Show(v.text)))
	}
}

func (r reader) span(a at) duration.Duration {
	s, ok := r.Str(a)
	if !ok {
		return 0
	}
	d, err := duration.Parse(s)
	if err != nil {
		r.Bad(a, err.Error())
	}
	return duration.Duration(d)
}

// list returns what reads an array of at most most elements, no two of which have the same key. what names them in
// messages.
func list[T any](r reader, most int, what string, read func(at) T, key func(T) string) func(at) []T {
	return func(a at) (all []T) {
		first := map[string]int{}
		r.Array(a, most, func(i int, e at) {
			v := read(e)
			all = append(all, v)
			k := key(v)
			if k == "" {
				return
			}
			if j, twice := first[k]; twice {
				r.Add(e, wire.CodeDuplicate, fmt.Sprintf("the %s %s is already there, at index %d", what,
					strictjson.Show(k), j))
				return
			}
			first[k] = i
		})
		return all
	}
}

// texts returns what reads a list of different texts.
func (r reader) texts(what string) func(at) []string {
	return list(r, MaxList, what, r.text, func(s string) string { return s })
}

// names returns what reads a list of different names.
func (r reader) names(most int, what string) func(at) []string {
	return list(r, most, what, r.name, func(s string) string { return s })
}
