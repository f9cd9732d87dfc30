package items

import (
	"errors"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/unitconfig"
)

// Bounds of a range.
const (
	maxRange       = 256 // bytes
	maxComparisons = 8
)

// Version is the semantic version of an item.
type Version struct{ *semver.Version }

// ParseVersion reads the version of an item: strictly, and without build metadata, which has no precedence.
func ParseVersion(s string) (Version, error) {
	v, err := unitconfig.ParseVersion(s)
	switch {
	case err != nil:
		return Version{}, err
	case v.Metadata() != "":
		return Version{}, fmt.Errorf("%s has build metadata, which cannot tell versions of an item apart",
			strictjson.Show(s))
	}
	return Version{v}, nil
}

// Compare returns -1, 0 or 1 if v is lower than, equal to or higher than w.
func (v Version) Compare(w Version) int { return v.Version.Compare(w.Version) }

// Range is a set of versions: comparisons with commas between them, all of which have to be true. The zero Range has
// all versions.
type Range struct {
	text        string
	comparisons []comparison
}

// comparison is a part of a range.
type comparison struct {
	sign string
	with *semver.Version
	rule *semver.Constraints // the library's, which lets pre-releases in
}

// signs are those of comparisons; of two that begin alike the longer is first.
var signs = []string{">=", "<=", ">", "<", "=", "^", "~"}

// ParseRange reads a range such as ">=1.0.0,<2.0.0". Its signs are = > >= < <= ^ and ~, the last two as everywhere:
// ^1.2.3 ends before 2.0.0, ~1.2.3 before 1.3.0. A range that no version is in is an error.
func ParseRange(s string) (Range, error) {
	r := Range{text: s}
	if len(s) > maxRange {
		return Range{}, fmt.Errorf("the range has %d bytes; at most %d are allowed", len(s), maxRange)
	}
	for part := range strings.SplitSeq(s, ",") {
		if len(r.comparisons) == maxComparisons {
			return Range{}, fmt.Errorf("the range has more than %d comparisons", maxComparisons)
		}
		c, err := parseComparison(strings.TrimSpace(part))
		if err != nil {
			return Range{}, err
		}
		r.comparisons = append(r.comparisons, c)
	}
	if !r.possible(true) {
		return Range{}, fmt.Errorf("no version can be in the range %s", strictjson.Show(s))
	}
	return r, nil
}

func parseComparison(s string) (c comparison, err error) {
	for _, sign := range signs {
		if rest, ok := strings.CutPrefix(s, sign); ok {
			v, err := ParseVersion(strings.TrimSpace(rest))
			if err != nil {
				return c, err
			}
			c.sign, c.with = sign, v.Version
			c.rule, err = semver.NewConstraint(sign + v.String())
			if err != nil {
				return c, fmt.Errorf("%s: %w", strictjson.Show(s), err)
			}
			c.rule.IncludePrerelease = true
			return c, nil
		}
	}
	if s == "" {
		return c, errors.New("a comparison is missing, such as >=1.0.0")
	}
	return c, fmt.Errorf("%s is no comparison such as >=1.0.0; one version is =1.0.0", strictjson.Show(s))
}

// admits reports whether a comparison is true of a version. What ends before 2.0.0 does not have its pre-releases:
// they are nearer to it than to what came before.
func (c *comparison) admits(v *semver.Version) bool {
	if c.sign == "<" && c.with.Prerelease() == "" && v.Prerelease() != "" && sameNumbers(v, c.with) {
		return false
	}
	return c.rule.Check(v)
}

func sameNumbers(v, w *semver.Version) bool {
	return v.Major() == w.Major() && v.Minor() == w.Minor() && v.Patch() == w.Patch()
}

// Has reports whether a version is in the range. A pre-release is only if preReleases are, whatever the range says.
func (r *Range) Has(v Version, preReleases bool) bool {
	if v.Prerelease() != "" && !preReleases {
		return false
	}
	for i := range r.comparisons {
		if !r.comparisons[i].admits(v.Version) {
			return false
		}
	}
	return true
}

// possible reports whether any version is in the range; pre-releases count with preReleases. If one is in it, then so
// is the lowest version there is, one that a comparison names, or the next one after it.
func (r *Range) possible(preReleases bool) bool {
	some := []*semver.Version{semver.New(0, 0, 0, "", ""), semver.New(0, 0, 0, "0", "")}
	for _, c := range r.comparisons {
		v := c.with
		next := semver.New(v.Major(), v.Minor(), v.Patch()+1, "", "")
		some = append(some, v, next, semver.New(v.Major(), v.Minor(), v.Patch()+1, "0", ""),
			semver.New(v.Major(), v.Minor(), v.Patch(), "", ""))
		if pre := v.Prerelease(); pre != "" {
			some = append(some, semver.New(v.Major(), v.Minor(), v.Patch(), pre+".0", ""))
		}
	}
	for _, v := range some {
		if r.Has(Version{v}, preReleases) {
			return true
		}
	}
	return false
}

// String is the range as it was written; "any version" if there is none.
func (r Range) String() string {
	if r.text == "" {
		return "any version"
	}
	return r.text
}

// IsZero reports whether the range has all versions because nothing was written.
func (r Range) IsZero() bool { return r.text == "" }

// MarshalText writes the range as it was read.
func (r Range) MarshalText() ([]byte, error) { return []byte(r.text), nil }

// UnmarshalText reads a range.
func (r *Range) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRange(string(text))
	return err
}
