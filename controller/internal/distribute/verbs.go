package distribute

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// What every source of documents can be asked for. An unknown name of a source is a CodeNotSupported.

// Kinds returns the kinds that there are.
func (c *Core) Kinds() kind.Set { return c.cfg.Kinds }

// SourceStatus returns the state of a source, and how far the nodes have come with it. A readable copy is looked at
// first, beside the loop; only if it does not agree with the state is it judged.
func (c *Core) SourceStatus(ctx context.Context, source wire.Kind) (s view.SourceStatus, err error) {
	src, err := c.documents(source)
	if err != nil {
		return s, err
	}
	defer func() {
		if b := c.roadNow(); !b.Up {
			s.NoBroker = cmp.Or(b.Error, "not connected yet")
		}
	}()
	damaged := false
	see := func() error {
		return c.see(ctx, func(f *fleet.Fleet) { s, damaged = f.Status(source), f.Damage(source) != nil })
	}
	if err := see(); err != nil || !src.Copied || c.cfg.Copy == "" {
		return s, err
	}
	ev, _ := c.readCopy()
	if whole := ev.Missing || ev.Known && ev.Error == nil; damaged || whole == (s.State == kind.Failed) {
		switch err := c.checkCopy(ctx); {
		case err != nil && c.Refusing() != nil: // it cannot be judged now, and the state is shown as it is
			return s, nil
		case err != nil:
			return s, err
		}
		err = see()
	}
	return s, err
}

// Document returns a version of a source's document as it was submitted; "" is the installed one. What is secret is
// hidden from those who may only view the unit.
func (c *Core) Document(ctx context.Context, source wire.Kind, version string) ([]byte, error) {
	src, err := c.documents(source)
	if err != nil {
		return nil, err
	}
	r, err := c.reading(ctx, src, version)
	if err != nil {
		return nil, err
	}
	return public(ctx, src, r.Document)
}

// public returns a document as whoever asks may see it.
func public(ctx context.Context, src *kind.Source, document []byte) ([]byte, error) {
	if src.Hide == nil || !caller.OnlyViews(ctx) {
		return document, nil
	}
	return src.Hide(document)
}

// reading returns a version of a source's document as it is read again; "" is the installed one.
// Working on it may be given up when ctx ends.
func (c *Core) reading(ctx context.Context, src *kind.Source, version string) (r kind.Reading, err error) {
	hash := ""
	if version == "" {
		var state kind.State
		if err := c.see(ctx, func(f *fleet.Fleet) { state = f.State(src.Name) }); err != nil {
			return r, err
		}
		if state.Hash == "" {
			return r, wire.New(wire.CodeNotFound, "", src.Missing())
		}
		r, hash = kind.Reading{Version: state.Version, Lenient: state.Lenient, Stored: true}, state.Hash
	} else {
		history, err := c.History(ctx, src.Name)
		if err != nil {
			return r, err
		}
		v, err := acceptedAs(history.Versions, version)
		if err != nil {
			return r, err
		}
		r, hash = kind.Reading{Version: v.Version, Lenient: v.Lenient, Stored: true}, v.Hash
	}
	r.Stop = ctx.Err
	r.Document, err = c.body(hash)
	return r, err
}

// acceptedAs finds the newest acceptance of a version.
func acceptedAs(history []view.Version, version string) (view.Version, error) {
	for _, v := range slices.Backward(history) {
		if v.Version == version && v.State == "accepted" {
			return v, nil
		}
	}
	return view.Version{}, wire.New(wire.CodeNotFound, "", fmt.Sprintf("version %.100q was never accepted, or is not "+
		"kept any more", version))
}

// History returns what happened to a source, in order.
func (c *Core) History(ctx context.Context, source wire.Kind) (op.History, error) {
	j, err := c.reader(ctx)
	if err != nil {
		return op.History{}, err
	}
	all := []view.Version{}
	err = j.Scan(journal.Filter{Kind: string(source), Types: historyTypes}, func(r record.Record) error {
		v, err := fleet.HistoryEntry(&r)
		if err == nil {
			all = append(all, v)
		}
		return err
	})
	return op.History{Versions: all}, err
}

// Diff returns what changes from one version of a source's document to another.
func (c *Core) Diff(ctx context.Context, source wire.Kind, in op.DiffIn) (v view.Diff, err error) {
	src, err := c.documents(source)
	if err != nil {
		return v, err
	}
	terr := c.inReadersTurn(ctx, func() { v, err = c.diff(ctx, src, in) })
	return v, cmp.Or(terr, err)
}

func (c *Core) diff(ctx context.Context, src *kind.Source, in op.DiffIn) (v view.Diff, err error) {
	from, err := c.reading(ctx, src, in.From)
	if err != nil {
		return v, err
	}
	to, err := c.reading(ctx, src, in.To)
	if err != nil {
		return v, err
	}
	v = view.Diff{From: from.Version, To: to.Version, Changes: []view.Change{}}
	if bytes.Equal(from.Document, to.Document) {
		return v, nil
	}
	all, err := src.Changes(from, to)
	if src.Secret != nil && caller.OnlyViews(ctx) {
		all.Conceal(src.Secret, workload.Hidden)
	}
	if all.List != nil {
		v.Changes, v.Omitted = all.List, all.Omitted
	}
	return v, err
}

// Retry sends what is made from a source again to the nodes that have failed at it or have drifted.
func (c *Core) Retry(ctx context.Context, source wire.Kind) (view.Result, error) {
	src, err := c.documents(source)
	if err != nil {
		return view.Result{}, err
	}
	if src.Copied {
		if err := c.checkCopy(ctx); err != nil {
			return view.Result{}, err
		}
	}
	who := caller.From(ctx).Who()
	return c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Retry{Ticket: t, Source: source, Who: who}
	})
}

// Confirm keeps what is on trial of a source.
func (c *Core) Confirm(ctx context.Context, source wire.Kind) (view.Result, error) {
	who := caller.From(ctx).Who()
	return c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Confirm{Ticket: t, Source: source, Who: who}
	})
}

// Restore writes the journal's document over a damaged readable copy.
func (c *Core) Restore(ctx context.Context, source wire.Kind) (view.SourceStatus, error) {
	who := caller.From(ctx).Who()
	if err := c.checkCopy(ctx); err != nil {
		return view.SourceStatus{}, err
	}
	if _, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.Restore{Ticket: t, Who: who} }); err != nil {
		return view.SourceStatus{}, err
	}
	return c.SourceStatus(ctx, source)
}

// Rollback submits the document of an earlier version of a source again, under a new version.
func (c *Core) Rollback(ctx context.Context, source wire.Kind, in op.Rollback) (view.Result, error) {
	src, err := c.documents(source)
	if err != nil {
		return view.Result{}, err
	}
	r, err := c.reading(ctx, src, in.Version)
	if err != nil {
		return view.Result{}, err
	}
	s := view.Submission{
		Kind: source, Document: r.Document, Version: in.As, Lenient: r.Lenient,
		Who: caller.From(ctx).Who(), Via: viaRollback,
	}
	if src.Rename != nil {
		s.Version = ""
		if s.Document, err = src.Rename(r.Document, in.As); err != nil {
			return view.Result{}, err
		}
	}
	return c.Submit(ctx, s)
}
