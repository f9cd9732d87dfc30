// Package runlog owns what a program can do with its log while it runs: log more or less for a while, and keep the
// newest lines for who asks. It writes no file and starts no goroutine.
package runlog

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// MaxFor is the longest time for which a level may be another one.
const MaxFor = 24 * time.Hour

// Level is how much a program logs: what its settings say, or for a while something else. It is a zapcore.LevelEnabler,
// may be used by any goroutine, and goes back by itself.
type Level struct {
	base  zapcore.Level
	now   func() time.Time
	other atomic.Pointer[other] // nil: base counts
}

// other is a level until a time.
type other struct {
	level zapcore.Level
	until time.Time
}

// NewLevel makes the level that the settings name; now is the clock, nil: time.Now.
func NewLevel(base zapcore.Level, now func() time.Time) *Level {
	if now == nil {
		now = time.Now
	}
	return &Level{base: base, now: now}
}

// Enabled reports whether an entry of a level is logged.
func (l *Level) Enabled(of zapcore.Level) bool {
	level, _ := l.Now()
	return level.Enabled(of)
}

// Level is what counts now, as zapcore.LevelOf asks for it.
func (l *Level) Level() zapcore.Level {
	level, _ := l.Now()
	return level
}

// Now is the level, and until when it is that; zero: it is the one of the settings.
func (l *Level) Now() (level zapcore.Level, until time.Time) {
	o := l.other.Load()
	if o == nil {
		return l.base, until
	}
	if !l.now().Before(o.until) {
		l.other.CompareAndSwap(o, nil)
		return l.base, until
	}
	return o.level, o.until
}

// Set has another level count for a while, at most MaxFor, and returns until when.
func (l *Level) Set(level zapcore.Level, within time.Duration) time.Time {
	o := &other{level, l.now().Add(min(within, MaxFor))}
	l.other.Store(o)
	return o.until
}

// Reset has the level of the settings count again.
func (l *Level) Reset() { l.other.Store(nil) }

// Parse reads the name of a level.
func Parse(name string) (zapcore.Level, error) {
	for level := zapcore.DebugLevel; level <= zapcore.ErrorLevel; level++ {
		if level.String() == name {
			return level, nil
		}
	}
	return 0, fmt.Errorf("%.64s is none of debug, info, warn, error", name)
}

// Encoder writes entries as JSON, a line each.
func Encoder() zapcore.Encoder { return zapcore.NewJSONEncoder(Shape()) }

// Shape names the members of an entry, in JSON and for people.
func Shape() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{TimeKey: "time", LevelKey: "level", NameKey: "logger", CallerKey: "caller",
		MessageKey: "msg", StacktraceKey: "stack", EncodeTime: zapcore.RFC3339NanoTimeEncoder,
		EncodeLevel: zapcore.LowercaseLevelEncoder, EncodeDuration: zapcore.StringDurationEncoder,
		EncodeCaller: zapcore.ShortCallerEncoder}
}

// Node is the field that names the node of a client ID or subject, "node/n1"; of others, and of "", it is none.
func Node(of string) zap.Field {
	if node, is := strings.CutPrefix(of, "node/"); is {
		return zap.String("node", node)
	}
	return zap.Skip()
}
