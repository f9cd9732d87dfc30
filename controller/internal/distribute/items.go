package distribute

import (
	"context"
	"fmt"
	"io"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	update "tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Items lists the update items.
func (c *Core) Items(ctx context.Context, in op.ItemsIn) (v view.Items, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) {
		v = items.ListItems(f, update.Type(in.Type), update.State(in.State))
	})
	return v, err
}

// Item shows one.
func (c *Core) Item(ctx context.Context, in op.ItemIn) (view.Item, error) {
	return look(ctx, c, func(f *fleet.Fleet) (view.Item, *wire.Error) { return items.ShowItem(f, in.Ref()) })
}

// CreateItem creates an item, or only says whether it would.
func (c *Core) CreateItem(ctx context.Context, in op.CreateItemIn) (v view.ItemChange, err error) {
	id, err := newUUID(c.cfg.Random)
	if err != nil {
		return v, err
	}
	d, bad := items.Creation(in.Document, id)
	if bad != nil {
		return v, bad
	}
	if in.DryRun {
		return c.wouldBe(ctx, d)
	}
	if v, err = c.changeItem(ctx, items.KindItems, d); err == nil {
		v.ID, v.URN = id, (&items.Item{ID: id}).URN()
	}
	return v, err
}

// newUUID returns a UUID of version 4 (RFC 9562).
func newUUID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("making an ID: %w", err)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}

// ReleaseItem releases a version, or only says whether it would.
func (c *Core) ReleaseItem(ctx context.Context, in op.ReleaseItemIn) (v view.ItemChange, err error) {
	d, bad := items.Release(in.Ref(), in.Meta, in.Content, in.State)
	if bad != nil {
		return v, bad
	}
	if in.DryRun {
		v, err = c.wouldBe(ctx, d)
	} else {
		v, err = c.changeItem(ctx, items.KindItems, d)
	}
	if err == nil {
		v.Digest = d.Content.Digest()
	}
	return v, err
}

// wouldBe says whether a change of an item would be refused.
func (c *Core) wouldBe(ctx context.Context, d items.Change) (view.ItemChange, error) {
	return look(ctx, c, func(f *fleet.Fleet) (view.ItemChange, *wire.Error) {
		return view.ItemChange{}, items.Judge(f, d)
	})
}

// ReadyItem has a version be deployed.
func (c *Core) ReadyItem(ctx context.Context, in op.ItemVersionIn) (view.ItemChange, error) {
	return c.changeItem(ctx, items.KindItems,
		items.Change{Type: in.Ref().Type, Codename: in.Item, Version: in.Version, State: update.Ready})
}

// DeprecateItem has a version not be deployed anew.
func (c *Core) DeprecateItem(ctx context.Context, in op.ItemVersionIn) (view.ItemChange, error) {
	return c.changeItem(ctx, items.KindItems,
		items.Change{Type: in.Ref().Type, Codename: in.Item, Version: in.Version, State: update.Deprecated})
}

// RemoveItemVersion removes a version.
func (c *Core) RemoveItemVersion(ctx context.Context, in op.ItemVersionIn) (view.ItemChange, error) {
	return c.changeItem(ctx, items.KindItems,
		items.Change{Type: in.Ref().Type, Codename: in.Item, Version: in.Version, Removed: true})
}

// RemoveItem removes an item.
func (c *Core) RemoveItem(ctx context.Context, in op.ItemIn) (view.ItemChange, error) {
	return c.changeItem(ctx, items.KindItems,
		items.Change{Type: in.Ref().Type, Codename: in.Item, Removed: true})
}

// changeItem changes items or subjects.
func (c *Core) changeItem(ctx context.Context, source wire.Kind, data any) (view.ItemChange, error) {
	who := caller.From(ctx).Who()
	r, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Change{Ticket: t, Source: source, Data: data, Who: who}
	})
	if err == nil && r.State == fleet.Unchanged {
		return view.ItemChange{Unchanged: true}, nil
	}
	return view.ItemChange{Rev: r.Rev}, err
}

// ItemHistory lists what happened to the items of one name.
func (c *Core) ItemHistory(ctx context.Context, in op.ItemIn) (view.ItemHistory, error) {
	past := &items.Past{Of: in.Ref()}
	if err := c.scan(ctx, items.KindItems, adds(past.Add), record.Settings); err != nil {
		return view.ItemHistory{}, err
	}
	return past.History()
}

// adds gives each change of a collection to add.
func adds[D any](add func(kind.Change, *D)) func(kind.Change, *record.Record) error {
	return func(at kind.Change, r *record.Record) error {
		d, err := dataOf[D](r)
		if err == nil {
			add(at, &d)
		}
		return err
	}
}

// Subjects lists the subjects.
func (c *Core) Subjects(ctx context.Context) (v view.Subjects, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v = items.ListSubjects(f) })
	return v, err
}

// Subject shows one.
func (c *Core) Subject(ctx context.Context, in op.SubjectIn) (view.Subject, error) {
	return look(ctx, c, func(f *fleet.Fleet) (view.Subject, *wire.Error) { return items.ShowSubject(f, in.Subject) })
}

// ApplySubject sets a subject.
func (c *Core) ApplySubject(ctx context.Context, in op.ApplySubjectIn) (v view.ItemChange, err error) {
	s, problems := update.ParseSubject(in.Document)
	if problems != nil {
		return v, problems.First()
	}
	v, err = c.changeItem(ctx, items.KindSubjects,
		items.SubjectChange{Codename: in.Subject, Subject: s, From: in.From})
	if err != nil {
		return v, err
	}
	if err := c.see(ctx, func(f *fleet.Fleet) {
		v.Unknown, v.Warnings = items.UnknownNodes(f, s), items.UnknownItems(f, s)
	}); err != nil {
		return v, err
	}
	return c.subjectsCount(v), nil
}

// RemoveSubject removes a subject.
func (c *Core) RemoveSubject(ctx context.Context, in op.SubjectIn) (view.ItemChange, error) {
	v, err := c.changeItem(ctx, items.KindSubjects, items.SubjectChange{Codename: in.Subject, Removed: true})
	if err != nil {
		return v, err
	}
	return c.subjectsCount(v), nil
}

// subjectsCount says with a change of a subject if it has no effect.
func (c *Core) subjectsCount(v view.ItemChange) view.ItemChange {
	if c.cfg.Cloud {
		v.Warnings = append(v.Warnings, "the cloud side steers (--steering cloud): what subjects say here "+
			"does not count")
	}
	return v
}

// SubjectHistory lists what happened to the subjects of one name.
func (c *Core) SubjectHistory(ctx context.Context, in op.SubjectIn) (view.ItemHistory, error) {
	past := &items.PastSubject{Of: in.Subject}
	if err := c.scan(ctx, items.KindSubjects, adds(past.Add), record.Settings); err != nil {
		return view.ItemHistory{}, err
	}
	return past.History()
}
