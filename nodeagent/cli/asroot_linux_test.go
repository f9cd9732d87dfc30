package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/nodeagent/internal/store"
)

// somebody is a user without rights, who owns the state directory.
const somebody = 64001

// hostile is a node whose state directory is another user's, and something of root's that this user wants.
type hostile struct {
	*testing.T
	state, prize string
}

func newHostile(t *testing.T) hostile {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TRIED: what root does in a directory of another user; this test is not root's")
	}
	base := t.TempDir()
	h := hostile{t, filepath.Join(base, "state"), filepath.Join(base, "prize")}
	h.ok(os.Chmod(filepath.Dir(base), 0o755), os.Mkdir(h.state, 0o700), os.Mkdir(h.prize, 0o700),
		os.WriteFile(filepath.Join(h.prize, "secret"), []byte("of root"), 0o600))
	return h
}

func (h hostile) ok(errs ...error) {
	h.Helper()
	if err := errors.Join(errs...); err != nil {
		h.Fatal(err)
	}
}

// give makes everything in the state directory that user's.
func (h hostile) give() {
	h.Helper()
	h.ok(filepath.WalkDir(h.state, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, somebody, somebody))
	}))
}

// look lists what is below a directory: names, owners, permissions, contents.
func (h hostile) look(dir string) (list string) {
	h.Helper()
	h.ok(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		text := []byte{}
		if d.Type().IsRegular() {
			text, err = os.ReadFile(path)
		}
		list += fmt.Sprintf("%s %v %d %d %q\n", strings.TrimPrefix(path, dir), info.Mode(), st.Uid, st.Ino, text)
		return err
	}))
	return list
}

// root runs a command of tandem-node as root.
func (h hostile) root(args ...string) (status int, output string) {
	h.Helper()
	self, err := os.Executable()
	h.ok(err)
	cmd := exec.Command(self, append(args, "--state-dir", h.state)...)
	cmd.Env = append(os.Environ(), asNode+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		h.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// What is staged runs as the user who owns the slots, with no way to more rights, though root alone can read the file.
func TestRootStagesAsTheOwner(t *testing.T) {
	h := newHostile(t)
	h.give()
	file, who := filepath.Join(h.prize, "tandem-node"), filepath.Join(h.state, "who")
	h.ok(os.WriteFile(file, []byte("#!/bin/sh\necho tandem-node 2\n"+
		"{ id -u; id -G; grep NoNewPrivs /proc/self/status; } >"+who+"\n"), 0o700))
	if status, out := h.root("slot", "stage", file); status != 0 {
		t.Fatalf("status %d: %s", status, out)
	}
	got, err := os.ReadFile(who)
	if want := fmt.Sprintf("%d\n%d\nNoNewPrivs:\t1\n", somebody, somebody); err != nil || string(got) != want {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	for line := range strings.Lines(h.look(h.state)) {
		if f := strings.Fields(line); f[2] != fmt.Sprint(somebody) && f[1] != fmt.Sprint(somebody) {
			t.Errorf("of another user: %s", line)
		}
	}
}

// Links in the place of all that the commands open, make and rename lead root nowhere.
func TestRootFollowsNoLinks(t *testing.T) {
	for _, c := range []struct {
		link, to string // in the state directory; below the prize
		args     string // FILE is one that can be staged
	}{
		{"slots/lock", "secret", "slot status"},
		{"slots/lock", "new", "slot status"},
		{"slots/stage.lock", "new", "slot stage FILE"},
		{"slots/a", "", "slot stage FILE"},
		{"slots/a/manifest", "secret", "slot stage FILE"},
		{"slots/a/tandem-node", "secret", "slot stage FILE"},
		{"slots/record.0", "secret", "slot stage FILE"},
		{"slots/record.1", "secret", "slot rollback"},
		{"slots/update.lock", "new", "slot clear"},
		{"slots/update", "secret", "slot clear"},
		{"slots", "", "slot stage FILE"},
		{"components", "", "slot status"},
		{"state.db", "state.db", "trust --reset"},
		{"state.marks", "secret", "trust --reset"},
		{"identity", "", "join --controller 127.0.0.1:1"},
	} {
		t.Run(c.link+" "+c.args[:min(16, len(c.args))], func(t *testing.T) {
			h := newHostile(t)
			db := h.state
			if c.link == "state.db" {
				db = h.prize
			}
			s, err := store.Open(store.Config{Path: filepath.Join(db, "state.db"), Unit: "u", Node: "n"})
			h.ok(err)
			h.ok(s.Close())
			link := filepath.Join(h.state, c.link)
			h.ok(os.MkdirAll(filepath.Dir(link), 0o700), os.RemoveAll(link),
				os.Symlink(filepath.Join(h.prize, c.to), link))
			h.give()
			file := filepath.Join(h.TempDir(), "tandem-node")
			h.ok(os.WriteFile(file, []byte("#!/bin/sh\necho tandem-node 2\n"), 0o755))
			before := h.look(h.prize)
			t.Setenv("TANDEM_TOKEN", token) // for join
			status, out := h.root(strings.Fields(strings.ReplaceAll(c.args, "FILE", file))...)
			if status == exitUsage {
				t.Fatalf("nothing was tried: %s", out)
			}
			if after := h.look(h.prize); after != before {
				t.Errorf("the command said: %swhat was\n%sis now\n%s", out, before, after)
			}
		})
	}
}

// What only root may read does not come into a directory of others by a link that they have put there.
func TestRootStagesNoLinkToWhatOthersMayNotRead(t *testing.T) {
	h := newHostile(t)
	link := filepath.Join(h.state, "tandem-node")
	h.ok(os.Symlink(filepath.Join(h.prize, "secret"), link))
	h.give()
	if status, out := h.root("slot", "stage", link); status != 1 || !strings.Contains(out, "permission denied") {
		t.Errorf("status %d: %s", status, out)
	}
}

// Where others may write, root does nothing, and in a directory of its own nothing in one of others.
func TestRootRefusesWhatOthersMayWrite(t *testing.T) {
	h := newHostile(t)
	h.give()
	h.ok(os.Chmod(h.state, 0o777))
	if status, out := h.root("slot", "status"); status != 1 || !strings.Contains(out, "chmod go-w") {
		t.Errorf("status %d: %s", status, out)
	}
	h.ok(os.Chmod(h.state, 0o755), os.Mkdir(filepath.Join(h.state, "slots"), 0o700))
	h.give()
	h.ok(os.Chown(h.state, 0, 0))
	if status, out := h.root("slot", "status"); status != 1 || !strings.Contains(out, "belongs to user 64001") {
		t.Errorf("status %d: %s", status, out)
	}
}
