// Package deliver tells receivers outside of the unit what package notify decides: by signed HTTP requests. It owns
// their files in the controller's state directory, and a goroutine for each receiver.
//
// It guarantees that
//   - how far a receiver has come is on the disk a second after it has answered at the latest, if the disk takes that:
//     what was delivered after that is sent again after a crash, with the same ID;
//   - a receiver that is slow, or does not answer, delays nobody else, and nothing of the unit: what it waits for stays
//     in the journal;
//   - of a receiver nothing but scheme, host and port of its address is shown, and its secret once;
//   - what was removed, and what Run has returned for, is told nothing any more.
package deliver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/notify"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Journal is what is told of. Its methods are safe for concurrent use, and wait for nobody who writes to it, but for
// Selected and Remark.
type Journal interface {
	// Notices reads entries of some types, in order.
	Notices(ctx context.Context, f notify.Fetch, types []record.Type) (notify.Read, error)
	// Selected names those of some nodes that a filter selects, as they are now.
	Selected(ctx context.Context, where string, nodes []string) ([]string, error)
	// NoticesHead is the newest record; NoticesMark any, and whether it was removed.
	NoticesHead() (notify.Mark, error)
	NoticesMark(seq uint64) (m notify.Mark, gone bool, err error)
	// Changed is closed when there are more.
	Changed() <-chan struct{}
	// Quiet is until when a maintenance is announced; zero: none is.
	Quiet() time.Time
	// Remark writes a note, and returns when it is durable.
	Remark(ctx context.Context, r view.Remark) error
}

// Config says what is told, and how.
type Config struct {
	Dir     string // of the files
	Unit    string
	Journal Journal
	Now     func() time.Time // nil: time.Now

	NewSender func(notify.Receiver) (Sender, error) // nil: NewSender
	Chance    func() float64                        // from 0 up to 1, for pauses; nil: at random
	Random    io.Reader                             // of secrets and IDs; nil: crypto/rand
	Steps     durable.Steps                         // fault seam; nil in production
}

// Manager has the receivers. It is safe for concurrent use.
type Manager struct {
	cfg     Config
	broken  error         // why the file of the receivers cannot be used; nil: it can
	changes chan struct{} // lock for changes, full while it is held; a channel, so that lock can obey a context
	set     atomic.Pointer[notify.Set]

	mu      sync.Mutex
	workers map[string]*worker
	ctx     context.Context // in which workers run; nil: Run was not called, or has ended
}

// Open reads the files. A file of receivers that cannot be used is no error, but told by Trouble: the unit works
// without.
func Open(cfg Config) (*Manager, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewSender == nil {
		cfg.NewSender = NewSender
	}
	if cfg.Chance == nil {
		cfg.Chance = mathrand.Float64
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	m := &Manager{cfg: cfg, changes: make(chan struct{}, 1), workers: map[string]*worker{}}
	var set notify.Set
	if set, m.broken = m.readSet(); m.broken == nil {
		if err := m.tidy(set); err != nil {
			return nil, fmt.Errorf("notices: %w", err)
		}
	}
	m.set.Store(&set)
	head, err := cfg.Journal.NoticesHead()
	if err != nil {
		return nil, fmt.Errorf("notices: %w", err)
	}
	for _, r := range set {
		saved, same, err := m.load(&r)
		if err == nil && same {
			same, err = m.isSame(saved, head)
		}
		var w *worker
		if err == nil {
			w, err = m.newWorker(r, saved, head, same)
		}
		if err != nil {
			return nil, fmt.Errorf("notices: %s: %w", r.Name, err)
		}
		m.workers[r.Name] = w
	}
	return m, nil
}

// isSame reports whether the journal is the one that a receiver was told of.
func (m *Manager) isSame(p notify.Progress, head notify.Mark) (bool, error) {
	if p.Seq == 0 || p.Seq > head.Seq {
		return p.Seq == 0, nil
	}
	at, gone, err := m.cfg.Journal.NoticesMark(p.Seq)
	return at.Hash == p.Hash || gone || p.Hash == "", err
}

// Run tells the receivers until ctx ends, and everything has stopped. It is called once.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.ctx = ctx
	for _, w := range m.workers {
		w.start(ctx)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.ctx = nil
	running := m.workers
	m.workers = map[string]*worker{}
	m.mu.Unlock()
	for _, w := range running {
		w.stop()
	}
	return nil
}

func (m *Manager) lock(ctx context.Context) error {
	select {
	case m.changes <- struct{}{}:
		return nil
	case <-ctx.Done():
		return wire.New(wire.CodeTimeout, "", "the receivers are being changed by somebody else")
	}
}

func (m *Manager) unlock() { <-m.changes }

func (m *Manager) worker(name string) (*worker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.workers[name]
	if !ok {
		return nil, wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no receiver %.80q", name))
	}
	return w, nil
}

// view is how a receiver is.
func (w *worker) view(head uint64) view.NoticeReceiver {
	v := *w.shown.Load()
	if v.Lag = head - min(head, v.Cursor); v.State == "ok" && v.Lag > behindBy {
		v.State = "behind"
	}
	return v
}

// behindBy is how many records a receiver may be behind that is well: those of the moment are not read yet.
const behindBy = 1000

// List returns all receivers, by name.
func (m *Manager) List(context.Context) (op.Notices, error) {
	out := op.Notices{Receivers: []view.NoticeReceiver{}}
	head, err := m.cfg.Journal.NoticesHead()
	if err != nil {
		return out, err
	}
	for _, r := range *m.set.Load() {
		if w, err := m.worker(r.Name); err == nil { // else it was removed a moment ago
			out.Receivers = append(out.Receivers, w.view(head.Seq))
		}
	}
	return out, nil
}

// Show returns one receiver.
func (m *Manager) Show(_ context.Context, in op.NoticeIn) (view.NoticeReceiver, error) {
	w, err := m.worker(in.Receiver)
	if err != nil {
		return view.NoticeReceiver{}, err
	}
	head, err := m.cfg.Journal.NoticesHead()
	return w.view(head.Seq), err
}

// Add adds a receiver. The journal hears of it before it counts.
func (m *Manager) Add(ctx context.Context, in op.NewNotice) (view.NoticeGrant, error) {
	fail := func(err error) (view.NoticeGrant, error) { return view.NoticeGrant{}, err }
	if err := m.lock(ctx); err != nil {
		return fail(err)
	}
	defer m.unlock()
	if m.broken != nil {
		return fail(wire.New(wire.CodeStorage, "", m.broken.Error()))
	}
	r := notify.Receiver{Name: in.Name, URL: in.URL, Filter: notify.Filter(in.NoticeFilter).Completed(), CA: in.CA,
		Insecure: in.Insecure, Always: in.Always, Created: m.cfg.Now().UTC().Truncate(time.Second),
		By: caller.From(ctx).Who()}
	set := *m.set.Load()
	if err := set.Check(&r); err != nil {
		return fail(err)
	}
	var random [8 + len(r.Secret)]byte
	if _, err := io.ReadFull(m.cfg.Random, random[:]); err != nil {
		return fail(err)
	}
	r.ID, r.Secret = hex.EncodeToString(random[:8]), notify.Secret(random[8:])
	begin, err := m.begin(in.After)
	if err != nil {
		return fail(err)
	}
	w, err := m.newWorker(r, begin, notify.Mark{}, true)
	if err != nil {
		return fail(err)
	}
	if err := m.note(ctx, r.Name+" was added: "+about(&r)); err != nil {
		return fail(err)
	}
	next := set.With(r)
	if err := errors.Join(m.save(&r, begin), m.writeSet(next)); err != nil {
		return fail(wire.New(wire.CodeStorage, "", "the receiver was not added: "+err.Error()))
	}
	m.set.Store(&next)
	m.mu.Lock()
	m.workers[r.Name] = w
	if m.ctx != nil {
		w.start(m.ctx)
	}
	m.mu.Unlock()
	return view.NoticeGrant{NoticeReceiver: w.view(begin.Seq), Secret: r.Secret.Text()}, nil
}

// note writes into the journal what became of a receiver.
func (m *Manager) note(ctx context.Context, text string) error {
	return m.cfg.Journal.Remark(ctx, view.Remark{Text: "receiver of notices " + text})
}

// begin is where a new receiver begins: after a record, or after the newest one.
func (m *Manager) begin(after *uint64) (p notify.Progress, err error) {
	head, err := m.cfg.Journal.NoticesHead()
	if err != nil {
		return p, err
	}
	if after != nil {
		if *after > head.Seq {
			return p, wire.New(wire.CodeBadValue, "/after", fmt.Sprintf("the journal's newest record is %d", head.Seq))
		}
		mark, _, err := m.cfg.Journal.NoticesMark(*after)
		return notify.Progress{Seq: mark.Seq, Hash: mark.Hash}, err
	}
	p = notify.Progress{Seq: head.Seq, Hash: head.Hash}
	if until := m.cfg.Journal.Quiet(); !until.IsZero() {
		p.Quiet = notify.Quiet{By: max(head.Seq, 1), Since: m.cfg.Now().UTC().Truncate(time.Second), Until: until}
	}
	return p, nil
}

func (m *Manager) writeSet(set notify.Set) error {
	return durable.WriteFile(filepath.Join(m.cfg.Dir, FileName), set.Encode(), 0o600, m.cfg.Steps)
}

// Remove removes a receiver: nothing is sent to it any more.
func (m *Manager) Remove(ctx context.Context, in op.NoticeIn) (view.NoticeReceiver, error) {
	fail := func(err error) (view.NoticeReceiver, error) { return view.NoticeReceiver{}, err }
	if err := m.lock(ctx); err != nil {
		return fail(err)
	}
	defer m.unlock()
	w, err := m.worker(in.Receiver)
	if err != nil {
		return fail(err)
	}
	if err := m.note(ctx, w.to.Name+" was removed"); err != nil {
		return fail(err)
	}
	next := m.set.Load().Without(w.to.Name)
	if err := m.writeSet(next); err != nil {
		return fail(wire.New(wire.CodeStorage, "", "the receiver was not removed: "+err.Error()))
	}
	m.set.Store(&next)
	m.mu.Lock()
	delete(m.workers, w.to.Name)
	m.mu.Unlock()
	w.stop()
	if err := durable.Remove(m.path(w.to.Name)); err != nil {
		return fail(wire.New(wire.CodeStorage, "", "the receiver was removed, but the file of how far it had come "+
			"was not, and goes at the next start: "+err.Error()))
	}
	head, err := m.cfg.Journal.NoticesHead()
	v := w.view(head.Seq)
	v.State = "stopped"
	return v, err
}

// Test sends a notice to a receiver now, beside what it is told in order. If it arrives, what waits is tried, too.
func (m *Manager) Test(ctx context.Context, in op.NoticeIn) (view.NoticeTest, error) {
	w, err := m.worker(in.Receiver)
	if err != nil {
		return view.NoticeTest{}, err
	}
	var id [8]byte
	if _, err := io.ReadFull(m.cfg.Random, id[:]); err != nil {
		return view.NoticeTest{}, err
	}
	begun := m.cfg.Now()
	msg := notify.Test(m.cfg.Unit, hex.EncodeToString(id[:]), begun, &w.to)
	a := w.sender.Send(ctx, msg, begun)
	if a.Err == "" {
		select {
		case w.retry <- struct{}{}:
		default: // it is to be tried already
		}
	}
	return view.NoticeTest{Name: w.to.Name, ID: msg.ID, OK: a.Err == "", Status: a.Status, Answer: a.Text, Error: a.Err,
		Millis: m.cfg.Now().Sub(begun).Milliseconds()}, nil
}
