// Package kind is what the agent and a kind of document agree on: how a document is read, what this node has against
// it, how it is put in place, what the node reports of it, and which requests about it the node answers.
//
// Each kind is a package in nodeagent/internal/kinds, and a line in the agent's list. It guarantees that a body is
// read once: from then on the document carries its content, and who gets the document gets the content with it.
package kind

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/wire"
)

// Host is the agent, as kinds see it. Its methods return at once and may be called by any goroutine.
type Host interface {
	// Do has f called on the goroutine that owns the agent's state, in the order of the calls. After the agent
	// has stopped it is not called.
	Do(f func())
	// Later runs work on a goroutine of its own, which the agent waits for when it stops, and then what work
	// returns as Do does. ctx ends when the agent stops.
	Later(work func(ctx context.Context) (then func()))
	// Emit keeps an event for the controller. detail is marshalled to JSON; nil: there is none.
	Emit(event string, err *wire.Error, detail any)
	// Report publishes the kind's report, because its detail may be another.
	Report(name wire.Kind)
}

// Document is a document with its content. The zero Document is none.
type Document[V any] struct {
	inbox.Doc
	Content V
}

// Spec says what a kind is. V is the content of its documents. What a nil function means, its comment says.
type Spec[V any] struct {
	Name wire.Kind
	// Vital says that the node is not well while the newest document of this kind has failed.
	Vital bool
	// Look is how often Place is asked whether the document is still in place; 0: at the start only.
	Look time.Duration
	// Parse reads a body. It is called on the owner's goroutine, for what comes and for what was saved.
	Parse func(doc inbox.Doc) (V, []*wire.Error)
	// Check says what this node has against a document that was read, the main thing first; nil: nothing.
	Check func(doc Document[V]) []*wire.Error
	// Place puts documents in place by files and commands. Nil: Put does.
	Place Placer
	// Put makes doc what the node goes by; the zero Document: nothing. It is called on a goroutine of its own, one
	// call at a time. Nil: there is nothing to do.
	Put func(ctx context.Context, doc Document[V]) *wire.Error
	// InForce is told on the owner's goroutine which document the node goes by, a tried one too, at the start and
	// at each change; the zero Document: none. Nil: nobody asks.
	InForce func(doc Document[V])
	// Detail is the detail of the kind's report, JSON; it is called on the owner's goroutine. Nil, or an answer of
	// nil: there is none.
	Detail func() []byte
	// Troubles names what is not good now of what the kind runs; it is called on the owner's goroutine. Nil: nothing.
	Troubles func() []string
	// Methods are the requests that the kind answers.
	Methods map[wire.Method]Method
	// Run works for the kind until ctx ends. Nil: nothing runs.
	Run func(ctx context.Context)
	// Attributes are what the report of the node itself says of the kind, see wire.NodeInfo. It is called on the
	// owner's goroutine. Nil: there are none.
	Attributes func() map[string]string
}

// Placer puts documents in place. Its methods answer the inbox's effects of the same names, one at a time on a
// goroutine of their own, and give up soon after ctx ends.
type Placer interface {
	Apply(ctx context.Context, job inbox.Apply) inbox.Applied
	Restore(ctx context.Context, job inbox.Restore) inbox.Restored
	Verify(ctx context.Context, job inbox.Verify) inbox.Verified
}

// Kind is a Spec whose type of content is hidden, so that a list can have kinds of several. Make it with New.
type Kind struct {
	Name    wire.Kind
	Vital   bool
	Look    time.Duration
	Placer  Placer
	Detail  func() []byte
	Methods map[wire.Method]Method
	Run     func(ctx context.Context) // nil: nothing runs

	Troubles func() []string // nil: the kind has none

	Attributes func() map[string]string

	read    func(doc inbox.Doc) (any, []*wire.Error)
	check   func(doc inbox.Doc) []*wire.Error
	inForce func(doc inbox.Doc) *wire.Error
}

// New makes a Kind of what a Spec says.
func New[V any](s Spec[V]) Kind {
	k := Kind{Name: s.Name, Vital: s.Vital, Look: s.Look, Placer: s.Place, Detail: s.Detail, Methods: s.Methods,
		Run: s.Run, Attributes: s.Attributes, Troubles: s.Troubles}
	if k.Attributes == nil {
		k.Attributes = func() map[string]string { return nil }
	}
	if k.Placer == nil {
		k.Placer = putter(func(ctx context.Context, doc inbox.Doc) *wire.Error {
			if s.Put == nil {
				return nil
			}
			d, err := document[V](doc)
			if err != nil {
				return err
			}
			return s.Put(ctx, d)
		})
	}
	if k.Detail == nil {
		k.Detail = func() []byte { return nil }
	}
	k.read = func(doc inbox.Doc) (any, []*wire.Error) {
		content, errs := s.Parse(doc)
		if len(errs) > 0 {
			return nil, errs
		}
		return content, nil
	}
	k.check = func(doc inbox.Doc) []*wire.Error {
		content, read := doc.Content.(V)
		if s.Check == nil || !read {
			return nil
		}
		return s.Check(Document[V]{doc, content})
	}
	k.inForce = func(doc inbox.Doc) *wire.Error {
		d, err := document[V](doc)
		if err == nil && s.InForce != nil {
			s.InForce(d)
		}
		return err
	}
	return k
}

// document gives a document its content back.
func document[V any](doc inbox.Doc) (Document[V], *wire.Error) {
	content, ok := doc.Content.(V)
	if doc.Exists() && !ok {
		return Document[V]{}, wire.New(wire.CodeNotSupported, "",
			fmt.Sprintf("this agent cannot read the saved document of epoch %d rev %d", doc.Stamp.Epoch, doc.Stamp.Rev))
	}
	return Document[V]{doc, content}, nil
}

// Check reads a document that came, and says what its format or this node has against it.
func (k Kind) Check(doc inbox.Doc) (content any, errs []*wire.Error) {
	content, errs = k.read(doc)
	if len(errs) == 0 {
		doc.Content = content
		errs = k.check(doc)
	}
	return content, errs
}

// Load reads the documents of a kind that were saved. One that this agent cannot read has no content: a newer
// agent may have saved it.
func (k Kind) Load(saved inbox.Durable) inbox.Durable {
	for _, doc := range []*inbox.Doc{&saved.Running, &saved.Flight.Doc} {
		if doc.Exists() && len(doc.Body) > 0 {
			doc.Content, _ = k.read(*doc) // who needs the content says that there is none
		}
	}
	return saved
}

// InForce tells the kind which document the node goes by now. The error is of one that cannot be read; the kind
// goes on by the document before it.
func (k Kind) InForce(doc inbox.Doc) *wire.Error { return k.inForce(doc) }

// putter is the Placer of a Put. It is no generic type: each of those makes the agent larger.
type putter func(ctx context.Context, doc inbox.Doc) *wire.Error

func (put putter) Apply(ctx context.Context, job inbox.Apply) inbox.Applied {
	return inbox.Applied{Stamp: job.Doc.Stamp, Err: put(ctx, job.Doc)}
}

func (put putter) Restore(ctx context.Context, job inbox.Restore) inbox.Restored {
	return inbox.Restored{Stamp: job.From.Stamp, Err: put(ctx, job.Good)}
}

func (put putter) Verify(ctx context.Context, job inbox.Verify) inbox.Verified {
	return inbox.Verified{Err: put(ctx, job.Want)}
}

// Method is a request that a kind answers.
type Method struct {
	// Order says that the node is not what it was before: the request is noted on the disk, and taken once.
	Order bool
	// Read reads the parameters, and returns what answers the request with this ID. It and that are called on the
	// owner's goroutine.
	Read func(params jsontext.Value) (do func(id string, answer Answer), err *wire.Error)
}

// Answer sends the result of a request, or the error. It is called once, on the owner's goroutine.
type Answer func(result []byte, err *wire.Error)

// Params is the Read of a Method whose parameters are a message of the wire.
func Params[P wire.Message](do func(p *P, id string, answer Answer)) (
	read func(jsontext.Value) (func(id string, answer Answer), *wire.Error)) {

	return func(params jsontext.Value) (func(string, Answer), *wire.Error) {
		p, err := wire.Decode[P](params)
		if err != nil {
			return nil, wire.AsError(err)
		}
		return func(id string, answer Answer) { do(p, id, answer) }, nil
	}
}
