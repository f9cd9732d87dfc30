package fetch

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSlotsMayPass: the store opens its directories to nobody, and leaves it to slots with users of their own to pass
// if the keeper has let them.
func TestSlotsMayPass(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	open := func(want os.FileMode) {
		t.Helper()
		_, err := Open(Config{Dir: dir})
		must(t, err)
		for _, d := range []string{dir, filepath.Join(dir, copies), filepath.Join(dir, parts)} {
			info, err := os.Stat(d)
			must(t, err)
			if info.Mode().Perm() != want {
				t.Errorf("%s is %v, want %v", d, info.Mode().Perm(), want)
			}
		}
	}
	open(0o700)
	for _, d := range []string{dir, filepath.Join(dir, copies), filepath.Join(dir, parts)} {
		must(t, os.Chmod(d, 0o777))
	}
	open(0o711)
}
