package artefact

import (
	"cmp"
	"math"
	"time"
)

// MaxTransfers is how many transfers there are at once, maxOfNode how many of one node.
const (
	MaxTransfers = 16
	maxOfNode    = 4
)

// Bounds of what a node that has to wait is asked to.
const (
	minWait = time.Second
	maxWait = time.Hour
)

// firstMean is taken for the duration of a transfer until some have ended, leastMean whatever they take: those who wait
// are not to come together.
const (
	firstMean = 3 * time.Second
	leastMean = 250 * time.Millisecond
)

// maxWaiting bounds the nodes that are remembered as waiting; what is beyond it waits all the same.
const maxWaiting = 100_000

// Turns says which nodes may fetch now, in at most MaxTransfers transfers; one of the others comes back after a time
// that grows with how many wait and with how long a transfer takes, half of it more or less by chance, so that they do
// not come together. The zero Turns is ready. It belongs to one goroutine, or to a lock.
type Turns struct {
	busy    map[string]int       // transfers, by node
	all     int                  // of them
	mean    time.Duration        // of a transfer, the newest counting most; 0: none has ended
	last    string               // the node of the newest that counted
	waiting map[string]time.Time // when they are back, by node
}

// Take asks for a turn of a node. chance is between 0 and 1. ok: it has one, and gives it back by Done; otherwise wait
// says when it is to ask again.
func (t *Turns) Take(now time.Time, node string, chance float64) (wait time.Duration, ok bool) {
	delete(t.waiting, node)
	for other, back := range t.waiting {
		if now.Sub(back) > maxWait { // it does not come any more
			delete(t.waiting, other)
		}
	}
	if t.all < MaxTransfers && t.busy[node] < maxOfNode {
		if t.busy == nil {
			t.busy = map[string]int{}
		}
		t.all++
		t.busy[node]++
		return 0, true
	}
	rounds := 1 + len(t.waiting)/MaxTransfers
	mean := cmp.Or(t.mean, firstMean)
	wait = time.Duration(math.Min(float64(rounds)*float64(mean)*(0.5+chance), float64(maxWait)))
	wait = max(wait, minWait)
	if t.waiting == nil {
		t.waiting = map[string]time.Time{}
	}
	if len(t.waiting) < maxWaiting {
		t.waiting[node] = now.Add(wait)
	}
	return wait, false
}

// Done gives a turn of a node back that has taken so long.
func (t *Turns) Done(node string, took time.Duration) {
	t.all--
	if t.busy[node]--; t.busy[node] == 0 {
		delete(t.busy, node)
	}
	if node == t.last { // nobody makes the mean by itself, neither by crawling nor by asking for little
		return
	}
	t.last = node
	mean := cmp.Or(t.mean, firstMean)
	t.mean = mean + (min(max(took, leastMean), mean+mean/2)-mean)/8
}

// Busy is how many transfers there are now.
func (t *Turns) Busy() int { return t.all }

// Waiting is how many nodes were asked to come back, and have not yet.
func (t *Turns) Waiting() int { return len(t.waiting) }
