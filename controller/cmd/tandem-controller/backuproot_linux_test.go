package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"
)

// A unit that root restores is that of the user who owns the state directory, and a link there leads root nowhere. The
// backup and its key may be root's alone.
func TestRootRestoresAsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TRIED: what root restores into a directory of another user; this test is not root's")
	}
	const somebody = 64001
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ok := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	id, err := age.GenerateX25519Identity()
	ok(err)
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	ok(os.Chmod(filepath.Dir(base), 0o755), os.Chmod(base, 0o755), os.Mkdir(in("own"), 0o700),
		os.Chown(in("own"), somebody, somebody), os.WriteFile(in("key"), []byte(id.String()+"\n"), 0o600))
	stoppedUnit(t, in("state"))
	run := func(args ...string) (status int, output string) {
		cmd := exec.Command(self, append([]string{"backup"}, args...)...)
		cmd.Env = append(os.Environ(), asController+"=1")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	must := func(want int, says string, args ...string) {
		t.Helper()
		if status, out := run(args...); status != want || !strings.Contains(out, says) {
			t.Errorf("%q: status %d: %s", args, status, out)
		}
	}
	must(0, "wrote", "create", in("b.age"), "--unit", "u1", "--state-dir", in("state"), "--to", id.Recipient().String())
	restore := []string{"restore", in("b.age"), "--identity", in("key"), "--state-dir"}
	must(2, "install -d", append(restore, in("none"))...)
	must(0, "restored into", append(restore, in("own"))...)
	ok(filepath.WalkDir(in("own"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != somebody {
			t.Errorf("%s is user %d's", path, info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	}))
	ok(os.Chmod(in("own"), 0o777))
	must(2, "chmod go-w", append(restore, in("own"))...)

	// Of a link in the state directory that leads out of it, no backup has what it leads to.
	ok(os.WriteFile(in("prize"), []byte("root's alone"), 0o600), os.Symlink(in("prize"), in("state/unit-key-1.pem")))
	must(1, "not a regular file", "create", in("c.age"), "--unit", "u1", "--state-dir", in("state"), "--to",
		id.Recipient().String())
}
