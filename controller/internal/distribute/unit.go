package distribute

import (
	"context"
	"fmt"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// parse does the part of a submission that needs no state.
func (c *Core) parse(s view.Submission, ticket uint64) fleet.Submit {
	ev := fleet.Submit{Ticket: ticket, Sub: s, Hash: wire.Hash(s.Document)}
	if s.Kind == wire.KindWorkloads {
		ev.Version = s.Version
		ev.Placement, ev.Warnings, ev.Problems = place(s.Document, s.Lenient)
		return ev
	}
	uc, problems := unitconfig.Parse(s.Document)
	if len(problems) > 0 {
		ev.Problems = problems
		return ev
	}
	ev.Version, ev.Resolver = uc.Version, unitconfig.NewResolver(uc)
	if err := tooLarge(uc, ev.Resolver); err != nil {
		ev.Problems = []*wire.Error{err}
	}
	return ev
}

// tooLarge refuses a configuration with an entry that no envelope could carry.
func tooLarge(uc *unitconfig.UnitConfig, r *unitconfig.Resolver) *wire.Error {
	for i, e := range uc.Nodes {
		node := ""
		if e.Node != nil {
			node = e.Node.Codename
		}
		body, _, src := r.Body(node, e.NodeGroupSubject.Codename)
		if src.Entry == i && len(body) > wire.MaxBody {
			return wire.New(wire.CodeTooLarge, src.Pointer(), fmt.Sprintf("this entry resolves to %d bytes; a node's configuration has at most %d", len(body), wire.MaxBody))
		}
	}
	return nil
}

// Submit judges a unit configuration or a set of workloads and, unless it is a dry run, journals and
// issues it.
func (c *Core) Submit(ctx context.Context, s view.Submission) (view.Result, error) {
	if s.Kind != wire.KindConfig && s.Kind != wire.KindWorkloads {
		return view.Result{}, wire.New(wire.CodeNotSupported, "/kind", fmt.Sprintf("no submission is of kind %.80q", s.Kind))
	}
	if s.Kind != wire.KindWorkloads {
		if err := c.checkCopy(ctx); err != nil {
			return view.Result{}, err
		}
	}
	if s.ID == "" {
		s.ID = fmt.Sprintf("s-%x", c.cfg.Now().UnixNano())
	}
	var ev fleet.Submit
	if err := c.inTurn(ctx, s.Kind, func() { ev = c.parse(s, 0) }); err != nil {
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
	who := caller.From(ctx).Who()
	return c.order(ctx, func(t uint64) fleet.Event { return fleet.Confirm{Ticket: t, Who: who} })
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
	doc, err := c.Config(ctx, op.VersionIn{Version: in.Version})
	if err != nil {
		return view.Result{}, err
	}
	uc, problems := unitconfig.Parse(doc)
	if len(problems) > 0 {
		return view.Result{}, problems[0]
	}
	again, err := unitconfig.WithVersion(uc, in.As)
	if err != nil {
		return view.Result{}, err
	}
	return c.Submit(ctx, view.Submission{
		Kind: wire.KindConfig, Document: unitconfig.Encode(again), Who: caller.From(ctx).Who(), Via: "rollback",
	})
}
