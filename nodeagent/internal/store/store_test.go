package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

func config(t *testing.T) Config {
	return Config{Path: filepath.Join(t.TempDir(), "state.db"), Unit: "u1", Node: "n1", EventLimit: 5}
}

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // closing twice is no error that matters here
	return s
}

func doc(rev uint64, body string) inbox.Doc {
	return inbox.Doc{Stamp: wire.Stamp{Epoch: 1, Rev: rev}, Version: fmt.Sprint(rev), Hash: wire.Hash([]byte(body)),
		Mode:          wire.ModeTry,
		ConfirmWithin: duration.Duration(90 * time.Second), Body: []byte(body)}
}

// full is a state with every field set.
func full() inbox.Durable {
	at := time.Date(2026, 11, 20, 10, 0, 0, 123, time.UTC)
	return inbox.Durable{High: wire.Stamp{Epoch: 1, Rev: 3}, HighHash: "h", Running: doc(1, "one"),
		Next: doc(3, "three"), Touched: true,
		Flight: inbox.Flight{Doc: doc(2, "two"), Phase: inbox.Restoring, Attempt: 4,
			Remaining: duration.Duration(time.Minute), WallUntil: at,
			Verdict: inbox.Verdict{State: wire.StateFailed, Err: wire.New(wire.CodeApplyFailed, "/a", "b"),
				Retry: true}},
		Last: &wire.Attempt{Epoch: 1, Rev: 2, Version: "2", Hash: "h", State: wire.StateApplying, Attempt: 4, At: at,
			Error: wire.New(wire.CodeStorage, "", "x")}}
}

func TestKeepsEverything(t *testing.T) {
	cfg := config(t)
	s := open(t, cfg)
	if s.Boots() != 1 {
		t.Errorf("boots %d", s.Boots())
	}
	want := full()
	var set func(v reflect.Value, path string)
	set = func(v reflect.Value, path string) { // a field added later must be set above
		if v.IsZero() {
			t.Errorf("the test leaves %s out", path)
		}
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				if name := v.Type().Field(i).Name; name != "Content" { // which is read from Body
					set(v.Field(i), path+"."+name)
				}
			}
		}
	}
	set(reflect.ValueOf(want), "Durable")
	trust := inbox.Trust{Epoch: 7, Keys: seal.Trust{"k": make([]byte, 32)}, Order: []string{"k"}, KeysRev: 9,
		Signer: "k", Anchor: "a",
		Newest: time.Date(2026, 11, 20, 10, 0, 0, 5, time.UTC),
		Floor: inbox.Floor{All: wire.Stamp{Epoch: 7, Rev: 4},
			Kinds: map[wire.Kind]wire.Stamp{"config": {Epoch: 7, Rev: 2}}},
		Obeyed: inbox.Obeyed{ID: "q", Until: time.Date(2026, 11, 20, 10, 0, 20, 7, time.UTC)}}
	if _, err := s.Commit(Batch{Kinds: []Kind{{"config", want}}, Trust: &trust}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, cfg)
	kinds, err := s.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds["config"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got, err := s.Trust(); err != nil || !reflect.DeepEqual(got, trust) {
		t.Errorf("trust %+v (%v)", got, err)
	}
	if s.Boots() != 2 {
		t.Errorf("boots %d", s.Boots())
	}
	next := want
	next.Running, next.Flight, next.Next = want.Flight.Doc, inbox.Flight{}, inbox.Doc{}
	if _, err := s.Commit(Batch{Kinds: []Kind{{"config", next}}}); err != nil {
		t.Fatal(err)
	}
	kinds, err = s.Kinds()
	if err != nil || !reflect.DeepEqual(kinds["config"], next) {
		t.Errorf("after the commit %+v (%v)", kinds["config"], err)
	}
	if info, err := os.Stat(cfg.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestRefusesToOpen(t *testing.T) {
	for _, c := range []struct {
		name, want string
		prepare    func(t *testing.T, cfg *Config)
	}{
		{"another node's", `belongs to node "n1"`, func(t *testing.T, cfg *Config) { cfg.Node = "n2" }},
		{"another unit's", `of unit "u1"`, func(t *testing.T, cfg *Config) { cfg.Unit = "u2" }},
		{"a newer version", "this agent knows version 2", func(t *testing.T, cfg *Config) {
			db, err := openFile(cfg.Path)
			if err != nil {
				t.Fatal(err)
			}
			err = change(db, func(w *writer) error {
				meta, err := w.bucket(bMeta)
				return errors.Join(err, meta.Put(kVersion, []byte("3")))
			})
			if err = errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		}},
		{"a directory", "open state file", func(t *testing.T, cfg *Config) { cfg.Path = filepath.Dir(cfg.Path) }},
		{"in use", "another tandem-node runs", func(t *testing.T, cfg *Config) { open(t, *cfg) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t)
			if err := open(t, cfg).Close(); err != nil {
				t.Fatal(err)
			}
			c.prepare(t, &cfg)
			s, err := Open(cfg)
			if err == nil {
				err = s.Close()
				t.Fatalf("opened (%v)", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestFaults is the crash table: every kind of write × {nothing on the disk, all on the disk but
// an error returned}, then go on with the same store, then open the file anew.
func TestFaults(t *testing.T) {
	bad := errors.New("disk full")
	event := func(n int) wire.Event {
		return wire.Event{V: 1, Node: "n1", Boot: "b", At: time.Now().UTC().Round(0), Type: fmt.Sprint("t", n)}
	}
	for _, point := range []Point{Before, After} {
		for name, write := range map[string]func(s *Store) error{
			"kind": func(s *Store) error {
				_, err := s.Commit(Batch{Kinds: []Kind{{"config", full()}}, Events: []wire.Event{event(2)}})
				return err
			},
			"trust": func(s *Store) error {
				_, err := s.Commit(Batch{Trust: &inbox.Trust{Epoch: 2}})
				return err
			},
			"acked": func(s *Store) error { return s.Acked(1) },
		} {
			t.Run(fmt.Sprintf("%s fails %s", name, point), func(t *testing.T) {
				cfg := config(t)
				var fail Point
				cfg.Faults = func(p Point) error {
					if p == fail {
						fail = ""
						return bad
					}
					return nil
				}
				s := open(t, cfg)
				saved := Batch{Events: []wire.Event{event(1)}, Trust: &inbox.Trust{Epoch: 1}}
				if _, err := s.Commit(saved); err != nil {
					t.Fatal(err)
				}
				fail = point
				if err := write(s); !errors.Is(err, bad) {
					t.Fatalf("the fault was not reported: %v", err)
				}
				// The same again must come out right in both cases.
				if err := write(s); err != nil {
					t.Fatal(err)
				}
				sent, err := s.Commit(Batch{Events: []wire.Event{event(3)}})
				if err != nil {
					t.Fatal(err)
				}
				before, err := s.Events(0, 100)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open(t, cfg)
				after, err := s.Events(0, 100)
				if err != nil || !reflect.DeepEqual(before, after) {
					t.Errorf("events\n%+v\n%+v (%v)", before, after, err)
				}
				if n := len(after); n == 0 || after[n-1].Seq != sent[0].Seq || s.NewestEvent() != sent[0].Seq {
					t.Errorf("newest event %d, file has %+v", sent[0].Seq, after)
				}
				seen := map[uint64]bool{}
				for _, ev := range after {
					if seen[ev.Seq] {
						t.Errorf("two events have number %d", ev.Seq)
					}
					seen[ev.Seq] = true
				}
				switch name {
				case "kind":
					if kinds, err := s.Kinds(); err != nil || !reflect.DeepEqual(kinds["config"], full()) {
						t.Errorf("%+v (%v)", kinds, err)
					}
				case "trust":
					if tr, err := s.Trust(); err != nil || tr.Epoch != 2 {
						t.Errorf("%+v (%v)", tr, err)
					}
				case "acked":
					if seen[1] {
						t.Error("the acknowledged event is still there")
					}
				}
			})
		}
	}
}

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
