package rollout

import (
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
)

// Why is the command that says why.
func Why(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "rollout [ROLLOUT]", Short: "Say what holds a rollout up and why, or what became of it",
		Long: "Say what holds a rollout up and why, because of which nodes, and what ends that; or what became\n" +
			"of it. Without an ID it is the rollout that goes on, else the newest.",
		Example: "  tandem why rollout\n  tandem why rollout config-17", Args: oneAtMost,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Connect(func(c *client.Client) error {
				id, err := which(cmd.Context(), c, args, true)
				if err != nil {
					return err
				}
				v, err := client.Call(cmd.Context(), c, op.WhyRollout, op.RolloutIn{Rollout: id})
				switch {
				case err != nil:
					return nearRollout(id)(cmd.Context(), c, err)
				case a.JSON:
					return a.PrintJSON(v)
				}
				a.PrintWhy(v)
				return nil
			})
		},
	}
}
