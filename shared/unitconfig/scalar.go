package unitconfig

import (
	"fmt"
	"strconv"
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
	case err != nil || f > 1: // the only possible error: the number is too large for a float64
		r.Bad(a, strictjson.Clipped(lit)+" is too large: a fraction from 0.0 to 1.0, not a percentage")
		return 0, false
	case f < 0:
		r.Bad(a, strictjson.Clipped(lit)+" is negative: a fraction from 0.0 to 1.0")
		return 0, false
	}
	return f + 0, true // + 0 makes a negative zero positive, so that it is written as 0
}

// shortText returns why s cannot be a name or label; "": it can.
func shortText(s string) string {
	if s == "" {
		return "must not be empty"
	}
	return text(s, MaxName)
}

// text returns why s is not printable text of at most most bytes; "": it is.
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
