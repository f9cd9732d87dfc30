package unitconfig

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

// String returns the canonical form; see FormatDuration.
func (d Duration) String() string { return FormatDuration(time.Duration(d)) }

// MarshalText writes the canonical form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration accepts.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
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

const maxDurationText = 64 // bytes; no useful duration is longer

// ParseDuration reads an ISO 8601 duration: P[nW][nD][T[nH][nM][nS]], upper case, units in that
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
// The arithmetic is on integers and exact: ParseDuration(FormatDuration(d)) == d for every d >= 0.
// That is why this is not built on a library: those at hand compute in float64, accept "P", "PT",
// repeated and unordered units, and give years and months some fixed length.
func ParseDuration(s string) (time.Duration, error) {
	const form = `want an ISO 8601 duration such as "PT1.5S", "PT10M" or "P1DT12H"`
	fail := func(why string) (time.Duration, error) { return 0, errors.New(why + "; " + form) }
	switch {
	case s == "":
		return fail("the duration is empty")
	case len(s) > maxDurationText:
		return fail(fmt.Sprintf("the duration is longer than %d characters", maxDurationText))
	case s[0] == '-':
		return fail("the duration is negative")
	case s[0] != 'P':
		return fail("a duration begins with P")
	}
	rest, next, inTime, fraction := s[1:], 0, false, false
	if rest == "" || rest == "T" {
		return fail("the duration has no number")
	}
	var total uint64
	for rest != "" {
		if rest[0] == 'T' {
			if inTime {
				return fail("T appears twice")
			}
			if inTime, rest = true, rest[1:]; rest == "" {
				return fail("nothing follows the T")
			}
		}
		if fraction {
			return fail("only the last number may have a fraction")
		}
		number := leadingNumber(rest)
		if number == "" {
			return fail(fmt.Sprintf("a number is missing before %q", rest[0]))
		}
		if rest = rest[len(number):]; rest == "" {
			return fail("the last number has no unit")
		}
		i := unitAt(rest[0], inTime)
		switch {
		case i < 0 && inTime && strings.IndexByte("YWD", rest[0]) >= 0:
			return fail("years, weeks and days stand before the T")
		case i < 0 && !inTime && strings.IndexByte("HS", rest[0]) >= 0:
			return fail("hours, minutes and seconds stand after a T")
		case i < 0:
			return fail(fmt.Sprintf("%q is no unit", rest[0]))
		case i < next:
			return fail("the " + units[i].name + " are repeated or out of order")
		case units[i].ns == 0:
			return fail("the length of " + units[i].name + " depends on the calendar; use days")
		}
		next, rest = i+1, rest[1:]
		var ns uint64
		var err error
		if ns, fraction, err = scale(number, units[i].ns); err != nil {
			return fail(err.Error())
		}
		if total += ns; total > math.MaxInt64 { // both were at most about 2^63, so nothing wrapped
			return fail("the duration is longer than 292 years")
		}
	}
	return time.Duration(total), nil
}

func leadingNumber(s string) string {
	n := 0
	for n < len(s) && ('0' <= s[n] && s[n] <= '9' || s[n] == '.' || s[n] == ',') {
		n++
	}
	return s[:n]
}

func unitAt(mark byte, inTime bool) int {
	for i, u := range units {
		if u.mark == mark && u.time == inTime {
			return i
		}
	}
	return -1
}

// scale returns number × ns, rounded half up, and whether the number had a fraction.
func scale(number string, ns uint64) (uint64, bool, error) {
	at := strings.IndexAny(number, ".,")
	whole, decimals := number, ""
	if at >= 0 {
		whole, decimals = number[:at], number[at+1:]
		if whole == "" || decimals == "" || strings.ContainsAny(decimals, ".,") {
			return 0, false, errors.New("a fraction needs digits on both sides of one point or comma")
		}
	}
	tooLong := errors.New("the duration is longer than 292 years")
	w, err := strconv.ParseUint(whole, 10, 64)
	if err != nil {
		return 0, false, tooLong
	}
	hi, sum := bits.Mul64(w, ns)
	if hi > 0 {
		return 0, false, tooLong
	}
	if sum > math.MaxInt64 {
		return 0, false, tooLong
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
	return sum + quotient, at >= 0, nil
}

// FormatDuration writes the canonical ISO 8601 form: P[nD][T[nH][nM][n[.n]S]] with each unit below
// its next larger one, no trailing zeros, "PT0S" for zero. Sub-second durations are fractions of a
// second ("PT0.25S"), which ParseDuration reads back exactly. A negative duration, which the
// product never stores, gets a leading minus that ParseDuration refuses.
func FormatDuration(d time.Duration) string {
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
