package distribute

import (
	"fmt"
	"testing"
	"time"
)

// Answers of a bounded number of nodes are kept, and none that a clock which was set back has made new.
func TestLooksAreBounded(t *testing.T) {
	var l looks
	now := time.Now()
	for i := range 3*maxLooks + 1 {
		q, mine := l.begin(fmt.Sprint("n", i), now)
		if !mine || len(l.byNode) > maxLooks {
			t.Fatalf("question %d: %v, %d are kept", i, mine, len(l.byNode))
		}
		q.at = now
		close(q.done)
	}
	newest := fmt.Sprint("n", 3*maxLooks)
	for shift, want := range map[time.Duration]bool{0: false, -time.Nanosecond: true} {
		if _, mine := l.begin(newest, now.Add(shift)); mine != want {
			t.Errorf("asked anew %v later: %v", shift, mine)
		}
		q := &looked{done: make(chan struct{}), at: now}
		close(q.done)
		l.byNode[newest] = q
	}
}
