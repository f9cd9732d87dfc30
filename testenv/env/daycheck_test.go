package env_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
	"tandem.internal/testenv/fault"
)

// calm ends all trouble, lets the fleet come to rest with somebody who starts what ends, and checks
// what holds in any calm.
func (d *day) calm() {
	d.Helper()
	for _, wait := range d.open {
		wait()
	}
	d.Note("calm")
	d.Controller.Machine.Disarm()
	d.Controller.Road().Clear()
	if !d.Controller.Running() {
		d.Controller.Restart()
	}
	d.hermit.Body().Alone.Store(false)
	for _, n := range d.Nodes() {
		n.Machine.Disarm()
		if !n.Running() {
			n.Stop()
		}
		d.ease(n)
		n.Road().Clear()
		n.Road().SetWeather(fault.Weather{})
		if !n.Running() {
			n.Machine.Fill(false)
			d.start(n)
		}
	}
	d.Until(time.Hour, "no maintenance is announced", func() bool {
		err := d.Maintain(0)
		return err == nil || wire.AsError(err).Code == wire.CodeWrongState // there is none
	})
	d.last(3 * time.Hour)
	d.Calm()
}

// check is what the day is about.
func (d *day) check() {
	for _, n := range d.Nodes() {
		if why := d.unwell(n); why != "" {
			// The newest report may be on its way.
			if !d.Within(10*time.Minute, func() bool { why = d.unwell(n); return why == "" }) {
				d.Wrong("%s: %s", n.Name, why)
			}
		}
		d.checkReboots(n)
	}
	d.checkNumbers()
	d.checkAlerts()
	d.checkBoots()
}

// unwell says what is wrong with a node in calm that the node itself does not explain, or about which
// the controller is mistaken.
func (d *day) unwell(n *env.Node) string {
	own := d.OwnWord(n.Name)
	view, ok := d.Health(n.Name)
	switch {
	case own == nil:
		return "it has told nothing of its health"
	case !ok || view.Report == nil:
		return "the controller knows nothing of its health"
	case !bytes.Equal(wire.Encode(own), wire.Encode(view.Report)):
		return fmt.Sprintf("it says %s, and the controller believes %s", wire.Encode(own), wire.Encode(view.Report))
	}
	body := n.Body()
	hungry := body.Like() == env.Hungry // it was kept, because RAM was short before its trial, too
	for _, a := range view.Raised {
		if a.Parameter != "ram" || !hungry {
			return fmt.Sprintf("nothing loads it, and %v is raised", a)
		}
	}
	h := *own
	starved := false
	want := wire.IndicatorContact
	last := n.Last()
	for _, c := range h.Checks {
		switch {
		case c.OK:
		case c.Name == "config" && last != nil && last.State == wire.StateFailed && c.Message != "":
			want = wire.IndicatorCheck // and it says why
		case c.Name == "ram" && hungry && c.Message != "":
			want, starved = wire.IndicatorCheck, true // likewise
		default:
			return fmt.Sprintf("check %s fails: %s", c.Name, c.Message)
		}
	}
	v, _ := d.View(n.Name)
	doc := v.Documents[wire.KindHealth]
	switch {
	case !h.Contact.In:
		return "it has no contact"
	case h.Indicator != want || h.Text == "":
		return fmt.Sprintf("its indicator is %d: %s, want %d", h.Indicator, h.Text, want)
	case h.Restart != nil && !(h.Restart.Reason == wire.BootReboot && waits(h.Trial)): // an order waits out a trial
		return fmt.Sprintf("it still has to restart: %+v", h.Restart)
	case !h.Maintenance.IsZero():
		return "its clocks stand still"
	case doc.Desired == nil || doc.Last == nil || doc.Last.Stamp() != doc.Desired.Stamp():
		return fmt.Sprintf("of its settings %v it last tried %v", doc.Desired, doc.Last)
	case doc.Last.State == wire.StateRejected && doc.Last.Error != nil && doc.Last.Error.Path != "": // and it says why
	case doc.Last.State != wire.StateInstalled || !doc.InSync:
		return fmt.Sprintf("its settings are %+v", doc.Last)
	}
	active := 0
	for _, s := range h.Slots {
		if s.State == wire.SlotActive {
			active++
		}
		if s.ID == h.Current && s.ID != "factory" && s.Version != body.Version() {
			return fmt.Sprintf("it says that it runs %s, and runs %q", s.Version, body.Version())
		}
	}
	if active != 1 || h.Current == "" || (h.Current == "factory") != (body.Version() == "") {
		return fmt.Sprintf("it runs %q, and its slots are %+v, current %q", body.Version(), h.Slots, h.Current)
	}
	if body.Like() != env.Good && !starved {
		return "it runs a release that is " + body.Like()
	}
	if h.Trial != nil && !waits(h.Trial) {
		return fmt.Sprintf("its trial does not come to an end: %+v", h.Trial)
	}
	return ""
}

// waits says that a trial needs an approval, and says so.
func waits(t *wire.HealthTrial) bool {
	return t != nil && t.Approval == wire.ApprovalNeeded &&
		slices.ContainsFunc(t.WaitsFor, func(w wire.HealthWait) bool { return w.Code == wire.WaitApproval })
}

// checkReboots makes sure that resets keep their distance, and a growing one while nothing is heard; that
// orders are carried out once, and that nothing else reboots a machine.
func (d *day) checkReboots(n *env.Node) {
	var newest time.Time
	var gap time.Duration
	ordered := 0
	for _, r := range n.Body().Reboots() {
		switch r.Reason {
		case wire.BootReboot:
			ordered++
		case wire.BootDisconnect:
			if last := gap; !newest.IsZero() {
				if gap = r.At.Sub(newest); gap < reset {
					d.Wrong("%s: two resets within %v", n.Name, gap)
				} else if n == d.hermit && newest.Before(d.alone) {
					gap = 0 // it was in contact between these two, perhaps
				} else if n == d.hermit && gap < last*3/2 {
					d.Wrong("%s: a reset %v after one, and the next %v later", n.Name, last, gap)
				}
			}
			newest = r.At
		default:
			d.Wrong("%s was rebooted: %s", n.Name, r.Reason)
		}
	}
	if ordered > d.orders[n.Name] {
		d.Wrong("%s was ordered to reboot %d times, and did %d times", n.Name, d.orders[n.Name], ordered)
	}
	if n == d.hermit && newest.IsZero() {
		d.Wrong("%s heard nobody for hours and never reset", n.Name)
	}
}

// checkAlerts makes sure that in the journal every raise is followed by one fall, but for what is still
// raised in the controller's view, of which unwell has said whether it may be. What a node has counted as lost
// may have been either, until it tells of the parameter again.
func (d *day) checkAlerts() {
	raised, known := map[string]bool{}, map[string]int{}
	losses := map[string]int{}
	for _, entry := range d.Entries("event") {
		ev, alert := wire.Event{}, struct {
			Parameter, State string
		}{}
		d.decode(entry.Data, &ev)
		if ev.Lost > 0 {
			losses[entry.Node]++
			maps.DeleteFunc(raised, func(key string, _ bool) bool { return strings.HasPrefix(key, entry.Node+" ") })
		}
		if ev.Type != "alert" {
			continue
		}
		d.decode(ev.Detail, &alert)
		key := entry.Node + " " + alert.Parameter
		unsure := known[key] < losses[entry.Node]
		known[key] = losses[entry.Node]
		d.sent["alert "+alert.State]++
		switch alert.State {
		case "raise":
			if raised[key] {
				d.Wrong("%s was raised twice", key)
			}
			raised[key] = true
		case "continue":
			if !raised[key] && !unsure {
				d.Wrong("%s continued and was not raised", key)
			}
			raised[key] = true
		case "fall":
			if !raised[key] && !unsure {
				d.Wrong("%s fell and was not raised", key)
			}
			delete(raised, key)
		}
	}
	for _, n := range d.Nodes() {
		view, _ := d.Health(n.Name)
		for _, a := range view.Raised {
			key := n.Name + " " + a.Parameter
			if !raised[key] {
				d.Wrong("the controller takes %s for raised, and the journal does not", key)
			}
			delete(raised, key)
		}
	}
	for key := range raised {
		d.Wrong("%s never fell", key)
	}
}

// checkNumbers makes sure that no event of a node is missing in the journal, but for those that the node
// itself counts as lost.
func (d *day) checkNumbers() {
	newest := map[string]uint64{}
	for _, entry := range d.Entries("event") {
		ev := wire.Event{}
		d.decode(entry.Data, &ev)
		if ev.Lost > 0 {
			d.sent["events lost"] += int(ev.Lost)
		}
		if last := newest[entry.Node]; ev.Seq != last+1+ev.Lost {
			d.Wrong("%s: after event %d the journal has %d, a %s of %v (%d are lost)", entry.Node, last, ev.Seq,
				ev.Type, ev.At, ev.Lost)
		}
		newest[entry.Node] = ev.Seq
	}
}

// checkBoots makes sure that every start was told, with its reason.
func (d *day) checkBoots() {
	told := map[string]map[uint64]string{}
	for _, entry := range d.Entries("boot") {
		ev, detail := wire.Event{}, struct {
			Reason   string
			Restarts uint64
		}{}
		d.decode(entry.Data, &ev)
		d.decode(ev.Detail, &detail)
		if told[entry.Node] == nil {
			told[entry.Node] = map[uint64]string{}
		}
		if old, ok := told[entry.Node][detail.Restarts]; ok && old != detail.Reason {
			d.Wrong("%s: start %d was because of %s, and because of %s", entry.Node, detail.Restarts, old,
				detail.Reason)
		}
		told[entry.Node][detail.Restarts] = detail.Reason
		d.sent["boot "+detail.Reason]++
	}
	for _, n := range d.Nodes() {
		h := d.OwnWord(n.Name)
		if h == nil {
			continue // told above
		}
		for i := uint64(1); i <= h.Boot.Restarts; i++ {
			if told[n.Name][i] == "" {
				d.Wrong("%s has started %d times, and never told of start %d", n.Name, h.Boot.Restarts, i)
			}
		}
	}
}

func (d *day) decode(data []byte, to any) {
	if err := json.Unmarshal(data, to, json.MatchCaseInsensitiveNames(true)); err != nil {
		d.Wrong("an event in the journal: %v: %s", err, data)
	}
}

// summary tells what the day was like.
func (d *day) summary() string {
	reboots := map[wire.BootReason]int{}
	releases := map[string]int{}
	for _, n := range d.Nodes() {
		for _, r := range n.Body().Reboots() {
			reboots[r.Reason]++
		}
		if n.Body().Version() != "" {
			releases[n.Body().Like()]++
		}
	}
	for _, kind := range []string{"trial-started", "trial-committed", "trial-rolled-back", "restart-failed",
		"restart-refused", "commit-failed", "contact-lost"} {
		d.sent["told "+kind] = len(d.Entries(kind))
	}
	s := fmt.Sprintf("reboots %v, releases in force %v", reboots, releases)
	for _, k := range slices.Sorted(maps.Keys(d.sent)) {
		s += fmt.Sprintf("\n\t%5d %s", d.sent[k], k)
	}
	return s
}
