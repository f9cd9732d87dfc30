package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/view"
)

func (a *app) events() *cobra.Command {
	e := client.Entries{Limit: 50}
	cmd := &cobra.Command{
		Use: "events", Short: "Show what happened, from the journal; JSON is one entry a line",
		Example: "  tandem events --limit 20\n  tandem events --follow --node node-1\n  tandem events --type accepted --type refused\n  tandem events --type alert --node node-1", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("node") {
				if err := checkNode(cmd, e.Node); err != nil {
					return err
				}
			}
			if e.Limit < 1 {
				return usage("--limit is 1 or more")
			}
			return a.with(func(c *client.Client) error { return a.listEvents(cmd.Context(), c, e, cmd.Flags().Changed("after")) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&e.Follow, "follow", false, "go on with what comes until interrupted")
	f.StringVar(&e.Node, "node", "", "of this node only; a node's `ID`")
	f.StringArrayVar(&e.Types, "type", nil, "of this `type` only, as in the TYPE column, or a node event's own type; repeatable")
	f.Uint64Var(&e.After, "after", 0, "from the entry after this `number` on")
	f.IntVar(&e.Limit, "limit", e.Limit, "the newest `N` entries, or with --after the next N")
	return cmd
}

// listEvents shows the newest entries, or those after one, and then follows if asked to.
func (a *app) listEvents(ctx context.Context, c *client.Client, e client.Entries, after bool) error {
	follow, shown := e.Follow, &eventPrinter{a: a}
	e.Follow, e.Newest = false, !after
	var found []view.Entry
	if follow && after {
		e.Limit = 0 // everything, then what comes
	} else {
		err := c.Events(ctx, e, func(entry view.Entry) error { found = append(found, entry); return nil })
		if err != nil {
			return err
		}
	}
	if e.Newest {
		slices.Reverse(found)
	}
	for _, entry := range found {
		if err := shown.print(entry); err != nil {
			return err
		}
		e.After = max(e.After, entry.Seq)
	}
	if !follow {
		if len(found) == 0 && !a.json {
			a.print("nothing found\n")
		}
		return nil
	}
	if err := a.out.Flush(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	e.Follow, e.Newest, e.Limit = true, false, 0
	err := c.Events(ctx, e, func(entry view.Entry) error {
		if err := shown.print(entry); err != nil {
			return err
		}
		return a.out.Flush()
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // that is how one leaves
	}
	return err
}

// typeOf is the type of an entry; of a node's event, the event's own, by which --type finds it, too.
func typeOf(e view.Entry) string {
	if e.Type == "event" && e.Kind != "" {
		return e.Kind
	}
	return e.Type
}

// eventPrinter writes entries in columns that only ever get wider, since what comes is not known.
type eventPrinter struct {
	a      *app
	begun  bool
	widths [5]int
}

func (p *eventPrinter) print(e view.Entry) error {
	a := p.a
	if a.json {
		return a.printJSON(e)
	}
	row := []cell{{text: fmt.Sprint(e.Seq)}, {text: e.At.In(a.Zone).Format("2006-01-02 15:04:05")}, {text: typeOf(e)},
		{text: cmp.Or(e.Node, "-")}, {text: cmp.Or(e.Who, "-")}, {text: shorten(a.what(e), 400)}}
	if !p.begun {
		p.begun = true
		p.widths = [5]int{6, 19, 10, 12, 16}
		head := []cell{}
		for _, h := range []string{"SEQ", "TIME", "TYPE", "NODE", "WHO", "WHAT"} {
			head = append(head, cell{h, bold})
		}
		a.printRow("", head, append(slices.Clone(p.widths[:]), 4))
	}
	for i := range row {
		row[i].text = clean(row[i].text)
		if i < len(p.widths) {
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	a.printRow("", row, append(slices.Clone(p.widths[:]), 4))
	return nil
}
