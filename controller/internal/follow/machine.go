package follow

import (
	"time"

	"tandem.internal/shared/wire"
)

// Part is a document that follows from a desired status, as it should be and as it is.
type Part struct {
	Source wire.Kind
	Of     uint64 // rev of the desired status that it follows from
	Items  uint64 // rev of the unit's items that it follows from
	Want   string // its hash, or its version if that is what counts; "": nothing is wanted
	Have   string // the same of the installed one
	Failed bool   // nodes have failed at the installed one
	Busy   bool   // nodes have not done with it
}

// Act is what is done next about a part.
type Act int

// The acts.
const (
	Wait   Act = iota // nothing is due
	Submit            // the document as it should be
	Retry             // the installed one is sent again to the nodes that have failed at it
)

// Back-off: an act about a source is followed by a pause of First before the same act, then of twice as long each time,
// up to Most, whether that has helped or not: what nodes tell can make another document necessary each second. Another
// desired status does not wait, and what people release no longer than First; else a pause is forgotten when its act
// was not due for Most.
const (
	First = 10 * time.Second
	Most  = time.Hour
)

// Machine finds what is due by comparing. It remembers only when something may be done again: after a restart that is
// soon. Its zero value is ready.
type Machine struct {
	pauses map[doing]*pause
}

// doing is an act about a source. Nodes that fail again and again are no reason to wait with another document.
type doing struct {
	source wire.Kind
	act    Act
}

// pause is that of an act about a source.
type pause struct {
	of     uint64 // rev of the desired status
	items  uint64 // rev of the items
	failed bool   // of Retry: nodes have failed at what is installed
	length time.Duration
	until  time.Time
}

// Next returns what is due, the first part first, and, if nothing is, when something will be; zero: when something
// changes.
func (m *Machine) Next(now time.Time, parts []Part) (act Act, part Part, wake time.Time) {
	for _, p := range parts {
		for _, act := range []Act{Submit, Retry} {
			if a := m.pauses[doing{p.Source, act}]; a != nil && (a.of != p.Of || !now.Before(a.until.Add(Most))) {
				delete(m.pauses, doing{p.Source, act})
			}
		}
		act := p.act()
		a := m.pauses[doing{p.Source, act}]
		if a != nil && act == Submit && a.items != p.Items {
			a.items, a.until, a.length = p.Items, a.until.Add(min(0, First-a.length)), 0
		}
		switch {
		case act == Wait:
			if retry := m.pauses[doing{p.Source, Retry}]; retry != nil && !p.Busy {
				retry.failed = false
			}
			continue
		case act == Retry && (a == nil || !a.failed): // nodes had no time to get over it
			a = m.pause(p, Retry)
			a.failed, a.length = true, max(a.length, First)
			if until := now.Add(a.length); a.until.Before(until) {
				a.until = until
			}
		case a == nil:
			return act, p, time.Time{}
		}
		if !now.Before(a.until) {
			return act, p, time.Time{}
		}
		if wake.IsZero() || a.until.Before(wake) {
			wake = a.until
		}
	}
	return Wait, Part{}, wake
}

func (p *Part) act() Act {
	switch {
	case p.Want == "":
		return Wait
	case p.Want != p.Have:
		return Submit
	case p.Failed:
		return Retry
	}
	return Wait
}

// Tried says that what was due was done, well or not: whether that has helped is seen by comparing.
func (m *Machine) Tried(now time.Time, p Part) {
	act := p.act()
	a := m.pause(p, act)
	a.length = min(max(2*a.length, First), Most)
	a.until = now.Add(a.length)
	if retry := m.pauses[doing{p.Source, Retry}]; retry != nil {
		retry.failed = act == Retry // what is installed now may be another document
	}
}

// pause is the pause of an act about a part's source.
func (m *Machine) pause(p Part, act Act) *pause {
	if m.pauses == nil {
		m.pauses = map[doing]*pause{}
	}
	a := m.pauses[doing{p.Source, act}]
	if a == nil || a.of != p.Of {
		a = &pause{of: p.Of, items: p.Items}
		m.pauses[doing{p.Source, act}] = a
	}
	return a
}
