package fleet

import (
	"strconv"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Change changes a collection piece by piece; answered under Ticket with the rev and the number of
// documents issued.
type Change struct {
	Ticket uint64
	Source wire.Kind
	Data   any // as the source's Fold reads it
	Who    string
	// Submitted is the verdict so far on what was submitted over MQTT: that it was refused is a record, too. Nil: an
	// operator asks, who sees the answer.
	Submitted *record.Verdict
}

func (Change) event() {}

// changeCollection makes a change a record and gives new documents to those whose part differs then.
func (s *step) changeCollection(ev Change) {
	src := s.source(ev.Source)
	if src == nil || src.Fold == nil {
		panic("fleet: a change of " + string(ev.Source)) // the shell knows what can be changed
	}
	err := src.Fold.Judge(src.installed, ev.Data)
	if err == nil && src.Fold.Weigh != nil {
		err = src.Fold.Weigh(s.Fleet, src.installed, ev.Data)
	}
	if err != nil && ev.Submitted != nil {
		v := *ev.Submitted
		v.Error = err
		s.emit(record.Record{Type: record.Refused, Who: ev.Who, Kind: string(src.Name)}, v)
	}
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	r := record.Record{Type: record.Settings, Who: ev.Who, Kind: string(src.Name), Data: record.Encode(ev.Data)}
	s.emit(r, change{ev.Data})
	issued := 0
	for _, o := range s.madeFrom(src) {
		if of, ok := s.offered(o); ok {
			issued += s.issueDue(of, src.Fold.Reason)
		}
	}
	s.effect(Answer{Ticket: ev.Ticket, Result: view.Result{
		State: "accepted", Rev: src.Rev, Epoch: s.opt.Epoch, Issued: issued,
	}})
}

// change is the data of a Settings record, as the source's Fold has read it.
type change struct{ data any }

func (f *Fleet) applyChange(r *record.Record, d change) {
	src := f.source(wire.Kind(r.Kind))
	src.installed = src.Fold.Apply(src.installed, kind.Change{Seq: r.Seq, At: r.At, Who: r.Who}, d.data)
	src.State = kind.State{
		State: kind.Installed, Version: strconv.FormatUint(r.Seq, 10), Rev: r.Seq, Since: r.At, Who: r.Who,
	}
}
