// Package duration owns ISO 8601 durations: their form, their exact reading and their canonical writing.
// It guarantees that what it writes reads back as the same value, to the nanosecond. See ADR 010.
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

// Duration is a time.Duration that is an ISO 8601 duration in JSON. It is never negative when read.
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the canonical form; see Format.
func (d Duration) String() string { return Format(time.Duration(d)) }

// MarshalText writes the canonical form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what Parse accepts.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// unit is one designator of a duration, in the order in which they must come.
type unit struct {
	mark byte
	name string
	time bool // stands after the T
	ns   uint64
}

var units = []unit{
	{'Y', "years", false, 0},
	{'M', "months", false, 0},
	{'W', "weeks", false, 7 * 24 * uint64(time.Hour)},
	{'D', "days", false, 24 * uint64(time.Hour)},
	{'H', "hours", true, uint64(time.Hour)},
	{'M', "minutes", true, uint64(time.Minute)},
	{'S', "seconds", true, uint64(time.Second)},
}

const maxText = 64 // bytes; no useful duration is longer

// Parse reads an ISO 8601 duration: P[nW][nD][T[nH][nM][nS]], upper case, units in that
// order and at most once, at least one of them, at least one after a T. Weeks may be combined
// with the rest, as most writers allow though ISO 8601-1 has them alone. The last number may have a fraction
// after a point or a comma; what is finer than a nanosecond is rounded to the nearest, so that
// other people's floating-point output reads as what it meant.
//
// A day is 24 hours. Years and months are refused: their length depends on the calendar, and a
// time-out that differs between February and March is a trap; say P30D or P365D instead. Negative
// durations, white space and anything above 292 years (a time.Duration's range) are refused too.
// The error says what is wrong, without quoting the input.
//
// The arithmetic is on integers and exact: Parse(Format(d)) == d for every d >= 0.
// That is why this is not built on a library: those at hand compute in float64, accept "P", "PT",
// repeated and unordered units, and give years and months some fixed length.
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
		if total += ns; !ok || total > math.MaxInt64 { // both were at most about 2^63, so nothing wrapped
			return errors.New("the duration is longer than 292 years")
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%w; %s", err, form)
	}
	return time.Duration(total), nil
}

// Valid reports whether s has the form of an ISO 8601 duration, at most 64 bytes long. Beyond what Parse
// reads, that includes years, months, a fraction in any number, and durations of any length.
func Valid(s string) bool {
	return scan(s, func(unit, string, string) error { return nil }) == nil
}

// scan calls part for each number of a duration, in order: its unit, its digits, and those after a point or
// a comma. It returns the first mistake in the form, or the first error of part.
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

func leadingNumber(s string) string {
	n := 0
	for n < len(s) && ('0' <= s[n] && s[n] <= '9' || s[n] == '.' || s[n] == ',') {
		n++
	}
	return s[:n]
}

// unitAt finds the unit of a designator, which must not come before units[next].
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

// scale returns whole.decimals × ns, rounded half up; ok is false beyond 292 years.
func scale(whole, decimals string, ns uint64) (product uint64, ok bool) {
	w, err := strconv.ParseUint(whole, 10, 64)
	if err != nil {
		return 0, false
	}
	hi, sum := bits.Mul64(w, ns)
	if hi > 0 || sum > math.MaxInt64 {
		return 0, false
	}
	// The decimals are worth (digits × ns) / 10^n: from the right, add a digit's share and divide by
	// ten. Dropping each remainder but the last changes nothing, since a sum of integers and a
	// fraction rounds down the same with or without the fraction.
	var quotient uint64
	last := uint64(0)
	for i := len(decimals) - 1; i >= 0; i-- {
		// quotient < ns <= 6.1e14 and a digit is at most 9, so this never overflows.
		v := uint64(decimals[i]-'0')*ns + quotient
		quotient, last = v/10, v%10
	}
	if last >= 5 {
		quotient++
	}
	return sum + quotient, true
}

// Format writes the canonical ISO 8601 form: P[nD][T[nH][nM][n[.n]S]] with each unit below
// its next larger one, no trailing zeros, "PT0S" for zero. Sub-second durations are fractions of a
// second ("PT0.25S"), which Parse reads back exactly. A negative duration, which the
// product never stores, gets a leading minus that Parse refuses.
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
