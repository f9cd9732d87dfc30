package runlog

import (
	"strings"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Bounds of a Ring.
const (
	MaxBytes = 64 << 10 // of all lines together
	MaxLine  = 4 << 10  // a longer one is cut
)

// Ring keeps the newest lines of a log, at most MaxBytes of them. The zero one is ready; any goroutine may use it.
type Ring struct {
	mu    sync.Mutex
	lines []line // the oldest first
	bytes int    // of them
	last  uint64 // number of the newest line; they count from 1
}

type line struct {
	level zapcore.Level
	text  string
}

// Keep returns a logger that writes to log and, what is logged there, into the ring as JSON.
func (r *Ring) Keep(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return &core{c, Encoder(), r} }))
}

// core writes entries into a ring, too.
type core struct {
	zapcore.Core
	enc  zapcore.Encoder
	ring *Ring
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	enc := c.enc.Clone()
	for _, f := range fields {
		f.AddTo(enc)
	}
	return &core{c.Core.With(fields), enc, c.ring}
}

func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	buf, err := c.enc.EncodeEntry(e, fields)
	if err != nil {
		return err
	}
	c.ring.add(e.Level, strings.TrimSuffix(buf.String(), "\n"))
	buf.Free()
	return c.Core.Write(e, fields)
}

func (r *Ring) add(level zapcore.Level, text string) {
	if len(text) > MaxLine {
		text = strings.ToValidUTF8(text[:MaxLine], "") + "…"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.lines, r.bytes = append(r.lines, line{level, text}), r.bytes+len(text)
	for r.bytes > MaxBytes {
		r.bytes -= len(r.lines[0].text)
		r.lines[0] = line{}
		r.lines = r.lines[1:]
	}
}

// Piece is some lines of a ring.
type Piece struct {
	Lines []string // the oldest first
	Last  uint64   // number of the newest line that was looked at
	Lost  uint64   // lines before these, and after what was asked for, that are gone
	More  bool     // there is more behind Last
}

// After returns the lines behind the one of a number, of a level and above, as many as have room in so many bytes.
func (r *Ring) After(number uint64, level zapcore.Level, room int) (p Piece) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := r.last - uint64(len(r.lines)) // numbers up to this one
	p.Last = min(number, r.last)
	if p.Last < gone {
		p.Lost, p.Last = gone-p.Last, gone
	}
	for _, l := range r.lines[p.Last-gone:] {
		if level.Enabled(l.level) {
			if room -= len(l.text); room < 0 && len(p.Lines) > 0 {
				p.More = true
				return p
			}
			p.Lines = append(p.Lines, l.text)
		}
		p.Last++
	}
	return p
}

// Tail is the number of a line behind which there are count of a level and above, or all that there are.
func (r *Ring) Tail(count int, level zapcore.Level) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.lines)
	for i > 0 && count > 0 {
		if i--; level.Enabled(r.lines[i].level) {
			count--
		}
	}
	return r.last - uint64(len(r.lines)-i)
}
