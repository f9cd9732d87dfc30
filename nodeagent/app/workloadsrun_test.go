package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// works is a keeper that outlives agents, with resources that are all there and no control groups.
type works struct {
	file    string
	updates chan struct{}

	mu      sync.Mutex
	runs    map[string]keep.Status
	started []string
	changed chan struct{} // closed at each change
}

func newWorks(r *rig) *works {
	w := &works{file: filepath.Join(r.TempDir(), "resource"), updates: make(chan struct{}),
		runs: map[string]keep.Status{}, changed: make(chan struct{})}
	if err := os.WriteFile(w.file, []byte("#!/bin/sh\n"), 0o500); err != nil {
		r.Fatal(err)
	}
	r.deps.Keeper = func(context.Context) (workloads.Keeper, error) { return w, nil }
	r.deps.Resources, r.deps.Groups = w, w
	return w
}

func (w *works) Want([]workload.Artifact)  {}
func (w *works) Retry([]workload.Artifact) {}

func (w *works) Use(_ context.Context, _ string, all map[string]workload.Artifact) (map[string]string, error) {
	paths := map[string]string{}
	for name := range all {
		paths[name] = w.file
	}
	return paths, nil
}

func (w *works) Free(string) {}

func (w *works) Used(string, map[string]workload.Artifact) {}

func (w *works) Outdated(string) string   { return "" }
func (w *works) Updates() <-chan struct{} { return w.updates }
func (w *works) Look(workload.Artifact) workloads.Resource {
	return workloads.Resource{Path: w.file}
}
func (w *works) Enter(string, string, map[string]string) (dirs []string, err error) { return nil, nil }
func (w *works) Leave(string) error                                                 { return nil }
func (w *works) Usage(_ string, pid int) wire.WorkloadProcess {
	return wire.WorkloadProcess{PID: pid}
}

// Limits are not known.
func (w *works) Limits() string { return "" }

// Check refuses what is to have a limit of memory.
func (w *works) Check(constraints map[string]string, at string) (errs []*wire.Error) {
	if _, ok := constraints["memory.limit_in_bytes"]; ok {
		errs = append(errs, wire.New(wire.CodeNotSupported, at+"/memory.limit_in_bytes", "no control groups here"))
	}
	return errs
}

func (w *works) set(id string, st keep.Status) keep.Status {
	st.ID = id
	w.runs[id] = st
	close(w.changed)
	w.changed = make(chan struct{})
	return st
}

func (w *works) Clear(_ context.Context, dir string) error { return os.RemoveAll(dir) }

func (w *works) Get(_ context.Context, id string) (keep.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if st, ok := w.runs[id]; ok {
		return st, nil
	}
	return keep.Status{}, wire.New(wire.CodeNotFound, "/id", "no such run")
}

func (w *works) Start(_ context.Context, run keep.Run) (keep.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if st, ok := w.runs[run.ID]; ok {
		return st, nil
	}
	w.started = append(w.started, filepath.Base(run.Argv[0]))
	return w.set(run.ID, keep.Status{State: keep.Running, PID: 100 + len(w.started), Started: time.Now()}), nil
}

func (w *works) Stop(_ context.Context, id string, _ time.Duration) (keep.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set(id, keep.Status{State: keep.Exited, Signal: 15, Cause: keep.CauseStop, Ended: time.Now()}), nil
}

func (w *works) Forget(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.runs, id)
	return nil
}

func (w *works) Follow(ctx context.Context, each func(keep.Status)) error {
	for {
		w.mu.Lock()
		var all []keep.Status
		for _, st := range w.runs {
			all = append(all, st)
		}
		changed := w.changed
		w.mu.Unlock()
		for _, st := range all {
			each(st)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// starts is how many processes were ever started.
func (w *works) starts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.started)
}

// startFrom is the member resources of an instance whose start hook is fetched from this URL.
func startFrom(url string) string {
	return fmt.Sprintf(`,"resources":{"iss_hook_start":{"@class":"Resource","uuid":"start","urls":[%q],"size":0,`+
		`"verification":{"checkPeriod":"0d0h0m"}}}`, url)
}

// duty makes a document of kind workloads of instances, each given as its slot and more members.
func duty(rev uint64, configs ...string) *wire.Desired {
	d := doc(1, rev)
	d.Kind = wire.KindWorkloads
	for i, c := range configs {
		slot, more, _ := strings.Cut(c, " ")
		if !strings.Contains(more, `"resources"`) {
			more += startFrom("http://127.0.0.1:1/start")
		}
		configs[i] = fmt.Sprintf(`{"@class":"Instance","configurationId":"c%d","slot":%q%s}`, rev, slot, more)
	}
	return with(d, `{"formatVersion":"1","workloads":[`+strings.Join(configs, ",")+`]}`)
}

// duties is the newest report of kind workloads: in short, and its slots.
func (r *rig) duties() (string, []wire.WorkloadSlot) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.reports[wire.KindWorkloads]
	if len(all) == 0 {
		return "none", nil
	}
	newest := all[len(all)-1]
	if len(newest.Detail) == 0 {
		return short(newest), nil
	}
	w, err := wire.Decode[wire.Workloads](newest.Detail)
	if err != nil {
		r.Fatalf("%v: %s", err, newest.Detail)
	}
	return short(newest), w.Slots
}

// wantSlot checks the only slot's state and configuration.
func (r *rig) wantSlot(state wire.WorkloadState, id string) {
	r.Helper()
	report, slots := r.duties()
	if len(slots) != 1 || slots[0].State != state || slots[0].ID != id {
		r.Errorf("%s %+v, want %s of %s", report, slots, state, id)
	}
}

func TestWorkloads(t *testing.T) {
	bubble(t, func(r *rig) {
		w := newWorks(r)
		r.start()
		r.desire(duty(1, "web@n1"))
		r.pass(time.Second)
		if report, _ := r.duties(); report != "1/1 installed" {
			t.Errorf("reported %s", report)
		}
		r.wantSlot(wire.WorkloadRunning, "c1")
		r.restart() // and its process goes on
		r.pass(time.Second)
		r.wantSlot(wire.WorkloadRunning, "c1")
		if n := w.starts(); n != 1 {
			t.Errorf("%d processes were started", n)
		}
		if e := r.request(wire.MethodLogs, []byte(`{"service":"web"}`)).Error; e != nil {
			t.Errorf("logs: %v", e)
		}
		if e := r.request(wire.MethodLogs, []byte(`{"service":"db"}`)).Error; e == nil || e.Code != wire.CodeNotFound {
			t.Errorf("logs of a slot that is not there: %v", e)
		}
		if e := r.request(wire.MethodLogs, []byte(`{"service":"web","tail":-1}`)).Error; e == nil ||
			e.Path != "/params/tail" {
			t.Errorf("logs: %v", e)
		}
		if e := r.request(wire.MethodRestart, []byte(`{"service":"web"}`)).Error; e != nil {
			t.Errorf("restart: %v", e)
		}
		r.pass(time.Second)
		r.wantSlot(wire.WorkloadRunning, "c1")
		if n := w.starts(); n != 2 {
			t.Errorf("after an ordered restart, %d processes were started", n)
		}
		if e := r.request(wire.MethodRestart, []byte(`{"service":"db"}`)).Error; e == nil ||
			e.Code != wire.CodeNotFound {
			t.Errorf("restart of a slot that is not there: %v", e)
		}
		r.desire(try(duty(2, `web@n1 ,"properties":{"port":"2"}`), "PT60S"))
		r.pass(10 * time.Second)
		r.wantSlot(wire.WorkloadRunning, "c2")
		r.pass(2 * time.Minute) // nobody confirms it
		r.wantSlot(wire.WorkloadRunning, "c1")
		if report, _ := r.duties(); report != "1/2 rolledback unconfirmed" {
			t.Errorf("reported %s", report)
		}
		r.desire(duty(3))
		r.pass(time.Minute)
		if report, slots := r.duties(); report != "3/3 installed" || len(slots) != 0 {
			t.Errorf("emptied: %s %+v", report, slots)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.runs) != 0 {
			t.Errorf("left are %v", w.runs)
		}
	})
}

func TestWorkloadsRefused(t *testing.T) {
	torrent := startFrom("rbtorrent:9c3f48a7610df11c9eaefaecd72591a39c3f48a7")
	bubble(t, func(r *rig) {
		w := newWorks(r)
		r.start()
		for i, c := range []struct {
			doc  *wire.Desired
			want string
		}{
			{duty(1, "web@n2"), "wrong-target /slot"},
			{duty(2, "web@n1", `db@n1 ,"container":{"constraints":{"memory.limit_in_bytes":"1G"}}`),
				"not-supported /container/constraints/memory.limit_in_bytes"},
			{duty(3, "web@n1 "+torrent), "not-supported /resources/iss_hook_start/urls"},
			{with(duty(4), `{"formatVersion":"1"}`), "missing /workloads"},
		} {
			r.desire(c.doc)
			r.mu.Lock()
			all := r.reports[wire.KindWorkloads]
			last := all[len(all)-1].Last
			r.mu.Unlock()
			if last.State != wire.StateRejected || string(last.Error.Code)+" "+last.Error.Path != c.want {
				t.Errorf("%d: %s %v, want %s", i, last.State, last.Error, c.want)
			}
			// Nobody but the node sees the document: its error says which slot it is about.
			if slot := "slot " + []string{"web@n2", "db@n1", "web@n1", ""}[i]; i < 3 &&
				!strings.HasPrefix(last.Error.Message, slot) {
				t.Errorf("%d: %q, want %s", i, last.Error.Message, slot)
			}
		}
		if n := w.starts(); n != 0 {
			t.Errorf("%d processes were started", n)
		}
	})
}

// A node whose owner wants no workloads runs none, whoever asks for it.
func TestNoWorkloads(t *testing.T) {
	bubble(t, func(r *rig) {
		w := newWorks(r)
		r.cfg.Workloads = false
		r.start()
		r.desire(duty(1, "web@n1"))
		if report, _ := r.duties(); report != "-/1 rejected not-allowed" {
			t.Errorf("reported %s", report)
		}
		r.desire(duty(2)) // nothing is nothing
		if report, _ := r.duties(); report != "2/2 installed" {
			t.Errorf("reported %s", report)
		}
		if n := w.starts(); n != 0 {
			t.Errorf("%d processes were started", n)
		}
	})
}

// A process that ends at each start fills neither the disk nor the link with events, and the next one that is sent
// says how many were not.
func TestManyExits(t *testing.T) {
	bubble(t, func(r *rig) {
		w := newWorks(r)
		r.start()
		r.desire(duty(1, "web@n1"))
		for i := range 40 {
			r.pass(3 * time.Second)
			w.mu.Lock()
			for id := range w.runs { // another exit status each time: an end like no other
				w.set(id, keep.Status{State: keep.Exited, ExitCode: 1 + i, Ended: time.Now()})
			}
			w.mu.Unlock()
		}
		r.pass(3 * time.Second)
		exits, suppressed := 0, uint64(0)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range r.events {
			if e.Type != event.WorkloadExit {
				continue
			}
			var d event.WorkloadDetail
			if err := json.Unmarshal(e.Detail, &d); err != nil {
				t.Fatal(err)
			}
			exits, suppressed = exits+1, suppressed+d.Suppressed
		}
		if exits < 8 || exits > 12 || suppressed == 0 {
			t.Errorf("of 40 ends, %d events say that there were %d more", exits, suppressed)
		}
	})
}
