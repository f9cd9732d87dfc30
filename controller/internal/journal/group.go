package journal

import (
	"runtime"
	"sync"
)

// Group lets many goroutines append single records and shares the commits among them: while one
// batch is on its way to the disk the next one gathers. A caller that already owns a queue, as
// the controller's loop does, appends batches itself and needs no Group.
type Group struct {
	j    *Journal
	max  int
	wake chan struct{} // one slot: something was queued, or stop
	done chan struct{} // closed when the committing goroutine has ended

	mu      sync.Mutex
	queue   []*share // oldest first; only the last one still takes records
	stopped bool
}

// share is one batch in the making, and then its outcome.
type share struct {
	batch Batch
	done  chan struct{} // closed when first and err are final
	first uint64
	err   error
}

// NewGroup starts the goroutine that commits at most maxBatch records at a time (4096 if it is
// below 1). Close stops it.
func NewGroup(j *Journal, maxBatch int) *Group {
	if maxBatch < 1 {
		maxBatch = 4096
	}
	g := &Group{j: j, max: maxBatch, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go g.commit()
	return g
}

// Append returns r's sequence number when r is durable, or what Journal.Append says. An invalid
// record is refused alone.
func (g *Group) Append(r Record) (uint64, error) {
	if err := checkRecord(&r); err != nil {
		return 0, invalid(err)
	}
	g.mu.Lock()
	if g.stopped {
		g.mu.Unlock()
		return 0, errClosed()
	}
	var s *share
	if n := len(g.queue); n > 0 && len(g.queue[n-1].batch.Records) < g.max {
		s = g.queue[n-1]
	} else {
		s = &share{done: make(chan struct{})}
		g.queue = append(g.queue, s)
	}
	i := len(s.batch.Records)
	s.batch.Records = append(s.batch.Records, r)
	g.mu.Unlock()
	if i == 0 {
		g.poke()
	}
	<-s.done
	if s.err != nil {
		return 0, s.err
	}
	return s.first + uint64(i), nil
}

// Close commits what is queued, refuses the rest, and waits for the end. It does not close the
// journal.
func (g *Group) Close() {
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	g.poke()
	<-g.done
}

func (g *Group) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// commit is the goroutine that owns the appending.
func (g *Group) commit() {
	defer close(g.done)
	for range g.wake {
		for {
			s, stopped := g.take()
			if s == nil {
				if stopped {
					return
				}
				break
			}
			s.first, s.err = g.j.Append(&s.batch)
			close(s.done)
		}
	}
}

// take returns the oldest share, after giving those whom the last commit woke the chance to join
// it: as long as it grows, they are let run first.
func (g *Group) take() (s *share, stopped bool) {
	for size := -1; ; runtime.Gosched() {
		g.mu.Lock()
		if len(g.queue) == 0 {
			stopped = g.stopped
			g.mu.Unlock()
			return nil, stopped
		}
		s = g.queue[0]
		if n := len(s.batch.Records); n > size && n < g.max {
			size = n
			g.mu.Unlock()
			continue
		}
		g.queue[0] = nil
		g.queue = g.queue[1:]
		g.mu.Unlock()
		return s, false
	}
}
