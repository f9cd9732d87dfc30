package deliver

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"tandem.internal/controller/internal/notify"
	"tandem.internal/controller/internal/view"
)

// longestWait is after how long a worker looks at the clock again, which may have been set back.
const longestWait = time.Minute

// worker tells one receiver. Its goroutine owns the machine.
type worker struct {
	m       *Manager
	to      notify.Receiver
	machine *notify.Machine
	sender  Sender
	shown   atomic.Pointer[view.NoticeReceiver]
	retry   chan struct{} // full: what waits is to be tried now

	changed <-chan struct{} // closed when there is more than was read last

	cancel context.CancelFunc // nil: it does not run
	ended  chan struct{}      // closed when it does not run any more
}

func (m *Manager) newWorker(to notify.Receiver, saved notify.Progress, head notify.Mark, same bool) (*worker, error) {
	sender, err := m.cfg.NewSender(to)
	if err != nil {
		return nil, err
	}
	w := &worker{m: m, to: to, sender: sender, retry: make(chan struct{}, 1), ended: make(chan struct{}),
		machine: notify.New(to, m.cfg.Unit, saved, head, same)}
	w.show()
	return w, nil
}

func (w *worker) show() {
	v := w.machine.Shown()
	w.shown.Store(&v)
}

// start has it run until ctx or stop ends it.
func (w *worker) start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(ctx)
	go func() {
		defer close(w.ended)
		defer w.sender.Close()
		w.run(ctx)
	}()
}

// stop ends it and waits for that.
func (w *worker) stop() {
	if w.cancel != nil {
		w.cancel()
		<-w.ended
	}
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		now := w.m.cfg.Now()
		var happened notify.Event
		switch act := w.machine.Next(now).(type) {
		case notify.Save:
			happened = w.save(act.Progress)
		case notify.Send:
			happened = w.send(ctx, act.Message)
		case notify.Fetch:
			happened = w.fetch(ctx, act)
		case notify.Wait:
			happened = w.wait(ctx, now)
		}
		if happened == nil {
			continue
		}
		w.machine.Step(w.m.cfg.Now(), happened)
		w.show()
	}
	if p, unsaved := w.machine.Unsaved(); unsaved {
		w.machine.Step(w.m.cfg.Now(), w.save(p))
		w.show()
	}
}

func (w *worker) save(p notify.Progress) notify.Event {
	if err := w.m.save(&w.to, p); err != nil {
		return notify.Saved{Err: "how far it has come cannot be written: " + err.Error()}
	}
	return notify.Saved{Progress: p}
}

// send sends a message; nil: it was interrupted.
func (w *worker) send(ctx context.Context, m notify.Message) notify.Event {
	a := w.sender.Send(ctx, m, w.m.cfg.Now())
	if a.Err != "" && ctx.Err() != nil {
		return nil
	}
	return notify.Answered{OK: a.Err == "", Err: a.Err, After: a.After, Chance: w.m.cfg.Chance()}
}

// fetch reads the journal; nil: it was interrupted.
func (w *worker) fetch(ctx context.Context, f notify.Fetch) notify.Event {
	w.changed = w.m.cfg.Journal.Changed() // before reading, so that nothing falls between
	r, err := w.m.cfg.Journal.Notices(ctx, f, w.to.Filter.Reads())
	if err == nil && w.to.Filter.Where != "" {
		err = w.choose(ctx, r.Entries)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return notify.Read{Err: "the journal cannot be read: " + err.Error()}
	}
	return r
}

// choose marks the entries about nodes that the receiver wants, as the nodes are now.
func (w *worker) choose(ctx context.Context, entries []notify.Entry) error {
	var names []string
	for i := range entries {
		if name := entries[i].Node; name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	selected, err := w.m.cfg.Journal.Selected(ctx, w.to.Filter.Where, slices.Compact(names))
	for i := range entries {
		entries[i].Selected = slices.Contains(selected, entries[i].Node)
	}
	return err
}

// wait waits for what the machine waits for; nil: time has come.
func (w *worker) wait(ctx context.Context, now time.Time) notify.Event {
	var due <-chan time.Time
	if at, ok := w.machine.NextDeadline(); ok {
		t := time.NewTimer(min(at.Sub(now), longestWait))
		defer t.Stop()
		due = t.C
	}
	changed := w.changed
	if w.machine.Grew() {
		changed = nil // it is known already
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-changed:
		return notify.Grown{}
	case <-w.retry:
		return notify.Retry{}
	}
	return nil
}
