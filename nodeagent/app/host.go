package app

import (
	"context"
	"sync"

	"tandem.internal/shared/wire"
)

// host is the agent as kinds see it, a kind.Host.
type host struct{ a *Agent }

func (h host) Do(f func()) { h.a.posted.add(f) }

func (h host) Later(work func(ctx context.Context) (then func())) {
	h.a.runInBackground(func() func() { return work(h.a.work) })
}

func (h host) Emit(event string, err *wire.Error, detail any) {
	h.Do(func() { h.a.emit(event, err, detail) })
}

func (h host) Report(name wire.Kind) {
	h.Do(func() {
		if d := h.a.kind(name); d != nil {
			h.a.report(d)
		}
	})
}

// posted are functions that wait for the owner to call them, in the order in which they came.
type posted struct {
	news chan struct{} // one slot: there may be some

	mu   sync.Mutex
	list []func()
}

func newPosted() *posted { return &posted{news: make(chan struct{}, 1)} }

// add returns at once; any goroutine may call it.
func (p *posted) add(f func()) {
	p.mu.Lock()
	p.list = append(p.list, f)
	p.mu.Unlock()
	p.signal()
}

func (p *posted) signal() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// take returns the first function; nil: there is none.
func (p *posted) take() (f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) == 0 {
		p.list = nil
		return nil
	}
	f, p.list = p.list[0], p.list[1:]
	if len(p.list) > 0 {
		p.signal()
	}
	return f
}

// startBackground lets work run in the background until the parts that began later have ended.
func (a *Agent) startBackground(s *stops) {
	ctx, cancel := context.WithCancel(context.Background())
	a.work = ctx
	s.add("background work", stopTimeDisk, func() error {
		cancel()
		a.workers.Wait()
		return nil
	})
}

// runInBackground runs work beside the owner; what it returns is the owner's again.
func (a *Agent) runInBackground(work func() (then func())) {
	a.workers.Go(func() { a.posted.add(work()) })
}
