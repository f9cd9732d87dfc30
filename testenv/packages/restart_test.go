package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

// What comes before a restart, with programs of the machine that say what this test has them say.
func TestBeforeRestart(t *testing.T) {
	tool(t, "xargs")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	program := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(in(name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile(filepath.Join(proc.Root(t), "deploy/packages/before-restart"))
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.NewReplacer("/run/systemd/system", dir, "/usr/bin/tandem-controller", in("controller"),
		"/usr/bin/tandem", in("tandem"), "/var/lib/tandem/backup", dir).Replace(string(script))
	program("before-restart", moved)
	program("tandem", "")
	program("old.age", "")
	program("new.age", "")
	// The service that runs: its arguments and variables are asked of /proc.
	service := exec.Command("sleep", "1000")
	service.Env = []string{"TANDEM_UNIT=a b", "TANDEM_PASSWORDS=secret", "OTHER=1"}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = service.Process.Kill() // Wait tells
		_ = service.Wait()         // that it was killed
	}()
	pid := strconv.Itoa(service.Process.Pid)
	const nobody, somebody = `echo 'backup-to: []  # default'`, `echo 'backup-to: ["age1x"]  # file'`
	for _, c := range []struct {
		name              string
		pid, check, to    string // check: what the new program does
		backup            string // what starting the service of backups does
		status            int
		says, never, asks string
	}{
		{"nothing runs", "0", "exit 1", nobody, "exit 1", 0, "", "NOT", ""},
		{"an obstacle", pid, "echo OBSTACLE x; exit 1", somebody, "exit 1", 1,
			"OBSTACLE x\ntandem-controller was NOT restarted: the new program cannot take over", "backup", ""},
		{"no backup is set up", pid, "", nobody, "exit 1", 0, "no backup was made, because backup-to", "NOT",
			"a b: upgrade check 1000"},
		{"one is made", pid, "", somebody, "", 0, ".age is the backup of before this upgrade", "NOT",
			"a b: --print-config 1000"},
		{"one fails", pid, "", somebody, "exit 1", 1, "NOT restarted: there is no backup", "leads", ""},
	} {
		program("controller", `echo "$TANDEM_UNIT: $*" >>`+in("asked")+"\ncase $1 in upgrade) "+c.check+
			" ;; *) "+c.to+" ;; esac\n")
		program("systemctl", "case $1 in show) echo "+c.pid+" ;; start) "+c.backup+" ;; esac\n")
		o := proc.Run(t, dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, in("before-restart"))
		said := o.Out + o.Errors
		if o.Status != c.status || !strings.Contains(said, c.says) || strings.Contains(said, c.never) ||
			strings.Contains(said, "secret") {
			t.Errorf("%s: status %d\n%s", c.name, o.Status, said)
		}
		if asked, err := os.ReadFile(in("asked")); c.asks != "" && (err != nil || !strings.Contains(string(asked),
			c.asks+"\n")) {
			t.Errorf("%s: asked %s, %v", c.name, asked, err)
		}
	}
}
