// Package history owns the commands about what happened: lists of the journal's entries, and the journal as a whole.
// An entry of a controller from before entries had words is shown as it is.
package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/event"
	"tandem.internal/shared/workload"
)

// Commands are the commands of this package that stand at the top.
func Commands(a *command.App) []*cobra.Command {
	return []*cobra.Command{events(a), journalCommands(a)}
}

func events(a *command.App) *cobra.Command {
	e := op.EventsIn{Limit: 50}
	cmd := &cobra.Command{
		Use: "events", Short: "Show what happened, from the journal; JSON is one entry a line",
		Example: "  tandem events --limit 20\n  tandem events --follow --node node-1\n" +
			"  tandem events --type accepted --type refused\n  tandem events --type alert --node node-1\n" +
			"  tandem events --slot web@node-1",
		Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckNodeFlag(cmd, e.Node); err != nil {
				return err
			}
			if cmd.Flags().Changed("slot") {
				slot, err := workload.ParseSlot(e.Slot)
				if err != nil {
					return command.Usage("--slot: %s", err)
				}
				if e.Node != "" && e.Node != slot.Node {
					return command.Usage("--slot %s is not on the node of --node; leave that out", slot)
				}
			}
			if e.Limit < 1 {
				return command.Usage("--limit is 1 or more")
			}
			return a.Connect(func(c *client.Client) error {
				return listEvents(cmd.Context(), a, c, e, cmd.Flags().Changed("after"))
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&e.Follow, "follow", "f", false, "go on with what comes until interrupted")
	f.StringVar(&e.Node, "node", "", "of this node only; a node's `ID`")
	f.StringVar(&e.Slot, "slot", "", "about this workload `slot` only, service@node")
	f.StringArrayVar(&e.Types, "type", nil,
		"of this `type` only, as in the TYPE column, or a node event's own type; repeatable")
	f.Uint64Var(&e.After, "after", 0, "from the entry after this `number` on")
	f.IntVar(&e.Limit, "limit", e.Limit, "the newest `N` entries, or with --after the next N")
	return cmd
}

// listEvents shows the newest entries, or those after one, and then follows if asked to.
func listEvents(ctx context.Context, a *command.App, c *client.Client, e op.EventsIn, after bool) error {
	follow, shown := e.Follow, &eventPrinter{a: a}
	e.Follow, e.Newest = false, !after
	var found []view.Entry
	if follow && after {
		e.Limit = 0 // everything, then what comes
	} else {
		limited, cancel := a.Limited(ctx)
		defer cancel()
		err := client.Follow(limited, c, op.Events, e, func(entry view.Entry) error {
			found = append(found, entry)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if e.Newest {
		slices.Reverse(found)
	}
	shown.fit(found, follow)
	for _, entry := range found {
		if err := shown.print(entry); err != nil {
			return err
		}
		e.After = max(e.After, entry.Seq)
	}
	if len(found) == 0 {
		if err := nothingFound(ctx, a, c, e, follow); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	if err := a.Flush(); err != nil {
		return err
	}
	e.Follow, e.Newest, e.Limit = true, false, 0
	return command.Interrupted(ctx, client.Follow(ctx, c, op.Events, e, func(entry view.Entry) error {
		if err := shown.print(entry); err != nil {
			return err
		}
		return a.Flush()
	}))
}

// nothingFound says so, and whether the node and the types that were asked for are known. A node's first entry may
// still come.
func nothingFound(ctx context.Context, a *command.App, c *client.Client, e op.EventsIn, follow bool) error {
	node := e.Node
	if _, of, ok := strings.Cut(e.Slot, "@"); ok {
		node = of
	}
	if node != "" {
		if err := command.KnownNode(ctx, c, node); err != nil {
			if !follow {
				return err
			}
			a.Warn("%s", command.AsFailure(err))
		}
	}
	if a.JSON {
		return nil
	}
	known := entryTypes()
	for _, t := range e.Types {
		if !slices.Contains(known, t) {
			a.Warn("%s is no type that is known here%s", t, command.Suggest(t, known, "the column TYPE shows them"))
		}
	}
	if !follow {
		a.Print("nothing found\n")
	}
	return nil
}

// entryTypes lists the types of entries and of the events of nodes that are known here.
func entryTypes() (all []string) {
	for _, t := range record.Types() {
		all = append(all, t.String())
	}
	all = append(all, event.Types()...)
	slices.Sort(all)
	return all
}

// typeOf is the type of an entry; of a node's event, the event's own, by which --type finds it, too.
func typeOf(e view.Entry) string {
	if e.Type == record.Event.String() && e.Kind != "" {
		return e.Kind
	}
	return e.Type
}

// wide is how many columns a terminal has from which on each entry has one line.
const wide = 100

// eventColumns are the columns of a list of entries; the last one has no width.
var eventColumns = []string{"SEQ", "TIME", "TYPE", "NODE", "WHO", "WHAT"}

// PrintEntries shows some entries as a table.
func PrintEntries(a *command.App, entries []view.Entry) error {
	p := &eventPrinter{a: a}
	p.fit(entries, false)
	for _, e := range entries {
		if err := p.print(e); err != nil {
			return err
		}
	}
	return nil
}

// eventPrinter prints entries in columns as wide as the entries need that are known beforehand. For entries that come
// later columns only become wider.
type eventPrinter struct {
	a      *command.App
	begun  bool
	narrow bool // on a terminal with few columns, a WHAT that is longer stands below, and today's times have no day
	widths []int
}

func (p *eventPrinter) row(e view.Entry) []term.Cell {
	var row []term.Cell
	for i, text := range []string{
		fmt.Sprint(e.Seq), p.time(e.At), typeOf(e), cmp.Or(e.Node, "-"),
		cmp.Or(e.Who, "-"), cmp.Or(e.Text, term.Shorten(string(e.Data), 400)),
	} {
		text = term.Clean(text)
		row = append(row, term.Cell{Text: text})
		if i < len(eventColumns)-1 {
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(text))
		}
	}
	return row
}

func (p *eventPrinter) time(at time.Time) string {
	if p.narrow {
		return p.a.Clock(at)
	}
	return at.In(p.a.Zone).Format("2006-01-02 15:04:05")
}

// fit makes room for some entries, and if others may come, for what these most often need.
func (p *eventPrinter) fit(entries []view.Entry, others bool) {
	p.widths = []int{3, 4, 4, 4, 3, 4}
	p.narrow = p.a.OutTerminal && p.a.Width > 0 && p.a.Width < wide
	switch {
	case others && p.narrow:
		p.widths = []int{4, 8, 8, 8, 4, 4}
	case others:
		p.widths = []int{6, 19, 16, 12, 16, 4}
	}
	for _, e := range entries {
		p.row(e)
	}
}

func (p *eventPrinter) print(e view.Entry) error {
	if p.a.JSON {
		return p.a.PrintJSON(e)
	}
	row := p.row(e)
	if !p.begun {
		p.begun = true
		p.a.Head("", eventColumns, p.widths)
	}
	if !p.narrow {
		p.a.Row("", row, p.widths)
		return nil
	}
	last, used := len(row)-1, 0
	for _, w := range p.widths[:last] {
		used += w + 2
	}
	what := row[last].Text
	if utf8.RuneCountInString(what) <= p.a.Width-used {
		p.a.Row("", row, p.widths)
		return nil
	}
	row[last].Text = ""
	p.a.Row("", row, p.widths)
	indent := p.widths[0] + 2
	p.a.Paragraph(strings.Repeat(" ", indent), indent, what)
	return nil
}
