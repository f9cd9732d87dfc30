package fleet

import (
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// RolloutOrder is what somebody decides about a rollout: a rollout.Pause, Resume or Abort; answered under Ticket.
type RolloutOrder struct {
	Ticket uint64
	Who    string
	Order  rollout.Event
}

func (RolloutOrder) event() {}

// Rollouts are those that there are, for those who look at them.
func (f *Fleet) Rollouts() *rollout.Set { return f.rollouts }

// rolloutOrder has the rollout judge an order. Who it is from is set here, so that nobody orders in another's name.
func (s *step) rolloutOrder(ev RolloutOrder) {
	order, id := ev.Order, ""
	switch o := order.(type) {
	case rollout.Pause:
		o.Who, id = ev.Who, o.ID
		order = o
	case rollout.Resume:
		o.Who, id = ev.Who, o.ID
		order = o
	case rollout.Abort:
		o.Who, id = ev.Who, o.ID
		order = o
	default:
		panic("fleet: no order about a rollout") // the shell has them of their types
	}
	if err := s.rollout(order); err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	s.effect(Answer{Ticket: ev.Ticket, Result: view.Result{State: "accepted", Rollout: id, Epoch: s.opt.Epoch}})
}

// rolled is the data of a Rollout record that the rollouts have applied themselves.
type rolled struct{ record.RolloutData }

// rollout gives an event to the rollouts, and makes records of what they decide.
func (s *step) rollout(ev rollout.Event) *wire.Error {
	var out rollout.Out
	if err := s.rollouts.Step(s.now.UTC(), s.seq, ev, &out); err != nil {
		return err
	}
	for _, r := range out.Records {
		data := record.OfRollout(r)
		s.emit(record.Record{Type: record.Rollout, Data: record.Encode(data)}, rolled{data})
	}
	return nil
}
