package unitconfig

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"tandem.internal/shared/strictjson"
)

// fractionOf reads a number from 0.0 to 1.0.
func fractionOf(r *strictjson.Reader, a strictjson.At) (float64, bool) {
	lit, ok := r.Number(a)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(lit, 64)
	switch {
	case err != nil || f > 1: // the only possible error is a number beyond float64
		r.Bad(a, clipped(lit)+" is too large: a fraction from 0.0 to 1.0, not a percentage")
		return 0, false
	case f < 0:
		r.Bad(a, clipped(lit)+" is negative: a fraction from 0.0 to 1.0")
		return 0, false
	}
	return f + 0, true // + 0 makes a negative zero positive, so that it is written as 0
}

// wholeOf reads a whole number from low to high. Any JSON spelling of a whole number will do (1e3,
// 50.0); its value is exact. rule is the message of a refusal.
func wholeOf(r *strictjson.Reader, a strictjson.At, low, high uint64, rule string) (uint64, bool) {
	lit, ok := r.Number(a)
	if !ok {
		return 0, false
	}
	n, ok := whole(lit)
	if !ok || n < low || n > high {
		r.Bad(a, rule+", not "+clipped(lit))
		return 0, false
	}
	return n, true
}

// whole returns the value of a JSON number if it is a whole number that fits 64 bits.
func whole(lit string) (uint64, bool) {
	if n, err := strconv.ParseUint(lit, 10, 64); err == nil {
		return n, true
	}
	digits, negative := strings.CutPrefix(lit, "-")
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		exp, err := strconv.ParseInt(digits[i+1:], 10, 32)
		if err != nil {
			exp = 1 << 30 // zero stays zero, anything else is out of range
		}
		digits, exponent = digits[:i], int(exp)
	}
	if i := strings.IndexByte(digits, '.'); i >= 0 {
		exponent -= len(digits) - i - 1
		digits = digits[:i] + digits[i+1:]
	}
	digits = strings.TrimLeft(digits, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	switch {
	case trimmed == "":
		return 0, true
	case negative, exponent < 0, exponent > 20, len(trimmed)+exponent > 20:
		return 0, false
	}
	n, err := strconv.ParseUint(trimmed+strings.Repeat("0", exponent), 10, 64)
	return n, err == nil
}

// shortText says what is wrong with s as a name or label, or "".
func shortText(s string) string {
	if s == "" {
		return "must not be empty"
	}
	return text(s, MaxName)
}

// text says what is wrong with s as printable text of at most most bytes, or "".
func text(s string, most int) string {
	if len(s) > most {
		return fmt.Sprintf("%s has %d bytes; at most %d are allowed", strictjson.Show(s), len(s), most)
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return strictjson.Show(s) + " has a character that cannot be printed"
		}
	}
	return ""
}

// clipped shortens a number's literal for a message.
func clipped(lit string) string {
	if len(lit) > 32 {
		return lit[:32] + "…"
	}
	return lit
}
