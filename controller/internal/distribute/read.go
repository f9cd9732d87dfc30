package distribute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// reader returns the journal for reading beside the loop.
func (c *Core) reader(ctx context.Context) (j *journal.Journal, err error) {
	err = c.see(ctx, func(*fleet.Fleet) { j = c.journal.Load() })
	return j, err
}

// Node returns one node.
func (c *Core) Node(ctx context.Context, in op.NodeIn) (v view.Node, err error) {
	found := false
	err = c.see(ctx, func(f *fleet.Fleet) {
		v, found = f.Show(in.Node)
		if v.Identity = f.Identity(in.Node, c.cfg.Now()); v.Identity != nil {
			v.Node, found = in.Node, true // it may not have connected yet
		}
	})
	if err == nil && !found {
		err = wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.100q has never been heard of", in.Node))
	}
	return v, err
}

// Status returns the unit at a glance.
func (c *Core) Status(ctx context.Context) (view.UnitStatus, error) {
	s := view.UnitStatus{Unit: c.cfg.Unit, Version: c.cfg.Version, Started: c.started, Broker: c.roadNow()}
	src := c.cfg.Kinds.Copied()
	var newest kind.Content // desired status
	var backedUp, wanted time.Time
	err := c.see(ctx, func(f *fleet.Fleet) {
		newest, backedUp, wanted = f.Content(record.KindWanted), f.LastBackup(), f.BackupsFrom()
		s.Epoch, s.Rev = c.journal.Load().Epoch(), f.Seq()
		if src != nil {
			s.Config = f.Status(src.Name)
		}
		s.Maintenance = f.MaintenanceView()
		s.InError, _ = f.InError()
		s.Trouble = f.Trouble()
		if c.copyErr != nil {
			text := "the readable copy of the unit configuration cannot be written: " + c.copyErr.Error()
			s.Trouble = append(s.Trouble, text)
		}
		if c.broken != nil {
			s.Trouble = append(s.Trouble, wire.AsError(c.broken).Message)
		}
	})
	if err == nil {
		s.Cloud = c.followed(newest)
		if text := c.lateBackup(backedUp, wanted); text != "" {
			s.Trouble = append(s.Trouble, text)
		}
		if text := c.unreadable(newest); text != "" {
			s.Trouble = append(s.Trouble, text)
		}
	}
	if w, ok := errors.AsType[*wire.Error](err); ok && w.Code == wire.CodeStorage {
		// This is when somebody looks: what is known without the journal is shown.
		s.Trouble, err = append(s.Trouble, w.Message), nil
	}
	if e := s.Config.Error; e != nil {
		s.Trouble = append(s.Trouble, "the "+src.Title+" is failed: "+e.Error())
	}
	if !s.Broker.Up {
		s.Trouble = append(s.Trouble, "no session with the broker: "+s.Broker.Error)
	}
	if s.Clock = c.jumpView(); s.Clock != nil {
		j, _ := c.jump()
		s.Trouble = append(s.Trouble, "nothing is said to the nodes: "+jumpText(j))
	}
	if text := c.untrimmed.Load(); text != nil {
		s.Trouble = append(s.Trouble, *text)
	}
	if r := c.room.Load(); r != nil && r.text != "" {
		s.Trouble = append(s.Trouble, r.text)
	}
	s.Trouble = append(s.Trouble, c.artefacts.Trouble()...)
	s.Trouble = append(s.Trouble, c.follow.trouble()...)
	if c.cfg.Trouble != nil {
		s.Trouble = append(s.Trouble, c.cfg.Trouble()...)
	}
	if n := s.Config.Progress.Failed; n > 0 {
		s.Trouble = append(s.Trouble, kind.Many(n, "node")+" did not take the newest "+src.Noun)
	}
	return s, err
}

// Entries returns journal entries, fewer than asked for if they have view.EntriesSize bytes. A type that is no record
// type is an event's own.
func (c *Core) Entries(ctx context.Context, f view.EntryFilter) ([]view.Entry, error) {
	j, err := c.reader(ctx)
	if err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = 1000
	}
	filter := journal.Filter{From: f.From, To: f.To, Node: f.Node, Reverse: f.Reverse}
	events := map[string]bool{}
	for _, name := range f.Types {
		if t, ok := record.ParseType(name); ok {
			filter.Types = append(filter.Types, t)
			if t == record.Event {
				events[""] = true
			}
		} else {
			events[name] = true
		}
	}
	if len(events) > 0 && !events[""] {
		filter.Types = append(filter.Types, record.Event)
	}
	if len(f.Types) == 1 && len(events) == 1 && !events[""] {
		filter.Kind = f.Types[0] // the others need not be proved
	}
	ofSlot := f.Slot != workload.Slot{}
	if ofSlot {
		filter.Node, filter.OrUnit = f.Slot.Node, true
		if len(f.Types) == 0 {
			filter.Types = []record.Type{record.Event, record.Request, record.Settings}
		}
	}
	all, size := []view.Entry{}, 0
	err = j.Scan(filter, func(r record.Record) error {
		if ofSlot && !aboutSlot(&r, f.Slot) {
			return ctx.Err()
		}
		if r.Type == record.Event && len(events) > 0 && !events[""] && !events[r.Kind] {
			return nil
		}
		e := c.entry(&r)
		all = append(all, e)
		if size += len(e.Data); len(all) >= f.Limit || size >= view.EntriesSize {
			return journal.ErrStop
		}
		return ctx.Err()
	})
	return all, err
}

// aboutSlot reports whether an entry is about a workload slot of its node: an event about it, or an order to it.
func aboutSlot(r *record.Record, slot workload.Slot) bool {
	var d struct {
		Slot   string `json:"slot"` // stopped or started
		Detail struct {
			Slot string `json:"slot"`
		} `json:"detail"`
		Params struct {
			Service string `json:"service"`
		} `json:"params"`
	}
	switch {
	case r.Node != "" && r.Node != slot.Node, json.Unmarshal(r.Data, &d) != nil:
		return false
	case r.Type == record.Settings:
		return d.Slot == slot.String()
	case r.Type == record.Event:
		return d.Detail.Slot == slot.String()
	}
	return r.Type == record.Request && d.Params.Service == slot.Service
}

// Verify checks the journal's chain and bodies.
func (c *Core) Verify(ctx context.Context) (op.Verification, error) {
	j, err := c.reader(ctx)
	if err != nil {
		return op.Verification{}, err
	}
	r, err := j.Verify(ctx)
	if err != nil {
		return op.Verification{}, err
	}
	return op.Verification{OK: r.OK(), Report: r.String()}, nil
}

// Export writes the journal as JSON lines.
func (c *Core) Export(ctx context.Context, w io.Writer) error {
	j, err := c.reader(ctx)
	if err != nil {
		return err
	}
	return j.Export(w, journal.Filter{})
}

// Backup writes a consistent copy of the journal's file.
func (c *Core) Backup(ctx context.Context, w io.Writer) error {
	j, err := c.reader(ctx)
	if err != nil {
		return err
	}
	w, end, err := c.beginCopy(w)
	if err != nil {
		return err
	}
	defer end()
	return j.Backup(w)
}

func (c *Core) setRoad(up bool, why string) {
	c.roadMu.Lock()
	defer c.roadMu.Unlock()
	if c.road.Up != up || c.road.Since.IsZero() {
		c.road.Since = c.cfg.Now()
	}
	c.road.Up, c.road.Error = up, why
	c.wakeFollowers()
}

func (c *Core) roadNow() view.Broker {
	c.roadMu.Lock()
	defer c.roadMu.Unlock()
	return c.road
}
