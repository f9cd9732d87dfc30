package configfile

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/wire"
)

func applier(t *testing.T) *Applier {
	return &Applier{Path: filepath.Join(t.TempDir(), "config.json"), ID: inbox.Identity{Unit: "u1", Node: "n1"},
		Timeout: 10 * time.Second,
		Run:     func(context.Context, []string, []string) error { return nil }, Command: []string{"x"}}
}

func doc(version, body string) inbox.Doc {
	return inbox.Doc{Stamp: wire.Stamp{Epoch: 1, Rev: 1}, Version: version, Hash: wire.Hash([]byte(body)),
		Mode: wire.ModeApply, Body: []byte(body)}
}

func TestWhatTheCommandSays(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name      string
		err       error
		code      wire.Code
		transient bool
	}{
		{"success", nil, "", false},
		{"failure", errors.New("exit status 1"), wire.CodeApplyFailed, false},
		{"no such command", os.ErrNotExist, wire.CodeApplyFailed, false},
		{"no process to be had", syscall.EAGAIN, wire.CodeUnavailable, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := applier(t)
			a.Run = func(context.Context, []string, []string) error { return c.err }
			out := a.Apply(ctx, inbox.Apply{Doc: doc("1", "{}")})
			if (out.Err == nil) != (c.code == "") || out.Err != nil && out.Err.Code != c.code ||
				out.Transient != c.transient || !out.Ran {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestRestore(t *testing.T) {
	a := applier(t)
	one, two := doc("1", "one"), doc("2", "two")
	for _, d := range []inbox.Doc{one, two} {
		if out := a.Apply(t.Context(), inbox.Apply{Doc: d}); out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	if out := a.Restore(t.Context(), inbox.Restore{From: two, Good: one}); out.Err != nil || read(t, a) != "one" {
		t.Errorf("%+v, %q", out, read(t, a))
	}
	if out := a.Restore(t.Context(), inbox.Restore{From: two}); out.Err != nil || read(t, a) != "(none)" {
		t.Errorf("%+v, %q", out, read(t, a))
	}
	if out := a.Restore(t.Context(), inbox.Restore{From: two}); out.Err != nil {
		t.Errorf("nothing to restore and nothing there: %+v", out)
	}
	if out := a.Verify(t.Context(), inbox.Verify{Want: one}); out.Err != nil || !out.Drifted || read(t, a) != "one" {
		t.Errorf("%+v", out)
	}
	if out := a.Verify(t.Context(), inbox.Verify{Want: one}); out.Err != nil || out.Drifted {
		t.Errorf("%+v", out)
	}
	if err := errors.Join(os.Remove(a.Path), os.MkdirAll(filepath.Join(a.Path, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if out := a.Restore(t.Context(), inbox.Restore{From: two, Good: one}); out.Err == nil ||
		out.Err.Code != wire.CodeStorage {
		t.Errorf("a directory in the way: %+v", out)
	}
	if out := a.Apply(t.Context(), inbox.Apply{Doc: two}); out.Err == nil || !out.Transient || out.Ran {
		t.Errorf("a directory in the way: %+v", out)
	}
}

// What is in the place of the document is named, without reading more than the document has, and it is put right, or
// left as it is by the setting.
func TestVerify(t *testing.T) {
	put := func(data string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(data), 0o600) }
	}
	for _, c := range []struct {
		name   string
		change func(path string) error
		what   string
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"the same content in another file", func(path string) error {
			return errors.Join(os.Remove(path), put(`{"a":1}`)(path))
		}, ""},
		{"one byte", put(`{"a":2}`), "config.json was altered: it had 7 bytes instead of 7, others from byte 6 on"},
		{"shorter", put(`{"a"`), "config.json was altered: it had 4 bytes instead of 7, others from byte 5 on"},
		{"longer", put(`{"a":1}x`), "config.json was altered: it had 8 bytes instead of 7, others from byte 8 on"},
		{"a terabyte", func(path string) error { return os.Truncate(path, 1<<40) },
			"config.json was altered: it had 1099511627776 bytes instead of 7, others from byte 8 on"},
		{"removed", os.Remove, "config.json was missing"},
		{"a FIFO", func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
			"config.json was no regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, want := applier(t), inbox.Verify{Want: doc("1", `{"a":1}`)}
			var told int
			a.Run = func(context.Context, []string, []string) error { told++; return nil }
			if err := errors.Join(put(`{"a":1}`)(a.Path), c.change(a.Path)); err != nil {
				t.Fatal(err)
			}
			a.Observe = true
			for range 2 {
				if out := a.Verify(t.Context(), want); out != (inbox.Verified{Drifted: c.what != "", What: c.what}) {
					t.Errorf("left: %+v", out)
				}
			}
			if told != 0 {
				t.Error("the command ran for what was left")
			}
			a.Observe = false
			out := a.Verify(t.Context(), want)
			if drifted := c.what != ""; out != (inbox.Verified{Drifted: drifted, What: c.what, Repaired: drifted}) ||
				(told == 1) != drifted || read(t, a) != `{"a":1}` {
				t.Errorf("put right: %+v, told %d times, %q", out, told, read(t, a))
			}
		})
	}
}

func read(t *testing.T, a *Applier) string {
	data, err := os.ReadFile(a.Path)
	if os.IsNotExist(err) {
		return "(none)"
	} else if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestExec(t *testing.T) {
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	if err := Exec(t.Context(), []string{"TANDEM_MODE=apply"},
		sh(`test "$TANDEM_MODE" = apply && test -n "$PATH"`)); err != nil {
		t.Error(err)
	}
	t.Setenv("TANDEM_PASSWORD", "sesame")
	t.Setenv("OTHER", "kept")
	if err := Exec(t.Context(), []string{"TANDEM_MODE=apply"},
		sh(`test -z "$TANDEM_PASSWORD" && test "$OTHER" = kept && test "$TANDEM_MODE" = apply`)); err != nil {
		t.Errorf("the command's environment: %v", err)
	}
	err := Exec(t.Context(), nil,
		sh(`i=0; while [ $i -lt 500 ]; do echo "line $i"; i=$((i+1)); done; echo last words >&2; exit 3`))
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), "last words") ||
		len(err.Error()) > tailSize+100 {
		t.Errorf("%v", err)
	}
	if err := Exec(t.Context(), nil, []string{"/no/such/command"}); err == nil {
		t.Error("a command that is not there ran")
	}
	// What it leaves running keeps its output open: that is no failure, and holds nobody up for long.
	if err := Exec(t.Context(), nil, sh(`sleep 5 & exit 0`)); err != nil {
		t.Error(err)
	}
}

// A command that does not end is killed with its children.
func TestExecKillsTheGroup(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	gone := make(chan error, 1)
	go func() { // sees the end when no writer is left: neither the child, for as long as it lives, nor w
		_, err := io.Copy(io.Discard, r)
		gone <- err
	}()
	a := applier(t)
	a.Run, a.Timeout = Exec, 300*time.Millisecond
	a.Command = []string{"/bin/sh", "-c", `sleep 100 > ` + fifo + ` & wait`}
	out := a.Apply(t.Context(), inbox.Apply{Doc: doc("1", "{}")})
	if out.Err == nil || out.Err.Code != wire.CodeTimeout || out.Transient {
		t.Errorf("%+v", out.Err)
	}
	if err := w.Close(); err != nil { // only now: there may have been no time to start a child
		t.Fatal(err)
	}
	select {
	case err := <-gone:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the child still runs")
	}
}
