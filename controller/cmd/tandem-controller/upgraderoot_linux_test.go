package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What root looks at is seen as the controller's user sees it: a file that root has left there is in that one's way.
func TestRootChecksAsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TRIED: what root finds in a directory of another user; this test is not root's")
	}
	const somebody = 64001
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	own, settings := filepath.Join(base, "own"), filepath.Join(base, "controller.yaml")
	ok := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	ok(os.Chmod(filepath.Dir(base), 0o755), os.Chmod(base, 0o755), os.Mkdir(own, 0o700),
		os.WriteFile(settings, []byte("unit: u1\nstate-dir: "+own+"\n"), 0o600))
	stoppedUnit(t, own)
	must := func(want int, says string) {
		t.Helper()
		cmd := exec.Command(self, "upgrade", "check", "--config", settings)
		cmd.Env = append(os.Environ(), asController+"=1")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != want || !strings.Contains(string(out), says) {
			t.Errorf("status %d, want %d and %q: %s", got, want, says, out)
		}
	}
	entries, err := os.ReadDir(own)
	ok(err)
	ok(os.Chown(own, somebody, somebody))
	must(1, "OBSTACLE journal: not-allowed: no permission")
	for _, e := range entries {
		ok(os.Chown(filepath.Join(own, e.Name()), somebody, somebody))
	}
	must(0, "can take over")
	ok(os.WriteFile(filepath.Join(own, "tokens.json"), []byte("{}"), 0o600))
	must(1, "chown --reference "+own+" "+filepath.Join(own, "tokens.json"))
	ok(os.Remove(filepath.Join(own, "tokens.json")), os.Chmod(filepath.Join(own, "journal.db"), 0o400))
	must(1, "OBSTACLE state-dir: ")
	ok(os.Chmod(filepath.Join(own, "journal.db"), 0o600), os.Chmod(own, 0o777))
	must(1, "chmod go-w")
}
