package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
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
	return a.group("unit", "Look at the whole unit", "  tandem unit status", status)
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
	t.add("Journal", fmt.Sprintf("newest record %d, epoch %d", st.Rev, st.Epoch))
	a.statusRows(t, st.Config)
	a.printTable(t)
	if len(st.Trouble) > 0 {
		a.print("\n")
		for _, s := range st.Trouble {
			a.print("! %s\n", clean(s))
		}
	}
}
