package term

import (
	"time"

	"tandem.internal/controller/internal/phrase"
)

// The pieces of text of package phrase, under the names by which commands know them.

// Span is phrase.Span.
func Span(d time.Duration) string { return phrase.Span(d) }

// Ahead is phrase.Ahead.
func Ahead(d time.Duration) string { return phrase.Ahead(d) }

// Exact is phrase.Exact.
func Exact(d time.Duration) string { return phrase.Exact(d) }

// Size is phrase.Size.
func Size(n uint64) string { return phrase.Size(n) }

// Plural is phrase.Plural.
func Plural(n int, noun string) string { return phrase.Plural(n, noun) }

// YesNo is phrase.YesNo.
func YesNo(b bool) string { return phrase.YesNo(b) }

// List is phrase.List.
func List(names []string) string { return phrase.List(names) }

// Remark is phrase.Remark.
func Remark(text, more string) string { return phrase.Remark(text, more) }

// Clean is phrase.Clean.
func Clean(s string) string { return phrase.Clean(s) }

// CleanLines is phrase.CleanLines.
func CleanLines(s string) string { return phrase.CleanLines(s) }

// Shorten is phrase.Shorten.
func Shorten(s string, width int) string { return phrase.Shorten(s, width) }

// Wrap is phrase.Wrap.
func Wrap(text string, width int) []string { return phrase.Wrap(text, width) }

// Age renders how long ago t was; "-" for the zero time.
func (s *Screen) Age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Span(s.Now().Sub(t))
}

// Ago is Age in a sentence.
func (s *Screen) Ago(t time.Time) string {
	if t.IsZero() {
		return "at an unknown time"
	}
	return s.Age(t) + " ago"
}

// Left renders how long it is until t.
func (s *Screen) Left(t time.Time) string { return Ahead(t.Sub(s.Now())) }

// Clock renders a time; the date is left out of today's.
func (s *Screen) Clock(t time.Time) string {
	t = t.In(s.Zone)
	if now := s.Now().In(s.Zone); t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}
