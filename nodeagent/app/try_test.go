package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/wire"
)

// Between an accepted try and the restart half a minute passes. The version that is tried then is the one that the
// order was for, also if the agent crashes in between.
func TestTryAndTheHalfMinute(t *testing.T) {
	healthBubble(t, func(p *patient) {
		s := newSlotted(p)
		s.launch("factory", false)
		file := func(text string) slot.Source {
			name := filepath.Join(p.TempDir(), text)
			if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			return slot.Source{File: name}
		}
		if _, err := s.store.Stage(t.Context(), file("two")); err != nil {
			t.Fatal(err)
		}
		p.pass(10 * time.Second)
		if got := s.state("a"); got != wire.SlotUpdating {
			t.Errorf("slot a is %s once it is written", got)
		}
		p.wantRefused(p.request(wire.MethodTry, wire.Encode(&wire.TryParams{Version: "2"})), "")
		p.pass(10 * time.Second)
		if _, err := s.store.Stage(t.Context(), file("three")); !errors.Is(err, record.ErrTrial) {
			t.Errorf("another version is staged: %v", err)
		}
		p.dead.Store(true)
		p.stop()
		p.dead.Store(false)
		s.launch("a", true)
		p.pass(time.Second)
		if x := p.health().Trial; x == nil || x.Version != "2" {
			t.Errorf("on trial: %+v", x)
		}
	})
}

// The same of a component that takes a reboot: it is asked for again.
func TestTryOfAComponentAndTheHalfMinute(t *testing.T) {
	osBubble(t, func(o osRig) {
		o.put("reboots", "")
		o.cfg.RebootCommand = "reboot"
		o.start()
		o.live(2 * time.Minute)
		o.stage("2")
		o.wantRefused(o.try("2"), "")
		o.wantComponent("updating 1 2 rebooting")
		o.settle(10 * time.Second)
		if got := o.commands(); got != "" {
			t.Errorf("ran %q", got)
		}
		o.crash()
		o.settle(time.Minute)
		if got := o.commands(); strings.Count(got, "reboot TANDEM_REASON=update") != 1 {
			t.Errorf("ran %q", got)
		}
		o.boot()
		o.wantComponent("inprogress 1 2 trying")
		o.wantTold("component-staged, restart-planned update, restart-planned update, trial-started",
			append(componentEvents, health.EventRestartRefused)...)
	})
}

// The controller has the version on trial kept: without its word one that needs an approval stays on trial.
func TestControllerKeepsAVersion(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.TestTime, p.cfg.NeedApproval = 90*time.Second, true
		s := newSlotted(p)
		s.stage()
		s.launch("a", true)
		live := func(d time.Duration) {
			for ; d > 0; d -= time.Minute {
				p.hearBeacon()
				p.pass(time.Minute)
			}
		}
		live(10 * time.Minute)
		if got := s.state("a"); got != wire.SlotInProgress {
			t.Fatalf("not approved, and slot a is %s", got)
		}
		approve := func(version string) *wire.Reply {
			return p.request(wire.MethodApprove, wire.Encode(&wire.ApproveParams{Version: version}))
		}
		p.wantRefused(approve("3"), wire.CodeWrongState)
		p.wantRefused(approve("2"), "")
		live(time.Minute)
		if got := s.state("a"); got != wire.SlotActive || s.slots().Previous != record.Factory {
			t.Errorf("approved, and slot a is %s: %+v", got, s.slots())
		}
		p.wantTold("trial-started, trial-committed", health.EventTrialStarted, health.EventTrialCommitted,
			health.EventTrialRolledBack)
	})
}
