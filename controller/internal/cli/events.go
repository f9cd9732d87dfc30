package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/record"
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
	shown.fit(found, follow)
	for _, entry := range found {
		if err := shown.print(entry); err != nil {
			return err
		}
		e.After = max(e.After, entry.Seq)
	}
	if len(found) == 0 {
		if err := a.nothingFound(ctx, c, e, follow); err != nil {
			return err
		}
	}
	if !follow {
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

// nothingFound says so, and whether what was asked for is known at all. A node's first entry may still come.
func (a *app) nothingFound(ctx context.Context, c *client.Client, e client.Entries, follow bool) error {
	if e.Node != "" {
		err := a.heardOf(ctx, c, e.Node)
		switch {
		case err == nil:
		case !follow:
			return err
		case !a.json:
			fmt.Fprintf(a.Err, "tandem: %s\n", multiline(asFailure(err).Error()))
		}
	}
	if a.json {
		return nil
	}
	known := entryTypes()
	for _, t := range e.Types {
		if slices.Contains(known, t) {
			continue
		}
		if _, err := fmt.Fprintf(a.Err, "tandem: %s is no type that is known here%s\n", clean(t), suggestion(t, known, "the column TYPE shows them")); err != nil {
			return err
		}
	}
	if !follow {
		a.print("nothing found\n")
	}
	return nil
}

// entryTypes lists the types of entries, and of the events of nodes that are known here.
func entryTypes() (all []string) {
	for _, t := range record.Types() {
		all = append(all, t.String())
	}
	all = append(all, otherEvents...)
	all = slices.AppendSeq(all, maps.Keys(healthEvents))
	return slices.Sorted(slices.Values(slices.AppendSeq(all, maps.Keys(workloadEvents))))
}

// typeOf is the type of an entry; of a node's event, the event's own, by which --type finds it, too.
func typeOf(e view.Entry) string {
	if e.Type == "event" && e.Kind != "" {
		return e.Kind
	}
	return e.Type
}

// eventPrinter writes entries in columns as wide as those need that are known beforehand. For what comes later they only
// ever get wider.
type eventPrinter struct {
	a      *app
	begun  bool
	widths [5]int
}

func (p *eventPrinter) row(e view.Entry) []cell {
	row := []cell{{text: fmt.Sprint(e.Seq)}, {text: e.At.In(p.a.Zone).Format("2006-01-02 15:04:05")}, {text: typeOf(e)},
		{text: cmp.Or(e.Node, "-")}, {text: cmp.Or(e.Who, "-")}, {text: shorten(p.a.what(e), 400)}}
	for i := range row {
		row[i].text = clean(row[i].text)
		if i < len(p.widths) {
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	return row
}

// fit makes room for some entries, and for what others most often need if there may be others.
func (p *eventPrinter) fit(entries []view.Entry, others bool) {
	p.widths = [5]int{3, 4, 4, 4, 3}
	if others {
		p.widths = [5]int{6, 19, 16, 12, 16}
	}
	for _, e := range entries {
		p.row(e)
	}
}

func (p *eventPrinter) print(e view.Entry) error {
	a := p.a
	if a.json {
		return a.printJSON(e)
	}
	row := p.row(e)
	if !p.begun {
		p.begun = true
		head := []cell{}
		for _, h := range []string{"SEQ", "TIME", "TYPE", "NODE", "WHO", "WHAT"} {
			head = append(head, cell{h, bold})
		}
		a.printRow("", head, append(slices.Clone(p.widths[:]), 4))
	}
	a.printRow("", row, append(slices.Clone(p.widths[:]), 4))
	return nil
}
