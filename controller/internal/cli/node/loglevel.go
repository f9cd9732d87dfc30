package node

import (
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

// ownLevel is what stands for the level of the settings.
const ownLevel = "default"

func agentLogLevel(a *command.App) *cobra.Command {
	var within command.Duration
	cmd := &cobra.Command{
		Use: "log-level NODE LEVEL", Short: "Have a node's agent log more or less for a while",
		Long: `Have a node's agent log debug, info, warn or error, and above, for a while; with
"default" it goes back to what its settings say at once. It goes back by itself after
the time, and when the agent starts again. The journal has who did it.`,
		Example: "  tandem node log-level node-1 debug --for 30m\n  tandem node log-level node-1 default",
		Args:    command.Args("NODE", "LEVEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, args[0]); err != nil {
				return err
			}
			level, err := wantedLevel(args[1], within)
			if err != nil {
				return err
			}
			in := op.NodeLogLevel{NodeIn: op.NodeIn{Node: args[0]}, LogFor: level}
			return command.Ask(cmd.Context(), a, op.SetNodeLogLevel, in, func(a *command.App, r view.Ordered) {
				what := "what its settings say"
				if level.Level != "" {
					what = level.Level + " and above, for " + term.Exact(level.Wire().Within())
				}
				name := term.Clean(r.Node)
				a.Print("the agent of %s logs %s. To see it: tandem node logs %s -f\n", name, what, name)
			}, command.NearNode(args[0]), unanswered)
		},
	}
	cmd.Flags().Var(&within, "for", "how long, at most 24h (default 10m)")
	return cmd
}

func logLevel(a *command.App) *cobra.Command {
	var within command.Duration
	cmd := &cobra.Command{
		Use: "log-level [LEVEL]", Short: "Show what the controller logs, or have it log more or less for a while",
		Long: `Show what the controller logs, or have it log debug, info, warn or error, and above, for
a while; with "default" it goes back to what its settings say at once. It goes back by
itself after the time, and when the controller starts again. The journal has who did it.`,
		Example: "  tandem unit log-level\n  tandem unit log-level debug --for 30m",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.Args("LEVEL")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if within != 0 {
					return command.Lacks(cmd, "LEVEL")
				}
				return command.Ask(cmd.Context(), a, op.ShowLogLevel, op.None{}, printLogLevel)
			}
			level, err := wantedLevel(args[0], within)
			if err != nil {
				return err
			}
			return command.Ask(cmd.Context(), a, op.SetLogLevel, level, printLogLevel)
		},
	}
	cmd.Flags().Var(&within, "for", "how long, at most 24h (default 10m)")
	return cmd
}

// wantedLevel reads what is to be logged, and for how long.
func wantedLevel(name string, within command.Duration) (in op.LogFor, err error) {
	if name == ownLevel {
		if within != 0 {
			return in, command.Usage("--for goes with a level, not with %s", ownLevel)
		}
		return in, nil
	}
	if within == 0 {
		within = command.Duration(10 * time.Minute)
	}
	in = op.LogFor{Level: name, For: within.ISO()}
	if err := in.Check(); err != nil {
		if err.Path == "/level" {
			return in, command.Usage("%.40q is none of debug, info, warn, error and %s", name, ownLevel)
		}
		return in, command.Usage("--for is from 1s to 24h")
	}
	return in, nil
}

func printLogLevel(a *command.App, l view.LogLevel) {
	if l.Until.IsZero() {
		a.Print("the controller logs %s and above, as its settings say\n", l.Level)
		return
	}
	a.Print("the controller logs %s and above until %s\n", l.Level, a.Clock(l.Until))
}
