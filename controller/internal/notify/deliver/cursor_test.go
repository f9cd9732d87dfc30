package deliver

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/notify"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// What was told in the last second before a stop is on the disk, too: after a start it is not told again.
func TestStopRightAfterAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		cfg := Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender}
		l := begin(t, cfg)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		for range 3 { // the first is written at once, what follows within a second is not
			b.happen(1)
			time.Sleep(300 * time.Millisecond)
		}
		l.end(t)
		sameIDs(t, "before", o.ids("r"), from(2, 4))
		l = begin(t, cfg)
		time.Sleep(time.Minute)
		l.end(t)
		sameIDs(t, "after", o.ids("r"), from(2, 4))
	})
}

// TestWhoseCursor: how far a receiver has come counts only if it was written of that registration, as it is there, and
// of this journal.
func TestWhoseCursor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *notify.Receiver, p *notify.Progress)
		file   [2]string // what of the file is another text
		gone   uint64    // records up to this one are, after that
		counts bool
	}{
		"as it was":            {counts: true},
		"the record is gone":   {change: func(_ *notify.Receiver, p *notify.Progress) { p.Hash = "" }, counts: true},
		"another registration": {change: func(r *notify.Receiver, _ *notify.Progress) { r.ID = "0000000000000000" }},
		"another journal":      {change: func(_ *notify.Receiver, p *notify.Progress) { p.Hash = "0123456789abcdef" }},
		"an older journal":     {change: func(_ *notify.Receiver, p *notify.Progress) { p.Seq = 99 }},
		"an older one, and the record was gone": {change: func(_ *notify.Receiver, p *notify.Progress) {
			p.Seq, p.Hash = 99, ""
		}},
		"the record was removed since": {gone: 4, counts: true},
		"damage":                       {file: [2]string{`"goneTo":0`, `"goneTo":1`}},
		"another format":               {file: [2]string{`"format":1`, `"format":2`}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, o := newBook(), newTown()
			cfg := Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender}
			l := begin(t, cfg)
			add(t, l.Manager, op.NewNotice{Name: "r"})
			b.happen(3)
			time.Sleep(3 * time.Second)
			l.end(t)
			r := (*l.set.Load())[0]
			p, known, err := l.load(&r)
			if err != nil || !known || p.Seq != 4 {
				t.Fatal(p, known, err)
			}
			if c.change != nil {
				c.change(&r, &p)
				err = l.save(&r, p)
			}
			text, rerr := os.ReadFile(l.path("r"))
			other := strings.Replace(string(text), c.file[0], c.file[1], 1)
			if c.file[0] != "" && other == string(text) {
				t.Fatal(other)
			}
			if err := errors.Join(err, rerr, os.WriteFile(l.path("r"), []byte(other), 0o600)); err != nil {
				t.Fatal(err)
			}
			b.gone = c.gone
			l = begin(t, cfg)
			time.Sleep(time.Minute)
			l.end(t)
			want := from(2, 4)
			if !c.counts {
				want = append(want, "restored")
			}
			sameIDs(t, name, o.ids("r"), want)
		})
	}
}

// racing is a journal that grows right after it was read.
type racing struct {
	*book
	more int
}

func (j *racing) Notices(ctx context.Context, f notify.Fetch, types []record.Type) (notify.Read, error) {
	r, err := j.book.Notices(ctx, f, types)
	if j.more > 0 {
		j.more--
		j.happen(1)
	}
	return r, err
}

// TestNothingFallsBetween: what comes while the journal is read is told, also if nothing comes after it.
func TestNothingFallsBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: &racing{b, 1}, NewSender: o.sender})
		defer l.end(t)
		add(t, l.Manager, op.NewNotice{Name: "r"}) // its note is record 1
		time.Sleep(time.Hour)
		sameIDs(t, "r", o.ids("r"), from(2, 2))
	})
}

// TestTroubleIsToldInTime: after so many tries in vain, and not before.
func TestTroubleIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender})
		defer l.end(t)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		o.setDown("r", "down")
		b.happen(1)
		var tried []int // tries at which nothing was told
		for end := time.Now().Add(time.Hour); len(l.Trouble()) == 0 && time.Now().Before(end); time.Sleep(time.Second) {
			tried = append(tried, l.workers["r"].shown.Load().Tries)
		}
		if got := l.workers["r"].shown.Load().Tries; slices.Max(tried) != 8 || got != 9 {
			t.Errorf("told after %d tries, and not after %d", got, slices.Max(tried))
		}
	})
}

// TestClockSetBackWhileWaiting: a receiver that is well again is tried within a minute, also if the clock was set back
// since it was decided when.
func TestClockSetBackWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		var back atomic.Int64
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender,
			Chance: func() float64 { return 1 },
			Now:    func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }})
		defer l.end(t)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		o.setDown("r", "down")
		b.happen(1)
		for time.Sleep(2 * time.Hour); time.Until(l.workers["r"].shown.Load().NextTry) < 14*time.Minute; {
			time.Sleep(time.Second)
		}
		back.Store(int64(24 * time.Hour))
		o.setDown("r", "")
		time.Sleep(longestWait + time.Second)
		sameIDs(t, "r", o.ids("r"), from(2, 2))
	})
}

// TestAddAfterTheNewest: a receiver cannot begin after a record that there is not.
func TestAddAfterTheNewest(t *testing.T) {
	b, o := newBook(), newTown()
	b.happen(3)
	m, err := Open(Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender})
	if err != nil {
		t.Fatal(err)
	}
	after := uint64(4)
	in := op.NewNotice{Name: "r", URL: "https://r", After: &after}
	if _, err := m.Add(t.Context(), in); wire.AsError(err).Code != wire.CodeBadValue {
		t.Errorf("after record 4 of 3: %v", err)
	}
	after = 3
	if _, err := m.Add(t.Context(), in); err != nil {
		t.Errorf("after record 3 of 3: %v", err)
	}
}

// TestBehind: who is well and far from the newest record is behind.
func TestBehind(t *testing.T) {
	w := worker{}
	for lag, want := range map[uint64]string{0: "ok", behindBy: "ok", behindBy + 1: "behind"} {
		w.shown.Store(&view.NoticeReceiver{State: "ok", Cursor: 7})
		if v := w.view(7 + lag); v.State != want || v.Lag != lag {
			t.Errorf("%d: %+v", lag, v)
		}
	}
	if v := w.view(3); v.Lag != 0 {
		t.Errorf("of an older journal: %+v", v)
	}
}

// TestAbout: the journal has all of what a receiver is told of, and nothing secret of its address.
func TestAbout(t *testing.T) {
	r := notify.Receiver{URL: "http://h:1/secret?x", Insecure: true, Always: true, Filter: notify.Filter{Level: "error",
		Types: []string{"live", "boot"}, Nodes: []string{"a", "b*"}, Who: []string{"c"}, Where: "type:press"}}
	want := "http://h:1, level error, types live boot, nodes a b*, who c, where type:press, also during maintenance, " +
		"without TLS"
	if got := about(&r); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
