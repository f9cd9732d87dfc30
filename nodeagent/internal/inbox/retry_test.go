package inbox

import (
	"testing"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// TestTickThatIsNotSaved: the disk refuses a step that time has begun. The next one is wanted later, not at once: the
// agent would do nothing else.
func TestTickThatIsNotSaved(t *testing.T) {
	now := clock.Now{Mono: 20 * time.Second, Wall: epoch}
	doc := Doc{Stamp: wire.Stamp{Epoch: 1, Rev: 1}, Version: "1", Hash: "h", Mode: wire.ModeApply}
	running := map[string]Doc{"a look at what runs": doc}
	for name, flight := range map[string]Flight{
		"a look at what runs":   {},
		"a second attempt":      {Doc: doc, Phase: Waiting, Attempt: 1},
		"the end of a trial":    {Doc: doc, Phase: Trying, Attempt: 1},
		"what was there before": {Doc: doc, Phase: Restoring, Attempt: 1},
		"a third attempt":       {Doc: doc, Phase: Waiting, Attempt: 2},
	} {
		s := New(Durable{High: doc.Stamp, HighHash: doc.Hash, Flight: flight, Running: running[name]}, time.Second)
		if at, ok := s.NextDeadline(); !ok || at > now.Mono {
			t.Fatalf("%s: a tick is wanted at %v, %v", name, at, ok)
		}
		for range 3 {
			s, _ = s.Failed(now, 0, Tick{}, wire.New(wire.CodeStorage, "", "disk full"))
			at, ok := s.NextDeadline()
			if !ok || at <= now.Mono || len(s.stalled) != 0 {
				t.Fatalf("%s: at %v the next tick is wanted at %v, %v; %d events wait", name, now.Mono, at, ok,
					len(s.stalled))
			}
			if next, effects := s.Step(now, 0, Tick{}); len(effects) != 0 || next.busy != opNone {
				t.Errorf("%s: it is tried at once: %v", name, effects)
			}
			now.Mono = at
		}
		if next, effects := s.Step(now, 0, Tick{}); len(effects) == 0 || next.NextDeadlineIs(now.Mono) {
			t.Errorf("%s: it is not tried again: %v", name, effects)
		}
	}
}

// NextDeadlineIs reports whether a tick is wanted at a time, or before.
func (s State) NextDeadlineIs(at time.Duration) bool {
	next, ok := s.NextDeadline()
	return ok && next <= at
}
