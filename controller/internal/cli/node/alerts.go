package node

import (
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
)

// alerts is the command that lists what is raised on all nodes.
func alerts(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "alerts", Short: "List the alerts that are raised, on all nodes", Example: "  tandem alerts",
		Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ListAlerts, op.None{}, printRaised)
		},
	}
}

func printRaised(a *command.App, v op.Alerts) {
	if len(v.Alerts) == 0 {
		a.Print("no alert is raised\n")
		return
	}
	t := &term.Table{Head: []string{"NODE", "PARAMETER", "VALUE", "RAISES AT", "FALLS BELOW", "SINCE"}}
	for _, n := range v.Alerts {
		t.Add(n.Node, n.Parameter, command.Amount(n.Value), command.Amount(n.Max), command.Amount(n.Min),
			a.Ago(n.Since))
	}
	a.Table(t)
	if v.Omitted > 0 {
		a.Print("%d more are not listed\n", v.Omitted)
	}
}
