package distribute

import (
	"context"
	"fmt"
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
	return w.table != nil, w.known != nil || w.matter != nil || w.round != nil, w.news.taking.Load(), w.viewers
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

// While somebody watches, each node is looked at again each minute, a page at a time: a token ends without a record.
func TestLiveLooksAtAllAgain(t *testing.T) {
	withGate(t, func(t *testing.T, r *faulty, _ *gate) {
		const n = 2*livePage + 1
		in := op.EnrolList{}
		for i := range n {
			in.Nodes = append(in.Nodes, op.ListedNode{Node: fmt.Sprintf("n%d", i),
				Enroll: op.Enroll{TTL: "PT1H"}})
		}
		_, err := r.core.EnrolNodes(as(t.Context(), "ann"), in)
		r.mustBe("to enrol", err, "")
		_, end, err := r.core.Live(t.Context(), op.LiveIn{})
		r.mustBe("to watch", err, "")
		defer end()
		shown := func() int {
			synctest.Wait()
			return r.core.watched.use().Fleet().Nodes
		}
		time.Sleep(time.Hour - time.Second)
		if got := shown(); got != n {
			t.Errorf("%d nodes just before the tokens end", got)
		}
		time.Sleep(liveRound + 4*liveTurn)
		if got := shown(); got != 0 {
			t.Errorf("%d nodes a minute after their tokens ended", got)
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
		w := r.core.watched
		matters := func(node string) bool {
			w.turn <- struct{}{}
			defer func() { <-w.turn }()
			_, there := w.matter[node]
			return there
		}
		if f, err := r.core.Fleet(t.Context()); err != nil || f.Nodes != 2 || !matters("m") || matters("n") {
			t.Fatalf("%+v, matter: m %v, n %v, %v", f, matters("m"), matters("n"), err)
		}
		_, err = r.core.Forget(t.Context(), op.Forget{Nodes: []string{"m"}})
		r.mustBe("to forget", err, "")
		f, err := r.core.Fleet(t.Context())
		if err != nil || f.Nodes != 1 || matters("m") {
			t.Errorf("%+v, still known: %v, %v", f, matters("m"), err)
		}
	})
}
