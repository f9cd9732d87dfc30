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

// Query asks one node for something that it has, wire.MethodLogs; answered under Ticket with what the
// node says. It changes nothing and is not journaled, but that somebody looks is: one record for each
// person and subject in notedFor, however often they ask.
type Query struct {
	Ticket uint64
	Node   string
	Method wire.Method
	Params []byte // as the wire has them
	Who    string
	What   string // for the record: "read the logs of web@n1"
}

func (Query) event() {}

// queries are the questions under way. They are no part of the state: who asked has gone when the
// controller starts again.
type queries struct {
	open  map[string]query     // by ID of the request, with the node's name
	noted map[string]time.Time // who and what, when it was journaled
}

type query struct {
	ticket uint64
	node   string
	until  time.Time
}

func newQueries() queries { return queries{map[string]query{}, map[string]time.Time{}} }

const (
	queryLife  = 10 * time.Second
	maxQueries = 256 // not answered yet
	notedFor   = time.Hour
	maxNoted   = 1000
)

func (s *step) query(ev Query) {
	n := s.nodes[ev.Node]
	var err *wire.Error
	switch {
	case n == nil:
		err = wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.80q has never been heard of", ev.Node))
	case !n.Up:
		err = wire.New(wire.CodeWrongState, "",
			fmt.Sprintf("node %s is offline since %s", n.Name, n.Since.UTC().Format(time.RFC3339)))
	case len(s.queries.open) >= maxQueries:
		err = wire.New(wire.CodeUnavailable, "", "too many questions wait for an answer; try again in a few seconds")
	}
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	s.note(&ev)
	id, until := s.requestID(ev.Method), s.now.Add(queryLife)
	s.queries.open[id+n.Name] = query{ev.Ticket, n.Name, until}
	params := ev.Params
	s.effect(Ask{ID: id, Nodes: []string{n.Name}, Method: ev.Method, NotAfter: until.UTC(),
		Params: func(string) []byte { return params }})
}

// note journals who looks at what.
func (s *step) note(ev *Query) {
	key := ev.Who + "\n" + ev.What
	if at, ok := s.queries.noted[key]; ok && s.now.Sub(at) < notedFor && !at.After(s.now) {
		return
	}
	if len(s.queries.noted) >= maxNoted {
		clear(s.queries.noted)
	}
	s.queries.noted[key] = s.now
	s.emit(record.Record{Type: record.Note, Who: ev.Who, Node: ev.Node}, view.Remark{Text: ev.What})
}

// queryAnswered ends a question; false: the reply is to something else.
func (s *step) queryAnswered(h *Heard) bool {
	q, ok := s.queries.open[h.Reply.ID]
	if !ok || q.node != h.Node {
		return false
	}
	delete(s.queries.open, h.Reply.ID)
	a := Answer{Ticket: q.ticket, Data: h.Reply.Result}
	if h.Reply.Error != nil {
		e := *h.Reply.Error
		e.Node = h.Node
		a.Err = &e
	}
	s.effect(a)
	return true
}

// queriesOver gives up the questions that were not answered in time.
func (s *step) queriesOver() {
	for _, id := range slices.Sorted(maps.Keys(s.queries.open)) {
		if q := s.queries.open[id]; !s.now.Before(q.until) {
			delete(s.queries.open, id)
			s.effect(Answer{Ticket: q.ticket,
				Err: &wire.Error{Code: wire.CodeNoAnswer, Message: "the node has not answered in time", Node: q.node}})
		}
	}
}
