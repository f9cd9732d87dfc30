package strictjson

import (
	"strconv"
	"strings"
)

// Whole reads a whole number from low to high, in any notation of JSON (1e3, 50.0); the value is exact. rule is the
// beginning of the message if it is something else.
func (r *Reader) Whole(a At, low, high uint64, rule string) (uint64, bool) {
	lit, ok := r.Number(a)
	if !ok {
		return 0, false
	}
	n, ok := whole(lit)
	if !ok || n < low || n > high {
		r.Bad(a, rule+", not "+Clipped(lit))
		return 0, false
	}
	return n, true
}

// whole returns the value of a JSON number; false unless it is a whole number that fits into 64 bits.
func whole(lit string) (uint64, bool) {
	if n, err := strconv.ParseUint(lit, 10, 64); err == nil {
		return n, true
	}
	digits, negative := strings.CutPrefix(lit, "-")
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		exp, err := strconv.ParseInt(digits[i+1:], 10, 32)
		if err != nil {
			exp = 1 << 30 // too large for any number but zero
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

// Clipped returns the literal of a number for a message: at most 32 bytes, then ….
func Clipped(lit string) string {
	if len(lit) > 32 {
		return lit[:32] + "…"
	}
	return lit
}
