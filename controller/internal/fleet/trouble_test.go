package fleet

import (
	"fmt"
	"testing"
	"time"
)

// However many senders misbehave, what is remembered of them is bounded, and so is what is journaled; who is quiet
// makes room for others.
func TestTroublesAreBounded(t *testing.T) {
	all, now, journaled := troubles{}, origin, 0
	for i := range 3 * maxTroubled {
		if _, ok := all.admit(now, fmt.Sprint("n", i)); ok {
			journaled++
		}
	}
	if journaled != maxTroubled || len(all) != maxTroubled {
		t.Errorf("%d are journaled, %d senders remembered", journaled, len(all))
	}
	all.admit(now, "n0")
	all.admit(now, "n0")
	now = now.Add(troubleEvery)
	if skipped, ok := all.admit(now, "n0"); !ok || skipped != 2 {
		t.Errorf("after a while: %d skipped, %v", skipped, ok)
	}
	if _, ok := all.admit(now, "another"); !ok || len(all) != 2 {
		t.Errorf("there is no room for another: %v, %d senders", ok, len(all))
	}
	if skipped, ok := all.admit(now.Add(troubleEvery-time.Nanosecond), "n0"); ok || skipped != 0 {
		t.Errorf("too soon: %d skipped, %v", skipped, ok)
	}
}
