package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func (a *app) config() *cobra.Command {
	return a.group("config", "Check, apply and look at the unit configuration",
		"  tandem config check unit.json\n  tandem config apply unit.json --wait",
		a.check(), a.apply(), a.confirm(), a.configStatus(), a.show(), a.history("config", (*client.Client).History), a.diff(), a.rollback(), a.resolve(), a.explain(), a.restore())
}

func (a *app) confirm() *cobra.Command {
	return &cobra.Command{
		Use: "confirm", Short: "Keep the unit configuration that is on trial", Example: "  tandem config confirm", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client.Client) error {
				res, err := c.Confirm(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					if err := a.printJSON(res); err != nil {
						return err
					}
				} else if res.State != "refused" {
					a.print("confirmed %s: it stays\n", clean(res.Version))
				}
				return refusal(res, nil)
			})
		},
	}
}

func (a *app) configStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the unit configuration's state and how far the nodes are", Example: "  tandem config status", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client.Client) error {
				st, err := c.ConfigStatus(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(st)
				}
				t := &table{}
				a.statusRows(t, st)
				a.printTable(t)
				a.laggards(st.Progress)
				return nil
			})
		},
	}
}

func (a *app) restore() *cobra.Command {
	return &cobra.Command{
		Use: "restore", Short: "Write the configuration file anew from the journal and leave the failed state",
		Example: "  tandem config restore", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client.Client) error {
				st, err := c.Restore(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(st)
				}
				a.print("restored %s from the journal: %s\n", clean(st.Version), clean(st.State))
				return nil
			})
		},
	}
}

// statusRows describes the unit configuration.
func (a *app) statusRows(t *table, st view.ConfigStatus) {
	state := cell{text: st.State, colour: map[string]string{"installed": green, "failed": red}[st.State]}
	t.rows = append(t.rows, []cell{{text: "State"}, state})
	if st.Version != "" {
		t.add("Version", st.Version+", for "+a.age(st.Since))
	}
	if st.Error != nil {
		t.rows = append(t.rows, []cell{{text: "Error"}, {brief(st.Error), red}})
		t.add("", "recover with a valid update, or with: tandem config restore")
	}
	if st.Trial != nil {
		t.add("On trial", fmt.Sprintf("%s until %s (%s left); keep it with: tandem config confirm",
			st.Trial.Version, a.clock(st.Trial.Deadline), span(st.Trial.Deadline.Sub(a.Now()))))
	}
	if r := st.Attempted; r != nil {
		what := "unreadable document"
		if r.Version != "" {
			what = r.Version
		}
		if r.Who != "" {
			what += " from " + r.Who
		}
		t.add("Refused", what+", "+a.ago(r.At)+": "+brief(r.Error))
	}
	p := st.Progress
	nodes := fmt.Sprintf("%d known, %d online; %d up to date", p.Nodes, p.Online, p.Installed)
	switch {
	case p.OnlineMissing == 0:
	case st.State == "failed": // nothing new is sent to them
		nodes += fmt.Sprintf(", %d behind", p.OnlineMissing)
	default:
		nodes += fmt.Sprintf(", %d on the way", p.OnlineMissing)
	}
	if p.Failed > 0 {
		nodes += fmt.Sprintf(", %d failed", p.Failed)
	}
	t.add("Nodes", nodes)
}

// laggards lists the nodes that are not there yet.
func (a *app) laggards(p view.Progress) {
	if len(p.Missing) == 0 {
		return
	}
	t := &table{head: []string{"NODE", "ONLINE", "STATE", "WHY"}}
	for _, l := range p.Missing {
		t.rows = append(t.rows, []cell{{text: l.Node}, {text: yesNo(l.Online)}, {laggardState(l), colour(l.State)}, {text: brief(l.Error)}})
	}
	a.print("\n")
	a.printTable(t)
	if p.Omitted > 0 {
		a.print("and %d more\n", p.Omitted)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// laggardState says in one word what a node is doing about its newest document.
func laggardState(l view.Laggard) string {
	switch {
	case l.State != "":
		return string(l.State)
	case l.Online:
		return "waiting"
	}
	return "offline"
}

// history is the command of what was submitted of a kind.
func (a *app) history(of string, get func(*client.Client, context.Context) (op.History, error)) *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use: "history", Short: "List what was submitted and what became of it", Example: "  tandem " + of + " history --limit 5", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage("--limit is 0 (everything) or more")
			}
			return a.with(func(c *client.Client) error {
				h, err := get(c, cmd.Context())
				if err != nil {
					return err
				}
				if limit > 0 && len(h.Versions) > limit {
					h.Versions = slices.Clone(h.Versions[len(h.Versions)-limit:])
				}
				if a.json {
					return a.printJSON(h)
				}
				a.printHistory(h)
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "show the newest `N` only; 0: all")
	return cmd
}

func (a *app) printHistory(h op.History) {
	if len(h.Versions) == 0 {
		a.print("nothing was submitted yet\n")
		return
	}
	t := &table{head: []string{"SEQ", "AGE", "VERSION", "STATE", "MODE", "WHO", "VIA", "WHY"}}
	for _, v := range h.Versions {
		state := cell{text: v.State}
		switch v.State {
		case "refused", "failed", "expired":
			state.colour = red
		case "accepted", "confirmed", "imported", "restored":
			state.colour = green
		}
		mode := string(v.Mode)
		if v.Mode == wire.ModeApply {
			mode = ""
		}
		t.rows = append(t.rows, []cell{{text: fmt.Sprint(v.Seq)}, {text: a.age(v.At)}, {text: v.Version}, state,
			{text: mode}, {text: v.Who}, {text: v.Via}, {text: brief(v.Error)}})
	}
	a.printTable(t)
}

// until says when a trial ends.
func (a *app) until(deadline time.Time) string {
	return fmt.Sprintf("until %s (%s)", a.clock(deadline), span(deadline.Sub(a.Now())))
}
