// Package phrase owns the small pieces of which texts for people are made: lengths of time, sizes, lists of names, and
// text from elsewhere made harmless.
//
//tandem:pure
package phrase

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const day = 24 * time.Hour

// Span renders a length of time in its largest unit: 90s as 1m, 36h as 36h, 48h as 2d.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// Ahead renders how long something still takes, to the nearest second below 100, else minute below 100, and so on:
// 90s, 2m, 24h. What is a whole one of the next unit is that: 1m, 1h.
func Ahead(d time.Duration) string {
	if s := max(0, d.Round(time.Second)); s < 100*time.Second && s != time.Minute {
		return fmt.Sprintf("%ds", s/time.Second)
	}
	if m := d.Round(time.Minute); m < 100*time.Minute && m != time.Hour {
		return fmt.Sprintf("%dm", m/time.Minute)
	}
	if h := d.Round(time.Hour); h < 2*day {
		return fmt.Sprintf("%dh", h/time.Hour)
	}
	return fmt.Sprintf("%dd", d.Round(day)/day)
}

// By says who did something, after what was done; "": nobody is known. A file's name stands in journals for the
// controller, which did it because of that file.
func By(who string) string {
	switch who {
	case "":
		return ""
	case "revoked.txt":
		return " by the controller, because its file revoked.txt has it"
	}
	return " by " + who
}

// Exact renders a length of time to the second: 7d, 2m30s.
func Exact(d time.Duration) string {
	text := ""
	for _, u := range []struct {
		length time.Duration
		mark   string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / u.length; n > 0 {
			text += fmt.Sprintf("%d%s", n, u.mark)
		}
		d %= u.length
	}
	if text == "" {
		return "0s"
	}
	return text
}

// Size renders a number of bytes.
func Size(n uint64) string {
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

// Plural is "1 node", "2 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// YesNo is "yes" or "no".
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// List joins the first ten names and says how many more there are.
func List(names []string) string {
	const most = 10
	if len(names) > most {
		return Clean(strings.Join(names[:most], ", ")) + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return Clean(strings.Join(names, ", "))
}

// Remark appends more in parentheses, if there is any.
func Remark(text, more string) string {
	if more == "" {
		return text
	}
	return text + " (" + more + ")"
}

// Clean makes text from elsewhere harmless and fit for one line: line ends and tabs become spaces, what cannot be
// printed becomes U+FFFD.
func Clean(s string) string {
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

// CleanLines is Clean that keeps line ends.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Shorten cuts s to width characters, the last of them an ellipsis. A width of 0 or less is no limit.
func Shorten(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:width-1]) + "…"
}

// Wrap breaks text between words into lines of at most width characters; a longer word has a line of its own.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), word
			continue
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
