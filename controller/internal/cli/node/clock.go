package node

import (
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

func clock(a *command.App) *cobra.Command {
	return command.Group("clock", "Confirm the controller's clock when it has jumped", "  tandem clock confirm",
		confirmClock(a))
}

func confirmClock(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "confirm", Short: "Say that the controller's clock is right, although it has jumped",
		Long: `Say that the controller's clock is right, although it has jumped by more than a day.

Until then, or until the clock is right again, the controller says nothing to the
nodes: they would take its time. tandem unit status shows both times. Look at a
clock that you trust before.`,
		Example: "  tandem clock confirm", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ConfirmClock, op.None{}, printClock)
		},
	}
}

func printClock(a *command.App, j view.ClockJump) {
	a.Print("it is %s UTC; the nodes are spoken to again\n", j.Clock.Format(time.DateTime))
}
