package document

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/view"
)

// What runs has to run for a while before waiting is over, also when something else has failed, and also
// when the limit comes first.
func TestWaitUntilSteady(t *testing.T) {
	slot := func(service, node, why string) view.Slot {
		return view.Slot{Slot: service + "@" + node, Node: node, Online: true, Desired: "c", State: "running", Why: why}
	}
	camera, web := slot("camera", "node-1", "exit status 3"), slot("web", "node-2", "exit status 4")
	const short = "accepted, but what runs had not run for 2s in time"
	fine := view.SlotProgress{Slots: 3, Running: 3}
	coming := view.SlotProgress{Slots: 3, Running: 2, OnlineMissing: 1, Missing: []view.Slot{camera}}
	one := view.SlotProgress{Slots: 3, Running: 2, Failed: 1, Missing: []view.Slot{camera}}
	two := view.SlotProgress{Slots: 3, Running: 1, Failed: 2, Missing: []view.Slot{camera, web}}
	for _, c := range []struct {
		name   string
		stages []view.SlotProgress // a second apart
		limit  time.Duration
		took   time.Duration
		want   string // "" for success
	}{
		{"all runs", []view.SlotProgress{fine}, time.Minute, steady, ""},
		{"it ran only now and then", []view.SlotProgress{fine, coming, fine}, time.Minute, 2*time.Second + steady, ""},
		{"another failure a second later", []view.SlotProgress{one, two}, time.Minute, steady,
			"accepted, but 2 slots failed:\n  camera@node-1: running, exit status 3\n" +
				"  web@node-2: running, exit status 4"},
		{"the limit is shorter", []view.SlotProgress{fine}, time.Second, time.Second, short},
		{"the limit comes meanwhile", []view.SlotProgress{coming, fine}, 2 * time.Second, 2 * time.Second, short},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := command.New(command.IO{
					Out: &strings.Builder{}, Err: &strings.Builder{}, Now: time.Now,
					Env: func(string) (string, bool) { return "", false },
				})
				follow := func(ctx context.Context, each func(stage) error) error {
					for i := range c.stages {
						if i > 0 {
							time.Sleep(time.Second)
						}
						p := view.Progress{Nodes: 2, Online: 2, Installed: 2}
						st := stage{rev: 7, versions: []string{"1.0.0"}, progress: p, slots: &c.stages[i]}
						if err := each(st); err != nil {
							return nil
						}
					}
					<-ctx.Done()
					return ctx.Err()
				}
				began := time.Now()
				o := waitFor(t.Context(), a, follow, view.Result{Rev: 7, Version: "1.0.0"}, c.limit)
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, not %v", took, c.took)
				}
				err := o.failure()
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		})
	}
}

// Of a set that is empty, and of one whose nodes are all away, no more is said than is known.
func TestWaitForNothing(t *testing.T) {
	away := view.Slot{Slot: "web@node-9", Node: "node-9", Desired: "w", State: view.SlotWaiting}
	for want, o := range map[string]outcome{
		"nothing is to run":                         {Slots: &view.SlotProgress{}},
		"nothing runs yet; not reached: web@node-9": {Slots: &view.SlotProgress{Slots: 1, Missing: []view.Slot{away}}},
		"1 job completed":                           {Slots: &view.SlotProgress{Slots: 1, Completed: 1}},
		"no component is to have a version":         {parts: true, Slots: &view.SlotProgress{}},
		"1 component installed; not reached: os@n": {parts: true, Slots: &view.SlotProgress{Slots: 2, Completed: 1,
			Missing: []view.Slot{{Slot: "os@n"}}}},
	} {
		if got := o.slotWords(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Of a controller without a broker nobody knows which nodes are online: waiting does not succeed, but goes on for the
// whole limit, and after it has a broker again for as long as nodes need to come back.
func TestWaitWithoutBroker(t *testing.T) {
	away := view.Progress{Nodes: 2, Missing: []view.Laggard{{Node: "n1"}, {Node: "n2"}}}
	back := view.Progress{Nodes: 2, Online: 1, OnlineMissing: 1, Missing: []view.Laggard{{Node: "n1", Online: true}}}
	done := view.Progress{Nodes: 2, Online: 2, Installed: 2}
	const why = "connection refused"
	for _, c := range []struct {
		name   string
		stages []stage // a second apart
		took   time.Duration
		want   string // "" for success
	}{
		{"all the time", []stage{{progress: away, noBroker: why}}, time.Minute, "unavailable: accepted, but no node " +
			"hears of it: the controller has no session with its broker: " + why},
		{"at the end", []stage{{progress: back}, {progress: away, noBroker: why}}, time.Minute,
			"no session with its broker"},
		{"at first", []stage{{progress: away, noBroker: why}, {progress: away}, {progress: back}, {progress: done}},
			3*time.Second + steady, ""},
		{"never", []stage{{progress: back}, {progress: done}}, time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := command.New(command.IO{
					Out: &strings.Builder{}, Err: &strings.Builder{}, Now: time.Now,
					Env: func(string) (string, bool) { return "", false },
				})
				follow := func(ctx context.Context, each func(stage) error) error {
					for i, st := range c.stages {
						if i > 0 {
							time.Sleep(time.Second)
						}
						st.rev, st.versions = 7, []string{"1.0.0"}
						if err := each(st); err != nil {
							return nil
						}
					}
					<-ctx.Done()
					return ctx.Err()
				}
				began := time.Now()
				o := waitFor(t.Context(), a, follow, view.Result{Rev: 7, Version: "1.0.0"}, time.Minute)
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, not %v", took, c.took)
				}
				err := o.failure()
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		})
	}
}

// Without a time, --wait of apply is 30s, and for a rollout until its end.
func TestWaitUntilTheEnd(t *testing.T) {
	for args, want := range map[string]struct {
		wait time.Duration
		end  bool
	}{
		"": {0, false}, "--wait": {30 * time.Second, true}, "--wait=2m": {2 * time.Minute, false},
		"--wait --wait=30s": {30 * time.Second, false},
	} {
		o := &options{}
		f := pflag.NewFlagSet("apply", pflag.ContinueOnError)
		f.Var(&toTheEnd{&o.wait, o}, "wait", "")
		f.Lookup("wait").NoOptDefVal = defaultWait
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if o.wait.Std() != want.wait || o.toTheEnd != want.end {
			t.Errorf("%s: %s %v, want %+v", args, o.wait.Std(), o.toTheEnd, want)
		}
	}
}
