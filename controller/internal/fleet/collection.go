package fleet

import (
	"fmt"
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
	// Submitted is the verdict so far on what was submitted over MQTT: that it was refused, or changes nothing, is a
	// record, too. Nil: an operator asks, who sees the answer.
	Submitted *record.Verdict
}

func (Change) event() {}

// changeCollection makes a change a record and gives new documents to those whose part differs then.
func (s *step) changeCollection(ev Change) {
	src := s.source(ev.Source)
	if src == nil || src.Fold == nil {
		panic("fleet: a change of " + string(ev.Source)) // the shell knows what can be changed
	}
	waves, same, err := s.weigh(src, ev.Data, s.now)
	var data []byte
	if err == nil && !same {
		if data = record.Encode(ev.Data); len(data) > record.MaxData { // refused alone: the whole batch would be
			err = wire.New(wire.CodeTooLarge, "", fmt.Sprintf("the change has %d bytes; the journal takes at most %d",
				len(data), record.MaxData))
		}
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
	if same && ev.Submitted != nil { // it is not judged again after a restart
		v := *ev.Submitted
		v.Version, v.Nothing = strconv.FormatUint(src.Rev, 10), true
		s.emit(record.Record{Type: record.Accepted, Who: ev.Who, Kind: string(src.Name)}, v)
	}
	if same {
		s.effect(Answer{Ticket: ev.Ticket, Result: view.Result{State: Unchanged, Rev: src.Rev, Epoch: s.opt.Epoch}})
		return
	}
	if waves.Plan != nil {
		s.rollOut(src, &ev, waves.Plan)
		return
	}
	going := src.State.Rollout
	r := record.Record{Type: record.Settings, Who: ev.Who, Kind: string(src.Name), Data: data}
	s.emit(r, change{ev.Data})
	if going != nil && src.State.Rollout == nil {
		s.endRollout(src, going, ev.Who)
	}
	s.touchAll(src)
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

// Unchanged is the state of the answer to a change that changes nothing.
const Unchanged = "unchanged"

// change is the data of a Settings record, as the source's Fold has read it.
type change struct{ data any }

func (f *Fleet) applyChange(r *record.Record, d change) {
	src, at := f.source(wire.Kind(r.Kind)), kind.Change{Seq: r.Seq, At: r.At, Who: r.Who}
	e, _ := d.data.(kind.ElementChange)
	if e != nil && e.RolledOut() != "" {
		src.prepare(e, at)
		return
	}
	st := kind.State{
		State: kind.Installed, Version: strconv.FormatUint(r.Seq, 10), Rev: r.Seq, Since: r.At, Who: r.Who,
	}
	from := src.installed
	switch {
	case !src.split:
	case e == nil || e.Element() != src.element():
		for hash, c := range src.contents {
			src.contents[hash] = src.Fold.Apply(c, at, d.data)
		}
		st.Hash, st.Rollout = src.Hash, src.State.Rollout
	default:
		from = src.newest()
		f.unite(src)
	}
	src.installed, src.State = src.Fold.Apply(from, at, d.data), st
}
