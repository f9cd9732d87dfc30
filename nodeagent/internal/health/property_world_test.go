package health

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"tandem.internal/shared/clock"
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
