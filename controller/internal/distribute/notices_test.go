package distribute

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/notify"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// tell reads all that a receiver of some types is told after a record, in pieces.
func (r *faulty) tell(after uint64, limit int, types ...record.Type) (all []notify.Entry, gone notify.Gone) {
	r.Helper()
	f := notify.Fetch{After: after, Limit: limit}
	for {
		got, err := r.core.Notices(r.Context(), f, types)
		if err != nil {
			r.Fatal(err)
		}
		if len(got.Entries) > limit || got.More && got.UpTo.Seq <= f.After {
			r.Fatalf("%d entries up to %d", len(got.Entries), got.UpTo.Seq)
		}
		all = append(all, got.Entries...)
		if g := got.Gone; g.Count > 0 {
			if gone.Count == 0 {
				gone.First = g.First
			}
			gone.Last, gone.Count = g.Last, gone.Count+g.Count
			f.GoneTo = g.Last
		}
		f.After = got.UpTo.Seq
		if !got.More {
			return all, gone
		}
	}
}

// TestNoticesOfSelectedNodes: a filter selects nodes as they are when somebody asks, none that was forgotten, and
// asking works while the journal cannot be written.
func TestNoticesOfSelectedNodes(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("press-1")
		r.join("press-2")
		r.leaves("mill-1")
		ask := func(where, want string) {
			t.Helper()
			got, err := r.core.Selected(r.Context(), where, []string{"gone", "mill-1", "press-1", "press-2"})
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("%s: %q %v, want %q", where, got, err, want)
			}
		}
		ask("type:m", "mill-1 press-1 press-2")
		ask("state:offline", "mill-1")
		ask("press -name:*-2", "press-1")
		r.leaves("press-1")
		ask("state:offline", "mill-1 press-1")
		if _, err := r.core.Forget(r.Context(), op.Forget{Nodes: []string{"mill-1"}}); err != nil {
			t.Fatal(err)
		}
		ask("state:offline", "press-1")
		r.disk.fail(1, 0)
		r.mustBe("a message", r.hear(live("press-1", 3)), wire.CodeStorage)
		ask("type:m", "press-1 press-2")
		r.disk.fail(0, 0)
		r.recover()
	})
}

// Everything of the types that are wanted is read, in order, each with its hash, in pieces of any size; what was
// removed is counted; and after a restart it is the same.
func TestNoticesAreRead(t *testing.T) {
	withFaults(t, keepFew, func(t *testing.T, r *faulty) {
		r.join("n")
		r.says("n", 2, 60)
		for _, limit := range []int{1, 7, 1000} {
			all, gone := r.tell(0, limit, record.Live, record.Opened)
			var want, got []uint64
			for _, rec := range r.records(record.Live, record.Opened) {
				want = append(want, rec.Seq)
			}
			for _, e := range all {
				got = append(got, e.Seq)
				if len(e.Hash) != 16 || len(e.Data) == 0 {
					t.Errorf("%+v", e)
				}
			}
			slices.Sort(want)
			if !slices.Equal(got, want) || gone.Count != 0 {
				t.Errorf("by %d: %v, want %v; %+v", limit, got, want, gone)
			}
		}
		before, _ := r.tell(0, 10, record.Live)
		head, err := r.core.NoticesHead()
		if err != nil || head.Seq != r.core.journal.Load().Last() || head.Hash == "" {
			t.Errorf("%+v %v", head, err)
		}
		was := r.records()
		r.compacts()
		lost := r.left(was)
		left, gone := r.tell(0, 10, record.Live)
		if n, err := r.core.journal.Load().Gone(); err != nil || gone.Count != n || len(lost) == 0 ||
			gone.Count != uint64(len(lost)) || gone.First != lost[0] || gone.Last != lost[len(lost)-1] {
			t.Errorf("%+v, %d are gone: %d to %d %v", gone, len(lost), lost[0], lost[len(lost)-1], err)
		}
		for _, e := range left {
			if i := slices.IndexFunc(before, func(b notify.Entry) bool { return b.Seq == e.Seq }); i >= 0 &&
				before[i].Hash != e.Hash {
				t.Errorf("record %d has another hash now", e.Seq)
			}
		}
		if m, is, err := r.core.NoticesMark(lost[0]); m.Hash != "" || !is || err != nil {
			t.Errorf("%+v %v %v", m, is, err)
		}
		if m, is, err := r.core.NoticesMark(1 << 40); m.Hash != "" || is || err != nil {
			t.Errorf("%+v %v %v", m, is, err)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		r.start()
		if m, is, err := r.core.NoticesMark(head.Seq); m != head || is || err != nil {
			t.Errorf("after a restart %+v, %+v before %v %v", m, head, is, err)
		}
	})
}

// Reading for receivers does not wait for a write that hangs, and a write does not wait for it.
func TestNoticesWaitForNobody(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.says("n", 2, 3)
		release := r.disk.hold()
		var wg sync.WaitGroup
		wg.Go(func() { r.deliver(live("n", 9)) })
		synctest.Wait() // it is on its way to the disk
		all, _ := r.tell(0, 100, record.Live)
		if len(all) != 4 {
			t.Errorf("%d were read", len(all))
		}
		if _, err := r.core.NoticesHead(); err != nil {
			t.Error(err)
		}
		release()
		wg.Wait()
		r.look(func(f *fleet.Fleet) {})
	})
}
