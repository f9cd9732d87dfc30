package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/wire"
)

// Events that wait in memory after a failed save are given again, with newer ones behind them: each is in the
// file once, whatever failed on the way.
func TestEventsOfFailedSaves(t *testing.T) {
	bad := errors.New("disk full")
	for script := range 1 << 6 { // three saves, each failing in one of four ways
		cfg := config(t)
		cfg.EventLimit = 100
		var fail Point
		cfg.Faults = func(p Point) error {
			if p == fail {
				return bad
			}
			return nil
		}
		s := open(t, cfg)
		var backlog []wire.Event
		want, last := "", uint64(0)
		for i := range 4 {
			ev := wire.Event{V: 1, Node: "n1", Boot: "b", At: time.Unix(1, 0).UTC(), Type: fmt.Sprint("t", i)}
			backlog = append(backlog, ev)
			want += ev.Type + " "
			fail = []Point{"", Before, After, After}[script>>(2*i)&3]
			if i == 3 {
				fail = ""
			}
			saved, err := s.Commit(Batch{Events: backlog, Trust: &inbox.Trust{Epoch: uint64(i + 1)}})
			if (err != nil) != (fail != "") {
				t.Fatal(err)
			}
			if err == nil {
				if len(saved) != len(backlog) || saved[len(saved)-1].Seq != s.NewestEvent() {
					t.Errorf("script %d: saved %+v", script, saved)
				}
				backlog = nil
			}
			if script>>(2*i)&3 == 3 { // and the agent starts anew in between
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				fail, backlog = "", nil // which were in the file
				s = open(t, cfg)
			}
		}
		events, err := s.Events(0, 100)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, ev := range events {
			if got += ev.Type + " "; ev.Seq != last+1 {
				t.Errorf("script %d: event %d comes after %d", script, ev.Seq, last)
			}
			last = ev.Seq
		}
		if got != want {
			t.Errorf("script %d: the file has %s, want %s", script, got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// What was given up is not taken for another event.
	cfg := config(t)
	var fail Point
	cfg.Faults = func(p Point) error {
		if p == fail {
			return bad
		}
		return nil
	}
	s := open(t, cfg)
	fail = After
	first := wire.Event{V: 1, Node: "n1", Boot: "b", At: time.Unix(1, 0).UTC(), Type: "first"}
	if _, err := s.Commit(Batch{Events: []wire.Event{first}}); err == nil {
		t.Fatal("it did not fail")
	}
	fail = ""
	second := first
	second.Type = "second"
	saved, err := s.Commit(Batch{Events: []wire.Event{second, first}})
	if err != nil || saved[0].Seq != 2 || saved[1].Seq != 3 {
		t.Errorf("%+v %v", saved, err)
	}
}

// An event of a save that failed may be in the file and yet not on the disk. If it were told and the power then cut,
// another event would get its number, and the controller would take that one for the first: nobody hears of it until a
// save has succeeded.
func TestEventsInDoubtAreNotTold(t *testing.T) {
	cfg := config(t)
	bad := errors.New("fsync failed")
	var fail Point
	cfg.Faults = func(p Point) error {
		if p == fail {
			return bad
		}
		return nil
	}
	event := func(kind string) wire.Event {
		return wire.Event{V: 1, Node: "n1", Boot: "b", At: time.Unix(1, 0).UTC(), Type: kind}
	}
	told := func(s *Store) string {
		t.Helper()
		events, err := s.Events(0, 100)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(s.NewestEvent())
		for _, ev := range events {
			got += fmt.Sprint(" ", ev.Type, "=", ev.Seq)
		}
		return got
	}
	want := func(s *Store, want string) {
		t.Helper()
		if got := told(s); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	s := open(t, cfg)
	if _, err := s.Commit(Batch{Events: []wire.Event{event("a")}}); err != nil {
		t.Fatal(err)
	}
	fail = After
	for range 2 {
		if _, err := s.Commit(Batch{Events: []wire.Event{event("b")}}); !errors.Is(err, bad) {
			t.Fatal(err)
		}
		want(s, "1 a=1")
	}
	fail = ""
	if err := s.Acked(2); err != nil { // a controller says that it has what it cannot have
		t.Fatal(err)
	}
	want(s, "1")
	if _, err := s.Commit(Batch{Events: []wire.Event{event("b"), event("c")}}); err != nil {
		t.Fatal(err)
	}
	want(s, "3 b=2 c=3")
	fail = After
	if _, err := s.Commit(Batch{Events: []wire.Event{event("d")}}); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	want(s, "3 b=2 c=3")
	fail = "" // the agent stops, and its next start saves
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want(open(t, cfg), "4 b=2 c=3 d=4")
}

func TestEvents(t *testing.T) {
	s := open(t, config(t))
	commit := func(name string, lost uint64) {
		t.Helper()
		ev := wire.Event{V: 1, Node: "n1", Boot: "b", At: time.Unix(1, 0).UTC(), Type: name, Lost: lost}
		if _, err := s.Commit(Batch{Events: []wire.Event{ev}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		commit(fmt.Sprint("t", i+1), 0)
	}
	check := func(after uint64, limit int, want string) {
		t.Helper()
		events, err := s.Events(after, limit)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, ev := range events {
			got += fmt.Sprintf("%d:%s", ev.Seq, ev.Type)
			if ev.Lost > 0 {
				got += fmt.Sprintf("(-%d)", ev.Lost)
			}
			got += " "
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("after %d: %q, want %q", after, got, want)
		}
	}
	check(0, 9, "4:t4(-3) 5:t5 6:t6 7:t7 8:t8") // five are kept
	check(2, 2, "4:t4(-1) 5:t5")
	check(4, 9, "5:t5 6:t6 7:t7 8:t8")
	if err := s.Acked(6); err != nil {
		t.Fatal(err)
	}
	check(0, 9, "7:t7 8:t8")
	if err := s.Acked(100); err != nil { // more than there is
		t.Fatal(err)
	}
	check(0, 9, "")
	check(^uint64(0), 9, "")
	commit("t9", 0)
	check(0, 9, "9:t9")
	for i, lost := range []uint64{0, 3, 0} { // of which two were lost before they came here
		commit(fmt.Sprint("u", i), lost)
	}
	check(0, 9, "9:t9 10:u0 14:u1(-3) 15:u2")
	check(10, 9, "14:u1(-3) 15:u2")
	check(12, 9, "14:u1(-1) 15:u2")
	for range 3 {
		commit("v", 0)
	}
	check(0, 9, "14:u1(-5) 15:u2 16:v 17:v 18:v") // five are kept
}
