package wire

import (
	"strings"
	"unicode"
)

// MaxText bounds what must be plain, in bytes: versions, boots, IDs, and the texts that a node reports.
const MaxText = 256

// Plain makes a text that comes from elsewhere one of at most most bytes, fit for a field that must be plain
// if most is not above MaxText: a control character becomes a space, what is not UTF-8 "�", and what is too
// long ends in "…". A text that is so already stays as it is.
func Plain(s string, most int) string {
	return clip(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�")), most)
}

// clip shortens s to at most n bytes without cutting a character, and replaces what is not UTF-8.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	const mark = "…"
	return strings.ToValidUTF8(s[:n-len(mark)], "") + mark
}

// text demands a string that is there and plain.
func text(path, s string) *Error {
	if s == "" {
		return New(CodeMissing, path, "required")
	}
	return plain(path, s)
}

// plain bounds the strings that are kept for every node, shown in every table or signed.
func plain(path, s string) *Error {
	if len(s) > MaxText {
		return New(CodeTooLarge, path, "longer than 256 bytes")
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return New(CodeBadValue, path, "holds a control character")
	}
	return nil
}
