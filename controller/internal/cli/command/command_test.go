package command

import (
	"errors"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2m": 2 * time.Minute, "PT2M": 2 * time.Minute, "90s": 90 * time.Second, "P1D": 24 * time.Hour,
		"7d": 7 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
}

func TestFailuresHaveAnExitStatus(t *testing.T) {
	for code := range wire.Meanings {
		f := AsFailure(wire.New(code, "", "x"))
		if f.Exit < ExitRefused || f.Exit > ExitUnreachable {
			t.Errorf("%s: %d", code, f.Exit)
		}
	}
	if f := AsFailure(errors.New("x")); f.Exit != ExitRefused || f.Err.Code != wire.CodeInternal {
		t.Errorf("%+v", f)
	}
}

func TestInClear(t *testing.T) {
	for address, want := range map[string]bool{
		"http://gateway:8885": true, "http://10.0.0.1": true, "http://[2001:db8::1]:1": true,
		"http://localhost:1": false,
		"http://127.0.0.1:1": false, "http://[::1]:1": false, "https://gateway:8885": false,
	} {
		if got := inClear(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
