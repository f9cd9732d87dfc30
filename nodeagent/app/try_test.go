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
