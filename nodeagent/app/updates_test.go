package app

import (
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
)

// A version on trial finds what an earlier one has left in the middle of its own trial; an agent from before, which
// keeps no such record, has run in between. Nobody must be told of that trial again.
func TestRecordOfAnEarlierTrial(t *testing.T) {
	for _, phase := range []update.Phase{update.Trying, update.Committing, update.Leaving, update.Restarting} {
		t.Run(string(phase), func(t *testing.T) {
			healthBubble(t, func(p *patient) {
				s := newSlotted(p)
				s.stage()
				left := update.Record{Number: 7, Phase: phase, Version: "9", Tried: phase != update.Restarting}
				replace := func(update.Record) (update.Record, error) { return left, nil }
				if err := disk.Own(p.dir, nil).Update(time.Now(), replace); err != nil {
					t.Fatal(err)
				}
				s.launch(record.A, true)
				p.pass(time.Second)
				if x := p.health().Trial; x == nil || x.Version != "2" || x.Slot != "a" || x.Component != "" {
					t.Errorf("on trial: %+v", x)
				}
				p.wantTold("trial-started",
					health.EventTrialStarted, health.EventTrialCommitted, health.EventTrialRolledBack)
			})
		})
	}
}
