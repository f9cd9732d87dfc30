package health

import (
	"fmt"
	"reflect"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// step is one Step on its way.
type step struct {
	State
	must    bool
	effects []Effect
}

// Step takes s over one event. It panics if Started is not the first event, or comes again.
func (s State) Step(now clock.Now, ev Event) (State, []Effect) {
	t := &step{State: s}
	now.Mono = max(now.Mono, s.now.Mono)
	t.now = now
	start, first := ev.(Started)
	if first == t.started {
		panic(fmt.Sprintf("health: %T, started: %v", ev, t.started))
	}
	if first {
		t.begin(start)
	}
	t.elapse() // what went by before the event
	switch ev := ev.(type) {
	case Settings:
		t.settings = ev.Settings.Complete()
	case Link:
		t.link = ev
	case Contact:
		t.contact(ev)
	case Maintenance:
		t.maintenance(ev.Left)
	case Slots:
		t.slotted(ev)
	case Check:
		t.check(ev)
	case Sample:
		t.sample(ev)
	case Gone:
		t.drop(plain(ev.Name))
	case Order:
		t.order(ev)
	case Committed:
		t.committed(ev)
	case Restarting:
		t.restarting(ev.Err)
	case Tick:
		t.tick()
	case Stopping:
		t.stopping()
	}
	t.elapse()
	if t.must || t.trouble != nil && t.now.Mono >= t.hold {
		t.trouble = nil // until the next save says otherwise
	}
	t.say()
	if !reflect.DeepEqual(s.Durable, t.Durable) {
		t.effects = append([]Effect{Save{Must: t.must}}, t.effects...)
	}
	return t.State, t.effects
}

// Failed is what becomes of s when the step that ev began could not be saved, and had to be: an
// order is refused, and what time had decided is decided again a minute later. What else was due at that instant
// comes with the next Tick, which is wanted at once; that one does not have to be saved.
func (s State) Failed(now clock.Now, ev Event, err *wire.Error) (State, []Effect) {
	t := &step{State: s}
	t.now.Mono, t.now.Wall = max(now.Mono, s.now.Mono), now.Wall
	t.trouble, t.hold = err, t.now.Mono+retrySave
	if o, ok := ev.(Order); ok {
		t.do(Answer{ID: o.ID, Err: err})
	}
	t.say()
	return t.State, t.effects
}

func (t *step) begin(ev Started) {
	t.started = true
	t.settings = ev.Settings.Complete()
	t.boot = ev.Boot
	t.since = wall(t.now)
	if r := t.boot.Reason; (r == "" || r == wire.BootUnknown) && t.Restart.Do != "" {
		t.boot.Reason, t.boot.Detail = t.Restart.Reason, t.Restart.Detail
	} else if r == "" {
		t.boot.Reason = wire.BootUnknown
	}
	t.boot.Detail = plain(t.boot.Detail)
	if t.boot.At.IsZero() {
		t.boot.At = wall(t.now)
	}
	t.Restart = Restart{}
	if ev.Rebooted {
		t.Order = Restart{}
	}
	for _, name := range ev.Checks {
		t.put(check{name: plain(name), heard: t.now.Mono, ttl: max(ev.Await, defaultTTL), awaited: true,
			since: wall(t.now)})
	}
	t.emit(EventBoot, nil, Detail{Reason: t.boot.Reason, Text: t.boot.Detail, Restarts: t.boot.Restarts})
	t.resume()
}

// elapse takes in what has come about by the passing of time, or by an event, before anything is
// decided: in a machine that was held up, a lapse shows although the word that ends it is there.
func (t *step) elapse() {
	t.rest()
	t.listen()
	t.fresher()
	t.judge()
}

// tick decides what time decides, in this order: fallback, deadline and completion during a trial;
// in normal operation the reset, then an ordered reboot. A restart that was decided before
// suppresses all of it.
func (t *step) tick() {
	if t.Restart.Do != "" {
		t.restart()
	}
	switch {
	case t.Restart.Do != "":
	case t.trying:
		if t.tryOn(); t.Restart.Do == DoRollBack {
			t.restart()
		}
	default:
		t.operate()
	}
	t.keep()
	if !t.trying && t.slots.Updates.Busy == "" {
		if b := t.baseline(); !b.equal(t.Baseline) && t.now.Mono >= t.baseAt {
			t.Baseline, t.baseAt = b, t.now.Mono+baselineBeat
		}
	}
}

// keep saves, while they run, how much of a trial and of a maintenance is gone.
func (t *step) keep() {
	if t.now.Mono < t.keepAt || !t.trying && !t.resting {
		return
	}
	every := time.Minute
	if t.trying {
		d := t.settings.Deadline.Std()
		every = min(d/10, max(5*time.Second, min(d/100, time.Minute)))
		t.keepSpent(every)
	}
	if t.resting {
		t.saveRest(every)
	}
	t.keepAt = t.now.Mono + every
}

func (t *step) stopping() {
	if t.trying {
		t.keepSpent(0)
	}
	if t.resting {
		t.saveRest(0)
	}
}

func (t *step) do(e Effect) { t.effects = append(t.effects, e) }

func (t *step) emit(kind string, err *wire.Error, d Detail) {
	d.Text = plain(d.Text)
	t.do(Emit{Type: kind, Err: err, Detail: d})
}

// wall is the node's clock as it is saved and reported: whole seconds of UTC.
func wall(now clock.Now) time.Time { return now.Wall.UTC().Truncate(time.Second) }

// plain makes s fit for the wire's plain strings.
func plain(s string) string { return wire.Plain(s, wire.MaxText) }
