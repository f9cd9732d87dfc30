package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"tandem.internal/nodeagent/internal/slot"
)

// What is rolled back by hand is what was looked at, and no version that came into its place meanwhile.
func TestRollbackOfWhatWasLookedAt(t *testing.T) {
	dir := t.TempDir()
	on := agentTarget{slot.Open(slot.Config{Dir: filepath.Join(dir, slot.Dir),
		SelfTest: func(_ context.Context, path string) (string, error) {
			text, err := os.ReadFile(path)
			return string(text), err
		}}), dir, printer{io.Discard, false}}
	armed := func(version string) slot.Status {
		t.Helper()
		file := filepath.Join(dir, "new")
		err := os.WriteFile(file, []byte(version), 0o755)
		var got slot.Staged
		if err == nil {
			got, err = on.Stage(t.Context(), slot.Source{File: file})
		}
		if err == nil {
			err = on.Arm(got.Slot, 1)
		}
		st, serr := on.Status()
		if err = errors.Join(err, serr); err != nil {
			t.Fatal(err)
		}
		return st
	}
	first := armed("2")
	if err := on.leave(first, "by hand"); err != nil {
		t.Fatal(err)
	}
	second := armed("3")
	if second.Trying != first.Trying {
		t.Fatalf("slot %s, then slot %s", first.Trying, second.Trying)
	}
	if err := on.leave(first, "too late"); !errors.Is(err, slot.ErrChanged) {
		t.Errorf("%v", err)
	}
	if st, err := on.Status(); err != nil || st.Trying != second.Trying {
		t.Errorf("%+v, %v", st, err)
	}
}
