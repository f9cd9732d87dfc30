package distribute

import (
	"runtime"
	"sync"

	"tandem.internal/controller/internal/fleet"
)

// item is one entry of the queue: an event for the Fleet, or a look at it.
type item struct {
	event  fleet.Event
	ticket uint64 // under which somebody waits for what becomes of the event; 0: nobody does
	view   func(f *fleet.Fleet, broken error)
}

// queue gathers events for the loop. It is not bounded by itself: every client of the broker waits
// for its message's batch, so there are at most as many as clients may leave unacknowledged.
type queue struct {
	wake   chan struct{} // holds one token while there may be something to take
	closed chan struct{} // closed when nothing is taken any more
	others func()        // lets others run for a turn

	mu    sync.Mutex
	items []item
	done  chan struct{} // closed when the batch that is gathering is durable
	spare []item
	hurry bool // somebody waits for an answer to one of the items
	over  bool
}

func (q *queue) init() {
	q.wake = make(chan struct{}, 1)
	q.closed = make(chan struct{})
	q.done = make(chan struct{})
	q.others = runtime.Gosched
}

// put adds an item. If durable is not nil it gets a channel that is closed when the item's batch
// has been committed. It returns false when the queue is closed.
func (q *queue) put(it item, durable *<-chan struct{}) bool {
	q.mu.Lock()
	if q.over {
		q.mu.Unlock()
		return false
	}
	q.items = append(q.items, it)
	q.hurry = q.hurry || it.view != nil || it.ticket != 0
	first := len(q.items) == 1
	if durable != nil {
		*durable = q.done
	}
	q.mu.Unlock()
	if first {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// roomy reports whether so few items wait that one may be added by somebody who does not wait for it.
func (q *queue) roomy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) < maxRoomy
}

// maxRoomy bounds the queue where nobody waits: a client that repeats itself without pause waits, too.
const maxRoomy = 1024

// take returns what has gathered, at most n items, and the channel to close when it is durable. While
// more gathers, those who bring it are let run first, so that they share one commit, but not for long, and not while
// somebody waits for an answer: where thousands are to run, one turn takes long.
func (q *queue) take(n int) ([]item, chan struct{}) {
	for before, turns := 0, 0; turns < maxTurns; turns++ {
		q.mu.Lock()
		now, hurry := len(q.items), q.hurry
		q.mu.Unlock()
		if now == before || now >= n || hurry {
			break
		}
		before = now
		q.others()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return nil, nil
	}
	items, done := q.items, q.done
	if len(items) <= n {
		q.hurry = false
		q.items, q.spare, q.done = q.spare[:0], nil, make(chan struct{})
		return items, done
	}
	// More than one batch has gathered. All who wait on this channel wait for the last of them;
	// the part that is taken now ends on a channel that nobody has.
	q.items = append([]item(nil), items[n:]...)
	return items[:n:n], make(chan struct{})
}

// maxTurns bounds how often others are let run before a batch is taken.
const maxTurns = 4

// recycle gives an emptied slice back.
func (q *queue) recycle(items []item) {
	clear(items)
	q.mu.Lock()
	if cap(items) > cap(q.spare) {
		q.spare = items[:0]
	}
	q.mu.Unlock()
}

// close refuses further items and lets go those who wait.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.over = true
		close(q.closed)
		close(q.done)
		q.items = nil
	}
}
