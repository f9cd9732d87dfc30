package wire

import (
	"strings"
	"unicode"
)

// MaxText is the most bytes of a plain text: a version, boot, ID, or text that a node reports.
const MaxText = 256

// Misleads reports whether a character may not be in a text that people give or read: a control character, or one that
// turns the direction of the text around it (Unicode's Bidi_Control), so that it reads as something else.
func Misleads(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// Plain returns a text of at most most bytes without characters that mislead: each becomes a space, invalid UTF-8
// becomes "�", and a text that is too long ends in "…". If most is at most MaxText, the result fits every field that
// must be plain.
func Plain(s string, most int) string {
	return clip(strings.Map(func(r rune) rune {
		if Misleads(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�")), most)
}

// clip shortens s to at most n bytes without splitting a character, and replaces invalid UTF-8.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	const mark = "…"
	return strings.ToValidUTF8(s[:n-len(mark)], "") + mark
}

// text returns an error unless s is a plain text that is not empty.
func text(path, s string) *Error {
	if s == "" {
		return New(CodeMissing, path, "required")
	}
	return plain(path, s)
}

// plain returns an error unless s has at most MaxText bytes and no control characters. It is for strings that are
// stored for each node, shown in tables, or signed.
func plain(path, s string) *Error {
	if len(s) > MaxText {
		return New(CodeTooLarge, path, "longer than 256 bytes")
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return New(CodeBadValue, path, "holds a control character")
	}
	return nil
}
