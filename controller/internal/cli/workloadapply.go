package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func (a *app) checkWorkloads() *cobra.Command {
	var offline, lenient bool
	cmd := &cobra.Command{
		Use: "check FILE…", Short: "Say whether a set of workloads would be accepted, by the nodes too; change nothing",
		Example: "  tandem workload check topology.json fillers.json\n  tandem workload check --offline topology.json fillers.json", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			in, err := a.readSet(cmd, files, lenient, false)
			if err != nil {
				return err
			}
			if offline {
				return a.filledHere(in)
			}
			return a.with(func(c *client.Client) error {
				return a.submittedSet(cmd.Context(), c, waiting{}, view.Submission{Document: in.document, Lenient: in.lenient, DryRun: true})
			})
		},
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "read and fill only, without a controller")
	lenientFlag(cmd, &lenient)
	return cmd
}

// filledHere reports a set that could be filled.
func (a *app) filledHere(in *workloads) error {
	nodes := map[string]bool{}
	for _, c := range in.filled.Configs {
		nodes[c.Slot.Node] = true
	}
	p := view.Placed{Slots: len(in.filled.Configs), Nodes: len(nodes)}
	if a.json {
		return a.printJSON(view.Result{State: "acceptable", Placed: &p})
	}
	a.print("well formed and filled: %s on %s; no controller and no node was asked\n", plural(p.Slots, "slot"), plural(p.Nodes, "node"))
	return nil
}

func (a *app) applyWorkloads() *cobra.Command {
	var wait waiting
	var s view.Submission
	cmd := &cobra.Command{
		Use: "apply FILE…", Short: "Make what is in some files all that the unit runs",
		Long: `Submit the unit's whole set of workloads: topologies, fillers, instances and jobs.
What runs now and is not in the files is stopped and taken off its node; [] stops everything.

The version is the next one unless --version gives a higher one.`,
		Example: "  tandem workload apply topology.json fillers.json --wait\n  tandem workload apply all.json --version 2.0.0", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			in, err := a.readSet(cmd, files, s.Lenient, false)
			if err != nil {
				return err
			}
			s.Document = in.document
			return a.with(func(c *client.Client) error { return a.submittedSet(cmd.Context(), c, wait, s) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Version, "version", "", "the set's `version`, above the one before (default: the next)")
	f.BoolVar(&s.DryRun, "dry-run", false, "judge only, as check does")
	f.BoolVar(&s.Offline, "skip-nodes", false, "do not ask the nodes first; they still judge what they receive")
	lenientFlag(cmd, &s.Lenient)
	f.Var(&wait.limit, "wait", "wait until every online node has it and its slots run or have completed; at most this long, as in --wait=2m")
	f.Lookup("wait").NoOptDefVal = "30s"
	return cmd
}

func (a *app) submittedSet(ctx context.Context, c *client.Client, wait waiting, s view.Submission) error {
	s.Kind = wire.KindWorkloads
	return a.submitted(ctx, workloadStages(c), nil, wait, func(ctx context.Context) (view.Result, error) { return c.SubmitWorkloads(ctx, s) })
}

func (a *app) showWorkloads() *cobra.Command {
	var version string
	var filled bool
	cmd := &cobra.Command{
		Use: "show", Short: "Print the unit's set of workloads as it was submitted, or what it comes to",
		Example: "  tandem workload show\n  tandem workload show --filled\n  tandem workload show --version 1.0.3", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client.Client) error {
				doc, err := c.Workloads(cmd.Context(), version, filled)
				if err != nil {
					return a.unknownVersion(cmd.Context(), c, "workload", version, err)
				}
				if filled && !a.json {
					return a.printDocument(doc)
				}
				a.print("%s", doc)
				if n := len(doc); n > 0 && doc[n-1] != '\n' {
					a.print("\n")
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "the set of this `version`")
	cmd.Flags().BoolVar(&filled, "filled", false, "the instances and jobs that it comes to")
	return cmd
}
