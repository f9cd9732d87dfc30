package update

import (
	"fmt"
	"testing"

	"tandem.internal/shared/clock"
)

// The list is bounded: the oldest failure is dropped, and the states of before keep theirs.
func TestQuarantineIsBounded(t *testing.T) {
	now := Now{Now: clock.Now{Wall: epoch}}
	s, _ := New(Record{}).Step(now, Started{})
	var first State
	for i := range maxFailed + 2 {
		version := fmt.Sprint(i)
		for _, ev := range []Event{Order{What: OrderStage, Version: version, Hash: content(version), Size: 1},
			Order{What: OrderTry, By: "anna"}, Ended{Verb: Show}, Ended{Verb: Install, Status: Status{Staged: version}},
			Tick{}, Ended{Verb: Activate, Fault: Failed, Text: "wrong machine"}, Ended{Verb: Rollback}} {
			now.Alone = ev == Tick{}
			s, _ = s.Step(now, ev)
		}
		if first.Quarantine == nil {
			first = s
		}
	}
	if n := len(s.Quarantine); n != maxFailed || s.Quarantine[0].Version != "2" || s.Quarantine[n-1].Version != "17" {
		t.Errorf("%d: %+v", n, s.Quarantine)
	}
	if len(first.Quarantine) != 1 || first.Quarantine[0].Version != "0" {
		t.Errorf("the state of before: %+v", first.Quarantine)
	}
	if r, err := Decode(s.Encode()); err != nil || len(r.Quarantine) != maxFailed {
		t.Errorf("%+v, %v", r.Quarantine, err)
	}
}
