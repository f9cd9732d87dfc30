package keep

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// whole checks that what was read from data comes back the same when it is written.
func whole[T any](t *testing.T, data []byte) {
	in := bufio.NewReaderSize(bytes.NewReader(data), 64)
	for {
		var v, again T
		err := readMessage(in, &v)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errTooLong) {
			return
		}
		if err != nil {
			continue
		}
		line, err := encodeMessage(v)
		if errors.Is(err, errTooLong) {
			continue
		}
		if err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		if err := readMessage(bufio.NewReader(bytes.NewReader(line)), &again); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		second, err := encodeMessage(again)
		if err != nil || !bytes.Equal(line, second) {
			t.Fatalf("%q became %q, %v", line, second, err)
		}
	}
}

func FuzzRequest(f *testing.F) {
	run := Run{
		ID: "a", Argv: []string{"/bin/sh", "-c", "exit"}, Env: []string{"A=b"}, Dir: "/",
		Cgroups:      []string{"/sys/fs/cgroup/x"},
		MaxExecution: time.Hour, StopGrace: time.Second, Log: Log{"/var/log/x", 1 << 20, 3}, User: &User{1, 2},
	}
	for _, r := range []request{{Op: opHello}, {Protocol: 1, Op: opStart, Run: &run},
		{Op: opStop, ID: "a", Grace: time.Minute}, {Op: opQuit, Force: true}} {
		line, err := encodeMessage(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte("{}\n[]\nnull\n{\"op\":1}\n\n" + strings.Repeat("x", 100) + "\n{\"grace\":1e3}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole[request](t, data)
		var r request
		if readMessage(bufio.NewReader(bytes.NewReader(data)), &r) == nil && r.Run != nil && r.Run.Check() == nil {
			if path := (records{dir: "/runs"}).path(r.Run.ID); filepath.Dir(path) != "/runs" ||
				!filepath.IsAbs(r.Run.Argv[0]) {
				t.Fatalf("%+v passes", r.Run)
			}
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, a := range []answer{
		{Keeper: Keeper{1, "1.0", 77, "70000-70009"}},
		{Error: wire.New(wire.CodeNotFound, "/id", "there is no such run")},
		{Status: []Status{{ID: "a", State: Exited, PID: 4, Started: time.Unix(5, 6).UTC(), Signal: 9,
			Cause: CauseStop}}, More: true},
	} {
		line, err := encodeMessage(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, data []byte) { whole[answer](t, data) })
}

// Whatever is in a record's file, the keeper starts, and does not take it for a run that was never started.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"format":1,"boot":"x","ticks":7,"log":{"path":""},"status":{"id":"a","state":"running","pid":3}}`))
	f.Add([]byte(`{"format":1,"status":{"id":"a","state":"exited","exitCode":3}}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec := decodeRecord("a", data)
		if rec.Status.ID != "a" {
			t.Fatalf("%+v", rec)
		}
		text, err := rec.encode()
		if err != nil {
			return // a time that cannot be written, say
		}
		if again := decodeRecord("a", text); !reflect.DeepEqual(again.Cgroups, rec.Cgroups) && len(rec.Cgroups) > 0 ||
			again.Ticks != rec.Ticks || again.Status.PID != rec.Status.PID {
			t.Fatalf("%+v became %+v", rec, again)
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("7 (a) b) (c) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2"))
	f.Add([]byte("7 (kthread) S 2 0 0 0 -1 2129984 1 2 3 4 5 6 7 8 20 0 1 0 12 1 2"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, ok := parseStat(7, data); ok && p.pid != 7 {
			t.Fatalf("%+v", p)
		}
		find(data, Mark)
	})
}

func TestParseStat(t *testing.T) {
	p, ok := parseStat(7, []byte("7 (a) b) (c) S 1 6 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2"))
	if want := (process{pid: 7, parent: 1, group: 6, session: 5, ticks: 12345}); !ok || p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
	if p, ok := parseStat(2, []byte("2 (kthreadd) Z 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 12 0 0")); !ok ||
		!p.kernel || !p.dead {
		t.Errorf("%+v", p)
	}
	if _, ok := parseStat(2, []byte("2 (x) S 1 2")); ok {
		t.Error("half a line is taken")
	}
	self, ok := lookAt(os.Getpid())
	if !ok || self.parent != os.Getppid() || self.dead || self.kernel || self.ticks == 0 {
		t.Errorf("%+v", self)
	}
}
