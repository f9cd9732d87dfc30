package term

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Progress shows on standard error how far something has come. On a terminal it is one line that is written anew;
// elsewhere each change is a line, at most one a second.
type Progress struct {
	s       *Screen
	lines   bool // also where there is no terminal
	written bool // the line stands on the terminal

	mu   sync.Mutex // of what follows
	last string
	at   time.Time
	next *time.Timer // writes the newest line when its second has come; nil: it is written
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
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
	if !p.lines {
		return
	}
	if early := time.Second - p.s.Now().Sub(p.at); p.last != "" && early > 0 {
		var next *time.Timer
		next = time.AfterFunc(early, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.next == next {
				p.line(text)
			}
		})
		p.next = next
		return
	}
	p.line(text)
}

func (p *Progress) line(text string) {
	p.write(text + "\n")
	p.last, p.at, p.next = text, p.s.Now(), nil
}

// drop forgets a line whose second has not come.
func (p *Progress) drop() {
	if p.next != nil {
		p.next.Stop()
		p.next = nil
	}
}

// End removes the line from the terminal.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
	if p.written {
		p.write("\r\x1b[K")
	}
}

func (p *Progress) write(s string) {
	if _, err := p.s.Err.Write([]byte(s)); err != nil {
		p.written = false // nobody sees it, so there is nothing to remove
	}
}
