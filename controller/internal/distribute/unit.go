package distribute

import (
	"context"
	"fmt"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// parse does the part of a submission that needs no state.
func (c *Core) parse(s view.Submission, ticket uint64) fleet.Submit {
	ev := fleet.Submit{Ticket: ticket, Sub: s, Hash: wire.Hash(s.Document)}
	doc := kind.Reading{Document: s.Document, Version: s.Version, Lenient: s.Lenient}
	ev.Parsed = c.cfg.Kinds.Source(s.Kind).Parse(doc)
	return ev
}

// inTurn does something with a document of a source. Heavy ones have to wait for each other: each may take some
// hundred MiB while it is worked out.
func (c *Core) inTurn(ctx context.Context, src *kind.Source, do func()) error {
	if src.Heavy {
		select {
		case c.heavyParse <- struct{}{}:
			defer func() { <-c.heavyParse }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	do()
	return nil
}

// documents returns the source of submissions of this name. One that is not known is refused by its name.
func (c *Core) documents(name wire.Kind) (*kind.Source, error) {
	if src := c.cfg.Kinds.Source(name); src != nil && src.Parse != nil {
		return src, nil
	}
	return nil, wire.New(wire.CodeNotSupported, "/kind", fmt.Sprintf("no submission is of kind %.80q", name))
}

// Submit judges a document and, unless it is a dry run, journals and issues it.
func (c *Core) Submit(ctx context.Context, s view.Submission) (view.Result, error) {
	src, err := c.documents(s.Kind)
	if err != nil {
		return view.Result{}, err
	}
	if src.Copied {
		if err := c.checkCopy(ctx); err != nil {
			return view.Result{}, err
		}
	}
	if s.ID == "" {
		s.ID = fmt.Sprintf("s-%x", c.cfg.Now().UnixNano())
	}
	var ev fleet.Submit
	if err := c.inTurn(ctx, src, func() { ev = c.parse(s, 0) }); err != nil {
		return view.Result{}, err
	}
	return c.order(ctx, func(ticket uint64) fleet.Event {
		ev.Ticket = ticket
		return ev
	})
}

// checkCopy looks at the readable copy before a submission is judged by it.
func (c *Core) checkCopy(ctx context.Context) error {
	if c.cfg.Copy == "" {
		return nil
	}
	return c.look(ctx, func(*fleet.Fleet) {
		if !c.copyDue {
			c.judgeCopy() // here, so that nothing happens between the look and the verdict
			c.commit()
		}
	})
}

// Confirm keeps the configuration on trial.
func (c *Core) Confirm(ctx context.Context) (view.Result, error) {
	return c.confirm(ctx, wire.KindConfig)
}

// confirm keeps what is on trial of a source.
func (c *Core) confirm(ctx context.Context, source wire.Kind) (view.Result, error) {
	who := caller.From(ctx).Who()
	return c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Confirm{Ticket: t, Source: source, Who: who}
	})
}

// Remark writes a note into the journal and returns when it is durable.
func (c *Core) Remark(ctx context.Context, r view.Remark) error {
	who := caller.From(ctx).Who()
	_, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.Remark{Ticket: t, Who: who, Data: r} })
	return err
}

// Restore writes the journal's configuration over a damaged copy.
func (c *Core) Restore(ctx context.Context) (view.ConfigStatus, error) {
	who := caller.From(ctx).Who()
	if err := c.checkCopy(ctx); err != nil {
		return view.ConfigStatus{}, err
	}
	if _, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.Restore{Ticket: t, Who: who} }); err != nil {
		return view.ConfigStatus{}, err
	}
	return c.ConfigStatus(ctx)
}

// Rollback submits the content of an earlier version under a new one.
func (c *Core) Rollback(ctx context.Context, in op.Rollback) (view.Result, error) {
	return c.rollback(ctx, wire.KindConfig, in.Version, in.As)
}

// rollback submits the document of an earlier version of a source again, under a new version.
func (c *Core) rollback(ctx context.Context, source wire.Kind, version, as string) (view.Result, error) {
	src, err := c.documents(source)
	if err != nil {
		return view.Result{}, err
	}
	doc, err := c.document(ctx, src, version)
	if err != nil {
		return view.Result{}, err
	}
	s := view.Submission{Kind: source, Document: doc, Version: as, Who: caller.From(ctx).Who(), Via: "rollback"}
	if src.Rename != nil {
		s.Version = ""
		if s.Document, err = src.Rename(doc, as); err != nil {
			return view.Result{}, err
		}
	}
	return c.Submit(ctx, s)
}
