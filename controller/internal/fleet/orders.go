package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Order is what an operator has one node do: wire.MethodReboot, MethodTry or MethodApprove; answered
// under Ticket when the node has answered, or has not in time. It is in the journal before it is
// sent. Nothing is kept for a node that is away.
type Order struct {
	Ticket uint64
	Node   string
	Method wire.Method
	Params []byte // as the wire has them
	Who    string
}

func (Order) event() {}

// Asked is an order that is not answered yet.
type Asked struct {
	Node   string      `json:"node"`
	Method wire.Method `json:"method"`
	Until  time.Time   `json:"until"` // then it was in vain
}

// The life of an order: an operator waits for it, so it is shorter than that of other requests.
const (
	orderLife = 20 * time.Second
	orderWait = 5 * time.Second // for an answer that was given at the last moment
	maxOrders = 256             // not answered yet
)

func (s *step) order(ev Order) {
	n := s.nodes[ev.Node]
	var err *wire.Error
	switch {
	case n == nil:
		err = wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.80q has never been heard of", ev.Node))
	case !n.Up:
		err = wire.New(wire.CodeWrongState, "", fmt.Sprintf("node %s is offline since %s; nothing was sent, "+
			"and nothing waits for it: order it again when it is back", n.Name, n.Since.UTC().Format(time.RFC3339)))
	case len(s.orders) >= maxOrders:
		err = wire.New(wire.CodeUnavailable, "", "too many orders wait for an answer; try again in a few seconds")
	}
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	id := s.requestID(ev.Method)
	notAfter := s.now.Add(orderLife).UTC()
	data := record.RequestData{ID: id + n.Name, Method: ev.Method, Params: ev.Params, NotAfter: notAfter}
	data.Until = notAfter.Add(orderWait)
	s.emit(record.Record{Type: record.Request, Node: n.Name, Who: ev.Who}, data)
	s.tickets[data.ID] = ev.Ticket
	params := ev.Params
	s.effect(Ask{ID: id, Nodes: []string{n.Name}, Method: ev.Method, NotAfter: notAfter,
		Params: func(string) []byte { return params }})
}

// answered ends an order.
func (s *step) answered(id string, err *wire.Error) {
	o := *s.orders[id]
	if err != nil {
		e := *err
		e.Node = o.Node
		err = &e
	}
	s.emit(record.Record{Type: record.Reply, Node: o.Node}, record.ReplyData{ID: id, Method: o.Method, Error: err})
	ticket, waits := s.tickets[id]
	if !waits {
		return // it was given before this start of the controller
	}
	delete(s.tickets, id)
	a := Answer{Ticket: ticket, Result: view.Result{ID: id, State: "accepted", Rev: s.seq}}
	if err != nil {
		a.Err = err
	}
	s.effect(a)
}

// giveUp ends the orders that were not answered in time.
func (s *step) giveUp() {
	for _, id := range slices.Sorted(maps.Keys(s.orders)) {
		if o := s.orders[id]; !s.now.Before(o.Until) {
			s.answered(id, wire.New(wire.CodeNoAnswer, "",
				"the node has not answered in time; it may have done what was ordered all the same: see tandem health "+
					o.Node))
		}
	}
}

func (f *Fleet) applyRequest(r *record.Record, d *record.RequestData) {
	f.orders[d.ID] = &Asked{Node: r.Node, Method: d.Method, Until: d.Until}
}
