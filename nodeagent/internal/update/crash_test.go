package update

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// program is a component with two sides, and its machine.
type program struct {
	active, trying, staged, running string
	takesReboot                     bool
	fails                           Verb
}

func (p *program) status() Status {
	s := Status{Active: p.active, Trying: p.trying, Staged: p.staged, Running: p.running}
	want := p.active
	if p.trying != "" {
		want = p.trying
	}
	s.Reboot = p.takesReboot && p.running != want
	return s
}

// follow lets run what should, where that takes no reboot.
func (p *program) follow() {
	if !p.takesReboot {
		p.boot()
	}
}

func (p *program) boot() {
	if p.running = p.active; p.trying != "" {
		p.running = p.trying
	}
}

// half does the first half of a verb, as one does that is killed.
func (p *program) half(v Verb, version string) {
	switch v {
	case Install:
		if p.active != version && p.trying == "" {
			p.staged = ""
		}
	case Activate:
		if p.staged == version {
			p.trying, p.staged = p.staged, "" // and is not running yet
		}
	case Commit:
		if p.trying == version {
			p.active, p.trying = p.trying, "" // and says nothing of it
		}
	case Rollback:
		p.trying = ""
	}
}

func (p *program) run(v Verb, version string) Ended {
	if v == p.fails {
		return Ended{Verb: v, Fault: Failed, Text: "no"}
	}
	p.half(v, version)
	failed := Ended{Verb: v, Fault: Failed, Text: "it is not there"}
	switch v {
	case Install:
		if p.active != version && p.trying != version {
			p.staged = version
		}
	case Activate, Verify:
		if p.active != version && p.trying != version {
			return failed
		}
	case Commit:
		if p.active != version {
			return failed
		}
	case Rollback:
		p.staged = ""
	}
	p.follow()
	return Ended{Verb: v, Status: p.status()}
}

type crash struct{}

// world is a node with one component, whose agent may end at any point.
type world struct {
	t       *testing.T
	p       program
	disk    Record
	commits bool // health's verdict
	points  int  // passed
	crashes map[int]bool
	unsaved map[int]bool // the save there fails; true: after it has reached the disk
	power   bool         // a crash is one of the machine
	now     Now
	state   State
	queue   []Effect
	started int
	told    map[uint64]string
}

// point is a moment at which the world may end.
func (w *world) point() int {
	w.points++
	if w.crashes[w.points] {
		if w.power {
			w.p.boot()
		}
		panic(crash{})
	}
	return w.points
}

func (w *world) step(ev Event) {
	at := w.point()
	w.now.Alone = true
	next, effects := w.state.Load(w.disk).Step(w.now, ev)
	if reached, fails := w.unsaved[at]; fails {
		if reached {
			w.disk = next.Record
		}
		_, ended := ev.(Ended)
		w.state, _ = w.state.Step(w.now, Dropped{Ended: ended})
		return
	}
	w.disk, w.state = next.Record, next
	w.point()
	w.queue = append(w.queue, effects...)
}

// live runs the agent until nothing is to be done any more.
func (w *world) live() {
	w.state, w.queue, w.now.Mono = New(w.disk), nil, 0
	w.step(Started{})
	for range 500 {
		if len(w.queue) > 0 {
			e := w.queue[0]
			w.queue = w.queue[1:]
			switch e := e.(type) {
			case Run:
				version := w.state.Version
				w.point()
				if e.Verb != w.p.fails {
					w.p.half(e.Verb, version)
				}
				w.point()
				ended := w.p.run(e.Verb, version)
				w.point()
				w.step(ended)
			case Restart:
				w.point()
				w.p.boot()
				panic(crash{})
			case Check:
				if e.OK {
					w.step(Verdict{Number: w.state.Number, Commit: w.commits,
						Why: Why{Reason: wire.BootFallback, Detail: "no contact"}})
				}
			case Emit:
				w.point()
				if w.told[e.Number] = e.Text; e.Number != 0 {
					w.step(Reported{e.Number})
				}
			}
			continue
		}
		at, due := w.state.NextDeadline()
		if !due {
			return
		}
		w.now.Mono = max(w.now.Mono, at)
		if w.state.started {
			w.step(Tick{})
		} else {
			w.step(Started{})
		}
	}
	w.t.Fatalf("it never ends: %s", w.disk.Encode())
}

// story plays an update from its staging on, and says how it ended.
func (w *world) story() {
	w.told = map[uint64]string{}
	w.p.active, w.p.running = "1", "1"
	r := Record{Has: Status{Active: "1"}}
	for _, o := range []Order{{What: OrderStage, Version: "2"}, {What: OrderTry, By: "bob"}} {
		s, _ := New(r).Step(Now{Now: clock.Now{Wall: epoch}}, o)
		r = s.Record
	}
	w.disk = r
	for range 60 {
		over := func() (over bool) {
			defer func() {
				if r := recover(); r != nil {
					if _, ok := r.(crash); !ok {
						panic(r)
					}
				}
			}()
			w.started++
			w.now.Wall = epoch.Add(time.Duration(w.started) * time.Minute)
			w.live()
			return true
		}()
		if over {
			return
		}
	}
	w.t.Fatal("it never ends")
}

// check says what is wrong at the end.
func (w *world) check() error {
	r, err := Decode(w.disk.Encode())
	if err != nil {
		return err
	}
	want := "1"
	if r.Last.Committed {
		want = "2"
	}
	switch {
	case r.Phase != None:
		return fmt.Errorf("it ended in phase %s", r.Phase)
	case r.Last.Number != 1 || r.Last.Version != "2":
		return fmt.Errorf("the record does not tell how it ended: %+v", r.Last)
	case w.p.active != want || w.p.trying != "" || w.p.staged != "" || w.p.running != want:
		return fmt.Errorf("the record says %+v, the program has %+v", r.Last, w.p)
	case !r.Last.Committed && (r.Last.Why.Detail == "" || r.Last.Why.Reason == ""):
		return fmt.Errorf("nobody says why it was given up: %+v", r.Last)
	case !r.Last.Tried && w.told[1] != r.Last.Why.Detail || r.Reported != 1 && len(w.unsaved) == 0:
		return fmt.Errorf("told: %q, up to %d; it was %+v", w.told[1], r.Reported, r.Last)
	}
	return nil
}

// The agent, or the machine, ends at every point of every story, and at every two points; and the record
// cannot be written at every point, whether it has reached the disk or not. In the end the component
// is at a version that the record names, and the record says why.
func TestEndsAtEveryPoint(t *testing.T) {
	tales := 0
	for _, reboot := range []bool{false, true} {
		for _, c := range []struct {
			fails     Verb
			commits   bool
			committed bool // if nothing goes wrong
		}{{"", true, true}, {"", false, false}, {Install, true, false}, {Activate, true, false}, {Verify, true, false},
			{Commit, true, false}} {
			fresh := func() *world {
				return &world{t: t, p: program{takesReboot: reboot, fails: c.fails}, commits: c.commits}
			}
			plain := fresh()
			plain.story()
			if r := plain.disk; r.Last.Committed != c.committed {
				t.Errorf("%+v ends with %+v", c, r.Last)
			}
			tell := func(w *world, what string) {
				t.Helper()
				tales++
				if w.story(); w.check() != nil {
					t.Fatalf("fails %q, commits %v, takes a reboot: %v; %s: %v\n%s", c.fails, c.commits, reboot,
						what, w.check(), w.disk.Encode())
				}
				if r := w.disk; r.Last.Committed && !c.committed && c.fails != Commit {
					t.Errorf("fails %q, commits %v, %s: kept", c.fails, c.commits, what)
				}
			}
			tell(fresh(), "undisturbed")
			for i := 1; i <= plain.points; i++ {
				for _, power := range []bool{false, true} {
					for j := i; j <= plain.points+10; j++ {
						w := fresh()
						w.power, w.crashes = power, map[int]bool{i: true, j: true}
						tell(w, fmt.Sprintf("ended at %d and %d, power %v", i, j, power))
					}
				}
				for _, reached := range []bool{false, true} {
					w := fresh()
					w.unsaved = map[int]bool{i: reached}
					tell(w, fmt.Sprintf("not saved at %d, on the disk all the same: %v", i, reached))
					for j := i + 1; j <= plain.points+10; j++ {
						w := fresh()
						w.unsaved, w.crashes = map[int]bool{i: reached}, map[int]bool{j: true}
						tell(w, fmt.Sprintf("not saved at %d (%v) and ended at %d", i, reached, j))
					}
				}
			}
		}
	}
	if tales < 10_000 {
		t.Errorf("only %d tales", tales)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Record{}.Encode())
	f.Add(Record{Seq: 3, Number: 2, Phase: Trying, Version: "2", Tried: true,
		Why: Why{Reason: wire.BootFallback, Detail: "x"}}.Encode())
	f.Add([]byte("tandem-component 1 00\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(r.Encode())
		if err != nil || string(again.Encode()) != string(r.Encode()) {
			t.Errorf("%v\n%s", err, r.Encode())
		}
		s, _ := New(r).Step(Now{Now: clock.Now{Wall: epoch}}, Started{Crashed: true})
		if s.Phase != "" && s.Due() == "" && s.Phase != Staged {
			t.Errorf("nothing is due in phase %s", s.Phase)
		}
		c := s.Component("os")
		report := wire.Health{Indicator: 1, Text: "x", Boot: wire.HealthBoot{Reason: "none", At: epoch},
			Settings: wire.HealthSettings{}.Complete(), Components: []wire.HealthComponent{c}}
		if _, err := wire.Decode[wire.Health](wire.Encode(&report)); err != nil {
			t.Errorf("a report that the wire refuses: %v: %+v", err, c)
		}
	})
}
