// Package notify owns the commands about receivers of notices: who outside of the unit is told by HTTP what happens.
package notify

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Commands is the group of commands.
func Commands(a *command.App) *cobra.Command {
	return command.Group("notify", "Say who is told by HTTP what happens, and see whether that arrives",
		"  tandem notify add pager https://hooks.example.com/tandem --level error\n"+
			"  tandem notify test pager\n  tandem notify list",
		list(a), show(a), add(a), try(a), remove(a))
}

func names(ctx context.Context, c *client.Client) (all []string, err error) {
	found, err := client.Call(ctx, c, op.ListNotices, op.None{})
	for _, r := range found.Receivers {
		all = append(all, r.Name)
	}
	return all, err
}

func near(name string) command.Explain {
	return command.Nearest(name, "tandem notify list shows them", names)
}

// checkName refuses a name that no receiver can have.
func checkName(cmd *cobra.Command, name string) error {
	if !wire.ValidName(name) {
		return command.Usage("%s: %.80q cannot name a receiver: letters, digits, and . _ - after the first, at most 63",
			cmd.CommandPath(), name)
	}
	return nil
}

func list(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show every receiver, and how far it has come",
		Example: "  tandem notify list", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ListNotices, op.None{}, printList)
		},
	}
}

func printList(a *command.App, all op.Notices) {
	if len(all.Receivers) == 0 {
		a.Print("nobody is told; tandem notify add names a receiver\n")
		return
	}
	t := &term.Table{Head: []string{"NAME", "TO", "WHAT", "STATE", "BEHIND", "LAST", "ERROR"}}
	for _, r := range all.Receivers {
		last := "-"
		if !r.Last.IsZero() {
			last = a.Ago(r.Last)
		}
		t.Add(r.Name, r.URL, what(&r.Filter), state(&r), term.Plural(int(min(r.Lag, 1<<30)), "record"), last,
			r.Error)
	}
	a.Table(t)
}

func state(r *view.NoticeReceiver) term.Cell {
	colour := map[string]term.Colour{"ok": term.Green, "behind": term.Yellow, "failing": term.Red}[r.State]
	return colour.Cell(r.State)
}

// what says which entries a filter picks.
func what(f *view.NoticeFilter) string {
	parts := []string{f.Level}
	for _, l := range []struct {
		name string
		all  []string
	}{{"type", f.Types}, {"node", f.Nodes}, {"who", f.Who}} {
		if len(l.all) > 0 {
			parts = append(parts, l.name+":"+strings.Join(l.all, ","))
		}
	}
	if f.Where != "" {
		parts = append(parts, "where "+f.Where)
	}
	return strings.Join(parts, " ")
}

func show(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a receiver: what it is told, how far it has come, and what is in the way",
		Example: "  tandem notify show pager", Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkName(cmd, args[0]); err != nil {
				return err
			}
			return command.Ask(cmd.Context(), a, op.ShowNotice, op.NoticeIn{Receiver: args[0]}, printOne, near(args[0]))
		},
	}
}

func printOne(a *command.App, r view.NoticeReceiver) {
	t := &term.Table{}
	t.Add("Name", r.Name)
	to := r.URL
	switch {
	case r.CA:
		to += ", by a CA of its own"
	case r.Insecure:
		to += ", without TLS"
	}
	t.Add("To", to)
	t.Add("What", what(&r.Filter))
	if r.Always {
		t.Add("", "also during maintenance")
	}
	t.Add("Added", fmt.Sprintf("%s by %s", a.Clock(r.Created), cmp.Or(r.By, "-")))
	t.Add("State", state(&r))
	t.Add("Cursor", fmt.Sprintf("record %d, %s behind", r.Cursor, term.Plural(int(min(r.Lag, 1<<30)), "record")))
	if r.Waiting > 0 {
		t.Add("Waiting", term.Plural(r.Waiting, "notice"))
	}
	if !r.Last.IsZero() {
		t.Add("Delivered", fmt.Sprintf("%d since the controller started, the last %s: %s", r.Delivered, a.Ago(r.Last),
			r.LastID))
	}
	if r.Error != "" {
		t.Add("Error", fmt.Sprintf("%s: %s", a.Clock(r.ErrorAt), r.Error))
	}
	if r.Tries > 0 {
		t.Add("Next try", fmt.Sprintf("%s, after %d in vain", a.Clock(r.NextTry), r.Tries))
	}
	if !r.Quiet.IsZero() {
		t.Add("Quiet", fmt.Sprintf("maintenance %s; %s left out", a.Until(r.Quiet), entries(r.LeftOut)))
	}
	a.Table(t)
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

func try(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Send a receiver a notice now, and show what it answers",
		Example: "  tandem notify test pager", Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkName(cmd, args[0]); err != nil {
				return err
			}
			var failed error
			shown := func(a *command.App, t view.NoticeTest) { printTest(a, &t) }
			call := func(ctx context.Context, c *client.Client) (view.NoticeTest, error) {
				t, err := client.Call(ctx, c, op.TestNotice, op.NoticeIn{Receiver: args[0]})
				if err == nil && !t.OK {
					failed = command.Refuse(command.ExitRefused, wire.CodeUnavailable, "%s has not taken it: %s",
						args[0], t.Error)
				}
				return t, err
			}
			if err := command.Gather(cmd.Context(), a, call, shown, near(args[0])); err != nil {
				return err
			}
			return failed
		},
	}
}

func printTest(a *command.App, t *view.NoticeTest) {
	if !t.OK {
		return // the error says it
	}
	text := fmt.Sprintf("%s has taken %s in %d ms: status %d", term.Clean(t.Name), term.Clean(t.ID), t.Millis, t.Status)
	if t.Answer != "" {
		text += ", " + term.Clean(t.Answer)
	}
	a.Print("%s\n", text)
}

func remove(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Tell a receiver nothing any more",
		Example: "  tandem notify remove pager", Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkName(cmd, args[0]); err != nil {
				return err
			}
			return command.Ask(cmd.Context(), a, op.RemoveNotice, op.NoticeIn{Receiver: args[0]}, printRemoved,
				near(args[0]))
		},
	}
}

func printRemoved(a *command.App, r view.NoticeReceiver) {
	a.Print("%s is told nothing any more; it was told everything up to record %d\n", term.Clean(r.Name), r.Cursor)
}
