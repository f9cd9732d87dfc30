package testenv_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// releaseTree is a folder in which deploy/ship/release runs, with programs that only write down how they were called.
// What has the version is the file v; what is built goes to the file built.
func releaseTree(t *testing.T) (dir string, run func(env []string, args ...string) (string, error)) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"deploy/ship/release", "deploy/ship/packaged", "deploy/packages/version"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(text))
	}
	write("v", "1.0.0")
	write("key", "the key")
	write("password", "right")
	write("wrong", "wrong\n")
	write("empty", "\n")
	write("deploy/demo/version", "#!/bin/sh\ncat v\n")
	write("deploy/ship/programs", "#!/bin/sh\necho \"programs $VERSION\" >>built\n"+
		"[ -z \"$CHANGE\" ] || echo \"$CHANGE\" >v\n")
	write("tools/go", "#!/bin/sh\necho \"$*\" >>built\n")
	write("tools/make", "#!/bin/sh\nfor w; do case $w in CLI=*) cp tools/tandem \"${w#CLI=}\" ;; esac; done\n")
	write("tools/tandem", "#!/bin/sh\nread -r line\n"+
		"[ \"$line\" = right ] || { echo 'tandem: the password is wrong' >&2; exit 2; }\necho \"$*\" >>signed\n")
	write("deploy/ship/apt-sign", "#!/bin/sh\n[ \"$2\" = key ] || { echo 'apt-sign: no secret key' >&2; exit 1; }\n")
	return dir, func(env []string, args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(dir, "deploy/ship/release"), args...)
		cmd.Env = append([]string{"PATH=" + filepath.Join(dir, "tools") + ":" + os.Getenv("PATH"), "HOME=" + dir,
			"TMPDIR=" + t.TempDir(), "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}, env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// TestReleaseLooksFirst: what a release is made of and signed with is tried before anything is built, which takes
// minutes; and all of it has one version.
func TestReleaseLooksFirst(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		pack string // a file in bin/packages
		want string
		apt  string // APT_KEY
	}{
		"the folder is there":         {[]string{"deploy"}, "", "deploy is there already", ""},
		"no such key":                 {[]string{"new/out", "none", "password"}, "", "KEY=none cannot be read", ""},
		"no such password":            {[]string{"new/out", "key", "none"}, "", "=none cannot be read", ""},
		"a password for nothing":      {[]string{"new/out", "", "password"}, "", "there is no KEY", ""},
		"the wrong password":          {[]string{"new/out", "key", "wrong"}, "", "=wrong: the password is wrong", ""},
		"no password in the file":     {[]string{"new/out", "key", "empty"}, "", "=empty has no password", ""},
		"no password":                 {[]string{"new/out", "key"}, "", "does not sign: the password is wrong", ""},
		"packages of another version": {[]string{"new/out"}, "tandem_0.9.0_amd64.deb", "is not of version 1.0.0", ""},
		"a folder in a file":          {[]string{"key/out"}, "", "OUT=key/out cannot be made there", ""},
		"no such key of apt":          {[]string{"new/out"}, "", "APT_KEY=none cannot be read", "none"},
		"nothing to sign for apt":     {[]string{"new/out"}, "", "there is nothing for APT_KEY to sign", "key"},
		"a key that apt cannot use": {[]string{"new/out"}, "tandem_1.0.0_amd64.deb", "apt-sign: no secret key",
			"wrong"},
	} {
		dir, run := releaseTree(t)
		if c.pack != "" {
			path := filepath.Join(dir, "bin/packages", c.pack)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		out, err := run([]string{"APT_KEY=" + c.apt}, c.args...)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v, want %q: %s", name, err, c.want, out)
		}
		if built, err := os.ReadFile(filepath.Join(dir, "built")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is found late, after %s", name, built)
		}
	}
}

// TestReleaseHasOneVersion: that of the beginning, and nothing is released of a tree that was changed meanwhile.
func TestReleaseHasOneVersion(t *testing.T) {
	for change, want := range map[string]string{
		"":      "programs 1.0.0\nrun ./testenv/cmd/release -version 1.0.0 ",
		"2.0.0": "programs 1.0.0\n",
	} {
		dir, run := releaseTree(t)
		out, err := run([]string{"CHANGE=" + change}, "new/out", "key", "password")
		built, rerr := os.ReadFile(filepath.Join(dir, "built"))
		if rerr != nil || !strings.HasPrefix(string(built), want) || change != "" && string(built) != want {
			t.Errorf("changed to %q: %v, built %q, want %q: %s", change, rerr, built, want, out)
		}
		changed := strings.Contains(out, "it was 1.0.0, and is 2.0.0")
		if want := change != ""; (err != nil) != want || changed != want {
			t.Errorf("changed to %q: %v: %s", change, err, out)
		}
	}
	dir, run := releaseTree(t)
	out, err := run([]string{"VERSION=1.0.1"}, "new/out", "key", "password")
	built, berr := os.ReadFile(filepath.Join(dir, "built"))
	signed, serr := os.ReadFile(filepath.Join(dir, "signed"))
	if err := errors.Join(err, berr, serr); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "programs 1.0.1\nrun ./testenv/cmd/release -version 1.0.1 "; !strings.HasPrefix(string(built), want) {
		t.Errorf("with VERSION: built %q, want %q", built, want)
	}
	sums := "publisher sign-file new/out/SHA256SUMS --version 1.0.1 --key key --password-file - " +
		"--component tandem-release\n"
	if !strings.Contains(string(signed), sums) {
		t.Errorf("signed %q, want %q", signed, sums)
	}
}
