package slot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot/record"
)

// A trial of something else and one of a slot exclude each other, in both directions.
func TestAlone(t *testing.T) {
	busy := error(nil)
	dir := t.TempDir()
	s := Open(Config{Dir: filepath.Join(dir, "slots"), Machine: func() boot.Evidence { return boot.Evidence{} },
		Busy:     func() error { return busy },
		SelfTest: func(context.Context, string) (string, error) { return "2", nil }})
	file := filepath.Join(dir, "tandem-node")
	if err := os.WriteFile(file, []byte("version 2"), 0o700); err != nil {
		t.Fatal(err)
	}
	staged, err := s.Stage(t.Context(), Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	if err := s.Alone(func() error { ran++; return nil }); err != nil || ran != 1 {
		t.Errorf("%v, ran %d times", err, ran)
	}
	failed := errors.New("failed")
	if err := s.Alone(func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	busy = failed
	if err := s.Arm(staged.Slot, 3); !errors.Is(err, failed) {
		t.Errorf("armed beside another trial: %v", err)
	}
	busy = nil
	if err := s.Arm(staged.Slot, 3); err != nil {
		t.Fatal(err)
	}
	if err := s.Alone(func() error { ran++; return nil }); !errors.Is(err, record.ErrTrial) || ran != 1 {
		t.Errorf("while a slot is armed: %v, ran %d times", err, ran)
	}
}
