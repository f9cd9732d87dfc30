package document

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// configKind is the unit configuration.
func configKind() *kind {
	return &kind{
		word: "config", short: "Check, apply and look at the unit configuration",
		example: "  tandem config check unit.json\n  tandem config apply unit.json --wait",
		verbs:   configTexts,
		file:    "FILE (- for standard input)",
		waits:   "every online node has it",
		nothing: "no unit configuration was accepted yet",
		version: "the document of this `version`",
		offline: "check the format only, without a controller",

		applyFlags: func(f *pflag.FlagSet, o *options) {
			f.Var(&o.try, "try", "roll back on every node unless confirmed within this time (2m or PT2M)")
		},
		showFlags: showResolved,
		read: func(a *command.App, _ *cobra.Command, files []string, _ *options) (*input, error) {
			from, err := a.Read(files[0])
			if err != nil {
				return nil, err
			}
			in := &input{Source: from}
			return in, parseConfig(in)
		},
		parse:    parseConfig,
		readHere: configReadHere,
		compare: func(from, to *input) ([]change, error) {
			return unitconfig.Diff(from.content.(*unitconfig.UnitConfig), to.content.(*unitconfig.UnitConfig)), nil
		},
		submit: func(ctx context.Context, c *client.Client, in *input, o *options) (view.Result, error) {
			s := op.ConfigIn{Document: in.Text, Submitted: o.submitted()}
			if o.try > 0 {
				s.Mode, s.ConfirmWithin = wire.ModeTry, o.try.Std()
			}
			return client.Call(ctx, c, op.ApplyConfig, s)
		},
		fetch: func(ctx context.Context, c *client.Client, version string) ([]byte, error) {
			return client.Call(ctx, c, op.ShowConfig, op.VersionIn{Version: version})
		},
		rollback: func(ctx context.Context, c *client.Client, version, as string) (view.Result, error) {
			return client.Call(ctx, c, op.RollBackConfig, op.Rollback{Version: version, As: as})
		},
		history: op.ConfigHistory,
		status: func(ctx context.Context, a *command.App) error {
			return command.Ask(ctx, a, op.ConfigStatus, op.None{}, printConfigStatus)
		},
		follow: func(c *client.Client) follower {
			return func(ctx context.Context, each func(stage) error) error {
				return client.Follow(ctx, c, op.WatchConfig, op.Watched{Watch: true}, func(st view.ConfigStatus) error {
					return each(configStage(st))
				})
			}
		},
	}
}

var configTexts = verbTexts{
	check: text{
		short:   "Say whether a unit configuration would be accepted, by the nodes too; change nothing",
		example: "  tandem config check unit.json\n  tandem config check --offline unit.json",
	},
	apply: text{
		short: "Make a unit configuration the one that every node should have",
		long: "Make a unit configuration the one that every node should have. One that is on trial is replaced:\n" +
			"its trial ends, and what is applied now stays unless it comes with --try.",
		example: "  tandem config apply unit.json --wait\n" +
			"  tandem config apply unit.json --try 2m   # rolled back unless confirmed in 2 minutes\n" +
			"  generate | tandem config apply -",
	},
	show: text{
		short: "Print the installed unit configuration, another version, or what one node gets",
		example: "  tandem config show > unit.json\n  tandem config show --version 1.9.0\n" +
			"  tandem config show --node node-1",
	},
	status: text{
		short:   "Show the unit configuration's state and how far the nodes are",
		example: "  tandem config status",
	},
	history: text{
		short:   "List what was submitted and what became of it",
		example: "  tandem config history --limit 5",
	},
	diff: text{
		short:   "Show what changes from A to B, each a version or a file",
		example: "  tandem config diff 1.9.0 2.0.0\n  tandem config diff 2.0.0 ./next.json",
	},
	rollback: text{
		short:   "Submit the content of an earlier version again, under a higher one",
		example: "  tandem config rollback 1.9.0 --as 2.0.1 --wait",
	},
	wait: text{
		short:   "Wait until every online node has the newest unit configuration",
		example: "  tandem config wait --within 2m",
	},
}

// parseConfig reads the document of in.
func parseConfig(in *input) error {
	uc, problems := unitconfig.Parse(in.Text)
	if len(problems) > 0 {
		return command.Malformed(problems, in.Source)
	}
	in.content = uc
	return nil
}

// configReadHere reports a document in the shape of a controller's verdict.
func configReadHere(a *command.App, in *input) error {
	uc := in.content.(*unitconfig.UnitConfig)
	if a.JSON {
		return a.PrintJSON(view.Result{State: "acceptable", Version: uc.Version})
	}
	entries := "1 entry"
	if n := len(uc.Nodes); n != 1 {
		entries = fmt.Sprintf("%d entries", n)
	}
	a.Print("%s is well formed: version %s, %s; no controller and no node was asked\n", in.File, uc.Version, entries)
	return nil
}

func configStage(st view.ConfigStatus) stage {
	s := stage{rev: st.Rev, versions: []string{st.Version}, progress: st.Progress}
	if st.Trial != nil {
		s.rev = max(s.rev, st.Trial.Rev)
		s.versions = append(s.versions, st.Trial.Version)
	}
	return s
}

func printConfigStatus(a *command.App, st view.ConfigStatus) {
	t := &term.Table{}
	a.StatusRows(t, st)
	a.Table(t)
	a.Laggards(st.Progress)
}

func confirm(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "confirm", Short: "Keep the unit configuration that is on trial",
		Example: "  tandem config confirm", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.Connect(func(c *client.Client) error {
				res, err := client.Call(cmd.Context(), c, op.ConfirmConfig, op.None{})
				if err != nil {
					return err
				}
				if a.JSON {
					if err := a.PrintJSON(res); err != nil {
						return err
					}
				} else if res.State != "refused" {
					a.Print("confirmed %s: it stays\n", term.Clean(res.Version))
				}
				return refusal(res, nil)
			})
		},
	}
}

func restore(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "restore", Short: "Write the configuration file anew from the journal and leave the failed state",
		Example: "  tandem config restore", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			show := func(a *command.App, st view.ConfigStatus) {
				a.Print("restored %s from the journal: %s\n", term.Clean(st.Version), term.Clean(st.State))
			}
			return command.Ask(cmd.Context(), a, op.RestoreConfig, op.None{}, show)
		},
	}
}

func explain(a *command.App) *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use: "explain --node ID POINTER", Short: "Say which entry set a value of a node, and whether the node has it",
		Example: "  tandem config explain --node node-1 /alertRules/ram/maxThreshold", Args: command.Args("POINTER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, node); err != nil {
				return err
			}
			pointer := args[0]
			if pointer == "/" {
				pointer = ""
			}
			if !jsontext.Pointer(pointer).IsValid() {
				return command.Usage(
					"%.80q is not a JSON pointer; it begins with a slash, as /alertRules/ram/maxThreshold", pointer)
			}
			in := op.ExplainIn{Node: node, Pointer: pointer}
			return command.Ask(cmd.Context(), a, op.ExplainConfig, in, func(a *command.App, x view.Explanation) {
				a.Print("%s\n", term.CleanLines(explained(x)))
			}, command.NearNode(node))
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "the node's `ID`")
	return cmd
}

// explained says it in two sentences.
func explained(x view.Explanation) string {
	what := x.Pointer + " of " + x.Node
	if x.Pointer == "" {
		what = "the configuration of " + x.Node
	}
	s := fmt.Sprintf("%s is %s", what, term.Shorten(string(x.Value), 300))
	if x.Source != "" {
		s += fmt.Sprintf(", set by %s of unit configuration %s", x.Source, x.Version)
	} else {
		s += ", under unit configuration " + x.Version
	}
	if x.Why != "" {
		s += ": " + x.Why
	}
	s += "."
	if x.InForce {
		return s + fmt.Sprintf("\n%s has it: it runs %s.", x.Node, x.Running)
	}
	s += "\n" + x.Node + " does not have it: "
	if x.Running == "" {
		s += "it has not reported to run any configuration"
	} else {
		s += "it runs " + x.Running
	}
	if x.State != "" {
		s += ", and the newest document there is " + string(x.State)
	}
	if x.Error != nil {
		s += ": " + command.Brief(x.Error)
	}
	return s + "."
}
