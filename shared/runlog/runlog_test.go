package runlog

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestLevelGoesBack(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	l := NewLevel(zap.InfoLevel, func() time.Time { return now })
	logs := func(level zapcore.Level, until time.Duration) {
		t.Helper()
		got, at := l.Now()
		if want := now.Add(until); got != level || (until == 0) != at.IsZero() || until != 0 && !at.Equal(want) {
			t.Errorf("%s until %s, want %s until %s", got, at, level, want)
		}
		if !l.Enabled(level) || l.Enabled(level-1) || l.Level() != level {
			t.Errorf("what is logged is not %s and above", level)
		}
	}
	logs(zap.InfoLevel, 0)
	l.Set(zap.DebugLevel, time.Minute)
	logs(zap.DebugLevel, time.Minute)
	now = now.Add(time.Minute - 1)
	logs(zap.DebugLevel, 1)
	now = now.Add(1)
	logs(zap.InfoLevel, 0)
	now = now.Add(-time.Second) // a clock that is set back does not bring it back
	logs(zap.InfoLevel, 0)
	l.Set(zap.ErrorLevel, 48*time.Hour)
	logs(zap.ErrorLevel, MaxFor)
	l.Set(zap.WarnLevel, time.Hour)
	logs(zap.WarnLevel, time.Hour)
	l.Reset()
	logs(zap.InfoLevel, 0)
}

func TestParseLevel(t *testing.T) {
	for name, want := range map[string]zapcore.Level{"debug": zap.DebugLevel, "info": zap.InfoLevel,
		"warn": zap.WarnLevel, "error": zap.ErrorLevel} {
		if got, err := Parse(name); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "INFO", "fatal", "warning"} {
		if _, err := Parse(name); err == nil {
			t.Errorf("%q is a level", name)
		}
	}
}

// The ring keeps what the log writes, as JSON with all fields, and not what the level keeps out.
func TestKeep(t *testing.T) {
	var out bytes.Buffer
	level := NewLevel(zap.InfoLevel, nil)
	var r Ring
	log := r.Keep(zap.New(zapcore.NewCore(Encoder(), zapcore.AddSync(&out), level)))
	log = log.Named("x").With(zap.String("node", "n1"))
	log.Debug("not this")
	log.Warn("this", zap.Int("rev", 7))
	level.Set(zap.DebugLevel, time.Hour)
	log.Debug("now this")
	p := r.After(0, zap.DebugLevel, 1<<20)
	if got := strings.Join(p.Lines, "\n") + "\n"; got != out.String() || len(p.Lines) != 2 || p.Last != 2 {
		t.Errorf("kept\n%swritten\n%s", got, out.String())
	}
	for _, want := range []string{`"level":"warn"`, `"logger":"x"`, `"msg":"this"`, `"node":"n1"`, `"rev":7`} {
		if !strings.Contains(p.Lines[0], want) {
			t.Errorf("%s has no %s", p.Lines[0], want)
		}
	}
}

// Lines go at the front, and who asks for one that is gone is told how many are.
func TestRing(t *testing.T) {
	var r Ring
	for n := range 100 {
		r.add(zapcore.Level(n%2), fmt.Sprint("line ", n+1)) // info, warn, info …
	}
	if n := r.Tail(3, zap.DebugLevel); n != 97 {
		t.Errorf("the last three lines are behind %d", n)
	}
	if n := r.Tail(3, zap.WarnLevel); n != 95 {
		t.Errorf("the last three warnings are behind %d", n)
	}
	if n := r.Tail(1000, zap.DebugLevel); n != 0 {
		t.Errorf("all lines are behind %d", n)
	}
	for _, c := range []struct {
		after uint64
		level zapcore.Level
		room  int
		want  string
	}{
		{97, zap.DebugLevel, 1000, "[line 98 line 99 line 100] 100 0 false"},
		{97, zap.WarnLevel, 1000, "[line 98 line 100] 100 0 false"},
		{97, zap.DebugLevel, 14, "[line 98 line 99] 99 0 true"},
		{97, zap.DebugLevel, 1, "[line 98] 98 0 true"},
		{100, zap.DebugLevel, 1000, "[] 100 0 false"},
		{200, zap.DebugLevel, 1000, "[] 100 0 false"},
		{97, zap.ErrorLevel, 1, "[] 100 0 false"},
	} {
		p := r.After(c.after, c.level, c.room)
		if got := fmt.Sprint(p.Lines, p.Last, p.Lost, p.More); got != c.want {
			t.Errorf("after %d: %s, want %s", c.after, got, c.want)
		}
	}
	long := strings.Repeat("ä", MaxLine)
	for range 20 {
		r.add(zap.InfoLevel, long)
	}
	size := 0
	p := r.After(90, zap.DebugLevel, 1<<30)
	for _, l := range p.Lines {
		size += len(l)
		if len(l) > MaxLine+len("…") || !utf8.ValidString(l) || !strings.HasSuffix(l, "…") {
			t.Errorf("a long line has %d bytes, and ends with %q", len(l), l[len(l)-5:])
		}
	}
	if size > MaxBytes || size < MaxBytes-MaxLine-10 || p.Last != 120 || p.Lost != 30-uint64(len(p.Lines)) {
		t.Errorf("%d lines of %d bytes, %d lost, the last is %d", len(p.Lines), size, p.Lost, p.Last)
	}
	if p := r.After(90, zap.DebugLevel, 1); p.Lost == 0 || len(p.Lines) != 1 || !p.More {
		t.Errorf("a piece after a loss: %d lost, %d lines", p.Lost, len(p.Lines))
	}
}

func TestNodeField(t *testing.T) {
	for of, want := range map[string]zap.Field{"node/n1": zap.String("node", "n1"), "controller": zap.Skip(),
		"": zap.Skip(), "cloud/node/n1": zap.Skip()} {
		if got := Node(of); !got.Equals(want) {
			t.Errorf("%q: %v", of, got)
		}
	}
}
