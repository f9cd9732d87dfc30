package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

func TestComponentIsKept(t *testing.T) {
	osBubble(t, func(o osRig) {
		o.start()
		o.settle(time.Second)
		o.wantComponent("active 1")
		o.wantRefused(o.try(""), wire.CodeNotFound)
		o.wantRefused(o.request(wire.MethodTry, wire.Encode(&wire.TryParams{Component: "app"})), wire.CodeNotFound)
		o.stage("2")
		o.wantComponent("updating 1 2 staged")
		if o.has("staged") != "2" || o.has("running") != "1" {
			t.Errorf("staged %q, runs %q", o.has("staged"), o.has("running"))
		}
		o.live(2 * time.Minute)
		o.wantRefused(o.try("3"), wire.CodeNotFound)
		o.wantRefused(o.try("2"), "")
		o.wantComponent("inprogress 1 2 trying")
		if tr := o.health().Trial; tr == nil || tr.Component != "os" || tr.Version != "2" || tr.Slot != "os" {
			t.Errorf("the trial: %+v", tr)
		}
		// One trial on a node at a time.
		busy := slot.Open(slot.Config{Dir: filepath.Join(o.dir, slot.Dir), Machine: o.deps.Machine,
			Busy: func() error { return disk.Busy(o.dir, "") }})
		if err := busy.Arm(record.A, 3); !errors.Is(err, record.ErrTrial) ||
			!strings.Contains(err.Error(), "component os") {
			t.Errorf("a slot beside the component: %v", err)
		}
		if err := o.hand(update.Order{What: update.OrderStage, Version: "3"}); err == nil {
			t.Error("another version is staged in the trial")
		}
		o.live(time.Minute)
		o.wantComponent("inprogress 1 2 trying")
		o.live(time.Minute)
		o.wantComponent("active 2")
		if o.health().Trial != nil || o.has("active") != "2" || o.check(componentCheck+"os") != "absent" {
			t.Errorf("%+v, active %q, check %s", o.health().Trial, o.has("active"), o.check(componentCheck+"os"))
		}
		o.wantTold("component-staged, trial-started, trial-committed", componentEvents...)
		if files, err := filepath.Glob(filepath.Join(o.dir, disk.Dir, "os", "file-*")); err != nil || len(files) != 0 {
			t.Errorf("left: %v %v", files, err)
		}
		o.restart()
		o.settle(time.Second)
		o.wantComponent("active 2")
	})
}

func TestComponentIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name, fails string
		lost        bool
		told, text  string
	}{
		{"install", "install", false, "component-ended", "no sound"},
		{"activate", "activate", false, "component-staged, component-ended", "no sound"},
		{"verify", "verify", false, "component-staged, trial-started, trial-rolled-back fallback", "no sound"},
		{"contact", "", true, "component-staged, trial-started, trial-rolled-back fallback", "no contact"},
	} {
		t.Run(c.name, func(t *testing.T) {
			osBubble(t, func(o osRig) {
				if c.fails != "" {
					o.put("fails", c.fails+"\n")
				}
				o.start()
				o.live(2 * time.Minute)
				o.stage("2")
				if c.fails != "install" {
					o.wantRefused(o.try(""), "")
				}
				if c.lost {
					o.hub.Partition("node/n1")
					o.settle(7 * time.Minute)
					o.hub.Heal("node/n1")
					o.settle(time.Second)
				}
				o.live(2 * time.Minute)
				if got := o.component(); !strings.HasPrefix(got, "active 1 given up: ") ||
					!strings.Contains(got, c.text) {
					t.Errorf("component: %s\n%s", got, o.has("log"))
				}
				if o.has("active") != "1" || o.has("trying") != "" || o.has("staged") != "" || o.has("running") != "1" {
					t.Errorf("active %q, trying %q, staged %q, runs %q", o.has("active"), o.has("trying"),
						o.has("staged"), o.has("running"))
				}
				o.wantTold(c.told, componentEvents...)
				if h := o.health(); h.Boot.Restarts != 1 || h.Trial != nil || h.Restart != nil {
					t.Errorf("the agent: %+v", h)
				}
				if l := o.record().Last; l.Committed || !strings.Contains(l.Why.Detail, c.text) {
					t.Errorf("the record: %+v", l)
				}
			})
		})
	}
}

// The machine dies in every phase: no record gets any further, and what the program has done counts for
// nothing. Afterwards the verb is repeated, and in the end there is a version that the record names.
func TestComponentAndCrashes(t *testing.T) {
	for verb, phase := range map[string]update.Phase{"install": update.Installing, "activate": update.Activating,
		"verify": update.Trying,
		"commit": update.Committing, "rollback": update.RollingBack} {
		t.Run(verb, func(t *testing.T) {
			osBubble(t, func(o osRig) {
				var stuck atomic.Bool
				steps := o.deps.SlotSteps
				o.deps.SlotSteps = func(s durable.Step) error {
					if r, err := o.parts().Read(); s == durable.Create && stuck.Load() && err == nil &&
						r.Phase == phase && (r.Runs > 0 || phase == update.Trying || phase == update.RollingBack) {
						return errors.New("disk: dead")
					}
					return steps(s)
				}
				stuck.Store(true)
				o.start()
				o.live(2 * time.Minute)
				if verb == "rollback" {
					o.put("fails", "verify\n")
				}
				o.stageAnd(update.Order{What: update.OrderTry, By: "bob"})
				if verb == "commit" {
					o.live(2 * time.Minute)
				}
				if r := o.record(); r.Phase != phase || !strings.Contains(o.has("log"), verb+" 2") {
					t.Errorf("%+v\n%s", r, o.has("log"))
				}
				o.dead.Store(true)
				o.stop()
				o.dead.Store(false)
				stuck.Store(false)
				o.start()
				o.settle(time.Second)
				o.live(3 * time.Minute)
				want, told := "2", "component-staged, trial-started, trial-committed"
				if verb == "rollback" {
					want, told = "1", "component-staged, trial-started, trial-rolled-back fallback"
				}
				if l := o.record(); o.has("active") != want || o.has("running") != want || l.Phase != update.None ||
					l.Last.Committed != (want == "2") {
					t.Errorf("active %q, runs %q: %+v\n%s", o.has("active"), o.has("running"), l, o.has("log"))
				}
				o.wantTold(told, componentEvents...)
				if n := strings.Count(o.has("log"), verb+" 2"); n < 2 {
					t.Errorf("%s was run %d times:\n%s", verb, n, o.has("log"))
				}
			})
		})
	}
}

func TestComponentTakesReboots(t *testing.T) {
	osBubble(t, func(o osRig) {
		o.put("reboots", "")
		o.start()
		o.live(2 * time.Minute)
		o.stage("2")
		// Without a command for it the version is not left half way.
		o.wantRefused(o.try(""), "")
		o.settle(time.Second)
		if got := o.component(); !strings.HasPrefix(got, "active 1 given up: ") ||
			!strings.Contains(got, "--reboot-command") {
			t.Errorf("component: %s", got)
		}
		o.wantTold("component-staged, component-ended", componentEvents...)

		o.stop()
		o.cfg.RebootCommand = "reboot"
		o.start()
		o.live(2 * time.Minute)
		o.stage("2")
		o.wantRefused(o.try(""), "")
		o.wantComponent("updating 1 2 rebooting")
		if r := o.health().Restart; r == nil || r.Reason != wire.BootUpdate {
			t.Errorf("restart: %+v", r)
		}
		o.live(time.Minute)
		if got := o.commands(); got != "reboot TANDEM_REASON=update TANDEM_DETAIL=by component os: to try version 2" {
			t.Errorf("ran %q", got)
		}
		o.boot()
		o.wantTold("component-staged, restart-planned update, trial-started", componentEvents...)
		o.wantComponent("inprogress 1 2 trying")
		if b := o.health().Boot; b.Reason != wire.BootUpdate {
			t.Errorf("boot: %+v", b)
		}
		// It fails: back, with a reboot again, and only that leaves it.
		o.put("fails", "verify\n")
		o.live(time.Minute)
		if got := o.component(); !strings.HasPrefix(got,
			"inprogress 1 2 leaving: version 2: component os: verify: failed") {
			t.Errorf("component: %s", got)
		}
		if got := o.check(componentCheck + "os"); !strings.Contains(got, "until the node is rebooted") {
			t.Errorf("check: %s", got)
		}
		o.live(time.Minute)
		if got := o.commands(); !strings.HasPrefix(got,
			"reboot TANDEM_REASON=fallback TANDEM_DETAIL=by component os: version 2: component os: verify") {
			t.Errorf("ran %q", got)
		}
		o.boot()
		o.wantTold("trial-rolled-back fallback, restart-planned fallback", componentEvents...)
		if got := o.component(); !strings.HasPrefix(got, "active 1 given up: ") || o.has("running") != "1" {
			t.Errorf("component: %s, runs %s", got, o.has("running"))
		}
		if b := o.health().Boot; b.Reason != wire.BootFallback {
			t.Errorf("boot: %+v", b)
		}
	})
}

// What is done by hand is seen without a word to the agent; what the settings name no more is left alone.
func TestComponentByHand(t *testing.T) {
	osBubble(t, func(o osRig) {
		o.start()
		o.live(2 * time.Minute)
		o.stageAnd(update.Order{What: update.OrderTry, By: "bob"})
		o.wantComponent("inprogress 1 2 trying")
		if err := o.hand(update.Order{What: update.OrderRollback, By: "bob", Detail: "not today"}); err != nil {
			t.Fatal(err)
		}
		o.settle(6 * time.Second)
		o.wantComponent("active 1 given up: version 2: by bob: not today")
		o.wantTold("component-staged, trial-started, trial-rolled-back fallback", componentEvents...)
		o.stageAnd(update.Order{What: update.OrderTry, By: "bob"})
		if err := o.hand(update.Order{What: update.OrderCommit, By: "bob"}); err != nil {
			t.Fatal(err)
		}
		o.settle(6 * time.Second)
		o.wantComponent("active 2")
		o.wantTold("component-staged, trial-started, trial-committed", componentEvents...)

		o.stage("3")
		o.stop()
		o.cfg.Components = nil
		o.start()
		if got := o.component(); got != "none" {
			t.Errorf("not in the settings: %s", got)
		}
		if err := o.hand(update.Order{What: update.OrderTry, By: "bob"}); err == nil {
			t.Error("a component that nobody cares for is tried")
		}
		o.stop()
		o.cfg.Components = map[string]string{"os": "/bin/sh " + filepath.Join(o.os, "program")}
		o.start()
		o.settle(time.Second)
		o.wantComponent("updating 2 3 staged")
		// Its record is damaged: what was under way is given up.
		o.stop()
		if err := os.WriteFile(filepath.Join(o.dir, disk.Dir, "os", "record"), []byte("nonsense"), 0o644); err != nil {
			t.Fatal(err)
		}
		o.start()
		o.settle(time.Second)
		if got := o.component(); !strings.HasPrefix(got, "active 2 given up: the record of its update was lost") ||
			o.has("staged") != "" {
			t.Errorf("component: %s, staged %q", got, o.has("staged"))
		}
		// A file that was altered after it was staged is not installed.
		o.stop()
		if _, err := o.parts().Stage(context.Background(), filepath.Join(o.os, "wanted"), "4", "", time.Now(),
			func(r update.Record, s update.Order) (update.Record, error) { return byHand(s)(r) }); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(o.parts().File(o.record().Number), []byte("the new two"), 0o644); err != nil {
			t.Fatal(err)
		}
		o.start()
		o.settle(time.Second)
		if got := o.component(); !strings.Contains(got, "not what was staged") ||
			strings.Contains(o.has("log"), "install 4") {
			t.Errorf("component: %s\n%s", got, o.has("log"))
		}
	})
}

// While the node is about to reboot no component is tried.
func TestComponentAndAReboot(t *testing.T) {
	osBubble(t, func(o osRig) {
		o.cfg.RebootCommand = "reboot now"
		o.start()
		o.put("wanted", "2")
		o.stage("2")
		o.wantRefused(o.request(wire.MethodReboot, wire.Encode(&wire.RebootParams{Reason: "a new kernel"})), "")
		o.pass(time.Second)
		o.wantRefused(o.try("2"), wire.CodeWrongState)
		o.settle(10 * time.Second)
		if strings.Contains(o.has("log"), "activate") {
			t.Errorf("it was tried: %s", o.has("log"))
		}
	})
}

func TestComponentSettings(t *testing.T) {
	for _, c := range []struct{ name, command, want string }{
		{"os", "/usr/lib/tandem/rauc-component", ""},
		{"a b", "/x", "is not a name"},
		{"os", " ", "has no command"},
	} {
		cfg := NewConfig("u1", "n1", "mainType", t.TempDir())
		cfg.Components = map[string]string{c.name: c.command}
		if err := cfg.complete(); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v", c.name, c.command, err)
		}
	}
}
