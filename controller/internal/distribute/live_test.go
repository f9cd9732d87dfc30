package distribute

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
)

// watching says what is kept for viewers: a table, and records for it. Nobody has the turn when it is asked.
func (r *faulty) watching() (table, known, taking bool, viewers int) {
	r.Helper()
	synctest.Wait()
	w := r.core.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.table != nil, w.known != nil || w.facts != nil, w.news.taking.Load(), w.viewers
}

// While somebody watches, and a minute longer, there is a table; then nothing is kept, and no record is gathered.
func TestLiveIsGivenUp(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		is := func(when string, want bool, viewers int) {
			t.Helper()
			table, known, taking, n := r.watching()
			if table != want || known != want || taking != want || n != viewers {
				t.Errorf("%s: table %v, known %v, taking %v, %d viewers", when, table, known, taking, n)
			}
		}
		is("before", false, 0)
		_, end, err := r.core.Live(t.Context(), op.LiveIn{Events: true})
		r.mustBe("to watch", err, "")
		time.Sleep(3 * liveIdle)
		is("watched", true, 1)
		if n := r.core.watched.news.all.Load(); n != 1 {
			t.Errorf("%d want all entries", n)
		}
		end()
		if n := r.core.watched.news.all.Load(); n != 0 {
			t.Errorf("%d want all entries after the end", n)
		}
		time.Sleep(liveIdle - time.Second)
		is("just left", true, 0)
		time.Sleep(2 * liveIdle)
		is("left", false, 0)
		if f, err := r.core.Fleet(t.Context()); err != nil || f.Nodes != 1 {
			t.Errorf("%+v %v", f, err)
		}
		is("looked at once more", true, 0)
	})
}

// Who cannot be shown the nodes is nobody who watches them.
func TestLiveThatFails(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := r.core.Live(ctx, op.LiveIn{Events: true}); err == nil {
			t.Fatal("no error")
		}
		_, _, _, viewers := r.watching()
		if all := r.core.watched.news.all.Load(); viewers != 0 || all != 0 {
			t.Errorf("%d viewers, %d who want all entries", viewers, all)
		}
	})
}

// lookedAtAll says when all nodes were looked at last.
func lookedAtAll(w *watched) time.Time {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	return w.whole
}

// All nodes are looked at once more each minute while somebody watches: what ends by time alone has no record.
func TestLiveLooksAtAllAgain(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		_, end, err := r.core.Live(t.Context(), op.LiveIn{})
		r.mustBe("to watch", err, "")
		defer end()
		began := lookedAtAll(r.core.watched)
		for i := range 3 {
			time.Sleep(liveWhole + time.Second)
			synctest.Wait()
			if now := lookedAtAll(r.core.watched); !now.After(began) {
				t.Errorf("after %d minutes all were looked at last at %v", i+1, now)
			} else {
				began = now
			}
		}
	})
}

// A node that is forgotten is gone for viewers as well, and from what should be looked at.
func TestLiveForgetsNodes(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.leaves("m")
		_, end, err := r.core.Live(t.Context(), op.LiveIn{})
		r.mustBe("to watch", err, "")
		defer end()
		if f, err := r.core.Fleet(t.Context()); err != nil || f.Nodes != 2 {
			t.Fatalf("%+v %v", f, err)
		}
		_, err = r.core.Forget(t.Context(), op.Forget{Nodes: []string{"m"}})
		r.mustBe("to forget", err, "")
		f, err := r.core.Fleet(t.Context())
		w := r.core.watched
		w.turn <- struct{}{}
		_, there := w.facts["m"]
		<-w.turn
		if err != nil || f.Nodes != 1 || there {
			t.Errorf("%+v, still known: %v, %v", f, there, err)
		}
	})
}
