package workloads

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// says adds to a log, as a keeper does.
func (w *world) says(log, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		w.t.Fatal(err)
	}
	f, err := os.OpenFile(log+".1", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		w.t.Error(err)
	}
	if err := f.Close(); err != nil {
		w.t.Error(err)
	}
}

// What a process uses is told while it runs, and nothing of one that does not.
func TestProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(time.Minute)
		p := a.Process(t.Context(), "web")
		if p == nil || p.PID == 0 || p.Memory != 1<<20 {
			t.Errorf("%+v", p)
		}
		if p := a.Process(t.Context(), "db"); p != nil {
			t.Errorf("a slot that there is not: %+v", p)
		}
		a.Manager.Want(nil)
		settled(time.Minute)
		if p := a.Process(t.Context(), "web"); p != nil {
			t.Errorf("it has ended: %+v", p)
		}
		a.end()
		if p := a.Process(t.Context(), "web"); p != nil {
			t.Errorf("the agent has ended: %+v", p)
		}
	})
}

// What a hook has written can be read by its name, also when its configuration was refused and is gone, and goes with
// the slot.
func TestHookLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		defer a.end()
		w.ends[workload.HookValidate] = keep.Status{ExitCode: 1}
		w.output[workload.HookValidate] = "port 80 is taken\n"
		a.Manager.Want([]workload.Config{config("web", "one", "", workload.HookValidate)})
		settled(time.Minute)
		if r := w.report().Slots[0]; r.State != wire.WorkloadFailed ||
			!strings.Contains(r.Error.Message, "exit status 1: port 80 is taken") {
			t.Fatalf("%+v", r)
		}
		for hook, want := range map[string]string{"iss_hook_validate": "port 80 is taken\n", "": "",
			"iss_hook_start": ""} {
			r, err := a.Logs(&wire.LogsParams{Service: "web", Hook: hook, Tail: 100})
			if err != nil || string(r.Data) != want || r.Hook != hook {
				t.Errorf("%q: %+v, %v", hook, r, err)
			}
		}
		for _, bad := range []string{"iss_hook_x", "validate", "../web/process", "process"} {
			if _, err := a.Logs(&wire.LogsParams{Service: "web", Hook: bad}); err == nil || err.Path != "/hook" {
				t.Errorf("%s: %v", bad, err)
			}
		}
		a.Manager.Want(nil)
		settled(time.Minute)
		for _, dir := range []string{"logs", "slots"} {
			if _, err := os.Stat(filepath.Join(w.dir, dir, "web")); !os.IsNotExist(err) {
				t.Errorf("the slot is gone, its %s are not: %v", dir, err)
			}
		}
	})
}

// The reason of an end is what that run has written, not one before it.
func TestOutputOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		defer a.end()
		synctest.Wait() // it has tidied up
		w.says(a.logPath("web"), "all well\nof an earlier one")
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		for _, said := range []string{"", "no such host"} {
			settled(time.Minute)
			w.says(a.logPath("web"), said)
			w.exit("web", keep.Status{ExitCode: 2})
			synctest.Wait()
			if e := w.report().Slots[0].Exit; e == nil || e.Code != 2 || e.Output != said {
				t.Errorf("it said %q: %+v", said, e)
			}
		}
	})
}
