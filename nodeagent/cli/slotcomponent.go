package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// handed is one component as a person at the node works on it: its record says what is wanted, and the
// agent does it.
type handed struct {
	*disk.Store
	slots    slots
	stateDir string
	out      printer
}

func openComponent(slots slots, stateDir, name string, out printer) (handed, error) {
	if _, err := components(stateDir, name); err != nil {
		return handed{}, err
	}
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return handed{}, fmt.Errorf("state directory: %w", err)
	}
	store := disk.OpenStore(dir, name, nil)
	store.Publishers = slots.publishers
	return handed{store, slots, dir, out}, nil
}

// byHand is who gives an order here.
const byHand = "somebody at the node"

// order puts an order to what the record says.
func order(o update.Order, obstacle string) func(update.Record) (update.Record, error) {
	return func(r update.Record) (update.Record, error) {
		next, effects := update.New(r).Step(update.Now{Now: clock.Now{Wall: time.Now()}, Obstacle: obstacle}, o)
		for _, e := range effects {
			if a, ok := e.(update.Answer); ok && a.Err != nil {
				return r, errors.New(a.Err.Message)
			}
		}
		return next.Record, nil
	}
}

func (h handed) stage(ctx context.Context, from source, cfg stageConfig) error {
	if cfg.Version == "" {
		return errors.New("a component's file does not say its version: --version does")
	}
	src := slot.Source{Version: cfg.Version, Hash: wholeHash(cfg.Hash), Signature: from.signature}
	o, err := h.StageFrom(ctx, from, src, time.Now(),
		func(r update.Record, o update.Order) (update.Record, error) {
			o.Force = cfg.Force
			return order(o, "")(r)
		})
	if err != nil {
		return err
	}
	return h.say("component %s: version %s (%s) is there for the agent to install; then try it: tandem-node slot try "+
		"--component %s%s", h.Name, o.Version, o.Hash, h.Name, cfg.where())
}

func (h handed) try(rest []string, cfg tryConfig) error {
	if len(rest) > 0 {
		return fmt.Errorf("a component has no slots to choose from: %.40q", rest[0])
	}
	obstacle := ""
	err := h.slots.Alone(func() error { return disk.Busy(h.stateDir, h.Name) })
	if errors.Is(err, record.ErrTrial) {
		obstacle = err.Error()
	} else if err != nil {
		return err
	}
	o := update.Order{What: update.OrderTry, By: byHand, Version: cfg.Version, Force: cfg.Force}
	if err := h.Update(time.Now(), func(r update.Record) (update.Record, error) {
		if r.Phase == update.Installing || r.Phase == update.Staged {
			if err := h.Signed(r.Version, r.Signature, nil); err != nil {
				return r, err
			}
		}
		return order(o, obstacle)(r)
	}); err != nil {
		return err
	}
	return h.say("component %s: what is staged is tried as soon as it is installed; what becomes of it: tandem-node "+
		"slot status", h.Name)
}

// end approves, commits or rolls back.
func (h handed) end(what update.What, why string) error {
	if err := h.Update(time.Now(), order(update.Order{What: what, By: byHand, Detail: why}, "")); err != nil {
		return err
	}
	if what == update.OrderApprove {
		return h.say("component %s: it may be kept: the agent sees it within a minute, and commits once nothing "+
			"else is missing", h.Name)
	}
	return h.say("component %s: the agent does it; what becomes of it: tandem-node slot status", h.Name)
}

func (h handed) clear(version string) error {
	o := update.Order{What: update.OrderClear, By: byHand, Version: version}
	if err := h.Update(time.Now(), order(o, "")); err != nil {
		return err
	}
	return h.say("component %s: cleared: it is staged and tried again like any other version", h.Name)
}

func (h handed) say(format string, args ...any) error {
	r, err := h.Read()
	if err != nil {
		return err
	}
	return h.out.say(statusOf(h.Name, r), format, args...)
}

// componentStatus is a component as slot status --json has it.
type componentStatus struct {
	wire.HealthComponent
	Phase      update.Phase        `json:"phase,omitempty"`
	Try        bool                `json:"try,omitzero"` // as soon as it is staged
	Last       update.Outcome      `json:"last,omitzero"`
	Quarantine []wire.HealthFailed `json:"quarantine,omitempty"`
}

func statusOf(name string, r update.Record) componentStatus {
	return componentStatus{r.Component(name), r.Phase, r.Try != "", r.Last, r.Quarantine}
}

// components are those that the agent cares for: all, or that of one name.
func components(stateDir, only string) (list []componentStatus, err error) {
	names, err := disk.Names(stateDir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if only != "" && name != only {
			continue
		}
		r, err := disk.OpenStore(stateDir, name, nil).Read()
		if err != nil {
			return nil, err
		}
		if !r.Off {
			list = append(list, statusOf(name, r))
		}
	}
	if only != "" && len(list) == 0 {
		if !topic.ValidName(only) {
			return nil, fmt.Errorf("%.80q is not the name of a component", only)
		}
		return nil, fmt.Errorf("there is no component %s: the agent's setting --component names the components, once "+
			"it has been started with it", only)
	}
	return list, nil
}

func sayComponents(list []componentStatus, out printer) error {
	w := tabwriter.NewWriter(out.w, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(w, "COMPONENT\tSTATE\tVERSION\tNEXT\tWHAT\t"); err != nil {
		return err
	}
	for _, c := range list {
		text := c.Text
		if c.Try {
			text += ", to be tried"
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", c.Name, c.State, dash(c.Version), dash(c.Next),
			dash(text)); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, c := range list {
		if err := sayQuarantine(c.Name, c.Quarantine, out); err != nil {
			return err
		}
	}
	return nil
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
