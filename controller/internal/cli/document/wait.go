package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// outcome is the result of waiting for the nodes.
type outcome struct {
	Settled  bool               `json:"settled"` // every online node has dealt with the newest document
	Replaced string             `json:"replaced,omitempty"`
	Progress view.Progress      `json:"progress"`
	Slots    *view.SlotProgress `json:"slots,omitempty"`    // of workloads and components
	NoBroker string             `json:"noBroker,omitempty"` // why the controller reaches no node
	cutOff   bool               // it reached none for a while
	lost     error              // why the last following ended, unless it was the limit
	stopped  bool               // the waiting was interrupted
	parts    bool               // Slots are components
}

const (
	retry = 300 * time.Millisecond // between attempts to follow a controller that went away
	// how long slots have to run, since a process that fails at once runs for a moment, too, and how long the
	// controller has to have a broker again
	steady = 2 * time.Second
)

// stage is the progress of a unit with the newest document.
type stage struct {
	rev      uint64   // of the newest document that nodes have to deal with
	versions []string // that count: installed, and on trial
	progress view.Progress
	slots    *view.SlotProgress // of workloads and components
	parts    bool               // of components
	noBroker string             // why the controller has no session with its broker; "": it has one
}

// settled reports whether every online node has dealt with its document, and every slot there is as it should be. That
// cannot be known of a controller without a broker, to which every node is offline.
func (s stage) settled() bool {
	return s.noBroker == "" && s.progress.OnlineMissing == 0 && (s.slots == nil || s.slots.OnlineMissing == 0)
}

// follower follows the stages of a unit until each returns client.ErrStop.
type follower func(ctx context.Context, each func(stage) error) error

// follow returns what follows the stages of a unit with the documents of the source.
func (g *group) follow(c *client.Client) follower {
	return func(ctx context.Context, each func(stage) error) error {
		return client.Follow(ctx, c, g.ops.Watch, op.Watched{Watch: true}, func(st view.SourceStatus) error {
			s := stage{rev: st.Rev, versions: []string{st.Version}, progress: st.Progress, slots: st.Slots,
				parts: g.parts, noBroker: st.NoBroker}
			if st.Trial != nil {
				s.rev = max(s.rev, st.Trial.Rev)
				s.versions = append(s.versions, st.Trial.Version)
			}
			return each(s)
		})
	}
}

// waitFor follows the unit until every online node has settled on the documents of res, another version took their
// place, the limit is over or ctx ends. It waits for a controller that goes away meanwhile.
func waitFor(ctx context.Context, a *command.App, follow follower, res view.Result, limit time.Duration) *outcome {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	o, bar := &outcome{}, a.Progress(!a.JSON)
	defer bar.End()
	for !o.follow(limited, follow, res, bar) {
		if command.Rest(limited, retry); limited.Err() != nil {
			break
		}
	}
	o.stopped = ctx.Err() != nil && !o.Settled
	return o
}

// follow follows the unit once, and reports whether the waiting is over.
func (o *outcome) follow(ctx context.Context, follow follower, res view.Result, bar *term.Progress) bool {
	heard := false
	following, enough := context.WithCancel(ctx)
	defer enough()
	pause := time.AfterFunc(time.Hour, enough) // ends the following when slots have run for long enough
	pause.Stop()
	err := follow(following, func(st stage) error {
		heard = true
		if st.rev < res.Rev {
			return nil // not there yet
		}
		o.Progress, o.Slots, o.NoBroker, o.parts = st.progress, st.slots, st.noBroker, st.parts
		o.cutOff = o.cutOff || st.noBroker != "" // nodes need a moment to come back after it
		if !slices.Contains(st.versions, res.Version) {
			o.Replaced = st.versions[len(st.versions)-1]
			return client.ErrStop
		}
		if st.progress.Nodes > 0 {
			showProgress(bar, st)
		}
		before := o.Settled
		o.Settled = st.settled()
		switch {
		case !o.Settled:
			pause.Stop()
		case !o.cutOff && (st.slots == nil || st.slots.Running == 0):
			return client.ErrStop
		case !before:
			pause.Reset(steady)
		}
		return nil
	})
	pause.Stop()
	// Slots that had not run for long enough when the limit was over do not count. A controller that went away
	// meanwhile is asked again.
	o.Settled = o.Settled && (err == nil || following.Err() != nil && ctx.Err() == nil)
	if ctx.Err() == nil {
		o.lost = err
	} else if heard {
		o.lost = nil
	}
	return o.Settled || o.Replaced != "" || ctx.Err() != nil
}

// failure returns nil if every online node took the document, else the reason with ExitIncomplete.
func (o *outcome) failure() error {
	p := o.Progress
	incomplete := func(code wire.Code, message string) error {
		return command.Refuse(command.ExitIncomplete, code, "%s", message)
	}
	switch {
	case o.Replaced != "":
		return incomplete(wire.CodeStale,
			"accepted, but "+term.Clean(o.Replaced)+" took its place before every node had it")
	case o.NoBroker != "":
		return incomplete(wire.CodeUnavailable, "accepted, but no node hears of it: the controller has no session "+
			"with its broker: "+term.Clean(o.NoBroker))
	case o.Slots != nil && (p.Nodes > 0 || o.Settled):
		return o.slotFailure(incomplete)
	case o.Settled && p.Failed == 0:
		return nil
	case o.Settled:
		return incomplete(wire.CodeApplyFailed, o.nodesFailed())
	case p.Nodes == 0:
		why := "nothing was heard of the nodes " + o.when()
		if u, ok := errors.AsType[*client.Unreachable](o.lost); ok {
			why = "the controller went away: " + u.Hint
		}
		return incomplete(wire.CodeTimeout, "accepted, but "+why)
	}
	return incomplete(wire.CodeTimeout, "accepted, but "+o.nodesMissing())
}

func (o *outcome) nodesFailed() string {
	failed := term.Plural(o.Progress.Failed, "node")
	return fmt.Sprintf("accepted, but %s did not take it:\n%s", failed, lines(o.Progress, settled))
}

func (o *outcome) nodesMissing() string {
	p := o.Progress
	return fmt.Sprintf("only %d of %s had it %s:\n%s",
		p.Installed, term.Plural(p.Nodes, "node"), o.when(), lines(p, anyone))
}

func (o *outcome) when() string {
	if o.stopped {
		return "when the waiting was interrupted"
	}
	return "in time"
}

// words describes a successful outcome.
func (o *outcome) words() string {
	p := o.Progress
	switch {
	case o.Slots != nil:
		return o.slotWords()
	case p.Nodes == 0:
		return "no node is known yet; each gets it when it connects"
	case len(p.Missing) > 0:
		return fmt.Sprintf("%d of %s have it; offline, and get it when back: %s",
			p.Installed, term.Plural(p.Nodes, "node"), listing(p, anyone, false))
	}
	return "every node has it (" + term.Plural(p.Nodes, "node") + ")"
}

// Selections of laggards for a text.
func anyone(view.Laggard) bool      { return true }
func settled(l view.Laggard) bool   { return l.State.Settled() }
func unsettled(l view.Laggard) bool { return !l.State.Settled() }

// listing names laggards on one line, with their states if wanted; "" if there are none.
func listing(p view.Progress, which func(view.Laggard) bool, states bool) string {
	var all []string
	for _, l := range p.Missing {
		switch {
		case !which(l):
		case states:
			all = append(all, l.Node+" ("+command.LaggardState(l)+")")
		default:
			all = append(all, l.Node)
		}
	}
	return term.List(all)
}

// lines lists laggards and why, each on a line.
func lines(p view.Progress, which func(view.Laggard) bool) string {
	var b strings.Builder
	n := 0
	for _, l := range p.Missing {
		if !which(l) {
			continue
		}
		if n++; n > 1 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  %s: %s", l.Node, describe(l))
	}
	if p.Omitted > 0 {
		fmt.Fprintf(&b, "\n  and perhaps %d more", p.Omitted)
	}
	return term.ShortenLines(b.String(), wire.MaxMessage-128)
}

func describe(l view.Laggard) string {
	s := command.LaggardState(l)
	if !l.Online && l.State != "" {
		s += ", offline"
	}
	if l.Error != nil {
		s += ": " + command.Brief(l.Error)
	}
	return s
}

// showProgress shows a stage: how far the nodes are, and who is late.
func showProgress(bar *term.Progress, of stage) {
	p := of.progress
	text, done, total := fmt.Sprintf("%d/%d nodes", p.Installed, p.Nodes), p.Installed, p.Nodes
	if s := of.slots; s != nil {
		done, total = s.Running+s.Completed, s.Slots
		text += fmt.Sprintf(", %d/%d %s", done, total, noun(of.parts)+"s")
	}
	if late := listing(p, unsettled, true); late != "" {
		text += ", waiting for " + late
	}
	if bad := listing(p, settled, true); bad != "" {
		text += "; not taken by " + bad
	}
	if of.slots != nil {
		text += slotsLate(of.slots)
	}
	if of.noBroker != "" {
		text += "; the controller has no broker"
	}
	bar.Update(text, done, total)
}
