package container

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asUser is set in the environment of this program while it runs a test as somebody who is not root.
const asUser = "CONTAINER_TEST_AS_USER"

// another runs the test that calls it as another user than root, and says whether it is in that.
func another(t *testing.T) bool {
	t.Helper()
	if os.Getenv(asUser) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		skip(t, "this test becomes another user")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir), filepath.Dir(program)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(exe)
	copied, tmp := filepath.Join(dir, "test"), filepath.Join(dir, "tmp")
	const user = 12345
	for _, err := range []error{err, os.WriteFile(copied, data, 0o755), os.Mkdir(tmp, 0o700),
		os.Chown(tmp, user, user)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), copied, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), asUser+"="+program, "TMPDIR="+tmp, "HOME="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if _, why, skipped := strings.Cut(string(out), "NOT TRIED: "); skipped {
		skip(t, why)
	}
	if err != nil {
		t.Errorf("as user %d: %v", user, err)
	}
	return false
}
