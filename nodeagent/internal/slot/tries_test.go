package slot

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot/record"
)

// Each start of a trial takes a try off, on the disk, before the slot is started: whatever happens to that start, even
// nothing at all, the tries end and the good slot runs again.
func TestTriesAreTakenBeforeEachStart(t *testing.T) {
	dir := t.TempDir()
	open := func() *Store {
		return Open(Config{Dir: filepath.Join(dir, "slots"), Machine: func() boot.Evidence { return boot.Evidence{} },
			SelfTest: func(context.Context, string) (string, error) { return "2", nil }})
	}
	file := filepath.Join(dir, "tandem-node")
	if err := os.WriteFile(file, []byte("version 2"), 0o700); err != nil {
		t.Fatal(err)
	}
	staged, err := open().Stage(t.Context(), Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := open().Arm(staged.Slot, 3); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{2, 1, 0} {
		l, err := open().Starting().Next(nil)
		if err != nil || l.Slot != staged.Slot || !l.Trial || !l.Saved {
			t.Fatalf("with %d left: %+v, %v", left, l, err)
		}
		if st, err := open().Status(); err != nil || st.TriesLeft != left {
			t.Errorf("before the start %d tries are left on the disk, want %d: %v", st.TriesLeft, left, err)
		}
	}
	if l, err := open().Starting().Next(nil); err != nil || l.Slot != record.Factory || l.Trial {
		t.Errorf("after the last try: %+v, %v", l, err)
	}
}
