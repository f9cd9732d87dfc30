package health

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"tandem.internal/shared/wire"
)

// Health returns what the node says about its health now.
func (s State) Health() wire.Health {
	i := s.indicate()
	h := wire.Health{
		Indicator: i.Indicator, Text: i.Text,
		Contact:  wire.HealthContact{In: s.in, Since: s.since, Result: s.result, Last: s.last, Document: s.Document},
		Current:  s.slots.Current,
		Boot:     s.boot,
		Settings: s.settings,
	}
	h.Slots, h.Components = slices.Clone(s.slots.List), slices.Clone(s.slots.Updates.List)
	h.Quarantine = s.slots.Updates.Quarantine
	for _, c := range s.checks {
		if (!c.awaited || c.silent) && len(h.Checks) < maxChecks {
			h.Checks = append(h.Checks, wire.HealthCheck{Name: c.name, OK: c.ok, Message: c.message, Since: c.since})
		}
	}
	if s.resting {
		h.Maintenance = s.Maintenance.Until
	}
	if r := s.Restart; r.Do != "" && r.Do != DoRollBack {
		h.Restart = &wire.HealthRestart{Reason: r.Reason, Detail: r.Detail, At: r.At}
	} else if o := s.Order; o.Do != "" {
		h.Restart = &wire.HealthRestart{Reason: o.Reason, Detail: o.Detail, At: wall(s.now)}
	}
	if s.trying {
		h.Trial = s.trial()
	}
	return h
}

// maxChecks is how many checks a report lists, those that a trial waits for included.
const maxChecks = 200

func (s State) trial() *wire.HealthTrial {
	left := s.left()
	t := &wire.HealthTrial{Slot: cmp.Or(s.Trial.Slot, s.Trial.Component), Component: s.Trial.Component,
		Version: s.Trial.Version, Since: s.Trial.Since, Remaining: wire.SpanOf(left),
		Deadline: wire.SpanOf(s.settings.Deadline.Std() - s.spent()), Offline: s.Trial.Baseline.Offline,
		Approval: s.Trial.Approved}
	if t.Approval == "" && *s.settings.Approval {
		t.Approval = wire.ApprovalNeeded
	}
	t.WaitsFor = s.lacks()
	t.WaitsFor = t.WaitsFor[:min(len(t.WaitsFor), maxChecks)]
	add := func(code wire.WaitCode, text string) {
		t.WaitsFor = append(t.WaitsFor, wire.HealthWait{Code: code, Text: plain(text)})
	}
	if left > 0 {
		add(wire.WaitTestTime, wire.SpanOf(left).String()+" in good health")
	}
	if s.commit {
		add(wire.WaitCommit, "the commit is being written")
	}
	if s.Restart.Do == DoRollBack {
		add(wire.WaitRestart, "it is over: it is being rolled back")
	} else if s.Restart.Do != "" {
		add(wire.WaitRestart, "it is over: the node restarts")
	}
	if s.refused != "" {
		add(wire.WaitWayBack, "it should be rolled back, but "+s.refused)
	}
	return t
}

// indicate is the link indicator: what makes the node unsafe first, then what is wrong with the
// way to the controller, then what else is wrong.
func (s State) indicate() Indicate {
	connection := s.connection()
	show := func(i wire.Indicator, text string) Indicate {
		return Indicate{i, plain(wire.IndicatorTexts[i] + text)}
	}
	if s.trouble != nil {
		return show(wire.IndicatorStorage, ": "+s.trouble.Message)
	}
	if s.known && s.slots.Used && (!slotOf(s.slots.List, s.slots.Good).Verified || s.trying && s.noWayBack() != "") {
		return show(wire.IndicatorNoSlot, "")
	}
	if name, bad := s.failing(); bad && connection.Indicator == wire.IndicatorContact {
		return show(wire.IndicatorCheck, ": "+name)
	}
	return connection
}

// say reports what has changed, and a trial's remaining time once in a while.
func (t *step) say() {
	h := t.Health()
	if i := (Indicate{h.Indicator, h.Text}); i.Indicator != t.shown {
		t.shown = i.Indicator
		t.do(i)
	}
	still := h
	still.Contact.Last = time.Time{}
	if h.Restart != nil && t.Restart.Do == "" {
		r := *h.Restart
		r.At = time.Time{}
		still.Restart = &r
	}
	if h.Trial != nil {
		trial := *h.Trial
		trial.Remaining, trial.Deadline = 0, 0
		trial.WaitsFor = slices.DeleteFunc(slices.Clone(trial.WaitsFor),
			func(w wire.HealthWait) bool { return w.Code == wire.WaitTestTime })
		still.Trial = &trial
	}
	if reflect.DeepEqual(still, t.lastReport) && !(t.trying && t.now.Mono >= t.sayAt) {
		return
	}
	t.lastReport = still
	t.sayAt = t.now.Mono + max(10*time.Second, min(t.settings.Test.Std()/20, time.Minute))
	t.do(Report{Health: h})
}
