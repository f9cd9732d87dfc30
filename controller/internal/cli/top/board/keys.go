package board

import (
	"strings"
	"unicode/utf8"
)

// The keys that are no characters. A character is a key of its own: "q".
const (
	Up       = "up"
	Down     = "down"
	PageUp   = "page up"
	PageDown = "page down"
	Home     = "home"
	End      = "end"
	Enter    = "enter"
	Esc      = "esc"
	Rub      = "rub" // backspace
	Break    = "break"
)

// sent are the sequences that terminals send for keys, without the escape character.
var sent = map[string]string{
	"[A": Up, "[B": Down, "OA": Up, "OB": Down, "[5~": PageUp, "[6~": PageDown, "[H": Home, "[F": End, "OH": Home,
	"OF": End, "[1~": Home, "[4~": End, "[7~": Home, "[8~": End,
}

var control = map[byte]string{3: Break, 4: PageDown, 21: PageUp, 6: PageDown, 2: PageUp, 8: Rub, 127: Rub, '\r': Enter,
	'\n': Enter, 14: Down, 16: Up}

// Decoder makes keys of what a terminal sends, which may come in pieces. The zero value is ready.
type Decoder struct{ rest string }

// longest is how many bytes of a sequence are waited for.
const longest = 16

// Feed takes what the terminal has sent.
func (d *Decoder) Feed(text []byte) (keys []string) {
	d.rest += string(text)
	for d.rest != "" {
		key, n := next(d.rest)
		if n == 0 {
			break // more has to come
		}
		if key != "" {
			keys = append(keys, key)
		}
		d.rest = d.rest[n:]
	}
	return keys
}

// Wait is called when nothing has come for a while: an escape character alone is the key.
func (d *Decoder) Wait() (keys []string) {
	if strings.HasPrefix(d.rest, "\x1b") {
		keys = []string{Esc}
	}
	d.rest = ""
	return keys
}

// next returns the first key of a text and how many bytes it has; 0: it has not come whole. Sequences that are not
// known are no key.
func next(text string) (key string, n int) {
	if text[0] != '\x1b' {
		if text[0] < ' ' || text[0] == 127 {
			return control[text[0]], 1
		}
		if !utf8.FullRuneInString(text) {
			return "", 0
		}
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError {
			return "", n
		}
		return text[:n], n
	}
	if len(text) == 1 {
		return "", 0
	}
	if text[1] != '[' && text[1] != 'O' {
		return Esc, 1
	}
	for i := 2; i < len(text); i++ {
		if c := text[i]; c >= '@' && c <= '~' {
			return sent[text[1:i+1]], i + 1
		} else if c < ' ' || i > longest {
			return "", i // it is none
		}
	}
	return "", 0
}
