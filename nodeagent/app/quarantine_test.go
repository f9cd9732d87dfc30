package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/wire"
)

// quarantine is what the node reports of what has failed.
func (r *rig) quarantine() string {
	r.Helper()
	var all []string
	for _, q := range r.health().Quarantine {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", q.Component, q.Version, q.Hash[:13])))
	}
	return strings.Join(all, ", ")
}

// stageAgain stages what version 2 holds, under another name.
func (o osRig) stageAgain(force bool) error {
	o.Helper()
	_, err := o.parts().Stage(o.Context(), filepath.Join(o.os, "wanted"), "2-again", "", time.Now(),
		func(r update.Record, s update.Order) (update.Record, error) {
			s.Force = force
			return byHand(s)(r)
		})
	o.settle(6 * time.Second)
	return err
}

// A version of a component that has failed on trial is refused with the reason of before, also by an agent that has
// died in between, until somebody insists and it proves itself.
func TestComponentThatHasFailed(t *testing.T) {
	osBubble(t, func(o osRig) {
		o.put("fails", "verify\n")
		o.start()
		o.live(2 * time.Minute)
		o.stage("2")
		o.wantRefused(o.try("2"), "")
		o.live(time.Minute)
		const held = "os 2 sha256:c7e6a0"
		want := func(quarantine string) {
			t.Helper()
			if got := o.quarantine(); got != quarantine {
				t.Errorf("in quarantine: %q, want %q", got, quarantine)
			}
		}
		want(held)
		if err := o.stageAgain(false); err == nil || !strings.Contains(err.Error(), "version 2 failed here before") ||
			!strings.Contains(err.Error(), "no sound") {
			t.Errorf("staged: %v", err)
		}
		o.crash()
		o.settle(time.Second)
		o.live(2 * time.Minute)
		want(held)
		if err := o.stageAgain(false); err == nil || o.record().Phase != update.None {
			t.Errorf("staged after a crash: %v", err)
		}
		o.put("fails", "")
		if err := o.stageAgain(true); err != nil {
			t.Fatal(err)
		}
		if c := o.health().Components[0]; c.Next != "2-again" || c.Hash != o.record().Quarantine[0].Hash {
			t.Errorf("what is staged: %+v", c)
		}
		o.wantRefused(o.try(""), wire.CodeQuarantined)
		o.wantRefused(o.request(wire.MethodTry,
			wire.Encode(&wire.TryParams{Component: "os", Version: "2-again", Force: true})), "")
		o.live(3 * time.Minute)
		o.wantComponent("active 2-again")
		want("")
		if err := o.stageAgain(false); err != nil {
			t.Error(err)
		}
	})
}

// The same of the agent itself: it was given up for want of contact, and stays so in the slot that runs then.
func TestAgentThatHasFailed(t *testing.T) {
	healthBubble(t, func(p *patient) {
		s := newSlotted(p)
		s.launch("factory", false)
		p.hearBeacon()
		p.pass(time.Minute)
		s.stage()
		p.stop()
		s.launch("a", true)
		p.hub.Partition("node/n1")
		p.pass(10 * time.Minute)
		p.hub.Heal("node/n1")
		p.stop()
		s.launch("factory", false)
		p.hearBeacon()
		p.pass(time.Minute)
		file := filepath.Join(p.TempDir(), "again")
		if err := os.WriteFile(file, []byte("version 2"), 0o700); err != nil {
			t.Fatal(err)
		}
		got, err := s.store.Stage(t.Context(), slot.Source{File: file})
		if err != nil {
			t.Fatal(err)
		}
		if q := p.quarantine(); q != "2 "+got.Hash[:13] {
			t.Errorf("in quarantine: %q", q)
		}
		p.pass(10 * time.Second)
		for _, x := range p.health().Slots {
			if waits := x.State == wire.SlotUpdating; waits != (x.Hash == got.Hash) || !waits && x.Hash != "" {
				t.Errorf("slot %+v", x)
			}
		}
		p.wantRefused(p.request(wire.MethodTry, wire.Encode(&wire.TryParams{})), wire.CodeQuarantined)
		p.wantRefused(p.request(wire.MethodTry, wire.Encode(&wire.TryParams{Force: true})), "")
	})
}
