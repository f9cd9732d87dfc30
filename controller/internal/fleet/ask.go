package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Order is what an operator has one node do: such as wire.MethodReboot or MethodTry; answered
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

// Query asks one node for something that it has, such as wire.MethodLogs; answered under Ticket with what the
// node says. It changes nothing and is not journaled, but that somebody looks is: one record for each
// person and subject in notedFor, however often they ask.
type Query struct {
	Ticket uint64
	Node   string
	Method wire.Method
	Params []byte // as the wire has them
	Who    string
	What   string // for the record: "read the logs of web@n1"; "": there is none
}

func (Query) event() {}

// Asked is an order that is not answered yet.
type Asked struct {
	Node   string      `json:"node"`
	Method wire.Method `json:"method"`
	Until  time.Time   `json:"until"` // then it was in vain
}

// query is a Query that is not answered yet.
type query struct {
	ticket uint64
	node   string
	until  time.Time
}

// questions are the requests to nodes that somebody waits for. Only the orders are part of the state: whoever asked
// has gone when the controller starts again.
type questions struct {
	orders  map[string]*Asked    // not answered yet, by ID
	tickets map[string]uint64    // of those who wait for an order, by its ID
	queries map[string]query     // not answered yet, by ID
	noted   map[string]time.Time // who looked at what, when it was journaled
	sent    uint64               // requests of every sort since the start
}

func newQuestions() questions {
	return questions{
		orders: map[string]*Asked{}, tickets: map[string]uint64{},
		queries: map[string]query{}, noted: map[string]time.Time{},
	}
}

// An operator waits for the answers, so they live shorter than other requests.
const (
	orderLife  = 20 * time.Second
	orderWait  = 5 * time.Second // for an answer that was given at the last moment
	maxOrders  = 256             // not answered yet
	queryLife  = 10 * time.Second
	maxQueries = 256 // not answered yet
	notedFor   = time.Hour
	maxNoted   = 1000
)

// nextID is unique among the requests that a node may still remember, however coarse the clock. Each node's name is
// added to it.
func (q *questions) nextID(now time.Time, m wire.Method) string {
	q.sent++
	return string(m) + "-" + strconv.FormatInt(now.UnixNano(), 36) + "-" + strconv.FormatUint(q.sent, 36) + "-"
}

func (q *questions) order(s *step, ev *Order) {
	n := s.nodes[ev.Node]
	var err *wire.Error
	switch {
	case n == nil:
		err = neverHeardOf(ev.Node)
	case !n.Up:
		err = wire.New(wire.CodeWrongState, "", n.offlineSince()+
			"; nothing was sent, and nothing waits for it: order it again when it is back")
	case len(q.orders) >= maxOrders:
		err = wire.New(wire.CodeUnavailable, "", "too many orders wait for an answer; try again in a few seconds")
	default:
		err = s.against(n, ev)
	}
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	id, notAfter := q.nextID(s.now, ev.Method), s.now.Add(orderLife).UTC()
	data := record.RequestData{ID: id + n.Name, Method: ev.Method, Params: ev.Params, NotAfter: notAfter}
	data.Until = notAfter.Add(orderWait)
	s.emit(record.Record{Type: record.Request, Node: n.Name, Who: ev.Who}, data)
	q.tickets[data.ID] = ev.Ticket
	s.askOne(id, n, ev.Method, ev.Params, notAfter)
}

// against says what the kinds know against an order.
func (s *step) against(n *Node, ev *Order) *wire.Error {
	proving := s.proving()
	for _, o := range s.outputs {
		if o.Against == nil {
			continue
		}
		var others []kind.Node
		for _, m := range s.sorted() {
			if proving[m.Name] || m == n {
				others = append(others, s.as(m, o.Name))
			}
		}
		if err := o.Against(s.as(n, o.Name), others, ev.Method, ev.Params); err != nil {
			return err
		}
	}
	return nil
}

func (q *questions) query(s *step, ev *Query) {
	n := s.nodes[ev.Node]
	var err *wire.Error
	switch {
	case n == nil:
		err = neverHeardOf(ev.Node)
	case !n.Up:
		err = wire.New(wire.CodeWrongState, "", n.offlineSince())
	case len(q.queries) >= maxQueries:
		err = wire.New(wire.CodeUnavailable, "", "too many questions wait for an answer; try again in a few seconds")
	}
	if err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	q.note(s, ev)
	id, until := q.nextID(s.now, ev.Method), s.now.Add(queryLife)
	q.queries[id+n.Name] = query{ev.Ticket, n.Name, until}
	s.askOne(id, n, ev.Method, ev.Params, until.UTC())
}

// note journals who looks at what.
func (q *questions) note(s *step, ev *Query) {
	if ev.What == "" {
		return
	}
	key := ev.Who + "\n" + ev.What
	if at, ok := q.noted[key]; ok && s.now.Sub(at) < notedFor && !at.After(s.now) {
		return
	}
	if len(q.noted) >= maxNoted {
		clear(q.noted)
	}
	q.noted[key] = s.now
	s.emit(record.Record{Type: record.Note, Who: ev.Who, Node: ev.Node}, view.Remark{Text: ev.What})
}

// answered takes the reply to an order or a query; false: it is to something else.
func (q *questions) answered(s *step, h *Heard) bool {
	id := h.Reply.ID
	if o := q.orders[id]; o != nil && o.Node == h.Node {
		q.endOrder(s, id, h.Reply.Error)
		return true
	}
	if open, ok := q.queries[id]; ok && open.node == h.Node {
		q.endQuery(s, id, h.Reply.Result, h.Reply.Error)
		return true
	}
	return false
}

// endOrder journals what became of an order, and tells whoever waits for it.
func (q *questions) endOrder(s *step, id string, err *wire.Error) {
	o := *q.orders[id]
	err = ofNode(o.Node, err)
	s.emit(record.Record{Type: record.Reply, Node: o.Node}, record.ReplyData{ID: id, Method: o.Method, Error: err})
	ticket, waits := q.tickets[id]
	if !waits {
		return // it was given before this start of the controller
	}
	delete(q.tickets, id)
	a := Answer{Ticket: ticket, Result: view.Result{ID: id, State: "accepted", Rev: s.seq}}
	if err != nil {
		a.Err = err
	}
	s.effect(a)
}

func (q *questions) endQuery(s *step, id string, result []byte, err *wire.Error) {
	open := q.queries[id]
	delete(q.queries, id)
	a := Answer{Ticket: open.ticket, Data: result}
	if err != nil {
		a.Err = ofNode(open.node, err)
	}
	s.effect(a)
}

// expire gives up what was not answered in time.
func (q *questions) expire(s *step) {
	for _, id := range slices.Sorted(maps.Keys(q.orders)) {
		if o := q.orders[id]; !s.now.Before(o.Until) {
			q.endOrder(s, id, wire.New(wire.CodeNoAnswer, "", "the node has not answered in time; "+
				"it may have done what was ordered all the same: see tandem health "+o.Node))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(q.queries)) {
		if !s.now.Before(q.queries[id].until) {
			q.endQuery(s, id, nil, wire.New(wire.CodeNoAnswer, "", "the node has not answered in time"))
		}
	}
}

// deadline is when expire has something to do; zero: never.
func (q *questions) deadline() (next time.Time) {
	for _, o := range q.orders {
		next = earlier(next, o.Until)
	}
	for _, open := range q.queries {
		next = earlier(next, open.until)
	}
	return next
}

// requested and replied change the state as a record says.
func (q *questions) requested(node string, d *record.RequestData) {
	q.orders[d.ID] = &Asked{Node: node, Method: d.Method, Until: d.Until}
}

func (q *questions) replied(d *record.ReplyData) { delete(q.orders, d.ID) }

// requestLife is how long a request that nobody waits for may be acted upon: long enough for a slow link, short
// enough that a recorded one is of no use later.
const requestLife = 2 * time.Minute

// ask asks nodes for something, and returns the request's ID, to which each node's name is added.
func (s *step) ask(m wire.Method, nodes []string, params func(string) []byte) string {
	id := s.questions.nextID(s.now, m)
	s.effect(Ask{ID: id, Nodes: nodes, Method: m, Params: params, NotAfter: s.now.Add(requestLife)})
	return id
}

func (s *step) askOne(id string, n *Node, m wire.Method, params []byte, notAfter time.Time) {
	s.effect(Ask{ID: id, Nodes: []string{n.Name}, Method: m, NotAfter: notAfter,
		Params: func(string) []byte { return params }})
}

func neverHeardOf(node string) *wire.Error {
	return wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.80q has never been heard of", node))
}

func (n *Node) offlineSince() string {
	return fmt.Sprintf("node %s is offline since %s", n.Name, n.Since.UTC().Format(time.RFC3339))
}

// ofNode is an error as one of a node, nil if there is none.
func ofNode(node string, err *wire.Error) *wire.Error {
	if err == nil {
		return nil
	}
	e := *err
	e.Node = node
	return &e
}
