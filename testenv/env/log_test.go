package env

import (
	"fmt"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// failures are what a test would fail with.
type failures []string

func (f *failures) Errorf(format string, a ...any) { *f = append(*f, fmt.Sprintf(format, a...)) }

// TestLinesWithoutUnit: a line without its unit, or with another one, fails a test, whatever its level.
func TestLinesWithoutUnit(t *testing.T) {
	var got failures
	log := zap.New(&unitCore{t: &got, of: "node-1"})
	unit := zap.String("unit", Unit)
	log.Debug("none")
	log.Info("on the line", zap.String("node", "n"), unit)
	log.Warn("another one", zap.String("unit", "other"))
	log.With(unit).Named("part").With(zap.Int("rev", 1)).Error("of whoever logs")
	log.With(zap.String("node", "n")).Error("with something else")
	if c := log.Core(); !c.Enabled(zapcore.DebugLevel) || c.Sync() != nil {
		t.Error("some lines are not looked at")
	}
	var want []string
	for _, line := range []string{"none", "another one", "with something else"} {
		want = append(want, "a line of node-1 has no unit: "+line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
