package node

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/cloud"
)

func unit(a *command.App) *cobra.Command {
	return command.Group("unit", "Look at the whole unit, announce a maintenance to it, have the controller log more",
		"  tandem unit status\n  tandem unit maintenance --for 2h --reason \"a new switch\"",
		status(a), unitSettings(a), maintenance(a), logLevel(a))
}

func unitSettings(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "settings", Short: "Show the controller's settings that are in effect, without secrets",
		Example: "  tandem unit settings", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.UnitSettings, op.None{}, printUnitSettings)
		},
	}
}

func printUnitSettings(a *command.App, v op.Settings) {
	t := &term.Table{Head: []string{"SETTING", "VALUE", "BY"}}
	for _, s := range v.Settings {
		by := "default"
		if s.Changed {
			by = "set"
		}
		t.Add(s.Name, s.Value, by)
	}
	a.Table(t)
}

func status(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the unit at a glance: controller, broker, configuration, trouble, items",
		Long: `Show the unit at a glance, and how far update items are on their nodes.

With --json the member report is the unit status as the cloud side hears it: nodes,
items, instances and subjects.`,
		Example: "  tandem unit status", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.UnitStatus, op.UnitStatusIn{Report: true}, printUnit)
		},
	}
}

func maintenance(a *command.App) *cobra.Command {
	var within command.Duration
	var reason string
	var end bool
	cmd := &cobra.Command{
		Use:   "maintenance (--for DURATION --reason WHY | --end)",
		Short: "Tell every node that the controller or its road may be away on purpose",
		Long: `Tell every node that the controller, or the road to it, may be away on purpose.

Until then nodes stop the clocks by which they reboot or roll back for want of
contact. It ends by itself. Nodes believe one day in all, and anew after a time
without.`,
		Example: "  tandem unit maintenance --for 2h --reason \"a new switch\"\n  tandem unit maintenance --end",
		Args:    command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := cmd.Flags()
			if end == f.Changed("for") || end && f.Changed("reason") {
				return command.Lacks(cmd, "--for and --reason, or --end")
			}
			if !end && reason == "" {
				return command.Usage("%s needs --reason, for the journal", cmd.CommandPath())
			}
			if end {
				return command.Ask(cmd.Context(), a, op.EndMaintenance, op.None{}, printMaintenance)
			}
			in := op.Maintain{For: within.ISO(), Reason: reason}
			return command.Ask(cmd.Context(), a, op.AnnounceMaintenance, in, printMaintenance)
		},
	}
	cmd.Flags().Var(&within, "for", "how long from now, at most 24h")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the journal")
	cmd.Flags().BoolVar(&end, "end", false, "end it now")
	return cmd
}

func printMaintenance(a *command.App, m op.Announced) {
	if m.Maintenance == nil {
		a.Print("no maintenance is announced any more: the nodes' clocks run again\n")
		return
	}
	a.Print("maintenance until %s: every node that hears of it stops the clocks that a loss of contact runs on\n",
		a.Clock(m.Maintenance.Until))
}

func printUnit(a *command.App, st view.UnitStatus) {
	t := &term.Table{}
	t.Add("Unit", st.Unit)
	t.Add("Controller", "version "+st.Version+", up for "+a.Age(st.Started))
	broker := term.Green.Cell("up for " + a.Age(st.Broker.Since))
	if !st.Broker.Up {
		broker = term.Red.Cell("down for " + a.Age(st.Broker.Since))
		if st.Broker.Error != "" {
			broker.Text += ": " + st.Broker.Error
		}
	}
	kind := "external"
	if st.Broker.Embedded {
		kind = "embedded"
	}
	broker.Text = st.Broker.Address + " (" + kind + "), " + broker.Text
	t.Add("Broker", broker)
	if c := st.Clock; c != nil {
		t.Add("Clock", term.Red.Cell("has jumped to "+c.Clock.Format(time.DateTime)+", and should show "+
			c.Time.Format(time.DateTime)+" UTC"))
	}
	known := st.Epoch != 0 // not while the journal cannot be written: the trouble below says why
	if known {
		t.Add("Journal", fmt.Sprintf("newest record %d, epoch %d", st.Rev, st.Epoch))
	}
	if m := st.Maintenance; m != nil {
		text := fmt.Sprintf("until %s (%s left): %s", a.Clock(m.Until), a.Left(m.Until), m.Reason)
		if m.Who != "" {
			text += ", by " + m.Who
		}
		t.Add("Maintenance", term.Yellow.Cell(text))
	}
	if known {
		a.StatusRows(t, string(a.UnitSource()), st.Config)
		if c := st.Cloud; c != nil {
			t.Add("Steering", followed(c))
		}
	}
	a.Table(t)
	if c := st.Cloud; c != nil && len(c.Failures) > 0 {
		a.Print("\nof the desired status cannot be met:\n")
		for _, f := range c.Failures {
			a.Print("  %s\n", term.Clean(f))
		}
		if c.Omitted > 0 {
			a.Print("  and %d more\n", c.Omitted)
		}
	}
	if st.Report != nil && len(st.Report.Items)+len(st.Report.Instances) > 0 {
		a.Print("\n")
		printReport(a, st.Report)
	}
	if len(st.Trouble) > 0 {
		a.Print("\n")
		for _, s := range st.Trouble {
			a.Print("! %s\n", term.Clean(s))
		}
	}
}

// followed says what the cloud side wants.
func followed(c *view.Followed) string {
	if c.Rev == 0 {
		return "cloud side, which has sent no desired status yet"
	}
	text := fmt.Sprintf("cloud side: desired status of record %d%s", c.Rev, command.By(c.Who))
	if c.CorrelationID != "" {
		text += ", correlation ID " + c.CorrelationID
	}
	return text
}

// printReport shows the versions of items, how many of their instances are active, and what is wrong.
func printReport(a *command.App, s *cloud.UnitStatus) {
	t := &term.Table{Head: []string{"ITEM", "VERSION", "STATE", "ACTIVE", "REMARK"}}
	for i := range s.Items {
		it := &s.Items[i]
		active, all, remark := 0, 0, ""
		if it.ErrorInfo != nil {
			remark = it.ErrorInfo.Message
		}
		for _, g := range s.Instances {
			if g.Item != it.Item || g.Version != it.Version {
				continue
			}
			for _, in := range g.Instances {
				all++
				if in.State == cloud.InstanceActive {
					active++
				} else if remark == "" && in.ErrorInfo != nil {
					remark = in.ErrorInfo.Message
				}
			}
		}
		count := ""
		if all > 0 {
			count = fmt.Sprintf("%d of %d", active, all)
		}
		t.Add(it.Item.Type+" "+cmp.Or(it.Item.Codename, it.Item.ID), it.Version, stateCell(it.State), count,
			term.Clean(remark))
	}
	a.Table(t)
}

func stateCell(state cloud.ItemState) term.Cell {
	switch state {
	case cloud.ItemInstalled:
		return term.Green.Cell(string(state))
	case cloud.ItemFailed:
		return term.Red.Cell(string(state))
	}
	return term.Yellow.Cell(string(state))
}
