package app

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/wire"
)

func TestBootIsTold(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.start()
		p.wantTold("boot first 1", health.EventBoot)
		p.hub.Partition("node/n1")
		p.pass(time.Minute)
		p.hub.Heal("node/n1")
		p.pass(time.Hour)
		p.wantTold("", health.EventBoot)
		p.restart()
		p.wantTold("boot stop 2", health.EventBoot)
		p.crash()
		p.wantTold("boot fatal 3", health.EventBoot)
		p.kernel.Add(1)
		p.crash()
		p.wantTold("boot power-fail 4", health.EventBoot)
		if b := p.health().Boot; b.Reason != wire.BootPowerFail || b.Restarts != 4 {
			t.Errorf("the report says %+v", b)
		}
		// A run whose events never reach the disk: the next one tells of it.
		p.dead.Store(true)
		p.stop()
		p.dead.Store(false)
		if err := p.tryStart(); err != nil {
			t.Fatal(err)
		}
		p.dead.Store(true) // the agent has not begun: nothing that it says now is kept
		synctest.Wait()
		p.stop()
		p.mu.Lock()
		p.events = nil
		p.mu.Unlock()
		p.dead.Store(false)
		p.start()
		p.wantTold("boot fatal 5, boot fatal 6", health.EventBoot)
	})
}

func TestHealthIsReported(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.OnIndicator = "led show"
		p.start()
		if h := p.health(); h.Contact.In || h.Indicator != wire.IndicatorNoContact || !h.Contact.Last.IsZero() {
			t.Errorf("after a retained beacon: %+v", h)
		}
		p.pass(time.Second)
		p.hearBeacon()
		if h := p.health(); !h.Contact.In || h.Indicator != wire.IndicatorContact ||
			h.Contact.Result != wire.ContactSuccess {
			t.Errorf("in contact: %+v", h)
		}
		p.pass(20 * time.Second)
		for _, name := range []string{"cpu", "ram", "config", checkStorage, "watchdog"} {
			if got := p.check(name); got != "ok" {
				t.Errorf("check %s is %s", name, got)
			}
		}
		if got := p.commands(); !strings.Contains(got, "TANDEM_INDICATOR=2 ") ||
			!strings.Contains(got, "TANDEM_INDICATOR=3 ") ||
			!strings.Contains(got, "TANDEM_INDICATOR=4 TANDEM_INDICATOR_TEXT="+wire.IndicatorTexts[4]) {
			t.Errorf("the light was told %q", got)
		}
		p.hearBeacon()
		if got := p.commands(); got != "" {
			t.Errorf("nothing has changed, and the light was told %q", got)
		}
		// A session that breaks shows, and is no news.
		p.hub.Partition("node/n1")
		p.pass(30 * time.Second)
		p.hub.Heal("node/n1")
		p.pass(time.Second)
		p.hearBeacon()
		if got := p.commands(); strings.Count(got, "led show") != 2 || !strings.Contains(got, "TANDEM_INDICATOR=2 ") {
			t.Errorf("a session that breaks: the light was told %q", got)
		}
		p.pass(2 * time.Minute)
		p.wantTold("", health.EventContactLost, health.EventContactBack)
		// Nothing heard for the contact time is.
		p.pass(time.Minute)
		p.wantTold("contact-lost", health.EventContactLost, health.EventContactBack)
		if h := p.health(); h.Contact.In || h.Indicator != wire.IndicatorNoContact {
			t.Errorf("without contact: %+v", h)
		}
		p.hearBeacon()
		p.wantTold("contact-back", health.EventContactLost, health.EventContactBack)
		// A failing check is shown, and told; and so is a bad configuration.
		p.ram.Store(995)
		p.pass(2 * time.Minute)
		p.hearBeacon()
		if h := p.health(); h.Indicator != wire.IndicatorCheck || !strings.Contains(p.check("ram"), "above 0.98") {
			t.Errorf("without RAM: %+v", h)
		}
		p.ram.Store(250)
		p.pass(20 * time.Second)
		p.wantTold("check-failed ram, check-recovered ram", health.EventCheckFailed, health.EventCheckRecovered)
	})
}

func TestAlerts(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.start()
		p.ram.Store(850)
		p.pass(time.Minute)
		p.wantTold("", EventAlert) // no rule is in force
		p.desire(ruled(1, above80))
		p.pass(25 * time.Second)
		p.wantTold("raise ram 0.85", EventAlert)
		p.restart()
		p.crash()
		p.pass(30 * time.Second)
		p.wantTold("", EventAlert)
		p.ram.Store(250)
		p.pass(30 * time.Second)
		p.wantTold("fall ram 0.25 below-threshold", EventAlert)
		// Another configuration: the same rule goes on, one that is gone falls.
		p.ram.Store(900)
		p.pass(10 * time.Second)
		p.desire(ruled(2, above80))
		p.pass(10 * time.Second)
		p.wantTold("raise ram 0.9", EventAlert)
		p.desire(ruled(3, ""))
		p.wantTold("fall ram 0.9 rule-removed", EventAlert)
		p.pass(time.Hour)
		p.wantTold("", EventAlert)
		// A rule on trial counts for as long as the trial.
		p.desire(try(ruled(4, above80), "PT1M"))
		p.pass(20 * time.Second)
		p.wantTold("raise ram 0.9", EventAlert)
		p.pass(time.Minute)
		p.wantTold("fall ram 0.9 rule-removed", EventAlert)
	})
}

func TestAlertsOutliveTheDisk(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.start()
		p.desire(ruled(1, above80))
		p.full.Store(true)
		p.ram.Store(850)
		p.pass(2 * time.Minute)
		p.wantTold("", EventAlert)
		if got := p.check(checkStorage); got != "bad: the state cannot be saved" {
			t.Errorf("check %s is %s", checkStorage, got)
		}
		p.full.Store(false)
		p.pass(30 * time.Second)
		if got := p.told(EventAlert); !strings.HasPrefix(got, "raise ram 0.85") || strings.Contains(got, "fall") ||
			strings.Count(got, "raise") != 1 {
			t.Errorf("told %q", got)
		}
		if got := p.check(checkStorage); got != "ok" {
			t.Errorf("check %s is %s", checkStorage, got)
		}
		p.ram.Store(250)
		p.crash()
		p.pass(30 * time.Second)
		p.wantTold("fall ram 0.25 below-threshold", EventAlert)
	})
}

func TestHealthSettings(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.FallbackTime, p.cfg.DeadlineTime = 200*time.Second, 25*time.Minute
		p.start()
		p.desire(healthDoc(1, `{"formatVersion":"1","contact":"PT100S","checks":{"ram":{"max":0.2,"for":"PT5S"}}}`))
		set := p.health().Settings
		if set.Contact.Std() != 100*time.Second || set.Fallback.Std() != 200*time.Second ||
			set.Deadline.Std() != 25*time.Minute || *set.Reboot {
			t.Errorf("in effect: %+v", set)
		}
		p.pass(30 * time.Second)
		if got := p.check("ram"); !strings.HasPrefix(got, "bad: 0.25, above 0.2") {
			t.Errorf("check ram is %s", got)
		}
		p.desire(healthDoc(2, `{"formatVersion":"1","contact":"PT250S"}`)) // more than the node's own fallback time
		p.mu.Lock()
		report := p.reports[wire.KindHealth][len(p.reports[wire.KindHealth])-1]
		p.mu.Unlock()
		if l := report.Last; l == nil || l.State != wire.StateRejected || l.Error.Code != wire.CodeBadValue ||
			!strings.Contains(l.Error.Path, "/fallback") {
			t.Errorf("settings that do not go with the node's own: %+v", l)
		}
		p.crash()
		if got := p.health().Settings; got.Contact != set.Contact || got.Checks.RAM.Max != 0.2 {
			t.Errorf("after a restart: %+v", got)
		}
	})
}

func TestReboot(t *testing.T) {
	reboot := wire.Encode(&wire.RebootParams{Reason: "a new kernel"})
	types := []string{health.EventBoot, health.EventRestartPlanned, health.EventRestartFailed,
		health.EventRestartRefused}
	healthBubble(t, func(p *patient) {
		p.start()
		p.wantRefused(p.request(wire.MethodReboot, reboot), wire.CodeNotAllowed)
		p.stop()
		p.told(types...)
		p.cfg.RebootCommand = "reboot now"
		written := ""
		p.at = func() {
			if n := p.slots().Next; n != nil {
				written = string(n.Reason) + ": " + n.Detail
			}
		}
		p.start()
		p.told(types...)
		p.wantRefused(p.request(wire.MethodReboot, reboot), "")
		p.pass(25 * time.Second)
		if r := p.health().Restart; r == nil || r.Reason != wire.BootReboot || p.commands() != "" {
			t.Errorf("before its time: %+v", r)
		}
		p.pass(10 * time.Second)
		const why = "by the controller: a new kernel"
		if got := p.commands(); got != "reboot now TANDEM_REASON=reboot-command TANDEM_DETAIL="+why {
			t.Errorf("ran %q", got)
		}
		if written != "reboot-command: "+why {
			t.Errorf("when the command ran the record said %q", written)
		}
		p.kernel.Add(1)
		p.crash() // the machine goes down
		p.wantTold("restart-planned reboot-command, boot reboot-command 3", types...)
		p.pass(2 * time.Hour)
		if got := p.commands(); got != "" {
			t.Errorf("later it ran %q", got)
		}
		// A command that fails is reported, not repeated, and explains no later end.
		p.fail = errors.New("exit status 1")
		p.wantRefused(p.request(wire.MethodReboot, reboot), "")
		p.pass(2 * time.Hour)
		if got := p.commands(); strings.Count(got, "reboot now") != 1 {
			t.Errorf("ran %q", got)
		}
		p.mu.Lock()
		for _, e := range p.events {
			if e.Type == health.EventRestartFailed &&
				(e.Error.Code != wire.CodeApplyFailed || !strings.Contains(e.Error.Message, "exit status 1")) {
				t.Errorf("told %v", e.Error)
			}
		}
		p.mu.Unlock()
		p.wantTold("restart-planned reboot-command, restart-failed reboot-command", types...)
		if r := p.health().Restart; r != nil {
			t.Errorf("still wanted: %+v", r)
		}
		p.crash()
		p.wantTold("boot fatal 4", types...)
	})
}

// The machine goes down before the half minute to an ordered reboot is over: that was the reboot. If only the agent
// does, the reboot comes still.
func TestOrderAndAnotherReboot(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.RebootCommand = "reboot now"
		p.start()
		for _, c := range []struct {
			down int64
			want int
		}{{1, 0}, {0, 1}} {
			p.wantRefused(p.request(wire.MethodReboot, wire.Encode(&wire.RebootParams{Reason: "a new kernel"})), "")
			p.pass(5 * time.Second)
			p.kernel.Add(c.down)
			p.crash()
			p.pass(5 * time.Minute)
			if got := p.commands(); strings.Count(got, "reboot now") != c.want {
				t.Errorf("the machine was down %d times, and it ran %q", c.down, got)
			}
		}
	})
}

// A reset whose number cannot be saved is not made, or it would come again and again at the same distance; once the
// disk takes it, it is.
func TestResetThatCannotBeSaved(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.RebootCommand, p.cfg.ResetTime = "reboot now", 10*time.Minute
		p.start()
		p.pass(9 * time.Minute)
		p.full.Store(true)
		p.pass(10 * time.Minute)
		if got := p.commands(); got != "" {
			t.Errorf("with a full disk it ran %q", got)
		}
		p.full.Store(false)
		p.pass(2 * time.Minute)
		if got := p.commands(); strings.Count(got, "reboot now") != 1 {
			t.Errorf("ran %q", got)
		}
	})
}

// An order is obeyed once, also by a node that has restarted because of it and does not know how late it
// is: a broker that has recorded it cannot have the node reboot for ever.
func TestOrdersAreObeyedOnce(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.RebootCommand = "reboot now"
		order := func(id string, life time.Duration) *wire.Request {
			return &wire.Request{V: wire.Version, Unit: "u1", Node: "n1", ID: id, Method: wire.MethodReboot,
				Params: []byte(`{"reason":"why not"}`), NotAfter: time.Now().Add(life)}
		}
		p.start()
		older, q := order("older", time.Hour), order("q", time.Hour+time.Second)
		p.wantRefused(p.ask(q), "")
		p.wantRefused(p.ask(q), "") // the answer of before
		p.pass(40 * time.Second)
		if got := p.commands(); strings.Count(got, "reboot now") != 1 {
			t.Errorf("ran %q", got)
		}
		for range 2 {
			p.kernel.Add(1)
			p.crash()
			p.wantRefused(p.ask(q), wire.CodeStale)
			p.wantRefused(p.ask(older), wire.CodeStale)
			p.pass(time.Minute)
		}
		var full error
		p.deps.StoreFaults = func(Point) error { return full }
		p.crash()
		full = errors.New("the disk is full")
		newer := order("newer", 2*time.Hour)
		p.wantRefused(p.ask(newer), wire.CodeStorage)
		p.pass(time.Minute)
		if got := p.commands(); got != "" {
			t.Errorf("ran %q", got)
		}
		full = nil
		p.crash()
		p.wantRefused(p.ask(newer), "")
		p.pass(time.Minute)
		if got := p.commands(); strings.Count(got, "reboot now") != 1 {
			t.Errorf("ran %q", got)
		}
	})
}

// A node that nobody hears reboots, ever more rarely; announced maintenance does not count.
func TestResetsAndMaintenance(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.RebootCommand, p.cfg.ResetTime = "reboot now", 10*time.Minute
		p.cfg.SamplePeriod = 10 * time.Minute
		p.start()
		p.pass(time.Second)
		p.announce(time.Hour)
		if h := p.health(); h.Maintenance.IsZero() {
			t.Errorf("maintenance is not reported: %+v", h)
		}
		p.pass(69 * time.Minute)
		if got := p.commands(); got != "" {
			t.Errorf("in maintenance it ran %q", got)
		}
		p.pass(2 * time.Minute)
		resets := 0
		for range 24 * 60 { // a day
			if p.commands() != "" {
				resets++
				p.kernel.Add(1)
				p.crash()
			}
			p.pass(time.Minute)
		}
		// After 10, 20, 40 … minutes: the eighth would come after more than a day.
		if resets < 6 || resets > 8 {
			t.Errorf("%d resets in a day", resets)
		}
		if b := p.health().Boot; b.Reason != wire.BootDisconnect {
			t.Errorf("the report says %+v", b)
		}
		p.hearBeacon()
		p.pass(9 * time.Minute)
		if got := p.commands(); got != "" {
			t.Errorf("in contact it ran %q", got)
		}
	})
}

func TestOrdersWithoutSlots(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.start()
		p.wantRefused(p.request(wire.MethodTry, wire.Encode(&wire.TryParams{})), wire.CodeNotSupported)
		p.wantRefused(p.request(wire.MethodApprove, wire.Encode(&wire.ApproveParams{Version: "2.0.0"})),
			wire.CodeNotFound)
		p.wantRefused(p.request(wire.MethodReboot, []byte(`{"reason":7}`)), wire.CodeBadValue)
	})
}
