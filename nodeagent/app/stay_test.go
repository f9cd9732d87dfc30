package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
)

// A reboot command that says nothing and does nothing: ten minutes later the reboot counts as one that
// did not happen, and explains no later end.
func TestRebootThatDoesNotHappen(t *testing.T) {
	types := []string{health.EventBoot, health.EventRestartPlanned, health.EventRestartFailed}
	healthBubble(t, func(p *patient) {
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

// One that hangs is killed, so that the machine does not go down hours later without a reason, and an order after it is
// not taken for the one that failed.
func TestRebootCommandThatHangs(t *testing.T) {
	types := []string{health.EventRestartPlanned, health.EventRestartFailed}
	healthBubble(t, func(p *patient) {
		p.cfg.RebootCommand = "reboot now"
		var began, killed atomic.Int64
		p.deps.RunCommand = func(ctx context.Context, _, argv []string) error {
			if argv[0] != "reboot" {
				return nil
			}
			began.Add(1)
			<-ctx.Done()
			killed.Add(1)
			return ctx.Err()
		}
		p.start()
		reboot := wire.Encode(&wire.RebootParams{Reason: "a new kernel"})
		p.wantRefused(p.request(wire.MethodReboot, reboot), "")
		p.pass(10*time.Minute + 25*time.Second)
		if began.Load() != 1 || killed.Load() != 0 {
			t.Errorf("%d began, %d killed", began.Load(), killed.Load())
		}
		p.pass(10 * time.Second)
		p.wantTold("restart-planned reboot-command, restart-failed reboot-command", types...)
		p.wantRefused(p.request(wire.MethodReboot, reboot), "")
		p.pass(2 * time.Minute)
		if began.Load() != 2 || killed.Load() != 1 {
			t.Errorf("%d began, %d killed", began.Load(), killed.Load())
		}
		p.wantTold("restart-planned reboot-command", types...)
	})
}

// A broker that is there and cannot serve is the temporary failure of the seed: the controller's side answers.
func TestBrokerThatCannotServe(t *testing.T) {
	healthBubble(t, func(p *patient) {
		var ears link.Handler
		p.deps.NewLink = func(cfg link.Config, h link.Handler) (link.Link, error) {
			ears = h
			return p.link(cfg, h)
		}
		p.start()
		p.pass(time.Second)
		p.hearBeacon()
		for _, c := range []struct {
			err  error
			want wire.ContactResult
		}{{link.ErrRefused, wire.ContactSuccess},
			{fmt.Errorf("%w: %w", link.ErrRefused, link.ErrUnavailable), wire.ContactTemporary}} {
			p.hub.Partition("node/n1")
			p.pass(time.Second)
			ears.Down(0, c.err)
			p.pass(time.Second)
			p.hub.Heal("node/n1")
			p.pass(2 * time.Minute)
			if got := p.health().Contact.Result; got != c.want {
				t.Errorf("after %v the newest attempt is %q", c.err, got)
			}
		}
	})
}

// A maintenance is as long as the controller says, whatever the node's clock says.
func TestMaintenanceByAnotherClock(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.deps.Now = func() time.Time { return time.Now().Add(-3 * time.Hour) }
		p.start()
		p.pass(time.Second)
		p.announce(time.Hour)
		if left := p.health().Maintenance.Sub(p.deps.Now()); left < 59*time.Minute || left > time.Hour {
			t.Errorf("the clocks stand still for %v", left)
		}
		p.pass(59 * time.Minute)
		if p.health().Maintenance.IsZero() {
			t.Error("it is over before its time")
		}
		p.pass(2 * time.Minute)
		if until := p.health().Maintenance; !until.IsZero() {
			t.Errorf("it is not over, but until %v", until)
		}
	})
}

// What ends a maintenance that is believed, and what begins one: a beacon that says so, whether the
// controller is up or goes down in order; not a controller that goes down without a word, nor a beacon
// of the past.
func TestMaintenanceAndTheWill(t *testing.T) {
	healthBubble(t, func(p *patient) {
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
