// Package duration parses and formats ISO 8601 durations. Parse returns exactly the value that Format was given, to the
// nanosecond. See ADR 010.
//
//tandem:pure
package duration

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that is an ISO 8601 duration in JSON. UnmarshalText never returns a negative one.
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the canonical form; see Format.
func (d Duration) String() string { return Format(time.Duration(d)) }

// MarshalText returns the canonical form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses text with Parse.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// unit is a unit of time in a duration.
type unit struct {
	mark byte // its designator
	name string
	time bool   // it comes after the T
	ns   uint64 // its length in nanoseconds; 0: it depends on the calendar
}

// units are all units in the order in which they must occur.
var units = []unit{
	{'Y', "years", false, 0},
	{'M', "months", false, 0},
	{'W', "weeks", false, 7 * 24 * uint64(time.Hour)},
	{'D', "days", false, 24 * uint64(time.Hour)},
	{'H', "hours", true, uint64(time.Hour)},
	{'M', "minutes", true, uint64(time.Minute)},
	{'S', "seconds", true, uint64(time.Second)},
}

const maxText = 64 // most bytes of a duration

// Parse parses an ISO 8601 duration: P[nW][nD][T[nH][nM][nS]], in upper case. It has at least one unit, and at least
// one after a T; each unit occurs at most once, in this order. Weeks may be combined with other units, which ISO 8601-1
// does not allow but most programs do. The last number may have a fraction after a point or comma; it is rounded to the
// nearest nanosecond, so that the output of floating-point programs gives the value that they meant.
//
// A day is 24 hours. Years and months are errors, because their length depends on the calendar: use P30D or P365D.
// Negative durations, white space, and durations above 292 years (the range of time.Duration) are errors too. The error
// describes the mistake, and does not quote the input.
//
// The arithmetic is on integers and exact: Parse(Format(d)) == d for every d >= 0. No library is used because the known
// ones compute in float64, accept "P", "PT", repeated and unordered units, and give years and months a fixed length.
func Parse(s string) (time.Duration, error) {
	const form = `want an ISO 8601 duration such as "PT1.5S", "PT10M" or "P1DT12H"`
	var total uint64
	fraction := false
	err := scan(s, func(u unit, whole, decimals string) error {
		if fraction {
			return errors.New("only the last number may have a fraction")
		}
		if u.ns == 0 {
			return errors.New("the length of " + u.name + " depends on the calendar; use days")
		}
		fraction = decimals != ""
		ns, ok := scale(whole, decimals, u.ns)
		if total += ns; !ok || total > math.MaxInt64 { // both terms are at most about 2^63: no overflow
			return errors.New("the duration is longer than 292 years")
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%w; %s", err, form)
	}
	return time.Duration(total), nil
}

// Valid reports whether s has the form of an ISO 8601 duration of at most 64 bytes. In addition to what Parse accepts,
// it may have years, months, and a fraction in any number, and may be of any length of time.
func Valid(s string) bool {
	return scan(s, func(unit, string, string) error { return nil }) == nil
}

// scan calls part for each number of a duration, in order, with its unit, its digits before, and its digits after the
// point or comma. It returns the first mistake in the form, or the first error of part.
func scan(s string, part func(u unit, whole, decimals string) error) error {
	switch {
	case s == "":
		return errors.New("the duration is empty")
	case len(s) > maxText:
		return fmt.Errorf("the duration is longer than %d characters", maxText)
	case s[0] == '-':
		return errors.New("the duration is negative")
	case s[0] != 'P':
		return errors.New("a duration begins with P")
	}
	rest, next, inTime := s[1:], 0, false
	if rest == "" || rest == "T" {
		return errors.New("the duration has no number")
	}
	for rest != "" {
		if rest[0] == 'T' {
			if inTime {
				return errors.New("the T appears twice")
			}
			if inTime, rest = true, rest[1:]; rest == "" {
				return errors.New("nothing follows the T")
			}
		}
		number := leadingNumber(rest)
		if number == "" {
			return fmt.Errorf("a number is missing before %q", rest[0])
		}
		if rest = rest[len(number):]; rest == "" {
			return errors.New("the last number has no unit")
		}
		i, err := unitAt(rest[0], inTime, next)
		if err != nil {
			return err
		}
		next, rest = i+1, rest[1:]
		whole, decimals, split := strings.Cut(strings.Replace(number, ",", ".", 1), ".")
		if whole == "" || split && decimals == "" || strings.ContainsAny(decimals, ".,") {
			return errors.New("a fraction needs digits on both sides of one point or comma")
		}
		if err := part(units[i], whole, decimals); err != nil {
			return err
		}
	}
	return nil
}

// leadingNumber returns the digits, points and commas at the beginning of s.
func leadingNumber(s string) string {
	n := 0
	for n < len(s) && ('0' <= s[n] && s[n] <= '9' || s[n] == '.' || s[n] == ',') {
		n++
	}
	return s[:n]
}

// unitAt returns the index in units of a designator. It is an error if that is before next.
func unitAt(mark byte, inTime bool, next int) (int, error) {
	i := len(units) - 1
	for i >= 0 && (units[i].mark != mark || units[i].time != inTime) {
		i--
	}
	switch {
	case i < 0 && inTime && strings.IndexByte("YWD", mark) >= 0:
		return 0, errors.New("years, weeks and days stand before the T")
	case i < 0 && !inTime && strings.IndexByte("HS", mark) >= 0:
		return 0, errors.New("hours, minutes and seconds stand after a T")
	case i < 0:
		return 0, fmt.Errorf("%q is no unit", mark)
	case i < next:
		return 0, errors.New("the " + units[i].name + " are repeated or out of order")
	}
	return i, nil
}

// scale returns whole.decimals × ns, rounded half up; ok is false above 292 years.
func scale(whole, decimals string, ns uint64) (product uint64, ok bool) {
	w, err := strconv.ParseUint(whole, 10, 64)
	if err != nil {
		return 0, false
	}
	hi, sum := bits.Mul64(w, ns)
	if hi > 0 || sum > math.MaxInt64 {
		return 0, false
	}
	// The value of n decimals is digits × ns / 10^n. It is computed from the right: add a digit's share, and divide
	// by ten. All remainders but the last can be dropped, because an integer plus a fraction rounds down to the
	// integer.
	var quotient uint64
	last := uint64(0)
	for i := len(decimals) - 1; i >= 0; i-- {
		// quotient < ns <= 6.1e14 and a digit is at most 9: no overflow.
		v := uint64(decimals[i]-'0')*ns + quotient
		quotient, last = v/10, v%10
	}
	if last >= 5 {
		quotient++
	}
	return sum + quotient, true
}

// Format returns the canonical ISO 8601 form: P[nD][T[nH][nM][n[.n]S]], in which each number is below the next larger
// unit and has no trailing zeros after a point; "PT0S" for zero. The product has no negative durations; they would get
// a leading minus, which Parse refuses.
func Format(d time.Duration) string {
	if d == 0 {
		return "PT0S"
	}
	b := make([]byte, 0, 32)
	ns := uint64(d)
	if d < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = append(b, 'P')
	part := func(size time.Duration, mark byte) {
		if n := ns / uint64(size); n > 0 {
			b = append(strconv.AppendUint(b, n, 10), mark)
		}
		ns %= uint64(size)
	}
	part(24*time.Hour, 'D')
	if ns == 0 {
		return string(b)
	}
	b = append(b, 'T')
	part(time.Hour, 'H')
	part(time.Minute, 'M')
	if ns == 0 {
		return string(b)
	}
	b = strconv.AppendUint(b, ns/uint64(time.Second), 10)
	if frac := ns % uint64(time.Second); frac > 0 {
		b = append(b, '.')
		b = append(b, strings.TrimRight(fmt.Sprintf("%09d", frac), "0")...)
	}
	return string(append(b, 'S'))
}
