package term

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Progress shows on standard error how far something has come. On a terminal it is one line that is written anew;
// elsewhere each change is a line, at most one a second.
type Progress struct {
	s       *Screen
	lines   bool // also where there is no terminal
	last    string
	at      time.Time
	written bool // the line stands on the terminal
}

// Progress begins one; lines says whether it is shown where there is no terminal, too.
func (s *Screen) Progress(lines bool) *Progress { return &Progress{s: s, lines: lines} }

// Bar is a bar of done out of total.
func Bar(done, total int) string {
	const width = 20
	full := 0
	if total > 0 {
		full = width * done / total
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "]"
}

// Update shows text, and on a terminal a bar of done out of total.
func (p *Progress) Update(text string, done, total int) {
	if text == p.last {
		return
	}
	if p.s.ErrTerminal {
		bar := Bar(done, total) + " "
		room := max(p.s.Width, leastWidth) - utf8.RuneCountInString(bar) - 1
		p.last, p.written = text, true
		p.write("\r" + bar + Shorten(text, room) + "\x1b[K")
		return
	}
	if now := p.s.Now(); p.lines && (p.last == "" || now.Sub(p.at) >= time.Second) {
		p.write(text + "\n")
		p.last, p.at = text, now
	}
}

// End removes the line from the terminal.
func (p *Progress) End() {
	if p.written {
		p.write("\r\x1b[K")
	}
}

func (p *Progress) write(s string) {
	if _, err := p.s.Err.Write([]byte(s)); err != nil {
		p.written = false // nobody sees it, so there is nothing to remove
	}
}
