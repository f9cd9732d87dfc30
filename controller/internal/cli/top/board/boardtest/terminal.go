// Package boardtest has a terminal for tests: it knows what tandem top writes, and nothing else.
package boardtest

import (
	"fmt"
	"strings"
	"unicode"
)

// Terminal is a screen.
type Terminal struct {
	columns int
	lines   [][]rune
	x, y    int
}

// New returns an empty one.
func New(columns, lines int) *Terminal {
	t := &Terminal{columns: columns, lines: make([][]rune, lines)}
	t.clear()
	return t
}

func (t *Terminal) clear() {
	for y := range t.lines {
		t.lines[y] = []rune(strings.Repeat(" ", t.columns))
	}
}

// Write implements io.Writer. What no such program should write is an error.
func (t *Terminal) Write(text []byte) (int, error) {
	for rest := string(text); rest != ""; {
		sequence, escaped := strings.CutPrefix(rest, "\x1b[")
		if !escaped {
			c := []rune(rest)[0]
			if !unicode.IsPrint(c) || t.y >= len(t.lines) || t.x >= t.columns {
				return 0, fmt.Errorf("%q at %d, %d", c, t.x, t.y)
			}
			t.lines[t.y][t.x] = c
			t.x++
			rest = rest[len(string(c)):]
			continue
		}
		at := strings.IndexFunc(sequence, unicode.IsLetter)
		if at < 0 || !t.obey(sequence[:at], sequence[at]) {
			return 0, fmt.Errorf("%.20q", rest)
		}
		rest = sequence[at+1:]
	}
	return len(text), nil
}

func (t *Terminal) obey(args string, what byte) bool {
	switch what {
	case 'H':
		if _, err := fmt.Sscanf(args, "%d;%d", &t.y, &t.x); err != nil {
			return false
		}
		t.x, t.y = t.x-1, t.y-1
		return t.x >= 0 && t.y >= 0
	case 'K':
		for x := t.x; x < t.columns; x++ {
			t.lines[t.y][x] = ' '
		}
	case 'J':
		t.clear()
	case 'm': // colours do not count here
	default:
		return false
	}
	return true
}

// String is what stands there, without spaces at the ends of lines.
func (t *Terminal) String() string {
	var b strings.Builder
	for _, line := range t.lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}
