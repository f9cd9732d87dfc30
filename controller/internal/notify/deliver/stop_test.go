package deliver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// TestStopWaits: when Run has returned nobody is told, nothing is open, and nobody who is added then is either.
func TestStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		o.leaves = time.Second
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender})
		add(t, l.Manager, op.NewNotice{Name: "a"})
		add(t, l.Manager, op.NewNotice{Name: "b"})
		if l.end(t); o.closed != 2 {
			t.Errorf("%d of 2 have stopped", o.closed)
		}
		add(t, l.Manager, op.NewNotice{Name: "late"})
		if l.workers["late"].cancel != nil {
			t.Error("one that was added after the end runs")
		}
	})
}

// TestTakenAtTheEnd: what arrived while everything stopped is not sent again.
func TestTakenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		cfg := Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender}
		l := begin(t, cfg)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		o.deaf, o.slow["r"] = true, 8*time.Second
		b.happen(1)
		time.Sleep(2 * time.Second)
		l.end(t)
		delete(o.slow, "r")
		l = begin(t, cfg)
		time.Sleep(time.Minute)
		l.end(t)
		sameIDs(t, "r", o.ids("r"), from(2, 2))
	})
}

// TestLeftAlone: a receiver is not tried before it wants to be.
func TestLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender})
		defer l.end(t)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		o.later = 10 * time.Minute
		o.setDown("r", "busy")
		b.happen(1)
		time.Sleep(9 * time.Minute)
		if n := l.workers["r"].shown.Load().Tries; n != 1 {
			t.Errorf("tried %d times", n)
		}
	})
}

// TestReceiversThatCannotBe: nobody is added who cannot be told, or whose name is taken, or of whom the journal does
// not know; and nobody is removed without its knowing.
func TestReceiversThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		dir := t.TempDir()
		l := begin(t, Config{Dir: dir, Unit: "u1", Journal: b, NewSender: o.sender})
		defer l.end(t)
		add(t, l.Manager, op.NewNotice{Name: "r"})
		fails := func(when string, err error, want wire.Code) {
			t.Helper()
			if err == nil || wire.AsError(err).Code != want {
				t.Errorf("%s: %v", when, err)
			}
			if all, err := l.List(t.Context()); err != nil || len(all.Receivers) != 1 {
				t.Errorf("%s: %+v %v", when, all, err)
			}
		}
		more := op.NewNotice{Name: "more", URL: "https://more.example"}
		_, err := l.Add(t.Context(), op.NewNotice{Name: "r", URL: "https://more.example"})
		fails("twice", err, wire.CodeAlreadyExists)
		_, err = l.Add(t.Context(), op.NewNotice{Name: "more", URL: "http://more.example"})
		fails("in the clear", err, wire.CodeBadValue)
		b.silent = wire.New(wire.CodeStorage, "", "the journal takes nothing")
		_, err = l.Add(t.Context(), more)
		fails("without a note", err, wire.CodeStorage)
		_, err = l.Remove(t.Context(), op.NoticeIn{Receiver: "r"})
		fails("removed without a note", err, wire.CodeStorage)
		b.silent = nil
		busy, cancel := context.WithCancel(t.Context())
		cancel()
		l.changes <- struct{}{}
		_, err = l.Add(busy, more)
		<-l.changes
		fails("while somebody else is at it", err, wire.CodeTimeout)

		time.Sleep(time.Minute)
		path := filepath.Join(dir, "notice-r.json")
		if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "full"), 0o700)); err != nil {
			t.Fatal(err)
		}
		_, err = l.Remove(t.Context(), op.NoticeIn{Receiver: "r"})
		if err == nil || wire.AsError(err).Code != wire.CodeStorage ||
			!strings.Contains(err.Error(), "was removed, but") {
			t.Errorf("its file stays: %v", err)
		}
	})
}
