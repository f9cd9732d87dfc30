package wire

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Span is a length of time in whole seconds: an ISO 8601 duration on the wire, such as "P7D" or
// "PT1M30S", from one second up to MaxSpan. The zero Span is an absent field.
type Span time.Duration

// MaxSpan is the longest Span, 2^32-1 seconds: about 136 years.
const MaxSpan = Span((1<<32 - 1) * time.Second)

// SpanOf returns d as a Span, rounded up to a whole second and kept within 0 and MaxSpan.
func SpanOf(d time.Duration) Span {
	if d >= MaxSpan.Std() {
		return MaxSpan
	}
	return Span((max(0, d) + time.Second - 1).Truncate(time.Second))
}

// Std returns s as the standard library's type.
func (s Span) Std() time.Duration { return time.Duration(s) }

// String returns the canonical form: days, hours, minutes and seconds, each below the next larger.
func (s Span) String() string {
	seconds := uint64(max(0, s)) / uint64(time.Second)
	if seconds == 0 {
		return "PT0S"
	}
	b := []byte{'P'}
	part := func(size uint64, mark byte) {
		if n := seconds / size; n > 0 {
			b = append(strconv.AppendUint(b, n, 10), mark)
		}
		seconds %= size
	}
	part(24*60*60, 'D')
	if seconds > 0 {
		b = append(b, 'T')
		part(60*60, 'H')
		part(60, 'M')
		part(1, 'S')
	}
	return string(b)
}

// MarshalText writes the canonical form.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads an ISO 8601 duration of whole seconds without years and months, whose
// length depends on the calendar. Zero is refused: what is not wanted is left out.
func (s *Span) UnmarshalText(text []byte) error {
	const form = `; want a whole number of seconds as an ISO 8601 duration, such as "PT90S" or "P7D"`
	in := string(text)
	if !isoDuration(in) {
		return errors.New("not an ISO 8601 duration" + form)
	}
	if strings.ContainsAny(in, ".,") {
		return errors.New("a fraction" + form)
	}
	total, date, number := uint64(0), true, uint64(0)
	for i := 1; i < len(in); i++ {
		c, unit := in[i], uint64(0)
		switch {
		case '0' <= c && c <= '9':
			number = number*10 + uint64(c-'0')
			if number > uint64(MaxSpan/Span(time.Second)) {
				return errors.New("longer than " + MaxSpan.String())
			}
			continue
		case c == 'T':
			date = false
			continue
		case c == 'W':
			unit = 7 * 24 * 60 * 60
		case c == 'D':
			unit = 24 * 60 * 60
		case c == 'H':
			unit = 60 * 60
		case c == 'M' && !date:
			unit = 60
		case c == 'S':
			unit = 1
		default:
			return errors.New("years and months have no fixed length" + form)
		}
		total, number = total+number*unit, 0 // at most 2^32 × 604800 each, so nothing wraps
	}
	switch {
	case total == 0:
		return errors.New("zero" + form)
	case total > uint64(MaxSpan/Span(time.Second)):
		return errors.New("longer than " + MaxSpan.String())
	}
	*s = Span(time.Duration(total) * time.Second)
	return nil
}
