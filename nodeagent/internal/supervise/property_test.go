package supervise

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// world is a keeper, a disk and a store around one slot.
type world struct {
	t     *rapid.T
	state State
	saved []byte
	now   clock.Now

	runs    map[string]*run // that are there
	ended   map[string]bool // IDs that ever ended
	dirs    map[string]workload.Config
	todo    []Event // answers that are due
	fail    bool    // hooks may fail
	counts  map[string]int
	seen    map[string]bool // IDs that were ever started
	wanted  *workload.Config
	stopped bool
}

type run struct {
	hook, dir string
	began     time.Time
}

// up is what the keeper tells of a run that is there.
func (w *world) up(id string) Running { return Running{Run: id, Up: w.now.Wall.Sub(w.runs[id].began)} }

var rules = Rules{Window: 10 * time.Second, Grace: 5 * time.Second, Status: 10 * time.Second, Reopen: time.Hour}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, runs: map[string]*run{}, ended: map[string]bool{}, dirs: map[string]workload.Config{},
		counts: map[string]int{}, seen: map[string]bool{}}
	w.now.Wall = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.state = New(Durable{Slot: workload.Slot{Service: "web", Node: "n1"}}, rules)
	w.saved = w.encode(w.state.Durable)
	w.step(Started{})
	return w
}

func (w *world) encode(d Durable) []byte {
	data, err := json.Marshal(&d)
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}

// step steps, and does what is asked for unless it dies before.
func (w *world) step(ev Event) {
	next, effects := w.state.Step(w.now, ev)
	if w.fail && rapid.IntRange(0, 30).Draw(w.t, "save fails") == 0 {
		if _, first := ev.(Started); !first {
			w.todo = append(w.todo, ev) // the shell tells it again
			return
		}
	}
	w.state = next
	w.check()
	for i, e := range effects {
		if _, save := e.(Save); save != (i == 0) && save {
			w.t.Fatalf("Save is effect %d of %v", i, effects)
		}
		if w.fail && rapid.IntRange(0, 40).Draw(w.t, "dies") == 0 {
			w.crash()
			return
		}
		w.effect(e)
	}
}

// check holds what is true of every state.
func (w *world) check() {
	s := w.state
	if r := s.Report(); !s.Empty() {
		list := wire.Workloads{Slots: []wire.WorkloadSlot{r}}
		if _, err := wire.Decode[wire.Workloads](wire.Encode(&list)); err != nil {
			w.t.Fatalf("a report that the wire refuses: %v: %+v", err, r)
		}
	}
	if s.Refused != nil && (s.Wanted == nil || s.Refused.Key != key(*s.Wanted) || s.Next != nil) {
		w.t.Fatalf("refused is what is not wanted, or prepared: %+v", s.Durable)
	}
	dirs := map[string]bool{}
	for _, p := range s.Places() {
		if p == s.Next && s.dynamic() {
			continue
		}
		if dirs[p.Dir] {
			w.t.Fatalf("two places in %s: %+v", p.Dir, s.Durable)
		}
		dirs[p.Dir] = true
	}
	if at, ok := s.NextDeadline(); ok && s.started && at <= w.now.Mono {
		w.t.Fatalf("a tick is due at %v, and it is %v: %+v", at, w.now.Mono, s)
	}
}

func (w *world) crash() {
	var d Durable
	if err := json.Unmarshal(w.saved, &d); err != nil {
		w.t.Fatal(err)
	}
	w.now.Mono = 0
	w.todo = nil
	for id := range w.ended { // the keeper tells again what was not forgotten
		if w.ended[id] {
			w.todo = append(w.todo, Ended{Run: id, Exit: wire.WorkloadExit{Code: 0, At: w.now.Wall}})
		}
	}
	w.state = New(d, rules)
	w.step(Started{})
	w.todo = append(w.todo, Want{w.wanted, w.stopped}) // the document is known
}

func (w *world) want(c *workload.Config) {
	w.wanted = c
	w.step(Want{c, w.stopped})
}

func (w *world) effect(e Effect) {
	switch e := e.(type) {
	case Save:
		w.saved = w.encode(w.state.Durable)
	case LinkUp:
		w.dirs[e.Dir] = e.Config
		if w.fail && rapid.IntRange(0, 3).Draw(w.t, "link fails") == 0 { // some links are made, or all
			w.todo = append(w.todo, Linked{Dir: e.Dir, Err: wire.New(wire.CodeStorage, "", "disk full")})
			return
		}
		w.todo = append(w.todo, Linked{Dir: e.Dir})
	case Delete:
		delete(w.dirs, e.Dir)
		w.todo = append(w.todo, Removed{Dir: e.Dir})
	case Run:
		if w.seen[e.ID] { // adopted; if it has ended, its end is told
			if w.runs[e.ID] == nil {
				w.todo = append(w.todo, Ended{Run: e.ID, Exit: wire.WorkloadExit{At: w.now.Wall}})
			} else {
				w.todo = append(w.todo, w.up(e.ID))
			}
			return
		}
		w.seen[e.ID] = true
		if _, ok := w.dirs[e.Dir]; !ok {
			w.t.Fatalf("%s is run in %s, which is not there", e.Hook, e.Dir)
		}
		if e.Hook == workload.HookStart {
			if w.state.Stopped {
				w.t.Fatalf("%s is started, and an operator has stopped it", e.ID)
			}
			for id, r := range w.runs {
				if r.hook == workload.HookStart {
					w.t.Fatalf("%s is started while %s runs", e.ID, id)
				}
			}
		}
		w.counts[e.Hook]++
		w.runs[e.ID] = &run{hook: e.Hook, dir: e.Dir, began: w.now.Wall}
		w.todo = append(w.todo, w.up(e.ID))
	case Emit:
		if e.Type == EventStayed {
			if r := w.runs[w.state.Main.Run]; r != nil && w.now.Wall.Sub(r.began) < rules.Window {
				w.t.Fatalf("%s has stayed up, and runs for %v", w.state.Main.Run, w.now.Wall.Sub(r.began))
			}
		}
	case Stop:
		if r := w.runs[e.ID]; r != nil {
			w.end(e.ID, wire.WorkloadExit{Code: -1, Signal: "SIGTERM"})
		} else {
			w.todo = append(w.todo, Ended{Run: e.ID, Exit: wire.WorkloadExit{Lost: true, Code: -1, At: w.now.Wall}})
		}
	case Forget:
		delete(w.ended, e.ID)
	}
}

func (w *world) end(id string, exit wire.WorkloadExit) {
	exit.At = w.now.Wall
	delete(w.runs, id)
	w.ended[id] = true
	w.todo = append(w.todo, Ended{Run: id, Exit: exit})
}

func (w *world) answer() bool {
	if len(w.todo) == 0 {
		return false
	}
	i := rapid.IntRange(0, len(w.todo)-1).Draw(w.t, "answer")
	ev := w.todo[i]
	w.todo = slices.Delete(w.todo, i, i+1)
	if _, ok := ev.(Want); ok {
		ev = Want{w.wanted, w.stopped} // the newest
	}
	w.step(ev)
	return true
}

func (w *world) fetched() {
	if p := w.state.Next; p != nil && p.Phase == Fetch {
		w.step(Fetched{Dir: p.Dir})
	}
}

func (w *world) pass(d time.Duration) {
	w.now.Mono += d
	w.now.Wall = w.now.Wall.Add(d)
	w.step(Tick{})
}

// hooks end what is not the process.
func (w *world) hooks(t *rapid.T) {
	for _, id := range slices.Sorted(maps.Keys(w.runs)) {
		r := w.runs[id]
		if r == nil || r.hook == workload.HookStart {
			continue
		}
		code := 0
		if w.fail {
			code = rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "code")
		}
		w.end(id, wire.WorkloadExit{Code: code, Lost: code < 0})
	}
}

// done reports whether what is wanted is all there is, and nothing is under way.
func (w *world) done(c workload.Config) bool {
	s := w.state
	if len(w.todo) > 0 || w.wanted == nil {
		return len(w.todo) == 0 && s.Empty() && len(w.runs) == 0 && len(w.dirs) == 0
	}
	main := s.Main
	return main != nil && len(w.runs) == 1 && w.runs[main.Run] != nil &&
		main.Config.ConfigurationID == c.ConfigurationID && s.Next == nil && s.Before == nil &&
		len(s.Gone) == 0 && len(w.dirs) == 1 && s.Durable.State == wire.WorkloadRunning
}

func config(n, data, hooks int, job bool, extra string) workload.Config {
	c := workload.Config{Class: workload.Instance, ConfigurationID: fmt.Sprint("id", n),
		Slot:       workload.Slot{Service: "web", Node: "n1"},
		Properties: map[string]string{"x": extra}, Resources: map[string]workload.Artifact{}}
	if job {
		c.Class = workload.Job
	}
	for i, h := range workload.Hooks {
		if h == workload.HookStart || hooks>>i&1 == 1 {
			c.Resources[h] = workload.Artifact{Class: workload.Resource, UUID: fmt.Sprint(h, n)}
		}
	}
	c.Resources["data"] = workload.Artifact{Class: workload.DynamicResource, UUID: fmt.Sprint("data", data)}
	c.ConfigurationID += fmt.Sprint("-", data)
	return c
}

// Whatever happens, at most one process is asked for at a time, nothing is run where it is not
// linked; and when trouble ends, what is wanted is in force, and nothing else is left.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.fail = true
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"want", "want", "none", "fetched", "answer", "answer", "answer", "hooks",
				"exit", "pass", "restart", "crash"}).Draw(t, "event") {
			case "want":
				c := config(rapid.IntRange(1, 3).Draw(t, "n"), rapid.IntRange(1, 3).Draw(t, "data"),
					rapid.SampledFrom([]int{0, 42, 255}).Draw(t, "hooks"), rapid.IntRange(0, 4).Draw(t, "job") == 0,
					rapid.SampledFrom([]string{"a", "b"}).Draw(t, "x"))
				w.stopped = rapid.IntRange(0, 3).Draw(t, "stopped") == 0
				w.want(&c)
			case "none":
				w.want(nil)
			case "fetched":
				w.fetched()
			case "answer":
				w.answer()
			case "hooks":
				w.hooks(t)
			case "exit":
				for id, r := range w.runs {
					if r.hook == workload.HookStart {
						code := rapid.IntRange(-1, 2).Draw(t, "code")
						w.end(id, wire.WorkloadExit{Code: code, Lost: code < 0})
					}
				}
			case "pass":
				w.pass(time.Duration(rapid.IntRange(1, 100_000).Draw(t, "ms")) * time.Millisecond)
			case "restart":
				w.step(Restart{})
			case "crash":
				w.crash()
			}
		}
		w.fail, w.stopped = false, false
		c := config(rapid.IntRange(1, 7).Draw(t, "last"), 7, 255, false, "end")
		if rapid.Bool().Draw(t, "emptied") {
			w.want(nil)
		} else {
			w.want(&c)
		}
		for n := 0; n < 300 && !w.done(c); n++ {
			w.fetched()
			w.hooks(t)
			for w.answer() {
			}
			w.pass(7 * time.Second)
		}
		s := w.state
		if !w.done(c) {
			t.Fatalf("wanted is %v, and at the end there are %v, %v, %+v", w.wanted != nil, w.runs, w.dirs, s.Durable)
		}
		if w.wanted == nil {
			return
		}
		if got := w.dirs[s.Main.Dir].Resources; !reflect.DeepEqual(got, c.Resources) {
			t.Fatalf("links of %v, wanted are those of %v", got, c.Resources)
		}
		if len(w.ended) > 0 {
			t.Fatalf("never forgotten: %v", w.ended)
		}
		if strings.Contains(string(w.saved), `"run":""`) {
			t.Fatal("nothing is saved as something")
		}
	})
}
