package app

import (
	"fmt"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/wire"
)

// request answers one request, once; a repeated one gets the same answer and has no second effect.
func (a *Agent) request(m message) {
	r, err := a.id.Request(a.trust.Keys, a.trust.Corrected(a.deps.Now()), m.payload)
	if r == nil {
		a.refuse(m, err)
		return
	}
	if payload, ok := a.answers.find(r.ID); ok {
		a.sender.Once(a.topics.Reply(), payload, 0)
		return
	}
	if r.Method == wire.MethodShow { // at any time: the controller that asks may have lost its journal and its clock
		result, err := a.show(r)
		a.reply(r.ID, result, err)
		return
	}
	if err != nil {
		a.reply(r.ID, nil, err)
		return
	}
	a.healthEvent(health.Contact{Result: wire.ContactSuccess})
	switch r.Method {
	case wire.MethodCheck:
		result, err := a.check(r)
		a.reply(r.ID, result, err)
	case wire.MethodReport:
		a.reply(r.ID, []byte("null"), nil)
		a.againAt = 0
		a.reportEverything()
	case wire.MethodEvents:
		a.reply(r.ID, []byte("null"), a.replay(r))
		a.sendEvents()
	case wire.MethodConfirm:
		a.confirm(r)
	case wire.MethodCA:
		if a.renewer == nil {
			a.reply(r.ID, nil, wire.New(wire.CodeWrongState, "", "this node has not joined"))
			return
		}
		a.reply(r.ID, []byte("null"), nil)
		a.renewer.AskCAs()
	case wire.MethodAgentLog:
		result, err := a.showLog(r)
		a.reply(r.ID, result, err)
	case wire.MethodSamples:
		now := a.now()
		a.reply(r.ID, wire.Encode(a.recent.show(a.cfg.SamplePeriod, now.Wall, now.Mono)), nil)
	case wire.MethodLogLevel:
		a.reply(r.ID, []byte("null"), a.setLogLevel(r))
	case wire.MethodNewest:
		a.reply(r.ID, []byte("null"), a.takeNewest(r))
	default:
		a.kindRequest(r)
	}
}

// kindRequest has a kind answer a request.
func (a *Agent) kindRequest(r *wire.Request) {
	for _, d := range a.documents {
		method, ok := d.kind.Methods[r.Method]
		if !ok {
			continue
		}
		do, err := method.Read(r.Params)
		if err != nil {
			a.reply(r.ID, nil, within("/params", err))
			return
		}
		if method.Order {
			if err := a.acceptOrder(r); err != nil {
				a.reply(r.ID, nil, err)
				return
			}
		}
		do(r.ID, func(result []byte, err *wire.Error) { a.reply(r.ID, result, err) })
		return
	}
	a.reply(r.ID, nil, wire.New(wire.CodeNotSupported, "/method",
		fmt.Sprintf("this agent does not know the method %.64q", r.Method)))
}

// maxErrors bounds the errors of one check.
const maxErrors = 8

// check says whether the node would take a document.
func (a *Agent) check(r *wire.Request) ([]byte, *wire.Error) {
	p, err := wire.Decode[wire.CheckParams](r.Params)
	if err != nil {
		return nil, within("/params", err)
	}
	d := a.kind(p.Kind)
	if d == nil {
		return nil, wire.New(wire.CodeNotSupported, "/params/kind",
			fmt.Sprintf("this agent does not know documents of kind %.64q", p.Kind))
	}
	if len(p.Body) > wire.MaxBody {
		return nil, wire.New(wire.CodeTooLarge, "/params/body",
			fmt.Sprintf("%d bytes; a body has at most %d", len(p.Body), wire.MaxBody))
	}
	_, errs := d.kind.Check(inbox.Doc{Version: p.Version, Hash: wire.Hash(p.Body), Body: p.Body})
	result := wire.CheckResult{OK: len(errs) == 0, Errors: errs[:min(len(errs), maxErrors)]}
	return wire.Encode(&result), nil
}

// replay forgets the events that the controller has, and sends the others again.
func (a *Agent) replay(r *wire.Request) *wire.Error {
	p, err := wire.Decode[wire.EventsParams](r.Params)
	if err != nil {
		return within("/params", err)
	}
	if p.After > a.store.NewestEvent() {
		a.sent = 0 // the controller speaks of another life of this node: it has none of these
		return nil
	}
	if err := a.store.Acked(p.After); err != nil {
		a.log.Warn("events stay in the queue", zap.Error(err)) // they are bounded, and dropped next time
	}
	a.sent = p.After
	return nil
}

func (a *Agent) confirm(r *wire.Request) {
	p, err := wire.Decode[wire.ConfirmParams](r.Params)
	if err != nil {
		a.reply(r.ID, nil, within("/params", err))
		return
	}
	d := a.kind(p.Kind)
	if d == nil {
		a.reply(r.ID, nil, wire.New(wire.CodeNotFound, "/params/kind",
			fmt.Sprintf("this agent has no documents of kind %.64q", p.Kind)))
		return
	}
	d.inbox.Handle(inbox.Confirm{ID: r.ID, Stamp: wire.Stamp{Epoch: p.Epoch, Rev: p.Rev}})
}

// show returns what is signed of the newest document of a kind: the controller believes that it is newer than all that
// it knows of, as after its journal was lost, only if it sees its own signature.
func (a *Agent) show(r *wire.Request) ([]byte, *wire.Error) {
	p, err := wire.Decode[wire.ShowParams](r.Params)
	if err != nil {
		return nil, within("/params", err)
	}
	if d := a.kind(p.Kind); d != nil {
		if shown := d.inbox.State.Shown(); shown != nil {
			return shown, nil
		}
	}
	return nil, wire.New(wire.CodeNotFound, "/params/kind",
		fmt.Sprintf("this agent has no signature of a document of kind %.64q", p.Kind))
}

// within puts an error about params in its place in the request.
func within(path string, err error) *wire.Error {
	e := wire.AsError(err)
	return wire.New(e.Code, path+e.Path, e.Message)
}

// answers are the newest replies, by request ID.
type answers struct {
	byID map[string][]byte
	ids  []string // oldest first
	size int      // bytes of the replies
}

// Bounds of them; a controller has few requests to one node under way.
const (
	maxAnswers     = 64
	maxAnswerBytes = 512 << 10 // but for the newest one, if that is longer
)

func newAnswers() answers { return answers{byID: map[string][]byte{}} }

func (s *answers) find(id string) ([]byte, bool) {
	payload, ok := s.byID[id]
	return payload, ok
}

func (s *answers) add(id string, payload []byte) {
	if _, ok := s.byID[id]; !ok {
		s.ids = append(s.ids, id)
	}
	s.size += len(payload) - len(s.byID[id])
	s.byID[id] = payload
	for len(s.ids) > maxAnswers || s.size > maxAnswerBytes && len(s.ids) > 1 {
		s.size -= len(s.byID[s.ids[0]])
		delete(s.byID, s.ids[0])
		s.ids = append(s.ids[:0], s.ids[1:]...)
	}
}
