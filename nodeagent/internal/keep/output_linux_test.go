package keep

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// processorTime is what a process has taken.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var ticks time.Duration
	for _, text := range f[11:13] { // utime and stime, of which there are 100 a second
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}

// A hundred megabytes of output take no more disk than was said, the end of them is there, and the process
// never waits for anybody.
func TestMuchOutput(t *testing.T) {
	r := newRig(t)
	k, err := r.c.Keeper(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	run := r.shell("much", `dd if=/dev/zero bs=64k count=1600 2>/dev/null | tr '\0' 'x'; printf '\nthe end\n' >&2`)
	run.Log.Bytes, run.Log.Files = 256<<10, 3
	before := processorTime(t, k.PID)
	r.start(run)
	s := r.wait("much")
	t.Logf("100 MB in %v; the keeper took %v of processor time", s.Ended.Sub(s.Started), processorTime(t, k.PID)-before)
	if !s.Success() || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
	// A file ends where one reading of the pipe does, of 32 KiB at most, if that has no line in it.
	if n, size := onDisk(t, run.Log.Path); n > 3 || size > 3*(256<<10) || size < 2*(256-32)<<10 {
		t.Errorf("%d files, %d bytes on the disk", n, size)
	}
	if out := r.output("much"); !strings.HasSuffix(out, "x\nthe end\n") {
		t.Errorf("…%q", out[max(0, len(out)-100):])
	}
	at, err := Tail(run.Log.Path, 20)
	if err != nil {
		t.Fatal(err)
	}
	if data, _, err := ReadLog(run.Log.Path, at, 100); err != nil || string(data) != "the end\n" {
		t.Errorf("the tail is %q, %v", data, err)
	}
}

// Output goes on in the same log when a run is started again, and a run without a log is not read.
func TestOutputGoesOn(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		run := r.shell(fmt.Sprint("run-", i), fmt.Sprintf("echo %d", i))
		run.Log.Path = filepath.Join(r.work, "logs", "all")
		r.start(run)
		r.wait(run.ID)
	}
	if out := r.output("all"); out != "0\n1\n2\n" {
		t.Errorf("%q", out)
	}
	mute := r.shell("mute", "echo nobody hears")
	mute.Log = Log{}
	r.start(mute)
	if s := r.wait("mute"); !s.Success() {
		t.Errorf("%+v", s)
	}
	if entries, err := os.ReadDir(filepath.Join(r.work, "logs")); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A disk that is full keeps no process waiting.
func TestOutputIsDropped(t *testing.T) {
	r := newRig(t)
	if err := os.WriteFile(filepath.Join(r.work, "logs"), nil, 0o600); err != nil { // no directory, so no log
		t.Fatal(err)
	}
	r.start(r.shell("a", "dd if=/dev/zero bs=1000 count=1000 2>/dev/null"))
	if s := r.wait("a"); !s.Success() || s.Dropped != 1_000_000 {
		t.Errorf("%+v", s)
	}
}
