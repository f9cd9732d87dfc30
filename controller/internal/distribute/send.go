package distribute

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// document is a slot's content at one moment.
type document struct {
	*slot
	doc  *kind.Doc
	body []byte
}

// takeDirty takes at most one signature's worth off the list.
func (o *outbox) takeDirty() []document {
	n := min(len(o.dirty), seal.Batch)
	docs := make([]document, n)
	for i, s := range o.dirty[:n] {
		s.dirty = false
		docs[i] = document{s, s.doc, s.body}
	}
	o.dirty = o.dirty[n:]
	if len(o.dirty) == 0 {
		o.dirty = nil
	}
	return docs
}

func (o *outbox) sendDocs(ctx context.Context, docs []document) error {
	envelopes := make([]wire.Desired, 0, len(docs))
	topics := make([]string, 0, len(docs))
	preimages := make([][]byte, 0, len(docs))
	bodies := map[string][]byte{}
	for _, d := range docs {
		if d.doc == nil {
			if err := o.link.Publish(ctx, d.topic, nil, true); err != nil {
				return err
			}
			continue
		}
		body := d.body
		if body == nil {
			var err error
			if body = bodies[d.doc.Hash]; body == nil {
				if body, err = o.c.body(d.doc.Hash); err != nil {
					o.c.cfg.Log.Error("a document cannot be published", zap.String("node", d.node),
						zap.String("kind", string(d.kind)), zap.Uint64("rev", d.doc.Rev), zap.Error(err))
					o.c.queue.put(item{event: fleet.Lost{Kind: d.kind, Doc: d.doc.DocRef}}, nil)
					continue
				}
				bodies[d.doc.Hash] = body
			}
		}
		e := wire.Desired{
			V: wire.Version, Unit: o.c.cfg.Unit, Node: d.node, Kind: d.kind, Epoch: d.doc.Epoch, Rev: d.doc.Rev,
			Version: d.doc.Version, Hash: d.doc.Hash, Issued: d.doc.Issued, Mode: d.doc.Mode,
			Body: jsontext.Value(body),
		}
		if e.Mode == wire.ModeTry {
			e.ConfirmWithin = d.doc.Within.String()
		}
		envelopes, topics = append(envelopes, e), append(topics, d.topic)
		preimages = append(preimages, seal.DesiredPreimage(&e))
	}
	sigs := o.c.signer().SignAll(preimages)
	for i := range envelopes {
		e := &envelopes[i]
		e.Sig = sigs[i]
		payload := e.Append(make([]byte, 0, len(e.Body)+1024))
		if err := o.link.Publish(ctx, topics[i], payload, true); err != nil {
			return err
		}
	}
	return nil
}

func (o *outbox) sendAsks(ctx context.Context, asks []fleet.Ask) error {
	for _, a := range asks {
		for nodes := a.Nodes; len(nodes) > 0; {
			n := min(len(nodes), seal.Batch)
			if err := o.sendRequests(ctx, &a, nodes[:n]); err != nil {
				return err
			}
			nodes = nodes[n:]
		}
	}
	return nil
}

func (o *outbox) sendRequests(ctx context.Context, a *fleet.Ask, nodes []string) error {
	requests := make([]wire.Request, len(nodes))
	preimages := make([][]byte, len(nodes))
	for i, node := range nodes {
		r := wire.Request{V: wire.Version, Unit: o.c.cfg.Unit, Node: node, ID: a.ID + node, Method: a.Method,
			NotAfter: a.NotAfter.UTC()}
		if a.Params != nil {
			r.Params = a.Params(node)
		}
		requests[i], preimages[i] = r, seal.RequestPreimage(&r)
	}
	sigs := o.c.signer().SignAll(preimages)
	for i := range requests {
		r := &requests[i]
		r.Sig = sigs[i]
		payload := r.Append(make([]byte, 0, len(r.Params)+768))
		if err := o.link.Publish(ctx, topic.ForNode(r.Unit, r.Node).Request(), payload, false); err != nil {
			return err
		}
	}
	return nil
}

func (o *outbox) sendPlain(ctx context.Context, all []link.Publication) error {
	for _, p := range all {
		if err := o.link.Publish(ctx, p.Topic, p.Payload, p.Retain); err != nil {
			return err
		}
	}
	return nil
}
