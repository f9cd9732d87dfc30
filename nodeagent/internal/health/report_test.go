package health

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// What a report says in the middle of a trial with a reboot ordered: every field of "NodeAgent
// status", to the letter.
func TestReport(t *testing.T) {
	s := New(Durable{})
	at := func(d time.Duration) clock.Now { return clock.Now{Mono: d, Wall: epoch.Add(d)} }
	for _, step := range []struct {
		at time.Duration
		ev Event
	}{
		{0, Started{Boot: wire.HealthBoot{Reason: wire.BootUpdate, Detail: "version 2", Restarts: 7, At: epoch},
			Checks: []string{"disk"}}},
		{0, Slots{Used: true, Current: "b", Good: "a",
			Updates: Updates{Trial: Tried{ID: "agent#7", Slot: "b", Version: "2"}},
			List: []wire.HealthSlot{{ID: "a", State: wire.SlotActive, Version: "1", Verified: true},
				{ID: "b", State: wire.SlotInProgress, Version: "2", Verified: true}}}},
		{0, Link{Address: true, Broker: true}},
		{time.Second, Contact{Result: wire.ContactSuccess, Document: true}},
		{time.Second, Check{Name: "disk", OK: true, TTL: time.Hour}},
		{time.Minute, Contact{Result: wire.ContactSuccess}},
		{time.Minute, Check{Name: "ble", Message: "un\nplugged", TTL: time.Hour}},
		{2 * time.Minute, Order{ID: "q", What: OrderReboot, By: "anna", Detail: "kernel"}},
		{2 * time.Minute, Maintenance{Left: time.Hour}},
	} {
		s, _ = s.Step(at(step.at), step.ev)
	}
	h := s.Health()
	h.Settings = wire.HealthSettings{FormatVersion: "1"} // TestHealthDefaults has them
	got, err := json.Marshal(h, json.Deterministic(true), jsontext.WithIndent("\t"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
	"indicator": 15,
	"text": "a functional check fails: ble",
	"contact": {
		"in": true,
		"since": "2026-11-20T10:00:01Z",
		"result": "success",
		"last": "2026-11-20T10:01:00Z",
		"document": "2026-11-20T10:00:01Z"
	},
	"slots": [
		{
			"id": "a",
			"state": "active",
			"version": "1",
			"verified": true
		},
		{
			"id": "b",
			"state": "inprogress",
			"version": "2",
			"verified": true
		}
	],
	"current": "b",
	"trial": {
		"slot": "b",
		"version": "2",
		"since": "2026-11-20T10:00:00Z",
		"remaining": "PT10M",
		"deadline": "PT28M",
		"waitsFor": [
			{
				"code": "maintenance",
				"text": "the end of the maintenance that the controller announced"
			},
			{
				"code": "check",
				"name": "ble",
				"text": "un plugged"
			},
			{
				"code": "test-time",
				"text": "PT10M in good health"
			}
		]
	},
	"restart": {
		"reason": "reboot-command",
		"detail": "by anna: kernel",
		"at": "2026-11-20T10:02:00Z"
	},
	"boot": {
		"reason": "update",
		"detail": "version 2",
		"restarts": 7,
		"at": "2026-11-20T10:00:00Z"
	},
	"checks": [
		{
			"name": "ble",
			"ok": false,
			"message": "un plugged",
			"since": "2026-11-20T10:01:00Z"
		},
		{
			"name": "disk",
			"ok": true,
			"since": "2026-11-20T10:00:01Z"
		}
	],
	"maintenance": "2026-11-20T11:02:00Z",
	"settings": {
		"formatVersion": "1"
	}
}`
	if string(got) != want {
		t.Errorf("%s", got)
	}
}

// The remaining test time is reported once in a while, and every change at once; a word from the
// controller that changes nothing makes no report.
func TestReportsComeWhenSomethingChanges(t *testing.T) {
	s := New(Durable{})
	now := clock.Now{Wall: epoch}
	reports := func(ev Event) (n int, last wire.Health) {
		next, effects := s.Step(now, ev)
		s = next
		for _, e := range effects {
			if r, ok := e.(Report); ok {
				n, last = n+1, r.Health
			}
		}
		return n, last
	}
	reports(Started{})
	reports(Slots{Used: true, Current: "b", Good: "a",
		Updates: Updates{Trial: Tried{ID: "agent#7", Slot: "b", Version: "2"}},
		List: []wire.HealthSlot{{ID: "a", Verified: true, State: wire.SlotActive},
			{ID: "b", Verified: true, State: wire.SlotInProgress, Version: "2"}}})
	reports(Link{Address: true, Broker: true})
	if n, h := reports(Contact{Result: wire.ContactSuccess}); n != 1 || h.Trial.Remaining != 600*second {
		t.Errorf("%d reports of contact, %+v", n, h.Trial)
	}
	told, words := 0, 0
	for range 300 {
		now.Mono += time.Second
		now.Wall = now.Wall.Add(time.Second)
		if n, h := reports(Tick{}); n > 0 {
			told += n
			if want := wire.SpanOf(10*time.Minute - now.Mono); h.Trial.Remaining != want {
				t.Fatalf("remaining %v after %v", h.Trial.Remaining, now.Mono)
			}
		}
		n, _ := reports(Contact{Result: wire.ContactSuccess})
		words += n
	}
	if told != 10 || words != 0 {
		t.Errorf("%d reports in five minutes, and %d for words that changed nothing", told, words)
	}
}

// A node that is busy, but not for long enough to be called bad, has nothing to tell with each sample; nor has one
// that is bad already.
func TestSamplesAloneAreNoNews(t *testing.T) {
	s := New(Durable{})
	now := clock.Now{Wall: epoch}
	told := func(ev Event) (n int) {
		next, effects := s.Step(now, ev)
		s = next
		for _, e := range effects {
			if _, ok := e.(Report); ok {
				n++
			}
		}
		return n
	}
	told(Started{Checks: []string{SampleCPU}})
	reports, verdicts := 0, 0
	for i := range 120 {
		value := 0.99 + float64(i%7)/1000 // 0.98 for five minutes is too much
		if i == 40 {
			value = 0.9 // until five minutes after this
		}
		if n := told(Sample{Name: SampleCPU, Value: value, TTL: time.Minute}); n > 0 {
			reports++
		}
		if c, _ := s.find(SampleCPU); !c.ok {
			verdicts++
		}
		now.Mono += 10 * time.Second
		now.Wall = now.Wall.Add(10 * time.Second)
	}
	// The first word, the verdict twice, and what it was when it was good again.
	if reports != 4 || verdicts != 10+49 {
		t.Errorf("%d reports of 120 samples, bad at %d of them", reports, verdicts)
	}
}

// A machine that is held up, or asleep, past the end of a maintenance counts the time after it.
func TestMaintenanceEndsWhenItWasAnnouncedTo(t *testing.T) {
	s := New(Durable{})
	at := func(d time.Duration) clock.Now { return clock.Now{Mono: d, Wall: epoch.Add(d)} }
	for _, e := range []struct {
		at time.Duration
		ev Event
	}{{0, Started{}}, {0, Slots{}}, {0, Link{Address: true, Broker: true}}, {0, Contact{Result: wire.ContactSuccess}},
		{time.Minute, Maintenance{Left: time.Hour}}, {3 * time.Hour, Tick{}}} {
		s, _ = s.Step(at(e.at), e.ev)
	}
	if s.clock() != 2*time.Hour || s.Maintenance.Spent.Std() != time.Hour {
		t.Errorf("%v have counted, %+v", s.clock(), s.Maintenance)
	}
}
