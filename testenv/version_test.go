package testenv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
)

// TestVersionsRise: what is built later has a higher semantic version, up to the release itself.
func TestVersionsRise(t *testing.T) {
	dir := t.TempDir()
	script, err := os.ReadFile("../deploy/demo/version")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "version"), script, 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	version := func() *semver.Version {
		t.Helper()
		v, err := semver.StrictNewVersion(run("./version"))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	last := version() // without git
	rises := func() {
		t.Helper()
		next := version()
		if !next.GreaterThan(last) {
			t.Errorf("after %s comes %s", last, next)
		}
		last = next
	}
	run("git", "init", "-q")
	run("git", "add", "version")
	run("git", "commit", "-q", "-m", "one")
	rises()
	if strings.Contains(last.String(), "dirty") {
		t.Errorf("%s, and nothing was changed", last)
	}
	for range 10 { // dev.10 is after dev.9
		run("git", "commit", "-q", "--allow-empty", "-m", "more")
		rises()
	}
	if err := os.WriteFile(filepath.Join(dir, "version"), append(script, '\n'), 0o700); err != nil {
		t.Fatal(err)
	}
	if v := version(); !strings.HasSuffix(v.Metadata(), ".dirty") || !v.Equal(last) {
		t.Errorf("%s with a change, %s without", v, last)
	}
	run("git", "checkout", "-q", "version")
	run("git", "tag", "v"+last.String()[:strings.Index(last.String(), "-")])
	rises()
	if last.Prerelease() != "" || last.Metadata() != "" {
		t.Errorf("the release is %s", last)
	}
}
