package app

import (
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/wire"
)

// A reboot command that says nothing and does nothing: ten minutes later the reboot counts as one that
// did not happen, and explains no later end.
func TestRebootThatDoesNotHappen(t *testing.T) {
	types := []string{health.EventBoot, health.EventRestartPlanned, health.EventRestartFailed}
	careBubble(t, func(p *patient) {
		p.cfg.RebootCommand = "reboot now"
		p.start()
		p.wantRefused(p.request(wire.MethodReboot, wire.Encode(&wire.RebootParams{Reason: "a new kernel"})), "")
		p.pass(40 * time.Second)
		if n := p.slots().Next; n == nil || n.Reason != "reboot-command" {
			t.Fatalf("the record says %+v", n)
		}
		p.pass(9 * time.Minute)
		p.wantTold("boot first 1, restart-planned reboot-command", types...)
		p.pass(2 * time.Minute)
		p.wantTold("restart-failed reboot-command", types...)
		if n := p.slots().Next; n != nil {
			t.Errorf("the record still says %+v", n)
		}
		p.crash()
		p.wantTold("boot fatal 2", types...)
	})
}

// What ends a maintenance that is believed, and what begins one: a beacon that says so, whether the
// controller is up or goes down in order; not a controller that goes down without a word, nor a beacon
// of the past.
func TestMaintenanceAndTheWill(t *testing.T) {
	careBubble(t, func(p *patient) {
		p.start()
		resting := func(want bool, after string) {
			t.Helper()
			if got := !p.health().Maintenance.IsZero(); got != want {
				t.Errorf("%s: maintenance is believed: %v", after, got)
			}
		}
		p.pass(time.Second)
		began := time.Now()
		p.hearBeacon()
		p.pass(time.Second)
		p.sayBeacon(true, time.Now(), time.Hour)
		resting(true, "announced")
		p.pass(time.Second)
		p.sayBeacon(false, began, 0) // made when the session began
		resting(true, "after the last will")
		if h := p.health(); h.Contact.In || h.Contact.Result != wire.ContactFailure {
			t.Errorf("after the last will: %+v", h.Contact)
		}
		p.sayBeacon(false, time.Now(), 0)
		resting(true, "after a goodbye that announces nothing")
		p.pass(2 * time.Hour)
		resting(false, "when its time is over")
		p.hearBeacon()
		p.pass(time.Second)
		p.sayBeacon(false, time.Now(), time.Hour)
		resting(true, "after a goodbye that announces one")
		if h := p.health(); h.Contact.In {
			t.Errorf("after a goodbye: %+v", h.Contact)
		}
		p.pass(time.Second)
		p.sayBeacon(true, began, 0)
		resting(true, "after a beacon of the past")
		p.hearBeacon()
		resting(false, "when the controller is back")
	})
}
