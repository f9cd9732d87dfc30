package policy

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/publisher"
)

// Agent is the group of commands about versions of the agent.
func Agent(a *command.App) *cobra.Command {
	return command.Group("agent", "Put versions of the agent on offer, for policies to upgrade nodes to",
		"  tandem agent list", releases(a), release(a), bundled(a), withdraw(a))
}

func releases(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the versions of the agent that are on offer", Example: "  tandem agent list",
		Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			print := func(a *command.App, v view.AgentReleases) {
				if len(v.Releases) == 0 {
					a.Print("no version of the agent is on offer\n")
					return
				}
				t := &term.Table{Head: []string{"VERSION", "FOR", "SIGNED", "RUNNING", "SINCE", "BY", "BRINGS"}}
				for _, r := range v.Releases {
					var archs, brings []string
					signed := "yes"
					for _, b := range r.Builds {
						archs, brings = append(archs, b.Arch), append(brings, b.Brings...)
						switch sig, err := publisher.Parse(b.Minisign); {
						case b.Minisign == "":
							signed = "no"
						case err == nil && sig.Floor() != "" && signed == "yes":
							signed = "yes, floor " + sig.Floor()
						}
					}
					slices.Sort(brings)
					t.Add(r.Version, strings.Join(archs, ", "), signed, term.Plural(r.Running, "node"), a.Ago(r.At),
						r.Who, strings.Join(slices.Compact(brings), ", "))
				}
				a.Table(t)
			}
			return command.Ask(cmd.Context(), a, op.ListReleases, op.None{}, print)
		},
	}
}

func withdraw(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "withdraw VERSION", Short: "Take a version of the agent off the offer",
		Long:    "Take a version of the agent off the offer. Nodes that run it, or try it, go on.",
		Example: "  tandem agent withdraw 1.5.0", Args: command.Args("VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := op.AgentVersionIn{Version: args[0]}
			return command.Ask(cmd.Context(), a, op.WithdrawAgent, in, func(a *command.App, v view.PolicyChange) {
				a.Print("version %s of the agent is not on offer any more: %s\n", args[0], changed(v))
			})
		},
	}
}
