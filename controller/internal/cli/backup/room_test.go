package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMakeRoom: without room for one more backup, old ones go first, never the newest; what a killed run has left goes,
// and what one writes that goes on stays.
func TestMakeRoom(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name             string
		have, keep, room int // backups that are there; room: backups that fit
		left             int
		refused          bool
	}{
		{"there is room", 7, 7, 2, 7, false},
		{"one has to go", 7, 7, 1, 6, false},
		{"none may go", 6, 7, 1, 6, true},
		{"the newest stays", 1, 1, 1, 1, true},
		{"all are kept", 7, 0, 1, 7, true},
		{"the first one", 0, 7, 2, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			const size = 800
			for i := range c.have {
				name := filepath.Join(dir, fmt.Sprintf("backup-202611%02dT120000Z.age", i+1))
				if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for name, age := range map[string]time.Duration{".backup-20261101T120000Z.age.123": 2 * time.Hour,
				".backup-20261127T115900Z.age.5": time.Minute, ".backup-x": 2 * time.Hour} {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, time.Time{}, now.Add(-age)); err != nil {
					t.Fatal(err)
				}
			}
			w := wanted{dir: dir, keep: c.keep, free: func(string) (int64, error) {
				all, err := matching(dir, named)
				return reserve + int64((c.have-len(all)+c.room)*size), err
			}}
			err := w.makeRoom(now)
			refused := err != nil && strings.Contains(err.Error(), "left, and a backup needs")
			if refused != c.refused {
				t.Errorf("%v", err)
			}
			all, err := matching(dir, named)
			if err != nil || len(all) != c.left {
				t.Errorf("left: %q %v, want %d", all, err, c.left)
			}
			if all, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(all) != 2 {
				t.Errorf("temporary files: %q %v", all, err)
			}
		})
	}
}
