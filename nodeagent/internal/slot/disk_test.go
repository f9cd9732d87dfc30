package slot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// The simulated disk replaces a file in the steps in which package durable does.
func TestReplaceIsModelled(t *testing.T) {
	var got []string
	d := osDisk{t.TempDir(), func(s durable.Step) error { got = append(got, string(s)); return nil }}
	if err := d.Replace("x", []byte("data")); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, " ") != strings.Join(simReplace, " ") {
		t.Errorf("%v, and the simulation does %v", got, simReplace)
	}
	sim := newSim()
	if err := sim.Replace("x", []byte("data")); err != nil || sim.count != len(simReplace) {
		t.Errorf("%d steps, %v", sim.count, err)
	}
}

// Both disks answer alike.
func TestDisksAgree(t *testing.T) {
	for name, d := range map[string]Disk{"real": osDisk{filepath.Join(t.TempDir(), "x", "slots"), nil},
		"simulated": newSim()} {
		t.Run(name, func(t *testing.T) {
			ok := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			ok(d.Mkdir("."))
			ok(d.Mkdir("a"))
			ok(d.Mkdir("a"))
			if _, err := d.Read("a/f", 9); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%v", err)
			}
			if _, err := d.Open("b/f"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%v", err)
			}
			ok(d.Remove("a/f"))
			for _, text := range []string{"first", "second"} {
				f, err := d.Create("a/f")
				ok(err)
				_, err = f.Write([]byte(text))
				ok(err)
				ok(f.Sync())
				ok(f.Close())
				ok(d.SyncDir("a"))
				if data, err := d.Read("a/f", 9); err != nil || string(data) != text {
					t.Errorf("%q %v", data, err)
				}
			}
			if _, err := d.Read("a/f", 5); err == nil {
				t.Error("a long file is read")
			}
			ok(d.Replace("r", []byte("x")))
			ok(d.Rename("r", "r.bad-1"))
			names, err := d.List(".")
			ok(err)
			if strings.Join(names, " ") != "a r.bad-1" {
				t.Errorf("%q", names)
			}
			unlock, err := d.Lock("l", 0)
			ok(err)
			if _, err := d.Lock("l", 10*time.Millisecond); !errors.Is(err, ErrLocked) {
				t.Errorf("%v", err)
			}
			ok(unlock())
			unlock, err = d.Lock("l", 0)
			ok(err)
			ok(unlock())
		})
	}
}

// script is a program that says it is version v.
func script(t *testing.T, v string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tandem-node")
	if err := os.WriteFile(file, []byte("#!/bin/sh\necho tandem-node "+v+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// On the real disk: dies at, and fails at, every step of writing a small file, in every op of an update.
func TestRealDisk(t *testing.T) {
	selfTest := func(_ context.Context, path string) (string, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		_, v, _ := strings.Cut(string(data), "tandem-node ")
		return strings.TrimSpace(v), nil
	}
	ops := []func(s *Store) error{
		func(s *Store) error { _, err := s.Starting().Next(nil); return err },
		func(s *Store) error { _, err := s.Stage(t.Context(), Source{File: script(t, "1")}); return err },
		func(s *Store) error { return s.Arm("a", 3) },
		func(s *Store) error { _, err := s.Starting().Next(nil); return err },
		func(s *Store) error { return s.Commit("a") },
		func(s *Store) error { _, err := s.Rollback("a", wire.BootFallback, "x"); return err },
	}
	before := filepath.Join(t.TempDir(), "slots") // as the ops until now have left it
	if err := os.Mkdir(before, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, op := range ops {
		for at := 1; ; at++ {
			for _, dies := range []bool{true, false} {
				dir := filepath.Join(t.TempDir(), "slots")
				open := func(steps durable.Steps) *Store {
					return Open(Config{Dir: dir, Steps: steps, SelfTest: selfTest})
				}
				if err := os.CopyFS(dir, os.DirFS(before)); err != nil {
					t.Fatal(err)
				}
				count := 0
				func() {
					defer func() {
						if r := recover(); r != nil && r != (died{}) {
							panic(r)
						}
					}()
					_ = op(open(func(durable.Step) error {
						if count++; count != at {
							return nil
						}
						if dies {
							panic(died{})
						}
						return syscall.ENOSPC
					})) // what matters is what it leaves
				}()
				l, err := open(nil).Starting().Next(nil)
				if err != nil || !l.Saved || !boot.Known(l.Reason) {
					t.Fatalf("op %d, step %d: %+v %v", i, at, l, err)
				}
				if l.Slot == "a" {
					if _, err := Version(t.Context(), l.Path, ""); err != nil {
						t.Errorf("op %d, step %d: %v", i, at, err)
					}
				}
				left, err := filepath.Glob(filepath.Join(dir, ".record*"))
				if err != nil || len(left) != 0 {
					t.Errorf("op %d, step %d: left behind %q %v", i, at, left, err)
				}
				if count < at {
					at = -1
				}
				if at < 0 {
					break
				}
			}
			if at < 0 {
				break
			}
		}
		if err := op(Open(Config{Dir: before, SelfTest: selfTest})); err != nil {
			t.Fatal(err)
		}
	}
}

// Several processes at once: every step stands, and none is lost.
func TestAtTheSameTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slots")
	open := func() *Store { return Open(Config{Dir: dir, Lock: time.Minute}) }
	if _, err := open().Starting().Next(nil); err != nil {
		t.Fatal(err)
	}
	file := script(t, "1")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5 {
				if _, err := open().Starting().Next(nil); err != nil {
					t.Error(err)
				}
				if _, err := open().Planned(wire.BootStop, fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
				_, err := open().Stage(t.Context(), Source{File: file})
				if err != nil && !errors.Is(err, ErrLocked) {
					t.Error(err)
				}
				st, err := open().Status()
				if err != nil {
					t.Error(err)
				} else if err := sane(st); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	st, err := open().Status()
	if err != nil || st.Boot.Number != 21 {
		t.Errorf("%d starts, %v", st.Boot.Number, err)
	}
}

// What holds the lock for ever keeps no node from starting.
func TestLockThatIsNeverReleased(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slots")
	s := Open(Config{Dir: dir, Lock: 20 * time.Millisecond})
	if _, err := s.Starting().Next(nil); err != nil {
		t.Fatal(err)
	}
	unlock, err := osDisk{dir, nil}.Lock(stepLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Starting().Next(nil)
	if err != nil || l.Slot != record.Factory || l.Saved || !strings.Contains(l.Note, "another process is at it") {
		t.Errorf("%+v %v", l, err)
	}
	if err := s.Commit("a"); !errors.Is(err, ErrLocked) {
		t.Errorf("%v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

func TestQuarantineIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slots")
	s := Open(Config{Dir: dir})
	for i := range 3 * maxBad {
		if _, err := s.Starting().Next(nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, copies[0]), fmt.Append(nil, "bad ", i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	st, err := s.Status()
	if err != nil || len(st.Notes) != 1 ||
		!strings.Contains(st.Notes[0], "record.0 is no good: it does not begin with") {
		t.Errorf("%q %v", st.Notes, err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "record.0.bad-*"))
	if err != nil || len(kept) != maxBad {
		t.Errorf("%q %v", kept, err)
	}
	if newest, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("record.0.bad-", 3*maxBad))); err != nil ||
		string(newest) != fmt.Sprint("bad ", 3*maxBad-1) {
		t.Errorf("%q %v", newest, err)
	}
}

// TestStageOfNoFile: what is no file is refused without opening it; a FIFO would wait for a writer for ever.
func TestStageOfNoFile(t *testing.T) {
	s := Open(Config{Dir: filepath.Join(t.TempDir(), "slots")})
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stage(t.Context(), Source{File: fifo}); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
}

func TestStageStops(t *testing.T) {
	s := Open(Config{Dir: filepath.Join(t.TempDir(), "slots")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Stage(ctx, Source{File: script(t, "1")}); !errors.Is(err, context.Canceled) ||
		errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	hang := filepath.Join(t.TempDir(), "hang")
	if err := os.WriteFile(hang, []byte("#!/bin/sh\nsleep 1000 & wait\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Stage(ctx, Source{File: hang}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if out, err := s.Stage(t.Context(), Source{File: script(t, "2")}); err != nil || out.Version != "2" ||
		out.Slot != "a" {
		t.Errorf("%+v %v", out, err)
	}
}

func TestMachine(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]uint64{"pgfault 1\noom_kill 42\nx 3\n": 42,
		"low 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 1\n": 2, "x 1\n": 0} {
		counts := filepath.Join(dir, "counts")
		if err := os.WriteFile(counts, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := oomKills(counts); n != want {
			t.Errorf("%q: %d", text, n)
		}
	}
	if n := oomKills(filepath.Join(dir, "nothing")); n != 0 {
		t.Errorf("%d", n)
	}
	// What was killed among workloads is not what ended the agent. (The path leads out of /sys/fs/cgroup.)
	all := Machine().OOMKills
	group := filepath.Join(dir, "group")
	if err := errors.Join(os.Mkdir(group, 0o700),
		os.WriteFile(filepath.Join(group, "memory.events"), []byte("oom_kill 18446744073709551615\n"),
			0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvWorkloads, "/../../.."+group)
	if n := Machine().OOMKills; n != 0 {
		t.Errorf("%d of %d are the agent's, but all were workloads'", n, all)
	}
	if text := lastPanic(dir); text != "" {
		t.Errorf("%q", text)
	}
	for i, name := range []string{"console-ramoops-0", "dmesg-efi-1", "dmesg-efi-2"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, time.Date(2026, 1, 9-i, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
	}
	if text := lastPanic(dir); text != dir+"/dmesg-efi-1 of 2026-01-08T00:00:00Z" {
		t.Errorf("%q", text)
	}
	if ev := Machine(); ev.Kernel == "" || strings.Contains(ev.Kernel, "-") {
		t.Errorf("%+v", ev)
	}
}

func FuzzVersionOutput(f *testing.F) {
	f.Add([]byte("tandem-node 1.2.3 (go1.26 linux/amd64)\n"))
	f.Add([]byte("tandem-node"))
	f.Fuzz(func(t *testing.T, out []byte) {
		if v, err := parseVersion(out); err == nil && (v == "" || len(v) > 100 || strings.ContainsAny(v, " \n\t")) {
			t.Errorf("%q from %q", v, out)
		}
	})
}

// The copy with the higher number counts, whichever it is, and the next step brings them together.
func TestNewerCopyCounts(t *testing.T) {
	for _, newer := range []int{0, 1} {
		d := newSim()
		r := record.New()
		for i, name := range copies {
			r.Seq, r.Why = 5, "older"
			if i == newer {
				r.Seq, r.Why = 6, "newer"
			}
			if err := d.Replace(name, r.Encode()); err != nil {
				t.Fatal(err)
			}
		}
		s := Open(Config{Dir: "/slots", Disk: d})
		if st, err := s.Status(); err != nil || st.Seq != 6 || st.Why != "newer" || len(st.Notes) != 0 {
			t.Errorf("%d: %+v %v", newer, st, err)
		}
		if _, err := s.Planned(wire.BootStop, ""); err != nil {
			t.Fatal(err)
		}
		one, err := d.Read(copies[0], record.MaxSize)
		if err != nil {
			t.Fatal(err)
		}
		two, err := d.Read(copies[1], record.MaxSize)
		if back, derr := record.Decode(one); err != nil || derr != nil || back.Seq != 7 || string(one) != string(two) {
			t.Errorf("%d: %v %v %+v", newer, err, derr, back)
		}
	}
}
