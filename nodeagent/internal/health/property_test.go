package health

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

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
