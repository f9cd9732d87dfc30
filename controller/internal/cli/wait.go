package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// outcome is what waiting for the nodes came to.
type outcome struct {
	Settled  bool               `json:"settled"` // every online node has dealt with the newest document
	Replaced string             `json:"replaced,omitempty"`
	Progress view.Progress      `json:"progress"`
	Slots    *view.SlotProgress `json:"slots,omitempty"` // of workloads
	lost     error              // why nothing was heard at the end
	stopped  bool               // the person did not want to wait any longer
}

const (
	retry  = 300 * time.Millisecond // between attempts to follow a controller that went away
	steady = 2 * time.Second        // slots that run have to, for so long: what ends at once runs, too, now and then
)

// stage is how far a unit has come with what was submitted last.
type stage struct {
	rev      uint64   // of what the nodes have to deal with
	versions []string // that count: installed, and on trial
	progress view.Progress
	slots    *view.SlotProgress // of workloads
}

// follower follows the stages of a unit until each returns client.ErrStop.
type follower func(ctx context.Context, each func(stage) error) error

func configStages(c *client.Client) follower {
	return func(ctx context.Context, each func(stage) error) error {
		return c.WatchConfig(ctx, func(st view.ConfigStatus) error {
			s := stage{rev: newest(st), versions: []string{st.Version}, progress: st.Progress}
			if st.Trial != nil {
				s.versions = append(s.versions, st.Trial.Version)
			}
			return each(s)
		})
	}
}

// wait follows the unit until every online node has settled on the documents of res, another
// configuration took their place, the limit is over or ctx ends. A controller that goes away
// meanwhile is waited for, too.
func (a *app) wait(ctx context.Context, follow follower, res view.Result, limit time.Duration) *outcome {
	person := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	o, show := &outcome{}, a.progress()
	defer show.end()
	for {
		heard := false
		following, enough := context.WithCancel(ctx)
		pause := time.AfterFunc(time.Hour, enough) // until all is well and stays so
		pause.Stop()
		err := follow(following, func(st stage) error {
			heard = true
			if st.rev < res.Rev {
				return nil // not there yet
			}
			o.Progress, o.Slots = st.progress, st.slots
			if !slices.Contains(st.versions, res.Version) {
				o.Replaced = st.versions[len(st.versions)-1]
				return client.ErrStop
			}
			show.update(st)
			before := o.Settled
			o.Settled = st.progress.OnlineMissing == 0 && (st.slots == nil || st.slots.OnlineMissing == 0)
			switch {
			case !o.Settled:
				pause.Stop()
			case st.slots == nil || st.slots.Running == 0:
				return client.ErrStop
			case !before:
				pause.Reset(steady)
			}
			return nil
		})
		pause.Stop()
		// Slots that had not run for long enough when the limit was over do not count, and a controller that
		// went away meanwhile is asked again.
		o.Settled = o.Settled && (err == nil || following.Err() != nil && ctx.Err() == nil)
		enough()
		if ctx.Err() == nil {
			o.lost = err
		} else if heard {
			o.lost = nil
		}
		if o.Settled || o.Replaced != "" || ctx.Err() != nil {
			break
		}
		again := time.NewTimer(retry)
		select {
		case <-again.C:
			continue
		case <-ctx.Done():
			again.Stop()
		}
		break
	}
	o.stopped = person.Err() != nil && !o.Settled
	return o
}

// newest is the rev of what the nodes have to deal with.
func newest(st view.ConfigStatus) uint64 {
	if st.Trial != nil {
		return max(st.Rev, st.Trial.Rev)
	}
	return st.Rev
}

// failure is exit status 4, or nil when every online node got there.
func (o *outcome) failure() error {
	p := o.Progress
	incomplete := func(code wire.Code, message string) error {
		return &failure{exit: exitIncomplete, err: wire.New(code, "", message)}
	}
	switch {
	case o.Replaced != "":
		return incomplete(wire.CodeStale, "accepted, but "+clean(o.Replaced)+" took its place before every node had it")
	case o.Slots != nil && (p.Nodes > 0 || o.Settled):
		return o.slotFailure(incomplete)
	case o.Settled && p.Failed == 0:
		return nil
	case o.Settled:
		return incomplete(wire.CodeApplyFailed, fmt.Sprintf("accepted, but %s did not take it:\n%s", plural(p.Failed, "node"), lines(p, settled)))
	case p.Nodes == 0:
		why := "nothing was heard of the nodes " + o.when()
		if u, ok := errors.AsType[*client.Unreachable](o.lost); ok {
			why = "the controller went away: " + u.Hint
		}
		return incomplete(wire.CodeTimeout, "accepted, but "+why)
	}
	return incomplete(wire.CodeTimeout, fmt.Sprintf("accepted, but only %d of %s had it %s:\n%s", p.Installed, plural(p.Nodes, "node"), o.when(), lines(p, anyone)))
}

func (o *outcome) when() string {
	if o.stopped {
		return "when the waiting was interrupted"
	}
	return "in time"
}

// words says that it went well.
func (o *outcome) words() string {
	p := o.Progress
	switch {
	case o.Slots != nil:
		return o.slotWords()
	case p.Nodes == 0:
		return "no node is known yet; each gets it when it connects"
	case len(p.Missing) > 0:
		return fmt.Sprintf("%d of %s have it; offline, and get it when back: %s", p.Installed, plural(p.Nodes, "node"), listing(p, anyone, false))
	}
	return "every node has it (" + plural(p.Nodes, "node") + ")"
}

// Which laggards to speak of.
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
			all = append(all, l.Node+" ("+laggardState(l)+")")
		default:
			all = append(all, l.Node)
		}
	}
	return listed(all)
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
	return clipLines(b.String(), wire.MaxMessage-128)
}

func describe(l view.Laggard) string {
	s := laggardState(l)
	if !l.Online && l.State != "" {
		s += ", offline"
	}
	if l.Error != nil {
		s += ": " + brief(l.Error)
	}
	return s
}

// clipLines keeps whole lines within n bytes.
func clipLines(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := strings.LastIndexByte(s[:n], '\n')
	if cut < 0 {
		return s
	}
	return s[:cut] + fmt.Sprintf("\n  and %d more", strings.Count(s[cut+1:], "\n")+1)
}

// progress shows how far the nodes are: one line that is rewritten on a terminal, else a line for
// each change, at most one a second. With --json only a terminal gets any.
type progress struct {
	a    *app
	last string
	at   time.Time
	open bool // a rewritten line is on the screen
}

func (a *app) progress() *progress { return &progress{a: a} }

func (p *progress) update(of stage) {
	st := of.progress
	text, done, total := fmt.Sprintf("%d/%d nodes", st.Installed, st.Nodes), st.Installed, st.Nodes
	if s := of.slots; s != nil {
		text += fmt.Sprintf(", %d/%d slots", s.Running+s.Completed, s.Slots)
		done, total = s.Running+s.Completed, s.Slots
	}
	if late := listing(st, unsettled, true); late != "" {
		text += ", waiting for " + late
	}
	if bad := listing(st, settled, true); bad != "" {
		text += "; not taken by " + bad
	}
	if of.slots != nil {
		text += slotsLate(of.slots)
	}
	if text == p.last {
		return
	}
	if p.a.ErrTerminal {
		const width = 20
		full := 0
		if total > 0 {
			full = width * done / total
		}
		bar := "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "] "
		room := max(p.a.Width, 40) - utf8.RuneCountInString(bar) - 1
		p.write("\r" + bar + shorten(text, room) + "\x1b[K")
		p.open, p.last = true, text
		return
	}
	if now := p.a.Now(); !p.a.json && (p.last == "" || now.Sub(p.at) >= time.Second) {
		p.write(text + "\n")
		p.last, p.at = text, now
	}
}

// end leaves the line to what follows.
func (p *progress) end() {
	if p.open {
		p.write("\r\x1b[K")
	}
}

func (p *progress) write(s string) {
	if _, err := p.a.Err.Write([]byte(s)); err != nil {
		p.open = false // progress is for whoever looks; nobody does
	}
}
