package components

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/component"
	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node around the kind, and its agent: one goroutine that calls what Do and Later give it.
type world struct {
	t     *testing.T
	began time.Time
	calls chan func()
	work  sync.WaitGroup
	ctx   context.Context

	mu     sync.Mutex
	did    []string
	opens  error // of the store
	stages *wire.Error
	store  *played

	c    *Components
	kind kind.Kind
}

// played is a store of files that a test fills.
type played struct {
	updates chan struct{}

	mu   sync.Mutex
	want []workload.Artifact
	has  map[string]fetch.Status // by checksum
}

func (s *played) Want(all []workload.Artifact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want = all
}

func (s *played) Status(a workload.Artifact) fetch.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.has[a.Verification.Checksum]; ok {
		return st
	}
	return fetch.Status{State: fetch.Waiting}
}

func (s *played) Updates() <-chan struct{} { return s.updates }

func (s *played) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// set says how the download of a version stands.
func (s *played) set(version string, st fetch.Status) {
	s.mu.Lock()
	s.has["SHA256:"+strings.TrimPrefix(wire.Hash([]byte(version)), wire.HashPrefix)] = st
	s.mu.Unlock()
	s.updates <- struct{}{}
}

func (s *played) wants() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, a := range s.want {
		all = append(all, fmt.Sprint(a.URLs[0], " ", a.Size, " ", a.Verification.Minisign))
	}
	return strings.Join(all, ",")
}

// The world is the kind's host.
func (w *world) Do(f func()) { w.calls <- f }
func (w *world) Later(work func(context.Context) (then func())) {
	w.work.Go(func() {
		if then := work(w.ctx); then != nil {
			w.Do(then)
		}
	})
}
func (w *world) Report(wire.Kind)              { w.note("report") }
func (w *world) Emit(string, *wire.Error, any) { panic("not used") }

func (w *world) note(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did = append(w.did, fmt.Sprintf(format, a...))
}

// bubble runs f beside a kind at work.
func bubble(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{t: t, began: time.Now(), calls: make(chan func(), 100), ctx: ctx,
			store: &played{updates: make(chan struct{}, 1), has: map[string]fetch.Status{}}}
		w.c = New(Config{
			Dir: "/state", Log: zap.NewNop(),
			Now: func() clock.Now { return clock.Now{Mono: time.Since(w.began), Wall: time.Now()} },
			Open: func(dir string) (Store, error) {
				w.note("open %s", dir)
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.store, w.opens
			},
			Stage: func(_ context.Context, c wire.NodeComponent, path string) (uint64, *wire.Error) {
				w.note("stage %s %s of %s", c.Name, c.Version, path)
				w.mu.Lock()
				defer w.mu.Unlock()
				return 1, w.stages
			},
			Try: func(c wire.NodeComponent) *wire.Error {
				w.note("try %s %s", c.Name, c.Version)
				return nil
			},
		}, w)
		w.kind = w.c.Kind()
		var owner sync.WaitGroup
		owner.Go(func() {
			for f := range w.calls {
				f()
			}
		})
		var run sync.WaitGroup
		run.Go(func() { w.kind.Run(ctx) })
		f(w)
		cancel()
		run.Wait()
		w.work.Wait()
		close(w.calls)
		owner.Wait()
	})
}

// call has the agent's goroutine call f, and waits until nothing moves any more.
func (w *world) call(f func()) {
	w.Do(f)
	synctest.Wait()
}

// document has the node go by a document.
func (w *world) document(text string) {
	w.t.Helper()
	w.call(func() {
		doc := inbox.Doc{Body: []byte(text), Stamp: wire.Stamp{Epoch: 1, Rev: 1}, Hash: wire.Hash([]byte(text))}
		content, errs := w.kind.Check(doc)
		if errs != nil {
			w.t.Error(errs[0])
			return
		}
		doc.Content = content
		if err := w.kind.InForce(doc); err != nil {
			w.t.Error(err)
		}
	})
}

// app says how the component app stands.
func (w *world) app(r update.Record) {
	w.call(func() { w.c.Parts(map[string]component.Part{"app": {Answered: true, Record: r}}) })
}

// expect compares what was done since the last call, and what is reported.
func (w *world) expect(did, report string) {
	w.t.Helper()
	synctest.Wait()
	got := make(chan []byte, 1)
	w.call(func() { got <- w.kind.Detail() })
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := strings.Join(w.did, ", "); all != did {
		w.t.Errorf("did %q, not %q", all, did)
	}
	if text := string(<-got); !strings.Contains(text, report) || report == "" && text != "" {
		w.t.Errorf("reports %s, not %s", text, report)
	}
	w.did = nil
}

// wanted is a document in which the component app has a version.
func wanted(version string) string {
	return `{"formatVersion":"1","components":[{"name":"app","item":"app-x","version":"` + version + `","hash":"` +
		wire.Hash([]byte(version)) + `","size":5,"urls":["https://x/` + version + `"],"minisign":"sig"}]}`
}

// TestFromDocumentToTrial: a file is fetched, staged from where the store has it, and tried.
func TestFromDocumentToTrial(t *testing.T) {
	bubble(t, func(w *world) {
		w.document(wanted("2.0.0"))
		w.expect("", "")
		w.app(update.Record{Has: update.Status{Active: "1.0.0"}})
		w.expect("report, open /state/component-files", `"state":"downloading"`)
		if got := w.store.wants(); got != "https://x/2.0.0 5 sig" {
			t.Errorf("wants %q", got)
		}
		w.store.set("2.0.0", fetch.Status{State: fetch.Failed, Err: wire.New(wire.CodeUnavailable, "", "no road")})
		w.expect("report", `"message":"no road"`)
		w.store.set("2.0.0", fetch.Status{State: fetch.Ready, Path: "/there"})
		w.expect("report, stage app 2.0.0 of /there", `"state":"installing"`)
		w.app(update.Record{Number: 1, Phase: update.Staged, Version: "2.0.0", Hash: wire.Hash([]byte("2.0.0"))})
		w.expect("try app 2.0.0", `"state":"installing"`)
		if got := w.store.wants(); got != "" {
			t.Errorf("what is staged is still wanted: %q", got)
		}
		w.app(update.Record{Number: 1, Has: update.Status{Active: "2.0.0"}})
		w.expect("report", `"state":"installed"`)
		if got := w.kind.Troubles(); got != nil {
			t.Errorf("troubles %q", got)
		}
	})
}

// TestStagedAgain: an attempt in vain is repeated when its pause is over, without anybody's doing.
func TestStagedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		w.stages = wire.New(wire.CodeStorage, "", "the disk is full")
		w.app(update.Record{Has: update.Status{Active: "1.0.0"}})
		w.document(wanted("2.0.0"))
		w.store.set("2.0.0", fetch.Status{State: fetch.Ready, Path: "/there"})
		synctest.Wait()
		w.mu.Lock()
		w.did = nil
		w.mu.Unlock()
		w.expect("", `"message":"the disk is full"`)
		if got := w.kind.Troubles(); fmt.Sprint(got) != "[component:app]" {
			t.Errorf("troubles %q", got)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		w.expect("", `"state":"failed"`)
		time.Sleep(time.Nanosecond)
		w.expect("report, stage app 2.0.0 of /there, report", `"again":`)
	})
}

// TestStoreThatCannotBeOpened: that is told, and tried again.
func TestStoreThatCannotBeOpened(t *testing.T) {
	bubble(t, func(w *world) {
		w.opens = errors.New("the disk is gone")
		w.app(update.Record{Has: update.Status{Active: "1.0.0"}})
		w.document(wanted("2.0.0"))
		synctest.Wait()
		w.mu.Lock()
		w.did, w.opens = nil, nil
		w.mu.Unlock()
		w.expect("", `"message":"the disk is gone"`)
		time.Sleep(time.Minute)
		w.expect("open /state/component-files, report", `"state":"downloading"`)
	})
}

// TestNothingToDo: a node without a document opens no store and reports nothing.
func TestNothingToDo(t *testing.T) {
	bubble(t, func(w *world) {
		w.app(update.Record{Has: update.Status{Active: "1.0.0"}})
		w.document(`{"formatVersion":"1"}`)
		time.Sleep(24 * time.Hour)
		w.expect("", "")
		bad := inbox.Doc{Body: []byte(`{"formatVersion":"1","components":[{"name":"app"}]}`)}
		if _, errs := w.kind.Check(bad); errs == nil {
			t.Error("a document that is malformed is taken")
		}
	})
}
