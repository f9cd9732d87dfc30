package agentslot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/race"
	"tandem.internal/shared/wire"
)

// memory is a disk that keeps what it is given. What a power cut does to a real one, package slot's tests show.
type memory struct {
	files map[string][]byte
	point func() // before and after each change
	lock  func() // before each step; nil: nothing
}

func (d *memory) Read(name string, limit int64) ([]byte, error) {
	data, ok := d.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(data), nil
}

func (d *memory) Open(name string) (io.ReadCloser, error) {
	data, err := d.Read(name, 0)
	return io.NopCloser(bytes.NewReader(data)), err
}

func (d *memory) List(string) ([]string, error) {
	var names []string
	for name := range d.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (d *memory) change(f func()) error {
	d.point()
	f()
	d.point()
	return nil
}

func (d *memory) Replace(name string, data []byte) error {
	return d.change(func() { d.files[name] = bytes.Clone(data) })
}

func (d *memory) Rename(from, to string) error {
	return d.change(func() { d.files[to] = d.files[from]; delete(d.files, from) })
}

func (d *memory) Remove(name string) error { return d.change(func() { delete(d.files, name) }) }

func (d *memory) Create(name string) (slot.File, error) {
	d.files[name] = nil
	return &file{d, name}, nil
}

func (d *memory) Clean(string) error   { return nil }
func (d *memory) SyncDir(string) error { return nil }
func (d *memory) Mkdir(string) error   { return nil }

func (d *memory) Lock(string, time.Duration) (func() error, error) {
	if d.lock != nil {
		d.lock()
	}
	return func() error { return nil }, nil
}

type file struct {
	d    *memory
	name string
}

func (f *file) Write(p []byte) (int, error) {
	f.d.files[f.name] = append(f.d.files[f.name], p...)
	return len(p), nil
}
func (f *file) Sync() error  { return nil }
func (f *file) Close() error { return nil }

type crash struct{}

// world is a node whose agent updates itself: launcher, slots, machine and program. The agent may end at every point.
type world struct {
	t      *testing.T
	disk   *memory
	saved  update.Record // of the update
	file   string        // to install
	byHand bool          // the version is staged and armed at the node, without the machine
	breaks bool          // version 2 ends at its start
	keeps  bool          // health's verdict

	state   update.State
	now     update.Now
	queue   []update.Effect
	begun   bool   // the machine has taken in that it has started
	running string // version
	tries   int    // starts
	points  int
	crashes map[int]bool
	unsaved map[int]bool // the save of the record fails there; true: it has reached the disk
}

func newWorld(t *testing.T, file string) *world {
	w := &world{t: t, file: file, disk: &memory{files: map[string][]byte{}}}
	w.disk.point = func() {}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// Version 1 is in force in slot a.
	_, err := w.slots().StageFrom(t.Context(), strings.NewReader("1"), slot.Source{})
	must(err)
	must(w.slots().Arm(record.A, 1))
	w.launch()
	must(w.slots().Commit(record.A))
	return w
}

func (w *world) slots() *slot.Store {
	return slot.Open(slot.Config{Dir: "/slots", Disk: w.disk,
		Machine: func() boot.Evidence { return boot.Evidence{Kernel: "k"} },
		SelfTest: func(_ context.Context, path string) (string, error) {
			return string(w.disk.files[strings.TrimPrefix(path, "/slots/")]), nil
		}})
}

func (w *world) program() Program { return Program{Slots: w.slots(), Version: w.running} }

// launch is a start through the launcher, which no crash of this test disturbs.
func (w *world) launch() slot.Launch {
	point := w.disk.point
	w.disk.point = func() {}
	defer func() { w.disk.point = point }()
	l, err := w.slots().Starting().Next(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.running = string(w.disk.files[strings.TrimPrefix(l.Path, "/slots/")])
	return l
}

func (w *world) point() {
	w.points++
	if w.crashes[w.points] {
		panic(crash{})
	}
}

func (w *world) step(ev update.Event) {
	w.point()
	at := w.points
	next, effects := w.state.Load(w.saved).Step(w.now, ev)
	if reached, fails := w.unsaved[at]; fails {
		if reached {
			w.saved = next.Record
		}
		_, ended := ev.(update.Ended)
		w.state, _ = w.state.Step(w.now, update.Dropped{Ended: ended})
		return
	}
	w.saved, w.state, w.begun = next.Record, next, true
	w.point()
	w.queue = append(w.queue, effects...)
}

// live is one run of the agent. It returns when nothing is left to be done.
func (w *world) live() {
	w.state, w.queue = update.New(w.saved), nil
	w.now = update.Now{Now: clock.Now{Wall: time.Unix(1e9, 0)}, Alone: true}
	w.begun = false
	w.step(update.Started{Own: true})
	for range 300 {
		if len(w.queue) > 0 {
			e := w.queue[0]
			w.queue = w.queue[1:]
			w.obey(e)
			continue
		}
		at, due := w.state.NextDeadline()
		if !due {
			return
		}
		if w.now.Mono = max(w.now.Mono, at); w.state.Phase == update.None && w.state.Due() == "" {
			return
		}
		if w.begun {
			w.step(update.Tick{})
		} else {
			w.step(update.Started{Own: true})
		}
	}
	w.t.Fatalf("it never ends: %s", w.saved.Encode())
}

func (w *world) obey(e update.Effect) {
	switch e := e.(type) {
	case update.Run:
		r := w.state.Record
		job := update.Job{Version: r.Version, Why: r.Why}
		if e.Verb == update.Install {
			job.File, job.Hash = w.file, r.Hash
		}
		st, err := w.program().Run(context.Background(), e.Verb, job)
		w.step(update.Answered(e.Verb, st, err))
	case update.Restart:
		if e.Of != update.Agent {
			w.t.Fatalf("%+v", e)
		}
		if _, err := w.slots().Planned(e.Why.Reason, e.Why.Detail); err != nil {
			w.t.Fatal(err)
		}
		panic(crash{})
	case update.Check:
		if e.OK {
			why := update.Why{Reason: wire.BootFallback, Detail: "no contact"}
			w.step(update.Verdict{Number: w.state.Number, Commit: w.keeps, Why: why})
		}
	case update.Emit:
		if e.Number != 0 {
			w.step(update.Reported{Number: e.Number})
		}
	}
}

// run lets the agent run, end and be started again, until nothing is left to be done.
func (w *world) run() {
	for range 60 {
		if w.once() {
			return
		}
		w.tries++
		for w.launch(); w.breaks && w.running == "2"; w.launch() {
			w.tries++
		}
	}
	w.t.Fatalf("it never ends: %s", w.saved.Encode())
}

func (w *world) once() (over bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crash); !ok {
				panic(r)
			}
		}
	}()
	w.disk.point = w.point
	defer func() { w.disk.point = func() {} }()
	w.live()
	return true
}

// story is an update to version 2.
func (w *world) story() {
	if w.byHand {
		_, err := w.slots().StageFrom(context.Background(), strings.NewReader("2"), slot.Source{})
		if err = errors.Join(err, w.slots().Arm(record.B, 3)); err != nil {
			w.t.Fatal(err)
		}
	} else {
		size, hash := int64(1), wire.Hash([]byte("2"))
		stage := update.Order{What: update.OrderStage, Version: "2", Hash: hash, Size: size}
		for _, o := range []update.Order{stage, {What: update.OrderTry, By: "bob"}} {
			s, _ := update.New(w.saved).Step(update.Now{Now: clock.Now{Wall: time.Unix(1e9, 0)}}, o)
			w.saved = s.Record
		}
	}
	w.run()
}

// check says what is wrong at the end.
func (w *world) check() error {
	st, err := w.slots().Status()
	if err != nil {
		return err
	}
	want := "1"
	if w.saved.Last.Committed {
		want = "2"
	}
	p := w.program().status(st)
	l := w.saved.Last
	if w.byHand && w.breaks && l.Number == 0 { // it was over before this machine heard of it
		l.Version, l.Why.Detail = st.Last.Version, st.Last.Detail
	}
	switch {
	case w.saved.Phase != update.None:
		return fmt.Errorf("the update is %s", w.saved.Phase)
	case l.Version != "2" || !l.Committed && l.Why.Detail == "":
		return fmt.Errorf("the record does not tell how it ended: %+v", l)
	case p.Active != want || p.Trying != "" || p.Staged != "" || p.Restart != "":
		return fmt.Errorf("the record says %+v, the slots %+v", l, p)
	case w.running != want:
		return fmt.Errorf("version %s runs, and %s is in force", w.running, want)
	}
	return nil
}

// The agent ends at every point of every story, and at every two; and the record cannot be written at every point,
// whether it has reached the disk or not. In the end what is in force runs, and the record says why.
// Under the race detector, which makes each take ten times as long, each sixth pair of points is tried.
func TestEndsAtEveryPoint(t *testing.T) {
	pairs := 1
	if race.Enabled {
		pairs = 6
	}
	source := filepath.Join(t.TempDir(), "two")
	if err := os.WriteFile(source, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := newWorld(t, source)
	tales := 0
	for _, c := range []struct{ byHand, breaks, keeps bool }{
		{false, false, true}, {false, false, false}, {false, true, true},
		{true, false, true}, {true, false, false}, {true, true, true},
	} {
		fresh := func() *world {
			w := *first
			w.disk = &memory{files: maps.Clone(first.disk.files), point: func() {}}
			w.byHand, w.breaks, w.keeps = c.byHand, c.breaks, c.keeps
			return &w
		}
		tell := func(w *world, what string) {
			t.Helper()
			tales++
			if w.story(); w.check() != nil {
				t.Fatalf("%+v; %s: %v\n%s", c, what, w.check(), w.saved.Encode())
			}
		}
		plain := fresh()
		tell(plain, "undisturbed")
		if plain.saved.Last.Committed != (c.keeps && !c.breaks) {
			t.Errorf("%+v ends with %+v", c, plain.saved.Last)
		}
		for i := 1; i <= plain.points; i++ {
			for j := i; j <= plain.points+10; j += pairs {
				w := fresh()
				w.crashes = map[int]bool{i: true, j: true}
				tell(w, fmt.Sprintf("ended at %d and %d", i, j))
			}
			for _, reached := range []bool{false, true} {
				for j := i; j <= plain.points+10; j += 4 * pairs {
					w := fresh()
					w.unsaved = map[int]bool{i: reached}
					w.crashes = map[int]bool{j: j > i}
					tell(w, fmt.Sprintf("not saved at %d (%v) and ended at %d", i, reached, j))
				}
			}
		}
	}
	if tales < 6_000/pairs {
		t.Errorf("only %d tales", tales)
	}
}
