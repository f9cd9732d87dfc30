package health

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"tandem.internal/nodeagent/internal/clock"
	"tandem.internal/shared/wire"
)

// world is a shell, a node and its slots for the properties: saves may fail before or after they
// have reached the disk, the agent and the machine may stop at any moment, clocks jump.
type world struct {
	t        *rapid.T
	now      clock.Now
	state    State
	twin     State // its Durable goes through JSON after every step
	disk     []byte
	settings wire.HealthSettings
	slots    Slots
	trials   int
	asked    []Effect // not answered yet

	rested  time.Duration            // maintenance, at most
	failed  time.Duration            // uptime of the newest Tick that could not be saved and had to be; -1: none
	behind  bool                     // the disk has an older state,
	slack   time.Duration            // for so long in all
	lone    bool                     // no twin: time passes faster
	contact time.Duration            // the newest in this run; -1: none
	trialAt time.Duration            // the state has known of the trial since, in this run; -1: not
	met     map[string]bool          // trials with contact
	byHand  map[string]bool          // trials approved by hand
	run     map[string]time.Duration // running time of each trial
	checks  map[string]Check
	checkAt map[string]time.Duration

	resets  int           // asked for, without contact in between
	resetAt time.Duration // the newest, in uptime
	uptime  time.Duration // of all runs together
	ended   int           // trials that ended
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: clock.Now{Wall: epoch}, disk: []byte("{}"), met: map[string]bool{},
		byHand: map[string]bool{}, run: map[string]time.Duration{}, failed: -1}
	w.settings = wire.HealthSettings{FormatVersion: wire.HealthFormat, Reset: wire.SpanOf(time.Hour)}
	w.slots = Slots{Used: true, Current: "a", Good: "a",
		List: []wire.HealthSlot{{ID: "a", State: wire.SlotActive, Version: "1", Verified: true},
			{ID: "b", State: wire.SlotUpdating, Version: "2", Verified: true}}}
	w.boot(false)
	return w
}

func (w *world) boot(machine bool) {
	if machine && w.trial() != "" { // it has no tries left
		w.endTrial(false)
	}
	w.asked = nil
	var d, e Durable
	for _, to := range []*Durable{&d, &e} {
		if err := json.Unmarshal(w.disk, to); err != nil {
			w.t.Fatal(err)
		}
	}
	w.state, w.twin = New(d), New(e)
	w.now.Mono, w.contact, w.trialAt = 0, -1, -1
	w.checks, w.checkAt = map[string]Check{}, map[string]time.Duration{}
	w.step(Started{Settings: w.settings, Rebooted: machine, Checks: []string{"disk"}}, "works")
	w.step(w.slots, "works")
	w.step(Link{Address: true, Broker: true}, "works")
}

func (w *world) endTrial(well bool) {
	w.ended++
	w.slots.Updates.Over = []Over{{Trial: w.trial(), Kept: well, Reason: wire.BootFallback}}
	w.slots.Updates.Trial = Tried{}
	if well {
		w.slots.Good = w.slots.Current
	} else {
		w.slots.Current = w.slots.Good
	}
	list := slices.Clone(w.slots.List)
	for i := range list {
		list[i].State = wire.SlotUnused
		if list[i].ID == w.slots.Good {
			list[i].State = wire.SlotActive
		}
	}
	w.slots.List = list
}

func (w *world) step(ev Event, disk string) {
	next, effects := w.state.Step(w.now, ev)
	twin := next
	_, tick := ev.(Tick)
	if !w.lone {
		var same []Effect
		if twin, same = w.twin.Step(w.now, ev); !reflect.DeepEqual(effects, same) {
			w.t.Fatalf("after %T the state says %+v, and read back from the disk %+v", ev, effects, same)
		}
	}
	if len(effects) > 0 {
		if save, ok := effects[0].(Save); ok {
			w.behind = disk == "fails"
			if disk != "fails" {
				data, err := json.Marshal(next.Durable)
				if err != nil {
					w.t.Fatal(err)
				}
				w.disk = data
			}
			if disk != "works" && save.Must {
				trouble := wire.New(wire.CodeStorage, "", "disk full")
				next, effects = w.state.Failed(w.now, ev, trouble)
				twin, _ = w.twin.Failed(w.now, ev, trouble)
				if tick {
					if w.failed == w.uptime {
						w.t.Fatalf("at %v a second tick had to be saved and was not", w.now.Mono)
					}
					w.failed, tick = w.uptime, false // all of it is dropped; what else was due gets one tick more
				}
			}
		}
	}
	w.state, w.twin = next, twin
	if w.behind && disk == "works" { // as soon as it can
		data, err := json.Marshal(next.Durable)
		if err != nil {
			w.t.Fatal(err)
		}
		w.disk, w.behind = data, false
	}
	if !w.lone {
		data, err := json.Marshal(w.twin.Durable)
		if err == nil {
			w.twin.Durable = Durable{}
			err = json.Unmarshal(data, &w.twin.Durable)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if w.state.trying && w.trialAt < 0 {
		w.trialAt = w.now.Mono
	}
	at, ok := w.state.NextDeadline()
	if ok && (at < w.now.Mono || tick && at == w.now.Mono) {
		w.t.Fatalf("after %T at %v a tick is wanted at %v", ev, w.now.Mono, at)
	}
	for _, e := range effects {
		switch e := e.(type) {
		case Commit, RollBack, RestartAgent, Reboot:
			w.may(e)
			w.asked = append(w.asked, e)
		case Report:
			if w.lone {
				continue
			}
			if _, err := wire.Decode[wire.Health](wire.Encode(&e.Health)); err != nil {
				w.t.Fatal(err)
			}
		case Answer:
			if o, ok := ev.(Order); ok && e.Err == nil && o.What == OrderApprove && o.ByHand {
				w.byHand[w.trial()] = true
			}
		}
	}
}

// may fails if what is asked for must not happen now.
func (w *world) may(e Effect) {
	s := w.settings.Complete()
	good := slotOf(w.slots.List, w.slots.Good).Verified
	trial := w.state.Trial
	switch e := e.(type) {
	case Commit:
		if e.Trial != w.trial() || w.state.Restart.Do != "" {
			w.t.Fatalf("%+v while %s is on trial and %+v is planned", e, w.trial(), w.state.Restart)
		}
		offline := trial.Baseline.Offline
		if !(w.contact >= w.trialAt && w.contact >= 0) && !(offline && (w.met[e.Trial] || w.byHand[e.Trial])) {
			w.t.Fatalf("commit without contact since the start")
		}
		if !offline && w.now.Mono-w.contact > s.Contact.Std()+w.rested {
			w.t.Fatalf("commit %v after the newest contact", w.now.Mono-w.contact)
		}
		if w.now.Mono-w.trialAt < s.Test.Std() {
			w.t.Fatalf("commit %v after the start", w.now.Mono-w.trialAt)
		}
		if *s.Approval && trial.Approved == "" {
			w.t.Fatal("commit without approval")
		}
		for name, c := range w.checks {
			if (!c.OK || w.now.Mono-w.checkAt[name] >= c.TTL) && !slices.Contains(trial.Baseline.Failing, name) {
				w.t.Fatalf("commit while check %s is %+v", name, c)
			}
		}
		if !offline && good && w.run[e.Trial] > s.Deadline.Std()+w.rested+w.slack {
			w.t.Fatalf("commit after %v on trial", w.run[e.Trial])
		}
	case RollBack:
		if e.Trial != w.trial() || !good || w.trial() == "" {
			w.t.Fatalf("%+v with %+v", e, w.slots)
		}
		if strings.Contains(e.Detail, "no contact") && trial.Baseline.Offline {
			w.t.Fatal("rolled back for being offline")
		}
	case RestartAgent:
		if !good {
			w.t.Fatal("a restart with nothing to start")
		}
	case Reboot:
		if !good || !*s.Reboot || w.trial() != "" {
			w.t.Fatalf("%+v with %+v", e, w.slots)
		}
		if e.Reason != wire.BootDisconnect {
			return
		}
		distance := s.Reset.Std() << min(w.resets, 7) // a week is 168 hours
		if w.resets > 0 && w.uptime-w.resetAt < distance-time.Second {
			w.t.Fatalf("reset %d comes %v after the one before, want %v", w.resets, w.uptime-w.resetAt, distance)
		}
		w.resets++
		w.resetAt = w.uptime
	}
}

func (w *world) pass(d time.Duration) {
	w.now.Mono += d
	w.now.Wall = w.now.Wall.Add(d)
	w.uptime += d
	if w.behind {
		w.slack += d
	}
	if w.trial() != "" {
		w.run[w.trial()] += d
	}
}

// tickTo lets time pass with a Tick at each deadline.
func (w *world) tickTo(until time.Duration, disk string) {
	for i := 0; ; i++ {
		at, ok := w.state.NextDeadline()
		if !ok || at > until {
			w.pass(max(0, until-w.now.Mono))
			return
		}
		if i > 50_000 {
			w.t.Fatal("ticks without end")
		}
		w.pass(at - w.now.Mono)
		w.step(Tick{}, disk)
	}
}

// answer carries out what was asked for, or not.
func (w *world) answer(well bool, disk string) {
	if len(w.asked) == 0 {
		return
	}
	e := w.asked[0]
	w.asked = w.asked[1:]
	trouble := wire.New(wire.CodeApplyFailed, "", "exit status 1")
	switch e := e.(type) {
	case Commit:
		if w.trial() != e.Trial {
			return
		}
		if !well {
			w.step(Committed{Trial: e.Trial, Err: trouble}, disk)
			return
		}
		w.endTrial(true)
		w.step(w.slots, disk)
	case RollBack:
		if w.trial() != e.Trial {
			return
		}
		if !well {
			w.step(Restarting{Err: trouble}, disk)
			return
		}
		w.endTrial(false)
		w.step(w.slots, disk)
		w.step(Order{What: OrderRestart, Reason: wire.BootFallback}, disk)
	case RestartAgent:
		if !well {
			w.step(Restarting{Err: trouble}, disk)
			return
		}
		w.boot(false)
	case Reboot:
		if !well {
			w.step(Restarting{Err: trouble}, disk)
			return
		}
		w.boot(true)
	}
}

// try starts the other slot, as by hand.
func (w *world) try() {
	if w.trial() != "" || !slotOf(w.slots.List, w.slots.Good).Verified {
		return
	}
	w.trials++
	w.slots.Current = map[string]string{"a": "b", "b": "a"}[w.slots.Good]
	w.slots.Updates.Trial = Tried{ID: fmt.Sprint("agent#", w.trials), Slot: w.slots.Current,
		Version: slotOf(w.slots.List, w.slots.Current).Version}
}

// trial is the name of the trial that goes on, "" if there is none.
func (w *world) trial() string { return w.slots.Updates.Trial.ID }

// noWayBack is what the agent's program says of the slots.
func (w *world) noWayBack() {
	w.slots.Updates.Trial.NoWayBack = ""
	if !slotOf(w.slots.List, w.slots.Good).Verified {
		w.slots.Updates.Trial.NoWayBack = "there is no verified slot to go back to"
	}
}

func (w *world) hear(r wire.ContactResult, disk string) {
	if r == wire.ContactSuccess {
		w.contact, w.resets = w.now.Mono, 0
		if w.trial() != "" {
			w.met[w.trial()] = true
		}
	}
	w.step(Contact{Result: r}, disk)
}

func (w *world) check(name string, ok bool, disk string) {
	c := Check{Name: name, OK: ok, TTL: 2 * time.Minute}
	w.checks[name], w.checkAt[name] = c, w.now.Mono
	w.step(c, disk)
}

// TestProperties plays random days, and then lets things calm down: every trial comes to an end.
// What must never happen on the way is in may and step.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		seconds := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Second
		}
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			disk := rapid.SampledFrom([]string{"works", "works", "works", "works", "fails", "unknown"}).Draw(t, "disk")
			switch rapid.SampledFrom([]string{"good time", "good time", "good time", "good time", "good time",
				"good time", "try", "silence", "long silence", "contact", "word", "check", "answer", "answer", "order",
				"try",
				"crash", "power", "clock", "settings", "verified", "maintenance", "stop", "unread"}).Draw(t, "event") {
			case "good time": // contact and good checks
				heard := rapid.IntRange(0, 4).Draw(t, "heard") > 0
				ble := rapid.SampledFrom([]string{"no word", "no word", "good", "bad"}).Draw(t, "ble")
				for range rapid.IntRange(1, 20).Draw(t, "minutes") {
					if heard {
						w.hear(wire.ContactSuccess, disk)
					}
					w.check("disk", true, disk)
					if ble != "no word" {
						w.check("ble", ble == "good", disk)
					}
					w.tickTo(w.now.Mono+time.Minute, disk)
				}
			case "silence":
				w.tickTo(w.now.Mono+seconds("time", 900), disk)
			case "long silence":
				w.tickTo(w.now.Mono+seconds("time", 5_000), disk)
			case "contact":
				w.hear(wire.ContactSuccess, disk)
			case "word":
				w.hear(rapid.SampledFrom([]wire.ContactResult{wire.ContactTemporary, wire.ContactFailure,
					wire.ContactSaved}).Draw(t, "result"), disk)
			case "check":
				w.check(rapid.SampledFrom([]string{"disk", "ble"}).Draw(t, "name"), rapid.Bool().Draw(t, "ok"), disk)
			case "answer":
				w.answer(rapid.IntRange(0, 3).Draw(t, "well") > 0, disk)
			case "order":
				w.step(Order{ID: "q",
					What: rapid.SampledFrom([]What{OrderReboot, OrderRestart, OrderApprove, OrderRollBack}).Draw(t,
						"what"),
					By: "anna", ByHand: rapid.Bool().Draw(t, "hand"),
					Version: slotOf(w.slots.List, w.slots.Current).Version}, disk)
			case "try":
				w.try()
				w.boot(false)
			case "crash":
				w.boot(false)
			case "power":
				w.boot(true)
			case "clock":
				w.now.Wall = w.now.Wall.Add(time.Duration(rapid.IntRange(-100_000, 100_000).Draw(t,
					"hours")) * time.Hour)
			case "settings":
				w.settings.Approval = new(rapid.Bool().Draw(t, "approval"))
				w.settings.Reboot = new(rapid.IntRange(0, 3).Draw(t, "reboot") > 0)
				w.step(Settings{w.settings}, disk)
			case "verified":
				list := slices.Clone(w.slots.List)
				i := rapid.IntRange(0, 1).Draw(t, "slot")
				list[i].Verified = !list[i].Verified
				w.slots.List = list
				w.noWayBack()
				w.step(w.slots, disk)
			case "maintenance":
				left := seconds("left", 7200)
				w.rested += left
				w.step(Maintenance{Left: left}, disk)
			case "stop":
				w.step(Stopping{}, disk)
				w.boot(false)
			case "unread":
				w.step(Slots{Err: wire.New(wire.CodeStorage, "", "unreadable")}, disk)
				w.tickTo(w.now.Mono+seconds("time", 300), disk)
				w.step(w.slots, disk)
			}
		}
		// Calm: everything works, everybody is heard, and somebody approves.
		w.settings.Reboot = new(true)
		list := slices.Clone(w.slots.List)
		for i := range list {
			list[i].Verified = true
		}
		w.slots.List = list
		w.noWayBack()
		w.step(Settings{w.settings}, "works")
		w.step(w.slots, "works")
		w.step(Maintenance{}, "works")
		w.step(Link{Address: true, Broker: true}, "works")
		for range 45 {
			w.hear(wire.ContactSuccess, "works")
			w.check("disk", true, "works")
			w.check("ble", true, "works")
			if w.trial() != "" {
				w.step(Order{ID: "q", What: OrderApprove, By: "anna",
					Version: slotOf(w.slots.List, w.slots.Current).Version}, "works")
			}
			for len(w.asked) > 0 {
				w.answer(true, "works")
			}
			w.tickTo(w.now.Mono+time.Minute, "works")
		}
		if s := w.state; s.trying || s.Trial.ID != "" || s.Restart.Do != "" || s.Order.Do != "" || w.trial() != "" {
			t.Fatalf("never calm: trial %+v, waits for %+v, restart %+v, order %+v", s.Trial, s.lacks(), s.Restart,
				s.Order)
		}
		if h := w.state.Health(); h.Indicator != wire.IndicatorContact {
			t.Fatalf("at the end the indicator is %d, %s", h.Indicator, h.Text)
		}
	})
}

// TestTrialNeverGrows crashes and restarts during a trial, with clocks that jump and contact that
// comes too rarely, and adds up the time in which the trial ran.
func TestTrialNeverGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.lone = true
		w.settings.Test = wire.SpanOf(time.Duration(rapid.IntRange(61, 3600).Draw(t, "test")) * time.Second)
		w.settings.Deadline = w.settings.Test + wire.DefaultFallback +
			wire.SpanOf(time.Duration(rapid.IntRange(0, 5_000).Draw(t, "more"))*time.Second)
		w.try()
		w.boot(false)
		ran := time.Duration(0)
		for range 20_000 {
			if w.state.Restart.Do == DoRollBack || len(w.asked) > 0 {
				if ran > w.settings.Deadline.Std() {
					t.Fatalf("tried for %v, allowed %v", ran, w.settings.Deadline)
				}
				return
			}
			at, ok := w.state.NextDeadline()
			if !ok {
				t.Fatal("a trial without a deadline")
			}
			d := at - w.now.Mono
			switch rapid.IntRange(0, 19).Draw(t, "then") {
			case 0: // crash
				d = time.Duration(rapid.Int64Range(0, int64(d)).Draw(t, "early"))
				w.pass(d)
				w.now.Wall = w.now.Wall.Add(time.Duration(rapid.IntRange(-1000, 1000).Draw(t, "hours")) * time.Hour)
				w.boot(false)
			case 1: // a word now and then
				d = 0
				w.hear(wire.ContactTemporary, "works")
				w.hear(wire.ContactSuccess, "works")
			default:
				w.pass(d)
				w.step(Tick{}, "works")
			}
			ran += d
		}
		if ran > w.settings.Deadline.Std() {
			t.Fatalf("still trying after %v", ran)
		}
	})
}
