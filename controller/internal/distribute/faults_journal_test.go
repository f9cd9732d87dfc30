package distribute

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// moments is a context that calls at on every occasion on which it is asked whether it has ended:
// whoever works under it can be interrupted between any two of its steps.
type moments struct {
	context.Context
	n  int
	at func(n int)
}

func (m *moments) pass() {
	n := m.n
	m.n++
	if m.at != nil {
		m.at(n)
	}
}

func (m *moments) Err() error {
	m.pass()
	return m.Context.Err()
}

func (m *moments) Done() <-chan struct{} {
	m.pass()
	return m.Context.Done()
}

// What is accepted at any moment of a compaction keeps its documents, also those that the compaction
// has found unused a moment before.
func TestCompactionKeepsWhatIsAcceptedMeanwhile(t *testing.T) {
	few := keepFew
	prepare := func(r *faulty) {
		r.join("n")
		r.install("1.0.0")
		r.install("2.0.0")
		r.write([]byte("{")) // a failed unit takes the old version again
		if s := r.status(); s.State != kind.Failed {
			r.Fatalf("%+v", s)
		}
	}
	uc, problems := unitconfig.Parse(faultyDoc("1.0.0"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	_, old, _ := unitconfig.NewResolver(uc).Body("n", "m")

	steps := 0
	withFaults(t, few, func(t *testing.T, r *faulty) {
		prepare(r)
		ctx := &moments{Context: t.Context()}
		if err := r.core.compact(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := r.core.body(old); !errors.Is(err, journal.ErrDamaged) {
			t.Fatalf("the compaction keeps what nobody uses (%v), so this test shows nothing", err)
		}
		r.bodies()
		steps = ctx.n
	})
	if steps < 4 {
		t.Fatalf("a compaction of %d steps", steps)
	}
	for _, version := range []string{"1.0.0", "3.0.0"} {
		for step := range steps {
			t.Run(fmt.Sprintf("%s at step %d", version, step), func(t *testing.T) {
				withFaults(t, few, func(t *testing.T, r *faulty) {
					prepare(r)
					accepted := false
					ctx := &moments{Context: t.Context(), at: func(n int) {
						if n == step {
							synctest.Wait() // what was queued before is done
							r.install(version)
							accepted = true
						}
					}}
					if err := r.core.compact(ctx); err != nil {
						t.Fatal(err)
					}
					if !accepted {
						t.Fatal("the moment did not come")
					}
					r.bodies()
					if err := r.stop(); err != nil {
						t.Fatal(err)
					}
					r.start()
					r.bodies()
					if s := r.status(); s.State != kind.Installed || s.Version != version {
						t.Errorf("after a restart: %+v", s)
					}
					if got := r.outside(); got != fmt.Sprintf("broker=%s/apply file=%s", version, version) {
						t.Error("after a restart:", got)
					}
				})
			})
		}
	}
}

// A checkpoint that is taken while the events of a batch are being handled holds no more than what
// is durable.
func TestCheckpointInTheMiddleOfABatch(t *testing.T) {
	withFaults(t, keepFew, func(t *testing.T, r *faulty) {
		r.join("n")
		release := r.disk.hold()
		var wg sync.WaitGroup
		var compacted error
		for _, f := range []func(){
			func() { r.deliver(live("n", 2)) },
			func() { r.deliver(live("n", 3)) }, // from here on one batch
			func() { compacted = r.core.compact(t.Context()) },
			func() { r.deliver(live("n", 4)) },
		} {
			wg.Go(f)
			synctest.Wait()
		}
		release()
		wg.Wait()
		if compacted != nil {
			t.Error(compacted)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		r.start()
		r.look(func(f *fleet.Fleet) {
			if n := f.Lookup("n"); n.Session != 4 {
				t.Errorf("session %d after a restart", n.Session)
			}
		})
	})
}

// A journal that the compaction broke is opened again without anybody having to run into it.
func TestJournalBrokenByCompactionIsOpenedAgain(t *testing.T) {
	for good, what := range []string{"the checkpoint", "the removal"} {
		t.Run(what, func(t *testing.T) {
			withFaults(t, keepFew, func(t *testing.T, r *faulty) {
				r.join("n")
				r.install("1.0.0")
				r.disk.failAfter(good, 1, 0)
				time.Sleep(maintenance + time.Second)
				r.mustBe("after the compaction", r.core.Refusing(), wire.CodeStorage)
				r.recover()
				r.install("2.0.0")
				r.bodies()
			})
		})
	}
}

// The journal is replaced under the feet of those who read it: they see the old one, the new one,
// or that there is none, and the state is never judged by half.
func TestJournalIsReadWhileItIsReplaced(t *testing.T) {
	withFaults(t, func(c *Config) { c.ReopenEvery = 5 * time.Millisecond }, func(t *testing.T, r *faulty) {
		r.join("n")
		r.install("1.0.0")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var wg sync.WaitGroup
		reader := func(what string, read func() error) {
			wg.Go(func() {
				seen := 0
				for ctx.Err() == nil {
					if err := read(); err == nil {
						seen++
					} else if code := wire.AsError(err).Code; code != wire.CodeStorage && code != wire.CodeUnavailable {
						t.Errorf("%s: %v", what, err)
					}
					time.Sleep(time.Millisecond)
				}
				if seen == 0 {
					t.Errorf("%s never worked", what)
				}
			})
		}
		reader("the copy", func() error { r.core.readCopy(); return nil })
		reader("the state", func() error {
			s, err := r.core.SourceStatus(t.Context(), wire.KindConfig)
			if err == nil && (s.State != kind.Installed || s.Version != "1.0.0") {
				t.Errorf("%+v", s)
			}
			return err
		})
		reader("the configuration", func() error {
			_, err := r.core.Document(t.Context(), wire.KindConfig, "1.0.0")
			return err
		})
		reader("the entries", func() error { _, err := r.core.Entries(t.Context(), view.EntryFilter{}); return err })
		reader("the epoch", func() error { _, err := r.core.Status(t.Context()); return err })
		for i := range 20 {
			r.disk.fail(1, 0)
			r.deliver(live("n", uint64(i+2)))
			time.Sleep(20 * time.Millisecond)
			r.recover()
		}
		stop()
		wg.Wait()
		r.whole()
	})
}
