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
	return inbox.Durable{High: wire.Stamp{Epoch: 1, Rev: 3}, HighHash: "h", HighSeal: []byte(`{}`),
		Running: doc(1, "one"),
		Next:    doc(3, "three"), Touched: true,
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
