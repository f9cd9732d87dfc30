package policies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/nodeagent/internal/policy"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node around the kind. It outlives runs of it.
type world struct {
	t     *testing.T
	dir   string
	began time.Time
	steps durable.Steps

	mu      sync.Mutex
	events  []string
	reports int
	staged  []string
	answer  func() (uint64, *wire.Error, bool)
	opened  bool
	opens   int
	serves  bool
	store   *played // of this run

	p    *Policies
	kind kind.Kind
	stop func()
}

// played is a store of releases that a test fills.
type played struct {
	updates chan struct{}

	mu   sync.Mutex
	want []workload.Artifact
	kept []workload.Artifact
	st   fetch.Status

	keeps bool // what it has, when something is wanted
}

func (s *played) WantKeeping(all, kept []workload.Artifact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = kept
	if s.want = all; !s.keeps {
		s.st = fetch.Status{State: fetch.Waiting}
	}
}

func (s *played) Status(workload.Artifact) fetch.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st
}

func (s *played) Updates() <-chan struct{} { return s.updates }

func (s *played) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// set says how the download stands.
func (s *played) set(st fetch.Status) {
	s.mu.Lock()
	s.st = st
	s.mu.Unlock()
	s.updates <- struct{}{}
}

func (s *played) wants() string { return s.list(&s.want) }

func (s *played) keepsFor() string { return s.list(&s.kept) }

func (s *played) list(of *[]workload.Artifact) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, a := range *of {
		all = append(all, a.URLs[0]+" "+a.Verification.Checksum)
	}
	return strings.Join(all, ",")
}

// The world is the kind's host.
func (w *world) Do(f func())                               { f() }
func (w *world) Later(func(context.Context) (then func())) { panic("not used") }
func (w *world) Report(wire.Kind)                          { w.mu.Lock(); w.reports++; w.mu.Unlock() }
func (w *world) Emit(kind string, err *wire.Error, detail any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := detail.(event.PolicyDetail)
	text := kind + " " + string(d.State)
	if d.Suppressed > 0 {
		text += fmt.Sprint(" after ", d.Suppressed)
	}
	w.events = append(w.events, text)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), began: time.Now()}
	w.answer = func() (uint64, *wire.Error, bool) { return 1, nil, false }
	return w
}

// start runs the kind.
func (w *world) start() {
	w.t.Helper()
	w.store, w.opened = &played{updates: make(chan struct{})}, false
	p, err := New(Config{
		Dir: w.dir, Log: zap.NewNop(), Steps: w.steps, Serves: w.serves, Chance: func() float64 { return 0.5 },
		Now: func() clock.Now { return clock.Now{Mono: time.Since(w.began), Wall: time.Now()} },
		Open: func(dir string) (Store, error) {
			if want := filepath.Join(w.dir, releasesDir); dir != want {
				w.t.Errorf("the store is in %s, want %s", dir, want)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.opened = true
			w.opens++
			return w.store, nil
		},
		Stage: func(_ context.Context, r wire.AgentRelease, path, by string) (uint64, *wire.Error, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.staged = append(w.staged, fmt.Sprint(r.Version, " from ", path, " by ", by))
			return w.answer()
		},
	}, w)
	if err != nil {
		w.t.Fatal(err)
	}
	w.p, w.kind = p, p.Kind()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.kind.Run(ctx) }()
	w.stop = func() { cancel(); <-done }
	synctest.Wait()
}

// restart ends the run and begins the next, with a document.
func (w *world) restart(body string, u policy.Update) {
	w.stop()
	w.start()
	w.desire(body)
	w.p.Updated(u)
	synctest.Wait()
}

// answers says how a staging ends from now on.
func (w *world) answers(number uint64, err *wire.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = func() (uint64, *wire.Error, bool) { return number, err, false }
}

// has returns whether the store was opened, and the events.
func (w *world) has() (bool, []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened, slices.Clone(w.events)
}

func (w *world) desire(body string) {
	w.t.Helper()
	doc := inbox.Doc{Body: []byte(body), Stamp: wire.Stamp{Epoch: 1, Rev: 1}}
	content, errs := w.kind.Check(doc)
	if errs != nil {
		w.t.Fatal(errs[0])
	}
	doc.Content = content
	if err := w.kind.InForce(doc); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) is(want string) {
	w.t.Helper()
	r, err := wire.Decode[wire.PoliciesReport](w.kind.Detail())
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, st := range r.Policies {
		text := st.Name + " " + string(st.State)
		if st.Error != nil {
			text += " " + string(st.Error.Code)
		}
		got = append(got, text)
	}
	if text := strings.Join(got, ","); text != want {
		w.t.Errorf("%q, want %q", text, want)
	}
}

const hash = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func document(start time.Time, seconds int) string {
	return fmt.Sprintf(`{"formatVersion":"1","policies":[{"name":"p","rev":1,"agentUpgradePolicy":`+
		`{"atLeastVersion":"current","start":%q,"duration":%d}}],"agents":[{"version":"1.1.0","hash":%q,"size":5,`+
		`"urls":["https://c/a"]}]}`, start.UTC().Format(time.RFC3339), seconds, hash)
}

var running = policy.Update{Running: "1.0.0", Slots: true}

// TestWay: from the document to a version that is kept, with a restart of the agent at every step.
func TestWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		body := document(time.Now(), 3600)
		w.start()
		if w.kind.Detail() != nil {
			t.Error("a node without policies reports some")
		}
		w.desire(body)
		w.is("p waiting") // how the agent stands is not known yet
		w.p.Updated(running)
		synctest.Wait()
		w.is("p waiting")
		w.restart(body, running)
		if opened, _ := w.has(); opened {
			t.Error("a store is opened, and nothing is needed yet")
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		w.is("p download-started")
		w.restart(body, running)
		if got := w.store.wants(); got != "https://c/a SHA256:"+hash[len("sha256:"):] {
			t.Errorf("wants %q", got)
		}
		w.store.set(fetch.Status{State: fetch.Failed, Turn: true, Err: wire.New(wire.CodeUnavailable, "", "others")})
		synctest.Wait()
		w.is("p download-started unavailable")
		w.store.set(fetch.Status{State: fetch.Failed, Err: wire.New(wire.CodeUnavailable, "", "away")})
		synctest.Wait()
		w.is("p download-failed unavailable")
		w.answers(0, wire.New(wire.CodeWrongState, "", "busy"))
		w.store.set(fetch.Status{State: fetch.Ready, Path: "/x"})
		synctest.Wait()
		w.is("p downloaded wrong-state")
		w.answers(4, nil)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		w.is("p initiated")
		if got := strings.Join(w.staged, ","); got != "1.1.0 from /x by policy p,1.1.0 from /x by policy p" {
			t.Error(got)
		}
		if got := w.store.wants(); got != "" {
			t.Errorf("still wants %q", got)
		}
		w.restart(body, policy.Update{Running: "1.0.0", Slots: true, Number: 4})
		w.is("p initiated")
		kept := policy.Update{Running: "1.1.0", Slots: true, Number: 4,
			Ended: []policy.Outcome{{Number: 4, Kept: true}}}
		w.p.Updated(kept)
		synctest.Wait()
		w.is("p successful")
		w.restart(body, kept)
		w.is("p successful")
		w.stop()
		if got := w.events[len(w.events)-1]; got != "policy successful" || w.reports == 0 {
			t.Errorf("%v, %d reports", w.events, w.reports)
		}
	})
}

// TestStoppedDisk: what could not be saved has not happened, and happens once the disk is back.
func TestStoppedDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		full := errors.New("disk full")
		w.steps = func(durable.Step) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return full
		}
		w.start()
		w.desire(document(time.Now(), 0))
		w.p.Updated(running)
		synctest.Wait()
		if opened, events := w.has(); opened || len(events) != 0 {
			t.Errorf("it was begun: %v", events)
		}
		w.mu.Lock()
		full = nil
		w.mu.Unlock()
		time.Sleep(saveAgain)
		synctest.Wait()
		w.is("p download-started")
		if w.store.wants() == "" {
			t.Error("nothing is fetched")
		}
		w.stop()
	})
}

// TestCrash: at whatever step of a save the agent crashes, the next one goes on, and draws no other time once one is
// on the disk.
func TestCrash(t *testing.T) {
	for at := 1; ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var steps atomic.Int64
			w.steps = func(durable.Step) error {
				if steps.Add(1) >= int64(at) { // nothing reaches the disk from there on
					return errors.New("crash")
				}
				return nil
			}
			body := document(time.Now(), 3600)
			w.start()
			w.desire(body)
			w.p.Updated(running)
			synctest.Wait()
			done = steps.Load() < int64(at)
			before, err := os.ReadFile(filepath.Join(w.dir, file))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			w.steps = nil
			time.Sleep(time.Minute)
			w.restart(body, running)
			w.is("p waiting")
			after, err := os.ReadFile(filepath.Join(w.dir, file))
			if err != nil || before != nil && string(after) != string(before) {
				t.Errorf("step %d: %s, then %s (%v)", at, before, after, err)
			}
			w.stop()
		})
		if done {
			break
		}
	}
}

// TestDamagedFile: a plan that cannot be read is planned anew; the agent starts.
func TestDamagedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := os.WriteFile(filepath.Join(w.dir, file), []byte(`{"plan":`), 0o600); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.desire(document(time.Now(), 0))
		w.p.Updated(running)
		synctest.Wait()
		w.is("p download-started")
		w.stop()
	})
}
