package app

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/nodeagent/internal/machine"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// documents are the documents of one kind, and the report of it.
type documents struct {
	reported
	kind  kind.Kind
	inbox machine.Machine[inbox.State, inbox.Event, inbox.Effect]

	followed bool       // the kind was told which document is in force
	stamp    wire.Stamp // that one's
}

// newDocuments takes up what was saved of a kind.
func (a *Agent) newDocuments(k kind.Kind, saved inbox.Durable) *documents {
	d := &documents{reported: reported{name: k.Name}, kind: k}
	d.inbox = machine.Machine[inbox.State, inbox.Event, inbox.Effect]{
		State: inbox.New(k.Load(saved), k.Look),
		Now:   a.now,
		Step: func(s inbox.State, now clock.Now, ev inbox.Event) (inbox.State, []inbox.Effect) {
			return s.Step(now, a.deps.Rand.Float64(), ev)
		},
		Failed: func(s inbox.State, now clock.Now, ev inbox.Event, err *wire.Error) (inbox.State, []inbox.Effect) {
			return s.Failed(now, a.deps.Rand.Float64(), ev, err)
		},
		Next: inbox.State.NextDeadline,
		Tick: inbox.Tick{},
		Sort: func(e inbox.Effect) machine.Order {
			switch e := e.(type) {
			case inbox.Save:
				return machine.Order{Save: true, Must: e.Must}
			case inbox.Emit:
				return machine.Order{Emit: a.event(e.Type, e.Err, docDetail{Kind: d.name, DocRef: e.Doc})}
			}
			return machine.Order{}
		},
		Answer: func(e inbox.Effect) (inbox.Event, bool) {
			check, ok := e.(inbox.Check)
			if !ok {
				return nil, false
			}
			content, errs := k.Check(check.Doc)
			return inbox.Checked{Stamp: check.Doc.Stamp, Content: content, Errs: errs}, true
		},
		Commit: a.saveStep,
		Run:    func(e inbox.Effect) { a.runInboxEffect(d, e) },
		After: func() {
			if a.node.begun {
				a.follow(d)
			}
		},
	}
	return d
}

// kind returns the documents of a kind; nil: this agent does not know it.
func (a *Agent) kind(name wire.Kind) *documents {
	for _, d := range a.documents {
		if d.name == name {
			return d
		}
	}
	return nil
}

// runInboxEffect does what the inbox asks for.
func (a *Agent) runInboxEffect(d *documents, e inbox.Effect) {
	switch e := e.(type) {
	case inbox.Apply:
		a.place(d, func(ctx context.Context) inbox.Event { return d.kind.Placer.Apply(ctx, e) })
	case inbox.Restore:
		a.place(d, func(ctx context.Context) inbox.Event { return d.kind.Placer.Restore(ctx, e) })
	case inbox.Verify:
		a.place(d, func(ctx context.Context) inbox.Event { return d.kind.Placer.Verify(ctx, e) })
	case inbox.Report:
		a.heed(d)
		a.refresh(&d.reported, e.Running, e.Last, d.kind.Detail())
		a.send(&d.reported)
	case inbox.Again:
		for _, ev := range e.Events {
			d.inbox.Handle(ev)
		}
	case inbox.Answer:
		a.reply(e.ID, []byte("null"), e.Err)
	}
}

// place puts a document in place in the background. The inbox asks each kind for one thing at a time.
func (a *Agent) place(d *documents, f func(context.Context) inbox.Event) {
	a.runInBackground(func() func() {
		ev := f(a.work)
		return func() { d.inbox.Handle(ev) }
	})
}

// inForce is the document that the node goes by now: a tried one, too.
func (d *documents) inForce() inbox.Doc {
	if s := d.inbox.State; s.Flight.Phase == inbox.Trying {
		return s.Flight.Doc
	}
	return d.inbox.State.Running
}

// follow tells the kind which document is in force, if it does not know yet.
func (a *Agent) follow(d *documents) {
	doc := d.inForce()
	if d.followed && d.stamp == doc.Stamp {
		return
	}
	d.followed, d.stamp = true, doc.Stamp
	if err := d.kind.InForce(doc); err != nil {
		a.log.Error("the document in force cannot be read", zap.String("kind", string(d.name)),
			zap.Uint64("rev", doc.Stamp.Rev), zap.Error(err))
	}
}

// document lets a document in, if it is this node's and signed as it should be.
func (a *Agent) document(name wire.Kind, m message) {
	if len(a.trust.Keys) == 0 {
		a.hold(name, m)
		return
	}
	ev, err := a.id.Document(a.trust.Keys, name, m.payload)
	if err != nil {
		a.refuse(m, err)
		return
	}
	doc := ev.Doc
	if err := a.trust.Floor.Check(name, doc.Stamp); err != nil {
		a.emit(inbox.EventStale, err, docDetail{Kind: name, DocRef: doc.Ref()})
		return
	}
	if d := a.kind(name); d != nil {
		before := d.inbox.State.High
		ev.At = a.deps.Now()
		d.inbox.Handle(ev)
		if high := d.inbox.State.High; high != before && high == doc.Stamp {
			a.takeAccepted(d, m.retained)
			a.lookAtView()
		}
		return
	}
	a.refuseKind(name, doc, m)
}

// maxUnknown bounds the unknown kinds that the agent reports as refused.
const maxUnknown = 16

// refuseKind reports that this agent knows no documents of this kind. Nothing of it is saved: a newer agent takes
// them up.
func (a *Agent) refuseKind(name wire.Kind, doc inbox.Doc, m message) {
	err := wire.New(wire.CodeNotSupported, "", fmt.Sprintf("this agent does not know documents of kind %.64q", name))
	r := a.unknown[name]
	if r == nil && len(a.unknown) >= maxUnknown {
		a.refuse(m, wire.New(err.Code, "/kind", err.Message))
		return
	}
	if r == nil {
		r = &reported{name: name}
		a.unknown[name] = r
	}
	a.refresh(r, nil, inbox.Refused(doc, err, a.deps.Now()), nil)
	a.send(r)
}

// hold keeps the newest document of a kind until the first beacon says whom to believe. There is room for one of
// each kind that the agent knows, and for a few that it does not.
func (a *Agent) hold(name wire.Kind, m message) {
	d, err := wire.Decode[wire.Desired](m.payload)
	if err != nil {
		a.refuse(m, wire.AsError(err))
		return
	}
	old, ok := a.held[name]
	if ok {
		if o, err := wire.Decode[wire.Desired](old.payload); err == nil && o.Stamp().Compare(d.Stamp()) > 0 {
			return
		}
	}
	if !ok && a.kind(name) == nil && !a.roomForUnknown() {
		a.refuse(m, wire.New(wire.CodeUnavailable, "",
			"no beacon has been heard yet, and enough documents wait for it"))
		return
	}
	a.held[name] = m
}

// roomForUnknown says that one more document of an unknown kind may be held.
func (a *Agent) roomForUnknown() bool {
	n := 0
	for name := range a.held {
		if a.kind(name) == nil {
			n++
		}
	}
	return n < maxHeldUnknown
}

// maxHeldUnknown bounds the unknown kinds whose newest document is held.
const maxHeldUnknown = 4
