package health

import (
	"time"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// fresh reports whether the controller was heard in this run, and not too long ago.
func (s State) fresh() bool {
	return s.heard && s.clock()-s.success < s.settings.Contact.Std()
}

// contacted reports whether the node is in contact: the newest word is fresh, nothing has been
// heard since that says otherwise, and the road is there.
func (s State) contacted() bool {
	return s.fresh() && s.link.Broker && s.result == wire.ContactSuccess
}

// silentFrom is where the time without contact begins that is held against limit: the start of
// the run, the newest success, or a temporary failure. In normal operation, a controller that fails temporarily for
// ever can double the time, not stop it.
func (s State) silentFrom(limit time.Duration) time.Duration {
	return min(max(s.success, s.reached), s.success+limit)
}

// silentUntil is when a trial has gone without contact for too long, and for how long that is: silenceCap without a
// word, over all runs of the trial, and where there was contact before, the fallback time, which a temporary failure
// begins anew.
func (s State) silentUntil() (at, limit time.Duration) {
	at, limit = s.spentFrom-s.spentBase+s.heardSpent+silenceCap, silenceCap
	fallback := s.settings.Fallback.Std()
	if soft := max(s.success, s.from, s.reached) + fallback; !s.Trial.Baseline.Offline && soft < at {
		at, limit = soft, fallback
	}
	return at, limit
}

func (t *step) contact(ev Contact) {
	if ev.Document {
		t.Document = wall(t.now)
	}
	if ev.Result == "" {
		return
	}
	t.result = ev.Result
	switch ev.Result {
	case wire.ContactSuccess:
		t.heard, t.success, t.reached = true, t.clock(), t.clock()
		t.last = wall(t.now)
		t.Resets = 0
		t.meet()
	case wire.ContactTemporary:
		t.reached = t.clock()
		t.window = max(t.window, t.clock())
	}
}

// listen notices that contact is lost, or back. It is told in an event only when the newest word
// has become too old: a session that breaks and comes back before is no news, or a site that
// reconnects would tell of it by the thousand.
func (t *step) listen() {
	if in := t.contacted(); in != t.in {
		t.in, t.since = in, wall(t.now)
	}
	switch fresh := t.fresh(); {
	case t.heard && !fresh && !t.lapsed:
		t.lapsed = true
		t.emit(EventContactLost, nil, Detail{Text: t.connection().Text})
	case fresh && t.lapsed:
		t.lapsed = false
		t.emit(EventContactBack, nil, Detail{})
	}
}

// connection is the indicator as far as it is about the way to the controller.
func (s State) connection() Indicate {
	i := wire.IndicatorNoContact
	switch {
	case s.contacted():
		i = wire.IndicatorContact
	case s.link.Error != 0:
		text := plain(s.link.Text)
		if text == "" {
			text = wire.IndicatorTexts[s.link.Error]
		}
		return Indicate{s.link.Error, text}
	case !s.link.Address:
		i = wire.IndicatorNoAddress
	case !s.link.Broker:
		i = wire.IndicatorNoBroker
	}
	return Indicate{i, wire.IndicatorTexts[i]}
}

// maintenance takes in what the newest beacon announces.
func (t *step) maintenance(left time.Duration) {
	if left <= 0 {
		t.wake("the controller announces none any more")
		t.Maintenance = Believed{}
		return
	}
	spent := t.Maintenance.Spent.Std()
	if t.resting {
		spent = t.restSpent + t.now.Mono - t.restedAt
	}
	if left = min(left, wire.MaxMaintenance-spent); left <= 0 {
		return // believed for long enough
	}
	if !t.resting {
		t.resting, t.restedAt, t.restSpent = true, t.now.Mono, spent
		t.emit(EventMaintenance, nil, Detail{Text: "the clocks stand still for " + wire.SpanOf(left).String()})
	}
	t.restUntil = t.now.Mono + left
	t.Maintenance.Until = wall(t.now).Add(left).Truncate(time.Second)
	t.keepAt = t.now.Mono
	t.keep()
}

// saveRest saves a maintenance as it will be after every.
func (t *step) saveRest(every time.Duration) {
	m := &t.Maintenance
	m.Left = duration.Duration(max(0, t.restUntil-t.now.Mono-every))
	m.Spent = duration.Duration(min(t.restSpent+t.now.Mono-t.restedAt+every, wire.MaxMaintenance))
}

// rest ends a maintenance that is over.
func (t *step) rest() {
	if t.resting && t.now.Mono >= t.restUntil {
		t.wake("the time that was announced is over")
	}
}

func (t *step) wake(why string) {
	if !t.resting {
		return
	}
	until := min(t.now.Mono, t.restUntil)
	t.Maintenance = Believed{Spent: duration.Duration(min(t.restSpent+until-t.restedAt, wire.MaxMaintenance))}
	t.paused += until - t.restedAt
	t.resting = false
	t.emit(EventMaintenance, nil, Detail{Text: "the clocks run again: " + why})
}

// resume takes up a maintenance that was on when the agent stopped.
func (t *step) resume() {
	m := t.Maintenance
	if m.Left <= 0 {
		return
	}
	if left := min(m.Left.Std(), m.Until.Sub(t.now.Wall)); left > 0 {
		t.maintenance(left)
	} else {
		t.Maintenance = Believed{Spent: m.Spent}
	}
}
