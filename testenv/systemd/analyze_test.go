package systemd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

// TestAnalyze lets systemd judge.
func TestAnalyze(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: systemd-analyze is not installed, so systemd's own view of the units was NOT tested")
	}
	dir := t.TempDir()
	// tandem-node requires the first one, and so does the second
	for _, name := range append([]string{"tandem-workloads", "tandem-keeper", "tandem-backup", "tandem-join",
		"tandem-reboot"}, programs...) {
		path, text := source(t, name+".service")
		script, _ := source(t, "tandem-join")
		text = strings.ReplaceAll(text, "/usr/lib/tandem-node/tandem-join", script)
		installed := filepath.Join(dir, name+".service")
		for _, p := range append([]string{"tandem"}, programs...) {
			text = strings.ReplaceAll(text, "/usr/bin/"+p+" ", proc.Binary(t, p)+" ") // where it is on this machine
		}
		if err := os.WriteFile(installed, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "verify", "--man=no", installed).CombinedOutput()
		if err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("verify %s: %v\n%s", name, err, out)
		}
		threshold := exposure
		switch name {
		case "tandem-keeper":
			threshold = keeperExposure
		case "tandem-join":
			threshold = joinExposure
		}
		out, err = exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold="+threshold,
			path).CombinedOutput()
		if err != nil {
			t.Errorf("security %s: %v\n%s", name, err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Log(strings.TrimSpace(lines[len(lines)-1]))
	}
	for _, name := range []string{"tandem-reboot.path", "tandem-reboot.service", "tandem-node.path",
		"tandem-backup.timer"} {
		_, text := source(t, name)
		settings(t, text)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tandem-reboot.path", "tandem-node.path", "tandem-backup.timer"} {
		out, err := exec.Command(analyze, "verify", "--man=no", filepath.Join(dir, name)).CombinedOutput()
		if err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("verify %s: %v\n%s", name, err, out)
		}
	}
	files(t, dir)
}

// files lets systemd make users and directories, below dir.
func files(t *testing.T, dir string) {
	t.Helper()
	sysusers, err := exec.LookPath("systemd-sysusers")
	tmpfiles, terr := exec.LookPath("systemd-tmpfiles")
	if err != nil || terr != nil {
		t.Log("SKIPPED: systemd-sysusers or systemd-tmpfiles is not installed")
		return
	}
	args := []string{"--root=" + dir}
	for _, name := range []string{"tandem-controller", "tandem-node", "tandem-key"} {
		path, _ := source(t, name+".sysusers")
		args = append(args, path)
	}
	if os.Getuid() != 0 { // only root may give files to others
		if out, err := exec.Command(sysusers, append(args, "--dry-run")...).CombinedOutput(); err != nil {
			t.Errorf("systemd-sysusers: %v\n%s", err, out)
		}
		return
	}
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(sysusers, args...).CombinedOutput(); err != nil {
		t.Errorf("systemd-sysusers: %v\n%s", err, out)
	}
	path, _ := source(t, "tandem-node.tmpfiles")
	if out, err := exec.Command(tmpfiles, "--create", "--root="+dir, path).CombinedOutput(); err != nil {
		t.Errorf("systemd-tmpfiles: %v\n%s", err, out)
	}
	info, err := os.Stat(filepath.Join(dir, "run/tandem-watch"))
	if err != nil {
		t.Fatal(err)
	}
	if want := os.ModeDir | os.ModeSticky | 0o775; info.Mode() != want {
		t.Errorf("run/tandem-watch is %v, want %v", info.Mode(), want)
	}
}
