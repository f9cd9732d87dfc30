package wire

import (
	"errors"
	"strings"
	"time"

	"tandem.internal/shared/duration"
)

// Span is a length of time in whole seconds, from one second to MaxSpan; on the wire an ISO 8601 duration such as "P7D"
// or "PT1M30S". The zero Span is an absent field.
type Span time.Duration

// MaxSpan is the longest Span, 2^32-1 seconds: about 136 years.
const MaxSpan = Span((1<<32 - 1) * time.Second)

// SpanOf returns d as a Span: rounded up to a whole second, 0 if d is negative, and at most MaxSpan.
func SpanOf(d time.Duration) Span {
	if d >= MaxSpan.Std() {
		return MaxSpan
	}
	return Span((max(0, d) + time.Second - 1).Truncate(time.Second))
}

// Std returns s as the standard library's type.
func (s Span) Std() time.Duration { return time.Duration(s) }

// String returns the canonical form: days, hours, minutes and seconds, each below the next larger.
func (s Span) String() string { return duration.Format(max(0, s.Std())) }

// MarshalText returns the canonical form.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads an ISO 8601 duration of whole seconds. Years and months are errors, because their length depends
// on the calendar; so is zero, because an absent field means it.
func (s *Span) UnmarshalText(text []byte) error {
	const form = `; want a whole number of seconds as an ISO 8601 duration, such as "PT90S" or "P7D"`
	in := string(text)
	date, _, _ := strings.Cut(in, "T")
	switch {
	case !duration.Valid(in):
		return errors.New("not an ISO 8601 duration" + form)
	case strings.ContainsAny(in, ".,"):
		return errors.New("a fraction" + form)
	case strings.ContainsAny(date, "YM"):
		return errors.New("years and months have no fixed length" + form)
	}
	d, err := duration.Parse(in)
	switch {
	case err != nil || d > MaxSpan.Std(): // Parse can fail for no other reason here
		return errors.New("longer than " + MaxSpan.String())
	case d == 0:
		return errors.New("zero" + form)
	}
	*s = Span(d)
	return nil
}
