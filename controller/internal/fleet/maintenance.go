package fleet

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Maintenance says until when the controller, or the road to it, may be away on purpose: nodes stop the
// clocks that a loss of contact runs on. The zero Maintenance is none.
type Maintenance struct {
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Who    string    `json:"who,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Maintain announces a maintenance in the place of the one there is, or with For 0 ends it; answered
// under Ticket.
type Maintain struct {
	Ticket uint64
	For    time.Duration
	Reason string
	Who    string
}

func (Maintain) event() {}

// MaintenanceChanged says that Maintenance is new: the beacon tells it.
type MaintenanceChanged struct{}

func (MaintenanceChanged) effect() {}

func (m *Maintenance) order(s *step, ev *Maintain) {
	if err := m.judge(ev); err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	data := record.MaintenanceData{Reason: ev.Reason}
	if ev.For > 0 {
		data.Until = s.now.Add(ev.For).UTC().Truncate(time.Second)
	}
	m.change(s, data, ev.Who)
	s.effect(Answer{Ticket: ev.Ticket})
}

func (m *Maintenance) judge(ev *Maintain) *wire.Error {
	switch {
	case ev.For == 0 && m.Until.IsZero():
		return wire.New(wire.CodeWrongState, "", "no maintenance is announced")
	case ev.For == 0:
		return nil
	case ev.For < time.Second || ev.For > wire.MaxMaintenance:
		return wire.New(wire.CodeBadValue, "/for",
			fmt.Sprintf("a maintenance lasts from a second to %.0fh: nodes believe no more than that in all",
				wire.MaxMaintenance.Hours()))
	case ev.Reason == "":
		return wire.New(wire.CodeMissing, "/reason", "say why, for the journal")
	}
	return nil
}

func (m *Maintenance) change(s *step, data record.MaintenanceData, who string) {
	s.emit(record.Record{Type: record.Maintenance, Who: who}, data)
	s.effect(MaintenanceChanged{})
}

// expire ends a maintenance whose time is over.
func (m *Maintenance) expire(s *step) {
	if !m.Until.IsZero() && !s.now.Before(m.Until) {
		m.change(s, record.MaintenanceData{Reason: "its time is over"}, "")
	}
}

// deadline is when expire has something to do; zero: never.
func (m *Maintenance) deadline() time.Time { return m.Until }

// changed changes the state as a record says.
func (m *Maintenance) changed(r *record.Record, d *record.MaintenanceData) {
	if d.Until.IsZero() {
		*m = Maintenance{}
		return
	}
	*m = Maintenance{Since: r.At, Until: d.Until, Who: r.Who, Reason: d.Reason}
}

// At is what is left of a maintenance at a start: it lasts no longer than it was to, also where the clock
// was set back.
func (m Maintenance) At(now time.Time) Maintenance {
	if whole := m.Until.Sub(m.Since); m.Until.Sub(now) > whole {
		m.Since, m.Until = now, now.Add(whole).Truncate(time.Second)
	}
	return m
}

// Maintenance returns what is announced. It may have ended a moment ago.
func (f *Fleet) Maintenance() Maintenance { return f.maintenance }

// MaintenanceView returns what is announced as operators see it, nil if there is nothing.
func (f *Fleet) MaintenanceView() *view.Maintenance {
	m := f.maintenance
	if m.Until.IsZero() {
		return nil
	}
	return &view.Maintenance{Since: m.Since, Until: m.Until, Who: m.Who, Reason: m.Reason}
}
