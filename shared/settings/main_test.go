package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zapcore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSupervise(t *testing.T) {
	never := func(int) { t.Error("exits at once") }
	if got := supervise(make(chan os.Signal), never, func(ctx context.Context) int { return 3 }); got != 3 {
		t.Errorf("status %d", got)
	}
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	if got := supervise(signals, never, func(ctx context.Context) int { <-ctx.Done(); return 0 }); got != 0 {
		t.Errorf("status %d", got)
	}
	signals, exited := make(chan os.Signal), make(chan int, 1)
	supervise(signals, func(status int) { exited <- status }, func(ctx context.Context) int {
		signals <- syscall.SIGTERM
		signals <- syscall.SIGINT
		if got := <-exited; got != 130 {
			t.Errorf("status %d", got)
		}
		return 0
	})
}

func TestLogger(t *testing.T) {
	var usage *Error
	for _, level := range []string{"", "loud", "INFO", "fatal"} {
		if _, _, err := Logger(level, false); !errors.As(err, &usage) {
			t.Errorf("level %q: %v", level, err)
		}
	}
	var out bytes.Buffer
	log, level, err := newLogger(zapcore.AddSync(&out), false, "info", false)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("not this")
	for range 1000 {
		log.Info("this")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var entry struct{ Level, Msg, Time string }
	if err := json.Unmarshal([]byte(lines[999]), &entry); err != nil || len(lines) != 1000 || entry.Level != "info" ||
		entry.Msg != "this" || entry.Time == "" {
		t.Errorf("%d lines, %+v, %v", len(lines), entry, err)
	}
	out.Reset()
	level.Set(zapcore.DebugLevel, time.Minute)
	if log.Debug("for a while"); !strings.Contains(out.String(), "for a while") {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	if log, _, err = newLogger(zapcore.AddSync(&out), true, "debug", true); err != nil {
		t.Fatal(err)
	}
	log.Debug("now this")
	if s := out.String(); strings.HasPrefix(s, "{") || !strings.Contains(s, "now this") ||
		!strings.Contains(s, "main_test.go") {
		t.Errorf("%q", s)
	}
}
