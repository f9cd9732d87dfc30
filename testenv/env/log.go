package env

import (
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
)

// log is the log of a program, whose lines all have the unit from the first one on.
func (e *Env) log(name string) *zap.Logger {
	core := zapcore.Core(&unitCore{t: e.T, of: name})
	if e.setup.Log {
		core = zapcore.NewTee(core, zaptest.NewLogger(e.T).Core())
	}
	return zap.New(core).Named(name)
}

// unitCore fails the test when a line, of any level, does not say which unit it is of.
type unitCore struct {
	t   interface{ Errorf(string, ...any) }
	of  string // which program's
	has bool
}

// Enabled implements zapcore.Core.
func (c *unitCore) Enabled(zapcore.Level) bool { return true }

// With implements zapcore.Core.
func (c *unitCore) With(fields []zapcore.Field) zapcore.Core {
	return &unitCore{c.t, c.of, c.has || hasUnit(fields)}
}

// Check implements zapcore.Core.
func (c *unitCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return ce.AddCore(e, c)
}

// Write implements zapcore.Core.
func (c *unitCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if !c.has && !hasUnit(fields) {
		c.t.Errorf("a line of %s has no unit: %s", c.of, e.Message)
	}
	return nil
}

// Sync implements zapcore.Core.
func (c *unitCore) Sync() error { return nil }

func hasUnit(fields []zapcore.Field) bool {
	return slices.ContainsFunc(fields, func(f zapcore.Field) bool { return f.Key == "unit" && f.String == Unit })
}
