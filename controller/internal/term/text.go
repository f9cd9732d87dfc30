package term

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// EscapeJSON writes the characters of a JSON text that cannot be printed as \uXXXX, so that a terminal does not obey
// them. JSON itself demands that of the first 32 only. They stand within strings only, so the value stays the same.
func EscapeJSON(doc []byte) []byte {
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

// ShortenLines keeps whole lines within n bytes, and says how many more there are. The first line is kept in any case.
func ShortenLines(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := strings.LastIndexByte(s[:n], '\n')
	if cut < 0 {
		return s
	}
	return s[:cut] + fmt.Sprintf("\n  and %d more", strings.Count(s[cut+1:], "\n")+1)
}

// Characters of a long line that Excerpt shows before and after the column.
const (
	excerptBefore = 50
	excerptAfter  = 40
)

// Excerpt shows a line of source with a caret below the column; both count from 1. It is "" if there is no such line,
// or source is no text.
func Excerpt(source []byte, line, column int) string {
	if len(source) == 0 || line < 1 || bytes.IndexByte(source, 0) >= 0 {
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
		return ""
	}
	runes := []rune(Clean(string(text)))
	at := min(max(column-1, 0), len(runes))
	from, to, head, tail := 0, len(runes), "", ""
	if at > excerptBefore+10 {
		from, head = at-excerptBefore, "…"
	}
	if to > at+excerptAfter+10 {
		to, tail = at+excerptAfter, "…"
	}
	number := fmt.Sprintf("%5d | ", line)
	caret := strings.Repeat(" ", at-from+utf8.RuneCountInString(head)) + "^"
	shown := head + string(runes[from:to]) + tail
	return number + shown + "\n" + strings.Repeat(" ", len(number)-2) + "| " + caret + "\n"
}
