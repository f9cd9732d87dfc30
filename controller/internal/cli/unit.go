package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

func (a *app) unit() *cobra.Command {
	status := &cobra.Command{
		Use: "status", Short: "Show the unit at a glance: controller, broker, configuration, trouble", Example: "  tandem unit status", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client.Client) error {
				st, err := c.Status(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(st)
				}
				a.printUnit(st)
				return nil
			})
		},
	}
	return a.group("unit", "Look at the whole unit, and announce a maintenance to it", "  tandem unit status\n  tandem unit maintenance --for 2h --reason \"a new switch\"", status, a.maintenance())
}

func (a *app) maintenance() *cobra.Command {
	var within durationFlag
	var reason string
	var end bool
	cmd := &cobra.Command{
		Use: "maintenance (--for DURATION --reason WHY | --end)", Short: "Tell every node that the controller or its road may be away on purpose",
		Long: `Tell every node that the controller, or the road to it, may be away on purpose.

Until then nodes stop the clocks by which they reboot or roll back for want of
contact. It ends by itself. Nodes believe one day in all, and anew after a time
without.`,
		Example: "  tandem unit maintenance --for 2h --reason \"a new switch\"\n  tandem unit maintenance --end", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := cmd.Flags()
			if end == f.Changed("for") || end && f.Changed("reason") {
				return usage("%s needs --for and --reason, or --end; for example:\n%s", cmd.CommandPath(), cmd.Example)
			}
			if !end && reason == "" {
				return usage("%s needs --reason, for the journal", cmd.CommandPath())
			}
			return a.with(func(c *client.Client) error {
				m, err := op.Announced{}, error(nil)
				if end {
					m, err = c.EndMaintenance(cmd.Context())
				} else {
					m, err = c.Maintain(cmd.Context(), time.Duration(within), reason)
				}
				switch {
				case err != nil:
					return err
				case a.json:
					return a.printJSON(m)
				case m.Maintenance == nil:
					a.print("no maintenance is announced any more: the nodes' clocks run again\n")
				default:
					a.print("maintenance until %s: every node that hears of it stops the clocks that a loss of contact runs on\n", a.clock(m.Maintenance.Until))
				}
				return nil
			})
		},
	}
	cmd.Flags().Var(&within, "for", "how long from now, at most 24h")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the journal")
	cmd.Flags().BoolVar(&end, "end", false, "end it now")
	return cmd
}

func (a *app) printUnit(st view.UnitStatus) {
	t := &table{}
	t.add("Unit", st.Unit)
	t.add("Controller", "version "+st.Version+", up for "+a.age(st.Started))
	broker := cell{"up for " + a.age(st.Broker.Since), green}
	if !st.Broker.Up {
		broker = cell{"down for " + a.age(st.Broker.Since), red}
		if st.Broker.Error != "" {
			broker.text += ": " + st.Broker.Error
		}
	}
	kind := "external"
	if st.Broker.Embedded {
		kind = "embedded"
	}
	broker.text = st.Broker.Address + " (" + kind + "), " + broker.text
	t.rows = append(t.rows, []cell{{text: "Broker"}, broker})
	known := st.Epoch != 0 // not while the journal cannot be written: the trouble below says why
	if known {
		t.add("Journal", fmt.Sprintf("newest record %d, epoch %d", st.Rev, st.Epoch))
	}
	if m := st.Maintenance; m != nil {
		text := fmt.Sprintf("until %s (%s left): %s", a.clock(m.Until), span(m.Until.Sub(a.Now())), m.Reason)
		if m.Who != "" {
			text += ", by " + m.Who
		}
		t.rows = append(t.rows, []cell{{text: "Maintenance"}, {text, yellow}})
	}
	if known {
		a.statusRows(t, st.Config)
	}
	a.printTable(t)
	if len(st.Trouble) > 0 {
		a.print("\n")
		for _, s := range st.Trouble {
			a.print("! %s\n", clean(s))
		}
	}
}
