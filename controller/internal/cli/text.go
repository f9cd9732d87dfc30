package cli

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// clean makes text from elsewhere fit for one line of a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '\ufffd'
		}
		return r
	}, s)
}

// multiline is clean that keeps line ends.
func multiline(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// escaped is a JSON text in which what cannot be printed is written \uXXXX, so that a terminal does not obey it: JSON
// itself has that for the first 32 characters only. Such characters stand in texts only.
func escaped(doc []byte) []byte {
	var b []byte
	for _, r := range string(doc) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}

// shorten cuts s to width characters.
func shorten(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:width-1]) + "…"
}

// excerpt shows a line of the source with a caret below the column; "" without a place.
func excerpt(source []byte, line, column int) string {
	if len(source) == 0 || line < 1 || bytes.IndexByte(source, 0) >= 0 { // with a zero byte in it, it is no text
		return ""
	}
	rest := source
	for range line - 1 {
		_, after, found := bytes.Cut(rest, []byte{'\n'})
		if !found {
			return ""
		}
		rest = after
	}
	text, _, _ := bytes.Cut(rest, []byte{'\n'})
	if len(text) == 0 {
		return "" // nothing to see
	}
	runes := []rune(clean(string(text)))
	at := min(max(column-1, 0), len(runes))
	const before, after = 50, 40 // characters shown around the column of a long line
	from, to, head, tail := 0, len(runes), "", ""
	if at > before+10 {
		from, head = at-before, "…"
	}
	if to > at+after+10 {
		to, tail = at+after, "…"
	}
	number := fmt.Sprintf("%5d | ", line)
	return number + head + string(runes[from:to]) + tail + "\n" +
		strings.Repeat(" ", len(number)-2) + "| " + strings.Repeat(" ", at-from+utf8.RuneCountInString(head)) + "^\n"
}

// span renders a length of time with one unit.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// age renders how long ago t was.
func (a *app) age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(a.Now().Sub(t))
}

// ago is age in a sentence.
func (a *app) ago(t time.Time) string {
	if t.IsZero() {
		return "at an unknown time"
	}
	return a.age(t) + " ago"
}

// clock renders a time in the near future or past.
func (a *app) clock(t time.Time) string {
	t = t.In(a.Zone)
	if now := a.Now().In(a.Zone); t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// size renders a number of bytes.
func size(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, i := float64(n)/unit, 0
	for value >= unit && i < 4 {
		value /= unit
		i++
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + string("KMGTP"[i]) + "iB"
}

// plural is "1 node", "2 nodes".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// listed joins names, the first few of them.
func listed(names []string) string {
	const most = 10
	if len(names) > most {
		return clean(strings.Join(names[:most], ", ")) + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return clean(strings.Join(names, ", "))
}

// parseDuration reads Go's form (2m, 1h30m), days (90d) and ISO 8601 (PT2M).
func parseDuration(s string) (time.Duration, error) {
	if strings.HasPrefix(s, "P") {
		return duration.Parse(s)
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 90s, 2m, 7d or PT2M", s)
	}
	return d, nil
}

// durationFlag is a flag that parseDuration reads, above zero.
type durationFlag time.Duration

// String is part of pflag.Value; a flag that is not set has no default to show.
func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	s := time.Duration(*d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// Set is part of pflag.Value.
func (d *durationFlag) Set(s string) error {
	v, err := parseDuration(s)
	if err != nil {
		return err
	}
	if v <= 0 {
		return fmt.Errorf("%q is not above zero", s)
	}
	*d = durationFlag(v)
	return nil
}

// Type is part of pflag.Value.
func (d *durationFlag) Type() string { return "duration" }

// colour of a state.
func colour(s wire.State) string {
	switch s {
	case wire.StateInstalled:
		return green
	case wire.StateRejected, wire.StateFailed, wire.StateRolledBack:
		return red
	case wire.StateReceived, wire.StateApplying, wire.StateTrying:
		return yellow
	}
	return ""
}
