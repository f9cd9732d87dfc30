package policies

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/policy"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// TestWaitsQuietly: what waits for a version on offer is saved once, and nobody is kept busy with it.
func TestWaitsQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var saves atomic.Int64
		w.steps = func(durable.Step) error { saves.Add(1); return nil }
		w.start()
		w.desire(strings.Replace(document(time.Now(), 0), "current", "2.0.0", 1))
		w.p.Updated(running)
		synctest.Wait()
		w.is("p waiting not-found")
		before := saves.Load()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := saves.Load() - before; n > 0 {
			t.Errorf("%d steps of saves in a day", n)
		}
		w.stop()
	})
}

// TestFlappingDownload: a download that fails and begins again is told of once, and so is how it ends.
func TestFlappingDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.desire(document(time.Now(), 0))
		w.p.Updated(running)
		synctest.Wait()
		for range 20 {
			w.store.set(fetch.Status{State: fetch.Failed, Err: wire.New(wire.CodeUnavailable, "", "away")})
			synctest.Wait()
			w.store.set(fetch.Status{State: fetch.Fetching})
			synctest.Wait()
		}
		w.store.set(fetch.Status{State: fetch.Ready, Path: "/x"})
		synctest.Wait()
		w.p.Updated(policy.Update{Running: "1.1.0", Slots: true, Number: 1,
			Ended: []policy.Outcome{{Number: 1, Kept: true}}})
		synctest.Wait()
		w.stop()
		const want = "policy download-started, policy download-failed, policy downloaded after 39, policy initiated, " +
			"policy successful"
		if got := strings.Join(w.events, ", "); got != want {
			t.Errorf("told %s", got)
		}
	})
}

// TestEditAfterDownload: an edit of a policy whose release is there already goes on with it.
func TestEditAfterDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answers(0, wire.New(wire.CodeWrongState, "", "busy"))
		body := document(time.Now(), 0)
		w.start()
		w.desire(body)
		w.p.Updated(running)
		synctest.Wait()
		w.store.set(fetch.Status{State: fetch.Ready, Path: "/x"})
		synctest.Wait()
		w.is("p downloaded wrong-state")
		w.answers(4, nil)
		w.store.keeps = true
		w.desire(strings.Replace(body, `"rev":1`, `"rev":2`, 1))
		w.is("p initiated")
		w.stop()
		if w.opens != 1 {
			t.Errorf("the store was opened %d times", w.opens)
		}
	})
}

// TestEditIsSaved: what an edit changes in a plan that waits as before is on the disk: the node begins at the time that
// was drawn for it.
func TestEditIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		body := document(time.Now(), 3600)
		w.start()
		w.desire(body)
		w.p.Updated(running)
		synctest.Wait()
		time.Sleep(time.Minute)
		w.desire(strings.Replace(body, `"rev":1`, `"rev":2`, 1))
		w.is("p waiting")
		w.stop()
		saved, err := os.ReadFile(filepath.Join(w.dir, file))
		if err != nil || !strings.Contains(string(saved), `"rev":2`) {
			t.Errorf("%s %v", saved, err)
		}
	})
}
