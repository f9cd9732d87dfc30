package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/wire"
)

// slotted is a patient whose agent is started by the launcher: by the test in its place.
type slotted struct {
	*patient
	store *slot.Store
}

func newSlotted(p *patient) slotted {
	p.deps.LookupEnv = func(name string) (string, bool) { return "a", name == slot.EnvSlot }
	return slotted{p, slot.Open(slot.Config{Dir: filepath.Join(p.dir, slot.Dir), Machine: p.deps.Machine,
		SelfTest: func(context.Context, string) (string, error) { return "2", nil }})}
}

// launch starts the slot that is to run.
func (s slotted) launch(want slot.ID, trial bool) {
	s.Helper()
	if l, err := s.store.Starting().Next(nil); err != nil || l.Slot != want || l.Trial != trial {
		s.Fatalf("%+v %v", l, err)
	}
	s.start()
}

// stage has a version 2 in slot a, armed.
func (s slotted) stage() {
	s.Helper()
	file := filepath.Join(s.TempDir(), "tandem-node")
	if err := os.WriteFile(file, []byte("version 2"), 0o700); err != nil {
		s.Fatal(err)
	}
	if _, err := s.store.Stage(s.Context(), slot.Source{File: file}); err != nil {
		s.Fatal(err)
	}
	if err := s.store.Arm(record.A, 3); err != nil {
		s.Fatal(err)
	}
}

func (s slotted) state(id string) wire.SlotState {
	for _, x := range s.health().Slots {
		if x.ID == id {
			return x.State
		}
	}
	return ""
}

// A site where no controller was heard before: its trial waits for a word, or for somebody at the node. The approval
// outlives a restart of the agent.
func TestApprovalAtTheNode(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.TestTime = 2 * time.Minute
		s := newSlotted(p)
		s.launch("factory", false)
		if err := s.store.Approve("somebody at the node"); err == nil {
			t.Error("what is not on trial is approved")
		}
		p.pass(10 * time.Minute) // nobody is heard: the site is offline
		s.stage()
		p.stop()
		s.launch("a", true)
		p.pass(time.Hour)
		if h := p.health(); h.Trial == nil || !h.Trial.Offline || s.state("a") != wire.SlotInProgress {
			t.Fatalf("%+v", h)
		}
		if err := s.store.Approve("somebody at the node"); err != nil {
			t.Fatal(err)
		}
		p.stop()
		s.launch("a", true)
		p.pass(time.Minute)
		if x := p.health().Trial; x == nil || x.Approval != "somebody at the node" || len(x.WaitsFor) != 1 ||
			x.WaitsFor[0].Code != wire.WaitTestTime {
			t.Errorf("approved, and %+v", x)
		}
		p.pass(3 * time.Minute)
		p.wantTold("trial-started, trial-committed", health.EventTrialStarted, health.EventTrialCommitted,
			health.EventTrialRolledBack)
		if got := s.state("a"); got != wire.SlotActive || p.health().Contact.In {
			t.Errorf("slot a is %s, in contact: %v", got, p.health().Contact.In)
		}
	})
}

// Where an approval is needed, somebody at the node may give it; what is given up by hand is told with the reason.
func TestApprovalThatIsNeededAtTheNode(t *testing.T) {
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
		live(5 * time.Minute)
		if x := p.health().Trial; x == nil || x.Approval != wire.ApprovalNeeded {
			t.Fatalf("%+v", x)
		}
		if err := s.store.Approve("anna"); err != nil {
			t.Fatal(err)
		}
		live(2 * time.Minute)
		p.wantTold("trial-started, trial-committed", health.EventTrialStarted, health.EventTrialCommitted,
			health.EventTrialRolledBack)
		// What was approved was that trial: the next one needs its own.
		p.stop()
		s.launch("a", false)
		file := filepath.Join(p.TempDir(), "tandem-node")
		if err := os.WriteFile(file, []byte("another version 2"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Stage(p.Context(), slot.Source{File: file}); err != nil {
			t.Fatal(err)
		}
		if err := s.store.Arm(record.B, 3); err != nil {
			t.Fatal(err)
		}
		p.stop()
		s.launch("b", true)
		live(5 * time.Minute)
		if x := p.health().Trial; x == nil || x.Approval != wire.ApprovalNeeded {
			t.Errorf("%+v", x)
		}
		if _, err := s.store.Rollback(record.B, wire.BootFallback, "it smells"); err != nil {
			t.Fatal(err)
		}
		live(2 * time.Minute)
		p.wantTold("trial-started, trial-rolled-back fallback", health.EventTrialStarted, health.EventTrialCommitted,
			health.EventTrialRolledBack)
	})
}

// The same of a component.
func TestApprovalOfAComponentAtTheNode(t *testing.T) {
	osBubble(t, func(o osRig) {
		o.cfg.NeedApproval = true
		o.start()
		o.put("wanted", "2")
		o.settle(0)
		o.hearBeacon()
		if err := o.hand(update.Order{What: update.OrderApprove, By: atNode}); err == nil ||
			!strings.Contains(err.Error(), "on trial") {
			t.Errorf("without a trial: %v", err)
		}
		o.stage("2")
		o.wantRefused(o.try("2"), "")
		o.live(5 * time.Minute)
		if x := o.health().Trial; x == nil || x.Component != "os" || x.Approval != wire.ApprovalNeeded {
			t.Fatalf("%+v", x)
		}
		if err := o.hand(update.Order{What: update.OrderApprove, By: atNode}); err != nil {
			t.Fatal(err)
		}
		o.live(3 * time.Minute)
		o.wantTold("trial-started, trial-committed", health.EventTrialStarted, health.EventTrialCommitted,
			health.EventTrialRolledBack)
	})
}
