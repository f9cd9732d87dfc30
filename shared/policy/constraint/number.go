package constraint

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// maxExponent bounds the exponents of numbers.
const maxExponent = 999

// decimal is an exact number: 0.digits times ten to the exp. digits neither begin nor end with 0; those of zero are
// empty.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// parseDecimal reads a number: a sign, digits, a point and an exponent, of which only digits must be there, before or
// behind the point. 5, 5., +5 and 05 are the same number.
func parseDecimal(s string) (decimal, bool) {
	var d decimal
	rest := s
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		d.negative, rest = rest[0] == '-', rest[1:]
	}
	exp := 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		text := rest[i+1:]
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n > maxExponent || n < -maxExponent {
			return decimal{}, false
		}
		exp, rest = int(n), rest[:i]
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return decimal{}, false
	}
	trimmed := strings.TrimLeft(digits, "0")
	d.exp = len(whole) - (len(digits) - len(trimmed)) + exp
	d.digits = strings.TrimRight(trimmed, "0")
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

// compare returns -1, 0 or 1.
func (d *decimal) compare(o *decimal) int {
	if d.sign() != o.sign() {
		return cmp.Compare(d.sign(), o.sign())
	}
	c := cmp.Compare(d.exp, o.exp)
	if c == 0 {
		c = strings.Compare(d.digits, o.digits)
	}
	return c * d.sign()
}

func (d *decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// whole reports whether d has no fraction.
func (d *decimal) whole() bool { return d.exp >= len(d.digits) }

// Version is a version: semantic, but the second and third number may be left out; they are 0 then.
type Version struct{ semver semver.Version }

// ParseVersion reads a version.
func ParseVersion(s string) (Version, error) {
	bad := fmt.Errorf("%.40q is not a version such as 1.2.0 or 2.0.0-rc.1", s)
	if s == "" || !digit(s[0]) {
		return Version{}, bad
	}
	core, rest := s, ""
	if i := strings.IndexAny(s, "-+"); i >= 0 {
		core, rest = s[:i], s[i:]
	}
	switch strings.Count(core, ".") {
	case 0:
		core += ".0.0"
	case 1:
		core += ".0"
	}
	v, err := semver.StrictNewVersion(core + rest)
	if err != nil {
		return Version{}, bad
	}
	for part := range strings.SplitSeq(v.Prerelease(), ".") { // beyond 64 bits the library compares them as texts
		if part != "" && strings.Trim(part, "0123456789") == "" {
			if _, err := strconv.ParseUint(part, 10, 64); errors.Is(err, strconv.ErrRange) {
				return Version{}, bad
			}
		}
	}
	return Version{*v}, nil
}

// CheckRelease returns what is wrong with the version of a release: all three numbers must be there.
func CheckRelease(s string) error {
	core, _, _ := strings.Cut(s, "+")
	core, _, _ = strings.Cut(core, "-")
	if _, err := ParseVersion(s); err != nil || strings.Count(core, ".") != 2 {
		return fmt.Errorf("%.40q is not three numbers such as 1.2.0 or 2.0.0-rc.1", s)
	}
	return nil
}

// Compare returns -1, 0 or 1 in the precedence of semantic versioning: a pre-release is lower than its release, and
// build metadata does not count.
func (v *Version) Compare(o Version) int { return v.semver.Compare(&o.semver) }

// infinity is the upper end of a range without one.
const infinity = "INFINITY"

// span is a range of versions.
type span struct {
	low, high         Version
	openLow, openHigh bool // the bound itself is not in the range
	infinite          bool // there is no upper bound
}

func (s *span) contains(v *Version) bool {
	if c := v.Compare(s.low); c < 0 || c == 0 && s.openLow {
		return false
	}
	if s.infinite {
		return true
	}
	c := v.Compare(s.high)
	return c < 0 || c == 0 && !s.openHigh
}
