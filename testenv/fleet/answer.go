package fleet

import (
	"bytes"
	"math/rand/v2"
	"time"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// document judges a desired document and returns the report on it. news: it was not known before.
// ok false: there is nothing to report yet.
func (n *node) document(payload []byte) (report message, news, ok bool) {
	n.f.count.documents.Add(1)
	if n.f.cfg.Echo > 0 {
		return message{n.topics.Reported(wire.KindConfig), n.f.echo, true}, true, true
	}
	if !n.f.trust.pinned() {
		n.mu.Lock()
		n.early = bytes.Clone(payload)
		n.mu.Unlock()
		return message{}, false, false
	}
	d, err := n.accept(payload)
	if err != nil && d == nil {
		n.f.refused(n.name, err)
		return message{}, false, false // not a document that a report could name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	ref := wire.DocRef{Epoch: d.Epoch, Rev: d.Rev, Version: n.f.intern(d.Version), Hash: d.Hash}
	switch order := d.Stamp().Compare(n.last.Stamp()); {
	case err == nil && order < 0:
		err = wire.New(wire.CodeStale, "", "older than what this node knows")
	case err == nil && order == 0 && d.Hash != n.last.Hash:
		err = wire.New(wire.CodeFork, "", "another document under the same epoch and rev")
	case err == nil && order == 0: // known: report it again
		return message{n.topics.Reported(wire.KindConfig), n.configLocked(), true}, false, true
	}
	if err != nil {
		n.f.refused(n.name, err)
		if d.Stamp().Compare(n.last.Stamp()) <= 0 {
			return message{n.topics.Reported(wire.KindConfig), n.configLocked(), true}, false, true
		}
		n.attempt(ref, wire.StateRejected, wire.AsError(err))
	} else if d.Mode == wire.ModeTry {
		n.attempt(ref, wire.StateTrying, nil)
	} else {
		n.running = ref
		n.attempt(ref, wire.StateInstalled, nil)
		n.f.count.installed.Add(1)
	}
	return message{n.topics.Reported(wire.KindConfig), n.configLocked(), true}, true, true
}

// accept checks a document in the contract's order. With an error the document is nil unless it
// was signed for this node.
func (n *node) accept(payload []byte) (*wire.Desired, error) {
	d, err := n.desired(payload)
	if err != nil {
		return nil, err
	}
	if d.Unit != n.f.cfg.Unit || d.Node != n.name || d.Kind != wire.KindConfig {
		return nil, wire.New(wire.CodeWrongTarget, "", "for another unit, node or kind")
	}
	if err := n.f.trust.verify(seal.DesiredPreimage(d), d.Sig); err != nil {
		return nil, err
	}
	if d.Body == nil {
		return d, wire.New(wire.CodeNotSupported, "/ref", "this node fetches nothing")
	}
	if wire.Hash(d.Body) != d.Hash {
		return d, wire.New(wire.CodeHashMismatch, "/hash", "not the body's")
	}
	if n.f.cfg.Refuse != nil {
		if why := n.f.cfg.Refuse(n.name, d); why != nil {
			return d, why
		}
	}
	return d, nil
}

// attempt notes what came of a document, under mu.
func (n *node) attempt(ref wire.DocRef, state wire.State, err *wire.Error) {
	n.last = wire.Attempt{
		Epoch: ref.Epoch, Rev: ref.Rev, Version: ref.Version, Hash: ref.Hash, State: state, Error: err, Attempt: 1,
		At: time.Now().UTC(),
	}
	n.seqs[seqConfig]++
}

// hear takes the beacon in: it pins the unit's keys, and a changed epoch makes the node report
// again within the beacon's jitter. It returns the report on a document that waited for the keys.
func (n *node) hear(payload []byte) []message {
	if n.f.cfg.Echo > 0 {
		return nil
	}
	b, err := n.f.decodeBeacon(payload)
	if err != nil {
		n.f.refused(n.name, err)
		return nil
	}
	n.mu.Lock()
	again := n.heard.Epoch != 0 && n.heard.Epoch != b.Epoch && b.Up
	early := n.early
	n.heard, n.early = wire.Heard{Epoch: b.Epoch, Time: b.Time}, nil
	c := n.c
	n.mu.Unlock()
	if again {
		n.f.later(spread(b.Jitter), func() {
			n.mu.Lock()
			all := n.everything()
			now := n.c
			n.mu.Unlock()
			if now == c {
				if _, err := n.send(c, 0, all...); err != nil {
					n.f.note(n.name, err)
				}
			}
		})
	}
	if early != nil {
		if m, _, ok := n.document(early); ok {
			return []message{m}
		}
	}
	return nil
}

// spread draws a time within an ISO 8601 duration.
func spread(jitter string) time.Duration {
	d, err := duration.Parse(jitter)
	if err != nil || d <= 0 {
		return 0
	}
	return rand.N(d)
}

// request answers a question of the controller's.
func (n *node) request(payload []byte) []message {
	n.f.count.requests.Add(1)
	if n.f.cfg.Echo > 0 {
		return []message{{n.topics.Reply(), n.f.echo, false}}
	}
	q, err := n.question(payload)
	if err != nil {
		n.f.refused(n.name, err)
		return nil
	}
	reply := wire.Reply{V: wire.Version, Node: n.name, ID: q.ID}
	var more []message
	switch {
	case q.Unit != n.f.cfg.Unit || q.Node != n.name:
		reply.Error = wire.New(wire.CodeWrongTarget, "", "for another unit or node")
	case !n.f.trust.pinned():
		reply.Error = wire.New(wire.CodeUnknownKey, "", "no beacon was heard yet")
	default:
		if err := n.f.trust.verify(seal.RequestPreimage(q), q.Sig); err != nil {
			reply.Error = wire.AsError(err)
		} else if time.Now().After(q.NotAfter) {
			reply.Error = wire.New(wire.CodeExpired, "/notAfter", "too late")
		} else {
			reply.Result, reply.Error, more = n.do(q)
		}
	}
	if reply.Error != nil {
		n.f.refused(n.name, reply.Error)
	}
	return append(more, message{n.topics.Reply(), wire.Encode(&reply), false})
}

var (
	yes     = []byte(`{"ok":true}`)
	nothing = []byte(`null`)
)

func (n *node) do(q *wire.Request) (result []byte, failure *wire.Error, more []message) {
	switch q.Method {
	case wire.MethodCheck:
		if !n.f.params.has(q.Params) {
			if _, err := wire.Decode[wire.CheckParams](q.Params); err != nil {
				return nil, wire.AsError(err), nil
			}
			n.f.params.add(q.Params)
		}
		n.f.count.checks.Add(1)
		return yes, nil, nil
	case wire.MethodReport:
		n.mu.Lock()
		defer n.mu.Unlock()
		return nothing, nil, n.everything()
	case wire.MethodEvents: // it never has any
		return nothing, nil, nil
	case wire.MethodConfirm:
		p, err := wire.Decode[wire.ConfirmParams](q.Params)
		if err != nil {
			return nil, wire.AsError(err), nil
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if l := &n.last; l.State == wire.StateTrying && l.Epoch == p.Epoch && l.Rev == p.Rev {
			n.running = wire.DocRef{Epoch: l.Epoch, Rev: l.Rev, Version: l.Version, Hash: l.Hash}
			n.attempt(n.running, wire.StateInstalled, nil)
			return nothing, nil, []message{{n.topics.Reported(wire.KindConfig), n.configLocked(), true}}
		}
		return nil, wire.New(wire.CodeStale, "", "not what is tried here"), nil
	}
	if n.f.cfg.Answer != nil {
		result, failure = n.f.cfg.Answer(n.name, q)
		return result, failure, nil
	}
	return nil, wire.New(wire.CodeNotSupported, "/method", "no such method here"), nil
}
