package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/liveview"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/roster"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// watcher is a page that follows a unit.
type watcher struct {
	t    *testing.T
	r    *bufio.Reader
	rows map[string]view.Row
	at   string
	told []view.Entry
}

func (s *served) watcher(query string) *watcher {
	return &watcher{t: s.t, r: bufio.NewReader(s.get("/v1/live" + query).Body), rows: map[string]view.Row{}}
}

// batch reads up to the end of a batch and returns how many rows it had, and whether all were to be forgotten.
func (w *watcher) batch() (rows int, reset bool, fleet *view.Fleet) {
	w.t.Helper()
	for {
		l := next[view.Live](w.t, w.r)
		rows, reset = rows+len(l.Rows), reset || l.Reset
		if l.Fleet != nil {
			fleet = l.Fleet
		}
		for _, r := range l.Rows {
			w.rows[r.Node] = r
		}
		for _, name := range l.Gone {
			delete(w.rows, name)
		}
		if l.Entry != nil {
			w.told = append(w.told, *l.Entry)
		}
		if l.Complete {
			w.at = l.At
			return rows, reset, fleet
		}
	}
}

// until reads batches until something is so.
func (w *watcher) until(what string, so func() bool) {
	w.t.Helper()
	stop := time.AfterFunc(20*time.Second, func() { panic("never: " + what) })
	defer stop.Stop()
	for !so() {
		w.batch()
	}
}

// TestLive: a page gets all rows, then what changes, and what matters in words; with a cursor, what it has missed.
func TestLive(t *testing.T) {
	s := serve(t, api.Config{})
	w := s.watcher("")
	rows, reset, fleet := w.batch()
	if rows != 4 || reset || fleet == nil || fleet.Nodes != 4 || fleet.Online != 3 || fleet.Unit == "" {
		t.Fatalf("%d rows, %v, %+v", rows, reset, fleet)
	}
	want := view.FleetCounts{InStep: 1, OnTheWay: 1, Failed: 1, Offline: 1}
	if fleet.Counts != want || w.rows["node-2"].Class != view.ClassFailed || fleet.Types["mainType"] != 2 {
		t.Errorf("%+v\n%+v", fleet, w.rows)
	}
	before := w.at
	s.unit.Connect("node-1", false)
	w.until("node-1 is offline", func() bool { return w.rows["node-1"].Class == view.ClassOffline })
	if len(w.told) == 0 || w.told[0].Text != "offline" || w.told[0].Level != view.LevelWarning ||
		w.told[0].Data != nil {
		t.Errorf("%+v", w.told)
	}
	again := s.watcher("?after=" + before)
	if rows, reset, fleet := again.batch(); rows != 1 || reset || fleet.Counts.Offline != 2 ||
		again.rows["node-1"].Class != view.ClassOffline || len(again.told) != 1 {
		t.Errorf("%d rows, %v, %+v, %+v", rows, reset, fleet, again)
	}
	if rows, reset, _ := s.watcher("?after=1-1").batch(); rows != 4 || !reset {
		t.Errorf("with the cursor of another epoch: %d rows, %v", rows, reset)
	}
}

// TestLiveIsTrue: what a page has been told is what a list shows, whatever happens.
func TestLiveIsTrue(t *testing.T) {
	s := serve(t, api.Config{})
	w, all := s.watcher(""), s.watcher("?events=1")
	w.batch()
	all.batch()
	u := s.unit
	u.Submit(view.Submission{Kind: wire.KindConfig, Document: apitest.Document("9.0.0"), Offline: true})
	u.Report("node-1", wire.KindConfig, wire.StateInstalled, nil, nil)
	u.Report("node-2", wire.KindConfig, wire.StateFailed, wire.New(wire.CodeApplyFailed, "", "exit status 1"), nil)
	u.Connect("node-3", false)
	u.Connect("node-9", true)
	if _, err := u.Enroll(t.Context(), op.EnrollIn{NodeIn: op.NodeIn{Node: "node-7"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Revoke(t.Context(), op.RevokeIn{NodeIn: op.NodeIn{Node: "node-2"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Forget(t.Context(), op.Forget{Nodes: []string{"node-4"}}); err != nil {
		t.Fatal(err)
	}
	listed, err := u.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.until("the page is like the list", func() bool {
		for i := range listed.Nodes {
			if w.rows[listed.Nodes[i].Node] != roster.Row(&listed.Nodes[i], wire.KindConfig) {
				return false
			}
		}
		return len(w.rows) == len(listed.Nodes)
	})
	last := newest(t, u)
	all.until("all entries", func() bool {
		return len(all.told) > 0 && all.told[len(all.told)-1].Seq >= last.Seq
	})
	for i := 1; i < len(all.told); i++ {
		if all.told[i].Seq != all.told[i-1].Seq+1 {
			t.Errorf("after entry %d comes %d", all.told[i-1].Seq, all.told[i].Seq)
		}
	}
	var fleet view.Fleet
	if err := json.UnmarshalRead(s.get("/v1/fleet").Body, &fleet); err != nil {
		t.Fatal(err)
	}
	if fleet.Nodes != len(listed.Nodes) || fleet.Counts.Revoked != 1 || fleet.Rev < last.Seq {
		t.Errorf("%+v", fleet)
	}
}

// TestLiveIsBounded: there are only so many viewers, and what is no cursor is refused.
func TestLiveIsBounded(t *testing.T) {
	s := serve(t, api.Config{MaxViewers: 1})
	s.watcher("").batch()
	for query, want := range map[string]int{"": http.StatusServiceUnavailable, "?after=x": http.StatusBadRequest} {
		res, err := s.client.Get("http://tandem/v1/live" + query)
		if err != nil {
			t.Fatal(err)
		}
		var p op.Problem
		if err := json.UnmarshalRead(res.Body, &p); err != nil || res.Body.Close() != nil {
			t.Fatal(err)
		}
		if res.StatusCode != want || query != "" && !strings.Contains(p.Error.Message, "EPOCH-REV") {
			t.Errorf("%s: %d %v", query, res.StatusCode, p.Error)
		}
	}
}

// viewing has a test run with an API whose viewers see a table of two nodes, and says how many have not ended.
func viewing(t *testing.T, cfg api.Config, test func(*bubble, *liveview.Table, *atomic.Int64)) {
	var viewers atomic.Int64
	var table atomic.Pointer[liveview.Table] // of the bubble
	see := func(context.Context, op.LiveIn) (*liveview.Viewer, func(), error) {
		viewers.Add(1)
		return table.Load().View(nil, false), func() { viewers.Add(-1) }, nil
	}
	inBubble(t, apitest.Instead(apitest.Start(t), api.Live(see)), cfg, func(b *bubble) {
		table.Store(liveview.New())
		tell(t, table.Load(), 1, "a", "b")
		test(b, table.Load(), &viewers)
	})
}

// tell puts rows of nodes into a table.
func tell(t *testing.T, table *liveview.Table, rev uint64, nodes ...string) {
	t.Helper()
	u := liveview.Update{Epoch: 7, Rev: rev, Unit: "u"}
	for _, node := range nodes {
		u.Rows = append(u.Rows, view.Row{Node: node, Class: view.ClassInStep})
	}
	if err := table.Update(u); err != nil {
		t.Error(err)
	}
}

// TestLiveLeavesAtOnce: what changes while it is written as well, and more than is written at once.
func TestLiveLeavesAtOnce(t *testing.T) {
	viewing(t, api.Config{}, func(b *bubble, table *liveview.Table, _ *atomic.Int64) {
		var many []string
		for i := range 5000 {
			many = append(many, fmt.Sprintf("node-%05d", i))
		}
		var k taker
		k.flushing = sync.OnceFunc(func() { tell(t, table, 2, many...) })
		leave := b.take(tokens.View, "GET", "/v1/live", &k)
		if got := k.got(); !strings.Contains(got, `"b"`) || strings.Count(got, `"node":"node-`) != len(many) ||
			strings.Count(got, `"complete":true`) != 2 {
			t.Errorf("%d bytes, %d rows", len(got), strings.Count(got, `"node":"`))
		}
		tell(t, table, 3, "c")
		if got := k.got(); !strings.Contains(got, `{"rows":[{"node":"c"`) {
			t.Errorf("%s", got)
		}
		leave()
		if got := k.got(); got != "" || !k.over() {
			t.Errorf("after who has left: ended %v, %s", k.over(), got)
		}
	})
}

// TestLiveEnds: with who takes nothing, with the API, also in the middle of much, and at once for a HEAD; what ends
// makes room.
func TestLiveEnds(t *testing.T) {
	viewing(t, api.Config{MaxViewers: 8}, func(b *bubble, table *liveview.Table, viewers *atomic.Int64) {
		var all [4]taker
		for i, want := range []int{200, 200, 503, 200} {
			role := []tokens.Role{tokens.View, tokens.View, tokens.View, tokens.Admin}[i] // two with one token
			defer b.take(role, "GET", "/v1/live", &all[i])()
			if all[i].code() != want || all[i].over() != (want != 200) {
				t.Errorf("viewer %d: %d, ended %v", i+1, all[i].code(), all[i].over())
			}
		}
		all[0].fail(errors.New("gone"))
		tell(t, table, 2, "c")
		if !all[0].over() || all[1].over() || viewers.Load() != 2 {
			t.Errorf("who takes nothing has ended: %v, %d others watch", all[0].over(), viewers.Load())
		}
		var head, much taker
		defer b.take(tokens.View, "HEAD", "/v1/live", &head)()
		if head.code() != 200 || !head.over() || head.got() != "" || viewers.Load() != 2 {
			t.Errorf("HEAD: %d, ended %v", head.code(), head.over())
		}
		var many []string
		for i := range 10_000 {
			many = append(many, fmt.Sprintf("node-%05d", i))
		}
		tell(t, table, 3, many...)
		much.flushing = sync.OnceFunc(func() {
			b.end()
			time.Sleep(time.Millisecond)
		})
		defer b.take(tokens.View, "GET", "/v1/live", &much)()
		time.Sleep(time.Second)
		if got := much.got(); !much.over() || strings.Contains(got, "node-09999") ||
			!strings.Contains(got, "the controller is stopping") || viewers.Load() != 0 {
			t.Errorf("ended %v, after %d bytes; %d watch", much.over(), len(got), viewers.Load())
		}
	})
}

// TestViewersDoNotShareWhatIsWritten: what one has not taken yet is not written over for another.
func TestViewersDoNotShareWhatIsWritten(t *testing.T) {
	viewing(t, api.Config{}, func(b *bubble, table *liveview.Table, _ *atomic.Int64) {
		var slow taker
		slow.writing = sync.OnceFunc(func() { // on the same processor, which has lent the last chunk
			tell(t, table, 2, "c", "d")
			gone, leave := context.WithCancel(context.Background())
			leave()
			r := httptest.NewRequestWithContext(gone, "GET", "/v1/live", nil)
			r.Header.Set("Authorization", "Bearer "+b.by[tokens.View])
			b.h.ServeHTTP(httptest.NewRecorder(), r)
		})
		defer b.take(tokens.View, "GET", "/v1/live", &slow)()
		got := slow.got()
		first, _, _ := strings.Cut(got, `"complete":true}`)
		if !strings.Contains(first, `"rows":[{"node":"a"`) || strings.Contains(first, `"node":"c"`) {
			t.Errorf("%s", got)
		}
	})
}
