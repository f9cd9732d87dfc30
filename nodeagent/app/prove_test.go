package app

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/identity"
	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// TestProof: once there is a report key everything is said again, with a proof that names the newest beacon; and a live
// message that may look as if somebody repeats it follows the first beacon of a session.
func TestProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, err := New(r.cfg, r.deps)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = a.Run(ctx) }()
		defer func() { cancel(); <-done }()

		var mu sync.Mutex
		heard := map[string][][]byte{}
		l := r.hub.Link(linktest.Options{ID: "controller", Filters: topic.ShardFilters("u1", topic.Shard("n1"))},
			&linktest.Recorder{OnMessage: func(m link.Message) {
				mu.Lock()
				defer mu.Unlock()
				heard[m.Topic] = append(heard[m.Topic], bytes.Clone(m.Payload))
			}})
		ended := make(chan struct{})
		go func() { defer close(ended); _ = l.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		synctest.Wait()
		r.beacon(1, r.signer)

		key := bytes.Repeat([]byte{3}, wire.ReportKeySize)
		mu.Lock()
		bare := slices.Collect(maps.Keys(heard))
		heard = map[string][][]byte{}
		mu.Unlock()
		if len(bare) < 4 {
			t.Fatalf("without a key: %q", bare)
		}
		at := time.Now()
		time.Sleep(time.Second)
		ears{a}.tell(identity.ReportKey(key))
		synctest.Wait()
		proved := func(topic string, since time.Time) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			all := heard[topic]
			if len(all) == 0 {
				t.Errorf("nothing on %s", topic)
				return
			}
			message, p := wire.SplitProof(all[len(all)-1])
			if p == nil || !p.Verify(key, topic, message) || p.Heard.Epoch != 1 || !p.Heard.Time.Equal(since) {
				t.Errorf("%s: %s", topic, all[len(all)-1])
			}
		}
		for _, name := range bare {
			if name != r.topics.Event() {
				proved(name, at)
			}
		}
		time.Sleep(30 * time.Second)
		r.beacon(1, r.signer)
		r.hub.Cut("node/n1")
		time.Sleep(time.Minute)
		synctest.Wait()
		proved(r.topics.Live(), at.Add(31*time.Second))
	})
}
