package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/controller/internal/journal"
)

// The test binary is tandem-controller, too: where this variable is set.
const asController = "TEST_BINARY_IS_TANDEM_CONTROLLER"

func init() {
	if os.Getenv(asController) != "" {
		main()
	}
}

// A journal is compacted as the user who owns its directory: a link there leads root to no other one, from wherever it
// is named, and the new file is that user's.
func TestRootCompactsAsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TRIED: what root does with a journal in a directory of another user; this test is not root's")
	}
	const somebody = 64001
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	own, prize, other := filepath.Join(base, "own"), filepath.Join(base, "prize"), filepath.Join(base, "other")
	ok := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	ok(os.Chmod(filepath.Dir(base), 0o755))
	for _, dir := range []string{own, prize, other} {
		ok(os.Mkdir(dir, 0o755))
		j, err := journal.Open(filepath.Join(dir, "journal.db"), journal.Options{MapSize: 1 << 24})
		ok(err)
		ok(j.Close())
	}
	ok(os.Chown(own, somebody, somebody), os.Chown(filepath.Join(own, "journal.db"), somebody, somebody),
		os.Symlink(filepath.Join(prize, "journal.db"), filepath.Join(own, "link.db")),
		os.Symlink(own, filepath.Join(other, "own")))
	compact := func(file string) (status int, output string) {
		cmd := exec.Command(self, "journal", "compact", file)
		cmd.Env = append(os.Environ(), asController+"=1")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	look := func(file string) *syscall.Stat_t {
		info, err := os.Stat(file)
		ok(err)
		return info.Sys().(*syscall.Stat_t)
	}
	before := look(filepath.Join(prize, "journal.db"))
	for _, file := range []string{filepath.Join(own, "link.db"), filepath.Join(other, "own", "link.db")} {
		if status, out := compact(file); status != 2 || !strings.Contains(out, "no permission") {
			t.Errorf("%s: status %d: %s", file, status, out)
		}
	}
	if after := look(filepath.Join(prize, "journal.db")); after.Ino != before.Ino || after.Mtim != before.Mtim {
		t.Error("another journal was compacted")
	}
	before = look(filepath.Join(own, "journal.db"))
	if status, out := compact(filepath.Join(other, "own", "journal.db")); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
	if after := look(filepath.Join(own, "journal.db")); after.Uid != somebody || after.Ino == before.Ino {
		t.Errorf("compacted as user %d", after.Uid)
	}
	ok(os.Chmod(own, 0o777))
	if status, out := compact(filepath.Join(own, "journal.db")); status != 2 || !strings.Contains(out, "chmod go-w") {
		t.Errorf("status %d: %s", status, out)
	}
}
