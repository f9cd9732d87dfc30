package workloads

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// hooks are the names of the runs of a service, in the order of their starts.
func (w *world) hooks(service string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, id := range w.started {
		if parts := strings.Split(id, "."); parts[0] == service {
			all = append(all, parts[2])
		}
	}
	return strings.Join(all, " ")
}

func (w *world) report() wire.Workloads {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reports[len(w.reports)-1]
}

func TestSlotsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		settled(time.Minute)
		if len(w.runs)+w.saves+w.asked != 0 || len(w.reports) != 1 {
			t.Errorf("with nothing wanted: %v, %d saves, asked %d times, %d reports", w.runs, w.saves, w.asked,
				len(w.reports))
		}
		var configs []workload.Config
		want := map[string]string{}
		for i := range 40 { // more than are done beside each other
			c := config(fmt.Sprint("s", i), fmt.Sprint("v", i), "", workload.HookInstall, workload.HookValidate,
				workload.HookStop)
			configs = append(configs, c)
			want[c.Slot.Service] = c.ConfigurationID
		}
		a.Manager.Want(configs)
		settled(time.Minute)
		w.only(want)
		for service := range want {
			if got := w.hooks(service); got != "install validate start" {
				t.Errorf("%s: %s", service, got)
			}
		}
		if r := a.world.report(); len(r.Slots) != 40 ||
			slices.ContainsFunc(r.Slots, func(s wire.WorkloadSlot) bool { return s.State != wire.WorkloadRunning }) {
			t.Errorf("reported: %+v", r)
		}
		a.Manager.Want(configs[:1])
		settled(time.Minute)
		w.only(map[string]string{"s0": "v0"})
		if got := w.hooks("s1"); got != "install validate start stop" {
			t.Errorf("a slot that is emptied: %s", got)
		}
		if err := a.Manager.Restart("s0"); err != nil {
			t.Error(err)
		}
		settled(time.Minute)
		w.only(map[string]string{"s0": "v0"})
		if got := w.hooks("s0"); got != "install validate start stop start" {
			t.Errorf("a slot that is restarted: %s", got)
		}
		if err := a.Manager.Restart("s1"); err == nil || err.Code != wire.CodeNotFound {
			t.Errorf("restart of a slot that is gone: %v", err)
		}
		w.exit("s0", keep.Status{ExitCode: 7, OOMKills: 1})
		synctest.Wait()
		if e := a.world.report().Slots[0].Exit; e == nil || e.Code != 7 || !e.OOM {
			t.Errorf("reported of the end: %+v", e)
		}
		if len(w.events) == 0 || w.events[len(w.events)-1] != "workload-exit s0@n1 v0" {
			t.Errorf("events %v", w.events)
		}
		settled(time.Minute)
		w.only(map[string]string{"s0": "v0"})
		if n := len(a.Manager.slots); n != 1 {
			t.Errorf("%d slots in memory", n)
		}
		runs := 0
		a.paths.Range(func(any, any) bool { runs++; return true })
		if runs != 1 || len(a.loose) != 0 {
			t.Errorf("remembered: the logs of %d runs, %v", runs, a.loose)
		}
		a.end()
	})
}

func TestSaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		w.lock(func() { w.full = true })
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(10 * time.Second)
		a.Manager.Want([]workload.Config{config("web", "two", "")})
		settled(10 * time.Second)
		if err := a.Manager.Restart("web"); err != nil {
			t.Error(err)
		}
		a.Manager.Want([]workload.Config{config("web", "three", "")})
		settled(10 * time.Second)
		if len(w.started)+len(w.groups)+len(w.store)+len(w.events) > 0 || w.asked > 1 ||
			len(a.world.report().Slots) != 0 {
			t.Errorf("done before it was saved: %v %v %v, %+v", w.started, w.groups, w.events, w.report())
		}
		if entries, _ := os.ReadDir(w.dir); len(entries) > 0 {
			t.Errorf("made: %v", entries)
		}
		w.lock(func() { w.full = false })
		settled(2 * time.Second)
		w.only(map[string]string{"web": "three"})
		w.lock(func() { w.full = true }) // what ends meanwhile is not forgotten, though it is told again and again
		w.exit("web", keep.Status{ExitCode: 1})
		for range 5 {
			w.setDown(true)
			settled(2 * time.Second)
			w.setDown(false)
			settled(2 * time.Second)
		}
		if len(w.runs) != 1 || len(w.started) != 1 {
			t.Errorf("while nothing can be saved: %v", w.runs)
		}
		w.lock(func() { w.full = false })
		settled(time.Minute)
		w.only(map[string]string{"web": "three"})
		if w.events[0] != "workload-exit web@n1 three" || len(w.events) != 1 {
			t.Errorf("events %v", w.events)
		}
		a.end()
	})
}

func TestKeeperOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		w.setDown(true)
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(time.Minute)
		if r := a.world.report(); len(w.started) != 0 || len(r.Slots) != 1 {
			t.Errorf("started %v, %+v", w.started, r)
		}
		w.setDown(false)
		settled(3 * time.Second)
		w.only(map[string]string{"web": "one"})
		w.setDown(true)
		a.Manager.Want(nil)
		settled(time.Minute)
		w.setDown(false)
		settled(3 * time.Second)
		w.only(map[string]string{})
		a.end()
	})
}

func TestKeeperRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		refuse := func(op string, on bool) {
			w.lock(func() {
				delete(w.refuse, op)
				if on {
					w.refuse[op] = wire.New(wire.CodeStorage, "", "no\u0085 room")
				}
			})
		}
		refuse("start", true)
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(20 * time.Second)
		r := a.world.report()
		if e := r.Slots[0].Exit; e == nil || e.Text != "no  room" || r.Slots[0].State != wire.WorkloadRestarting {
			t.Errorf("not started: %+v", r)
		}
		if _, err := wire.Decode[wire.Workloads](wire.Encode(&r)); err != nil {
			t.Error(err)
		}
		refuse("start", false)
		settled(time.Minute)
		w.only(map[string]string{"web": "one"})
		refuse("stop", true) // it must not count as the end
		a.Manager.Want([]workload.Config{config("web", "two", "")})
		settled(time.Minute)
		if ids := w.running()["web"]; len(ids) != 1 || ids[0] != "one" {
			t.Errorf("not stopped, and there run %v", ids)
		}
		refuse("stop", false)
		refuse("forget", true)
		settled(time.Minute)
		if ids := w.running()["web"]; len(ids) != 1 || ids[0] != "one" && ids[0] != "two" {
			t.Errorf("there run %v", ids)
		}
		refuse("forget", false)
		settled(time.Minute)
		w.only(map[string]string{"web": "two"})
		refuse("get", true)
		a.end()
		a = w.agent()
		settled(time.Minute)
		if got := w.hooks("web"); strings.Count(got, "start") != 2 {
			t.Errorf("what is not known to be missing was started: %s", got)
		}
		refuse("get", false)
		settled(time.Minute)
		w.only(map[string]string{"web": "two"})
		a.end()
	})
}

func TestAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one := config("web", "one", "", workload.HookStop)
		a := w.agent()
		a.Manager.Want([]workload.Config{one})
		settled(time.Minute)
		a.end()
		w.noGroup = true // what runs needs none
		for range 3 {
			asked := w.asked
			a = w.agent()
			settled(time.Minute) // also while nothing is wanted yet
			if got := w.hooks("web"); got != "start" || w.asked != asked+1 || len(w.wanted) != 3 {
				t.Errorf("another agent: %s; it asked %d times, for %v", got, w.asked-asked, w.wanted)
			}
			a.Manager.Want([]workload.Config{one})
			settled(time.Minute)
			w.only(map[string]string{"web": "one"})
			if w.asked != asked+1 {
				t.Error("the same was asked for again")
			}
			a.end()
		}
		w.noGroup = false
		// It ends while there is no agent: the next one knows what it said.
		log := filepath.Join(w.dir, "logs", "web")
		if err := os.MkdirAll(log, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(log+"/process.1", []byte("all well\nno such host\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		w.exit("web", keep.Status{ExitCode: 2})
		a = w.agent()
		synctest.Wait()
		if e := a.world.report().Slots[0].Exit; e == nil || e.Code != 2 || e.Output != "no such host" {
			t.Errorf("its end: %+v", e)
		}
		settled(time.Minute)
		w.only(map[string]string{"web": "one"})
		a.end()
	})
}

// The logs of runs that are taken over are known before the keeper tells of them.
func TestLogsOfAdopted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	m := New(Config{Dir: t.TempDir(), Rules: rules, Resources: newWorld(t), Now: time.Now})
	m.began, m.work = time.Now(), ctx
	c := config("web", "one", "", workload.HookStatus)
	m.add(slotState{Slot: c.Slot, Wanted: &c,
		Main: &place{Config: c, Dir: "c1", Run: "r1",
			Task: &supervise.Task{Hook: workload.HookStatus, Run: "r2", Of: "r1"}}})
	for run, log := range map[string]string{"r1": m.logPath("web"), "r2": m.hookLog("web", workload.HookStatus)} {
		if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(log+".1", []byte("of "+run+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if e := m.exit(keep.Status{ID: run, State: keep.Exited, ExitCode: 1}); e.Output != "of "+run {
			t.Errorf("%s said %q", run, e.Output)
		}
	}
}
