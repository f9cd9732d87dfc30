package distribute

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// outside is a link to a broker in another process: it can be subscribed to, and sends what it
// retains when it is.
type outside struct {
	at    *memory
	core  *Core
	deaf  bool // it never sends a beacon back
	asked []string
}

func (o *outside) Run(ctx context.Context) error { return o.at.Run(ctx) }

func (o *outside) Publish(ctx context.Context, to string, payload []byte, retain bool) error {
	err := o.at.Publish(ctx, to, payload, retain)
	if err == nil && to == topic.ForController(faultyUnit) && !o.deaf {
		o.core.Handler().Message(link.Message{Topic: to, Payload: payload})
	}
	return err
}

func (o *outside) Subscribe(_ context.Context, filters ...string) error {
	o.at.mu.Lock()
	o.asked = append(o.asked, filters...)
	retained := maps.Clone(o.at.retained)
	o.at.mu.Unlock()
	for _, f := range filters {
		shard, wild := strings.CutSuffix(f, "+/desired/+")
		for to, payload := range retained {
			if to == f || wild && strings.HasPrefix(to, shard) || outboxOf(to, f) {
				o.core.Handler().Message(link.Message{Topic: to, Payload: payload, Retained: true})
			}
		}
	}
	return nil
}

// outboxOf reports whether a topic is one of outbox/+.
func outboxOf(to, filter string) bool {
	prefix, ok := strings.CutSuffix(filter, "outbox/+")
	return ok && strings.HasPrefix(to, prefix+"outbox/")
}

func (o *outside) Unsubscribe(context.Context, ...string) error { return nil }

// next ends the session and begins another; it returns what was subscribed to in it.
func (o *outside) next(session uint64, wipe bool) (asked []string) {
	o.core.Handler().Down(session-1, link.ErrDown)
	synctest.Wait()
	o.at.mu.Lock()
	if wipe {
		clear(o.at.retained)
	}
	clear(o.at.sent)
	o.asked = nil
	o.at.mu.Unlock()
	o.core.Handler().Up(session)
	time.Sleep(5 * time.Second) // virtual
	synctest.Wait()
	o.at.mu.Lock()
	defer o.at.mu.Unlock()
	return o.asked
}

// A broker that kept everything gets nothing again. One that came back empty gets everything without
// being asked first, but for a controller that has just started, which may have left something there
// that nobody wants any more. One that does not say which it is, is looked at. Where nothing was looked
// at, nodes are heard again when everything is published.
func TestRefillOutside(t *testing.T) {
	for _, c := range []struct {
		name       string
		restarted  bool
		wipe, deaf bool
		looks      bool
		published  int
	}{
		{"kept", false, false, false, true, 0},
		{"wiped", false, true, false, false, 1},
		{"wiped, and no beacon comes back", false, true, true, true, 1},
		{"wiped while the controller was away", true, true, false, true, 1},
		{"kept while the controller was away", true, false, false, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			withFaults(t, nil, func(t *testing.T, r *faulty) {
				o := &outside{at: r.broker, core: r.core}
				r.core.outbox.mu.Lock()
				r.core.outbox.link = o // the loop is quiet
				r.core.outbox.mu.Unlock()
				r.install("1.0.0")
				r.join("n")
				synctest.Wait()
				o.next(2, false)
				desired := topic.ForNode(faultyUnit, "n").Desired(wire.KindConfig)
				if _, ok := o.at.Retained(desired); !ok {
					t.Fatal("the node has no document")
				}
				o.deaf = c.deaf
				r.core.outbox.filled = !c.restarted
				asked := o.next(3, c.wipe)
				count := map[string]int{}
				for _, f := range asked {
					count[f[strings.Index(f, "+")+1:]]++
				}
				if looked := count["/desired/+"] == 256; looked != c.looks {
					t.Errorf("it asks for %v", count)
				}
				if again := count["/live"] == 256; again == c.looks {
					t.Errorf("nodes are heard again: %v; it asks for %v", again, count)
				}
				if n := o.at.published(desired); n != c.published {
					t.Errorf("the document is published %d times, want %d", n, c.published)
				}
				if _, ok := o.at.Retained(desired); !ok {
					t.Error("the broker has no document")
				}
			})
		})
	}
}

// forget takes back what is retained of one topic; false: nothing was.
func (m *memory) forget(of string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.retained[of]
	delete(m.retained, of)
	return ok
}

// When the journal is back, the outbox is told what all nodes are to have while it is at work with the first words of
// this new beginning. It misses none of them.
func TestResetWhileTheOutboxWorks(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		doc := &kind.Doc{DocRef: wire.DocRef{Rev: 1, Version: "1.0.0", Hash: wire.Hash([]byte("{}"))},
			Mode: wire.ModeApply}
		var all []fleet.Publish
		for i := range 2000 {
			all = append(all, fleet.Publish{Kind: wire.KindConfig, Doc: doc, Body: []byte("{}"),
				Nodes: []string{fmt.Sprint("n", i)}})
		}
		stop := make(chan struct{})
		defer close(stop)
		go func() { // keeps the outbox at work
			for {
				select {
				case <-stop:
					return
				default:
					r.core.outbox.kick()
					runtime.Gosched()
				}
			}
		}()
		for range 10 {
			r.core.outbox.reset(all)
			if err := r.core.Flushed(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, p := range all {
				if !r.broker.forget(topic.ForNode(faultyUnit, p.Nodes[0]).Desired(p.Kind)) {
					t.Fatalf("%s has no document", p.Nodes[0])
				}
			}
		}
	})
}

// Flushed waits for what is to be published, in this session or in the next.
func TestFlushed(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.install("1.0.0")
		r.join("n")
		desired := topic.ForNode(faultyUnit, "n").Desired(wire.KindConfig)
		if err := r.core.Flushed(t.Context()); err != nil || r.broker.published(desired) != 1 {
			t.Fatal(err, r.broker.published(desired))
		}
		r.core.Handler().Down(1, link.ErrDown)
		if _, err := r.submit("2.0.0"); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r.core.Flushed(short) == nil {
			t.Fatal("flushed without a session")
		}
		r.core.Handler().Up(2)
		if err := r.core.Flushed(t.Context()); err != nil || r.broker.published(desired) != 2 {
			t.Fatal(err, r.broker.published(desired))
		}
	})
}
