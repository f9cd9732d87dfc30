package app

import (
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// marked publishes a beacon with the mark of the newest document.
func (r *rig) marked(newest wire.Stamp) {
	b := wire.Beacon{V: wire.Version, Unit: "u1", Epoch: 1, Up: true, Time: time.Now(), Jitter: "PT10S",
		Keys: []wire.Key{r.signer.Key()}}
	b.Sig = r.signer.SignBeacon(&b, newest)
	r.publish(topic.ForController("u1"), wire.Encode(&b), true)
}

// asks returns what the newest live message asks for.
func (r *rig) asks() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lives[len(r.lives)-1].Asks
}

// TestStaleView: a broker withholds the newest document. The node asks what it should have, says within two minutes
// that it has not got it, and says when it has.
func TestStaleView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.listen()
		r.start()
		r.beacon(1, r.signer)
		r.desire(doc(1, 1))
		r.pass(time.Minute)
		if got := r.asks(); got != "" {
			t.Errorf("without a mark it asks for %q", got)
		}
		tell := func(mark string, rev uint64) {
			p := wire.NewestParams{Mark: mark, Stamps: map[wire.Kind]wire.Stamp{wire.KindConfig: {Epoch: 1, Rev: rev}}}
			if a := r.request(wire.MethodNewest, wire.Encode(&p)); a == nil || a.Error != nil {
				t.Fatalf("%+v", a)
			}
		}
		r.marked(wire.Stamp{Epoch: 1, Rev: 1})
		r.pass(30 * time.Second)
		first := r.asks()
		if len(first) != 64 {
			t.Fatalf("it asks for %q", first)
		}
		tell(first, 1)
		r.pass(2 * time.Minute)
		if got := r.eventTypes(); got != "key-pinned" {
			t.Errorf("events: %s", got)
		}

		r.marked(wire.Stamp{Epoch: 1, Rev: 7})
		r.pass(30 * time.Second)
		second := r.asks()
		if second == first || len(second) != 64 {
			t.Errorf("it asks for %q after %q", second, first)
		}
		tell(second, 7)
		r.pass(30 * time.Second)
		if got := r.eventTypes(); got != "key-pinned view-stale" {
			t.Errorf("events: %s", got)
		}
		r.desire(doc(1, 7))
		if got := r.eventTypes(); got != "key-pinned view-stale view-current" {
			t.Errorf("events: %s", got)
		}
	})
}

// TestStaleViewInShortSessions: a broker that withholds a document and ends each session before the node would say so
// does not keep it from saying so.
func TestStaleViewInShortSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.listen()
		r.start()
		r.beacon(1, r.signer)
		r.desire(doc(1, 1))
		r.marked(wire.Stamp{Epoch: 1, Rev: 7})
		began := time.Now()
		for time.Since(began) < 75*time.Second {
			r.pass(40 * time.Second)
			r.hub.Cut("node/n1")
			r.pass(time.Second)
		}
		r.pass(time.Second)
		if got := r.eventTypes(); got != "key-pinned view-stale" {
			t.Errorf("after %v, events: %s", time.Since(began), got)
		}
	})
}
