package keep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// asAgent starts a keeper and a run of the script that is the last argument, and is killed when it has.
func asAgent() int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	exe, err := os.Executable()
	if err == nil {
		var c *Client
		c, err = Ensure(ctx, Config{Dir: os.Args[1], Exe: exe, Args: []string{os.Args[1], "1m", "1"},
			Env: []string{asWhat + "=keeper", raceEnv}})
		if err == nil {
			_, err = c.Start(ctx, Run{ID: "survivor", Argv: []string{"/bin/sh", "-c", os.Args[3]},
				Env: []string{"PATH=/usr/bin:/bin"}, Dir: os.Args[2]})
		}
	}
	if err == nil {
		err = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Runs outlive the agent, and how they end is known to the next one.
func TestAgentKilled(t *testing.T) {
	r := newRig(t)
	if err := r.c.Quit(r.ctx(), true); err != nil {
		t.Fatal(err)
	}
	up, down := r.pipe("up"), r.pipe("down")
	cmd := exec.Command(r.cfg.Exe, r.dir, r.work, `echo $$ >up; read x <down; exit 9`)
	cmd.Env = append(os.Environ(), asWhat+"=agent")
	if out, err := cmd.CombinedOutput(); cmd.ProcessState == nil ||
		cmd.ProcessState.Sys() != syscall.WaitStatus(syscall.SIGKILL) {
		t.Fatalf("%v: %s", err, out)
	}
	pid := up.pid()
	c, err := Dial(r.ctx(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Get(r.ctx(), "survivor")
	if err != nil || s.State != Running || s.PID != pid || ended(pid) {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := down.f.WriteString("go on\n"); err != nil {
		t.Fatal(err)
	}
	if s := r.wait("survivor"); s.ExitCode != 9 || s.State != Exited {
		t.Errorf("%+v", s)
	}
	// It is known also to the keeper after that one.
	if err := r.c.Quit(r.ctx(), false); err != nil {
		t.Fatal(err)
	}
	if s := r.wait("survivor"); s.ExitCode != 9 || s.State != Exited || s.PID != pid {
		t.Errorf("%+v", s)
	}
	if s := r.start(r.shell("survivor", "echo twice >twice")); s.ExitCode != 9 {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(filepath.Join(r.work, "twice")); err == nil {
		t.Error("a job that had ended ran twice")
	}
}

// The next keeper ends what a killed one leaves, says so, and does not start it again.
func TestKeeperKilled(t *testing.T) {
	r := newRig(t)
	up := r.pipe("up")
	r.start(r.shell("done", "exit 5"))
	r.wait("done")
	var pids []int
	for id, script := range map[string]string{
		"plain":   `echo $$ >up; exec sleep 1000`,
		"deaf":    `trap "" TERM HUP INT PIPE; echo $$ >up; while :; do sleep 1000; done`,
		"daemon":  `(setsid sh -c '(setsid sh -c "echo \$\$ >up; exec sleep 1000" &)' &); exec sleep 1000`,
		"renamed": `exec env -i PATH="$PATH" sh -c 'echo $$ >up; exec sleep 1000'`, // only by its number and start
	} {
		r.start(r.shell(id, script))
		pids = append(pids, up.pid())
	}
	r.kill()
	all, err := r.c.List(r.ctx()) // starts the next one
	if err != nil || len(all) != 5 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, s := range all {
		s = r.wait(s.ID)
		if s.ID == "done" {
			if s.State != Exited || s.ExitCode != 5 {
				t.Errorf("%+v", s)
			}
			continue
		}
		if s.State != Lost || s.Success() || s.Left != 0 {
			t.Errorf("%+v", s)
		}
		if s := r.start(r.shell(s.ID, "echo >twice")); s.State != Lost {
			t.Errorf("%+v was started again", s)
		}
	}
	for _, pid := range pids {
		if !ended(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if _, err := os.Stat(filepath.Join(r.work, "twice")); err == nil {
		t.Error("a lost run was started again")
	}
}

// A keeper may be killed at every moment of starting and ending: nothing runs twice, nothing is left.
func TestKeeperKilledAnytime(t *testing.T) {
	r := newRig(t)
	for i := range 8 {
		k, err := r.c.Keeper(r.ctx())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			time.Sleep(time.Duration(i) * 4 * time.Millisecond) // the moment, and nothing that is waited for
			if err := syscall.Kill(k.PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		})
		for j := range 4 {
			run := r.shell(fmt.Sprintf("run-%d-%d", i, j),
				fmt.Sprintf(`echo >>starts-%d-%d; (setsid sleep 1000 &) ; exit 0`, i, j))
			all.Go(func() {
				if _, err := r.c.Start(r.ctx(), run); err != nil {
					t.Errorf("%s: %v", run.ID, err)
				}
			})
		}
		all.Wait()
		if _, err := syscall.Wait4(k.PID, nil, 0, nil); err != nil && !errors.Is(err, syscall.ECHILD) {
			t.Error(err)
		}
		for j := range 4 {
			s := r.wait(fmt.Sprintf("run-%d-%d", i, j))
			data, err := os.ReadFile(filepath.Join(r.work, fmt.Sprintf("starts-%d-%d", i, j)))
			if len(data) > 1 || s.State == Exited && (len(data) != 1 || !s.Success()) {
				t.Errorf("%+v, and it ran %d times (%v)", s, len(data), err)
			}
		}
	}
	r.nothingLeft()
}

// After a reboot all is lost, and nobody is killed for having the same number.
func TestOtherBoots(t *testing.T) {
	r := newRig(t)
	if err := r.c.Quit(r.ctx(), true); err != nil {
		t.Fatal(err)
	}
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bystander.Process.Kill(); err != nil {
			t.Errorf("the bystander: %v", err)
		}
		_ = bystander.Wait() // by that signal
	}()
	p, ok := lookAt(bystander.Process.Pid)
	if !ok {
		t.Fatal("there is no bystander")
	}
	save := records{filepath.Join(r.dir, "runs"), nil}
	status := func(id string) Status { return Status{ID: id, State: Running, PID: p.pid, Started: time.Unix(1, 0)} }
	for _, rec := range []record{
		{Format: 1, Boot: "another", Ticks: p.ticks, Status: status("rebooted")},
		{Format: 1, Boot: boot, Ticks: p.ticks - 1, Status: status("other-start")},
		{Format: 1, Boot: boot, Status: status("no-start")},
		{Format: 7, Boot: boot, Status: status("newer")},
		{Format: 1, Boot: "another", Status: Status{ID: "ended", State: Exited, ExitCode: 3}},
	} {
		if err := save.save(rec); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"damaged.json": "{", ".x.json.tmp123": "left by a crash",
		"strange": "not ours", "of-another.json": `{"format":1,"status":{"id":"x"}}`} {
		if err := os.WriteFile(filepath.Join(save.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.ensure()
	for _, id := range []string{"rebooted", "other-start", "no-start", "newer", "damaged", "of-another"} {
		if s := r.wait(id); s.State != Lost || s.Ended.IsZero() {
			t.Errorf("%+v", s)
		}
	}
	if s := r.wait("ended"); s.State != Exited || s.ExitCode != 3 {
		t.Errorf("%+v", s)
	}
	if now, ok := lookAt(p.pid); !ok || now.dead {
		t.Error("a process was killed that had nothing to do with it")
	}
	if _, err := os.Stat(filepath.Join(save.dir, ".x.json.tmp123")); err == nil {
		t.Error("what a crash left is still there")
	}
}

// What the disk does not take is not started; that a run has ended is told all the same, and written later.
func TestDiskRefuses(t *testing.T) {
	r := newRig(t)
	down := r.pipe("down")
	blocked := func(id string) string { return filepath.Join(r.dir, "runs", id+".json") }
	if err := os.Mkdir(blocked("a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := r.c.Start(r.ctx(), r.shell("a", "echo >>ran")); !errors.Is(err, &wire.Error{Code: wire.CodeStorage}) {
		t.Errorf("%v", err)
	}
	if err := os.Remove(blocked("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.work, "ran")); err == nil {
		t.Error("it was started")
	}
	r.start(r.shell("b", "read x <down; exit 6"))
	if err := errors.Join(os.Remove(blocked("b")), os.Mkdir(blocked("b"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := down.f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if s := r.wait("b"); s.ExitCode != 6 {
		t.Errorf("%+v", s)
	}
	if err := os.Remove(blocked("b")); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		data, err := os.ReadFile(blocked("b"))
		if err == nil && strings.Contains(string(data), `"exitCode":6`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the record is %s, %v", data, err)
		}
		time.Sleep(10 * time.Millisecond) // nothing tells of a file
	}
	r.kill()
	if s := r.wait("b"); s.State != Exited || s.ExitCode != 6 {
		t.Errorf("%+v", s)
	}
}
