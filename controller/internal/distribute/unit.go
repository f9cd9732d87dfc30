package distribute

import (
	"context"
	"fmt"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// parse does the part of a submission that needs no state. What is read leniently goes on as the strict document. It
// may give up when stop, if it is not nil, returns an error.
func (c *Core) parse(s view.Submission, stop func() error) fleet.Submit {
	doc := kind.Reading{Document: s.Document, Version: s.Version, Lenient: s.Lenient, Stop: stop}
	p := c.cfg.Kinds.Source(s.Kind).Parse(doc)
	if p.Strict != nil {
		s.Document = p.Strict
	}
	ev := fleet.Submit{Sub: s, Hash: wire.Hash(s.Document), Parsed: p}
	if s.Rollout != nil {
		var problems strictjson.Problems
		ev.Plan, problems = plan.Parse(s.Rollout, time.LoadLocation)
		for _, problem := range problems {
			problem.Path = "/rollout" + problem.Path
			ev.Problems = append(ev.Problems, problem)
		}
	}
	return ev
}

// inTurn does something with a document of a source. Heavy ones have to wait for each other: each may take some
// hundred MiB while it is worked out. What was done is of no use if ctx has ended, which is the error then.
func (c *Core) inTurn(ctx context.Context, src *kind.Source, do func()) error {
	if src.Heavy {
		return inTurnOf(ctx, c.heavyParse, do)
	}
	do()
	return ctx.Err()
}

// inReadersTurn does something for somebody who reads, which takes a whole document and memory for it. Readers have a
// turn of their own, one at a time, so that they hold up no submission; where many wait already it is a
// CodeUnavailable. What was done is of no use if ctx has ended, which is the error then.
func (c *Core) inReadersTurn(ctx context.Context, do func()) error {
	if c.readers.Add(1) > maxReaders {
		c.readers.Add(-1)
		return wire.New(wire.CodeUnavailable, "", "others are having documents compared or worked out; try again soon")
	}
	defer c.readers.Add(-1)
	return inTurnOf(ctx, c.readersTurn, do)
}

// inTurnOf does something when it has a turn. What was done is of no use if ctx has ended, which is the error then.
func inTurnOf(ctx context.Context, turn chan struct{}, do func()) error {
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	do()
	return ctx.Err()
}

// maxReaders bounds those who have their turn or wait for it.
const maxReaders = 4

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
	if err := c.steered(s); err != nil {
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
	if err := c.inTurn(ctx, src, func() { ev = c.parse(s, ctx.Err) }); err != nil {
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

// Remark writes a note into the journal and returns when it is durable.
func (c *Core) Remark(ctx context.Context, r view.Remark) error {
	who := caller.From(ctx).Who()
	_, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.Remark{Ticket: t, Who: who, Data: r} })
	return err
}
