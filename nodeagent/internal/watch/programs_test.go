package watch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/watch/judge"
)

func TestLookAtPrograms(t *testing.T) {
	dir := t.TempDir()
	look := func() map[string]judge.Program {
		t.Helper()
		list, err := Programs(dir)
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]judge.Program{}
		for _, p := range list {
			m[p.Name] = p
		}
		return m
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := look(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for _, name := range []string{"notes.txt", ".hidden.touch", "bad name.pid", "touch"} {
		write(name, "")
	}
	write("sensor.touch", "")
	write("own.pid", fmt.Sprintln(os.Getpid()))
	write("own.touch", "")
	write("bad.pid", "twelve")
	write("empty.pid", "")
	if err := os.Mkdir(filepath.Join(dir, "folder.pid"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := look()
	if len(got) != 5 || got["sensor"].Touched == "" || got["sensor"].Process != (judge.Process{}) {
		t.Errorf("%+v", got)
	}
	if p := got["own"]; p.Touched == "" || p.Process.PID != os.Getpid() || p.Process.Start < 2 ||
		p.Process.Named == "" || p.Trouble != "" {
		t.Errorf("%+v", p)
	}
	for name, part := range map[string]string{"bad": `"twelve" is not the number of a process`, "empty": `"" is not`,
		"folder": "not a regular file"} {
		if p := got[name]; !strings.Contains(p.Trouble, part) || p.Process != (judge.Process{}) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if again := look(); !reflect.DeepEqual(again, got) {
		t.Errorf("%+v became %+v", got, again)
	}
	// A touch moves the time of change, also to the past.
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "sensor.touch"), past, past); err != nil {
		t.Fatal(err)
	}
	if look()["sensor"].Touched == got["sensor"].Touched {
		t.Error("a touch does not show")
	}
	if list, err := Programs(filepath.Join(dir, "none")); len(list) != 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := Programs(filepath.Join(dir, "own.pid")); err == nil {
		t.Error("a file is taken for a directory")
	}
	for i := range maxPrograms {
		write(fmt.Sprintf("many-%d.touch", i), "")
	}
	if _, err := Programs(dir); err == nil || !strings.Contains(err.Error(), "more than 64") {
		t.Error(err)
	}
}

func TestProcessDies(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "child.pid"), fmt.Append(nil, child.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	process := func() judge.Process {
		t.Helper()
		list, err := Programs(dir)
		if err != nil || len(list) != 1 || list[0].Trouble != "" {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].Process
	}
	alive := process()
	if alive.PID != child.Process.Pid || alive.Start == 0 {
		t.Errorf("%+v", alive)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Killed and not waited for, it is dead as soon as the signal has reached it.
	for deadline := time.Now().Add(30 * time.Second); process().Start != 0; {
		if time.Now().After(deadline) {
			t.Fatal("the killed process still counts as alive")
		}
	}
	_ = child.Wait() // says that it was killed
	if p := process(); p.Start != 0 || p.PID != alive.PID {
		t.Errorf("%+v", p)
	}
}

func FuzzProcess(f *testing.F) {
	f.Add("12\n")
	f.Add("-1")
	f.Add("1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 3 1000 10")
	f.Add("9 (a) b) Z 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 77 1000 10")
	f.Add(")")
	f.Fuzz(func(t *testing.T, text string) {
		if pid, err := parsePID([]byte(text)); (err == nil) != (pid > 0) {
			t.Errorf("%d, %v", pid, err)
		}
		if start, err := parseStat(text); err != nil && start != 0 {
			t.Errorf("%d, %v", start, err)
		}
	})
}

func TestParseStat(t *testing.T) {
	tail := " 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 77 1000 10"
	for text, want := range map[string]uint64{"9 (a) b) S" + tail: 78, "9 ((Z) S" + tail: 78, "9 (x) Z" + tail: 0,
		"9 (x) X" + tail: 0} {
		if got, err := parseStat(text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "9 (x)", "9 (x) S 1 2 3", "9 (x) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 " +
		"0 -7 1000 10"} {
		if _, err := parseStat(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
