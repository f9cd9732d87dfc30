package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func (a *app) check() *cobra.Command {
	var offline bool
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Say whether a unit configuration would be accepted, by the nodes too; change nothing",
		Example: "  tandem config check unit.json\n  tandem config check --offline unit.json", Args: want("FILE (- for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := a.read(args[0])
			if err != nil {
				return err
			}
			if offline {
				return a.checkedHere(in)
			}
			return a.with(func(c *client.Client) error {
				res, err := c.Submit(cmd.Context(), view.Submission{Document: in.document, DryRun: true})
				if err != nil {
					return err
				}
				if a.json {
					if err := a.printJSON(res); err != nil {
						return err
					}
				} else {
					a.printResult(res)
				}
				return refusal(res, in)
			})
		},
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "check the format only, without a controller")
	return cmd
}

// checkedHere reports a document that Parse has accepted, in the shape of a controller's verdict.
func (a *app) checkedHere(in *input) error {
	if a.json {
		return a.printJSON(view.Result{State: "acceptable", Version: in.config.Version})
	}
	entries := "1 entry"
	if n := len(in.config.Nodes); n != 1 {
		entries = fmt.Sprintf("%d entries", n)
	}
	a.print("%s is well formed: version %s, %s; no controller and no node was asked\n", in.name, in.config.Version, entries)
	return nil
}

// waiting is the --wait flag.
type waiting struct{ limit durationFlag }

func (w *waiting) flag(cmd *cobra.Command) {
	cmd.Flags().Var(&w.limit, "wait", "wait until every online node has it; at most this long, as in --wait=2m")
	cmd.Flags().Lookup("wait").NoOptDefVal = "30s"
}

func (a *app) apply() *cobra.Command {
	var try durationFlag
	var wait waiting
	var unasked bool
	cmd := &cobra.Command{
		Use: "apply FILE", Short: "Make a unit configuration the one that every node should have",
		Example: "  tandem config apply unit.json --wait\n  tandem config apply unit.json --try 2m   # rolled back unless confirmed in 2 minutes\n  generate | tandem config apply -",
		Args:    want("FILE (- for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := a.read(args[0])
			if err != nil {
				return err
			}
			s := view.Submission{Document: in.document, Mode: wire.ModeApply, Offline: unasked}
			if try > 0 {
				s.Mode, s.ConfirmWithin = wire.ModeTry, time.Duration(try)
			}
			return a.with(func(c *client.Client) error {
				return a.submitted(cmd.Context(), configStages(c), in, wait, func(ctx context.Context) (view.Result, error) { return c.Submit(ctx, s) })
			})
		},
	}
	cmd.Flags().Var(&try, "try", "roll back on every node unless confirmed within this time (2m or PT2M)")
	cmd.Flags().BoolVar(&unasked, "skip-nodes", false, "do not ask the nodes first; they still judge what they receive")
	wait.flag(cmd)
	return cmd
}

func (a *app) rollback() *cobra.Command {
	var as string
	var wait waiting
	cmd := &cobra.Command{
		Use: "rollback VERSION --as VERSION", Short: "Submit the content of an earlier version again, under a higher one",
		Example: "  tandem config rollback 1.9.0 --as 2.0.1 --wait", Args: want("VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if as == "" {
				return usage("%s needs --as VERSION, the version that the old content gets; for example:\n%s", cmd.CommandPath(), cmd.Example)
			}
			return a.with(func(c *client.Client) error {
				return a.submitted(cmd.Context(), configStages(c), nil, wait, func(ctx context.Context) (view.Result, error) {
					res, err := c.Rollback(ctx, args[0], as)
					if err != nil {
						return res, a.unknownVersion(ctx, c, "config", args[0], err)
					}
					return res, nil
				})
			})
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the new `version`, above the installed one")
	wait.flag(cmd)
	return cmd
}

// submission is what apply and rollback print as JSON: the verdict and, with --wait, what came of it.
type submission struct {
	view.Result
	Wait *outcome `json:"wait,omitempty"`
}

// submitted submits, shows the verdict, and waits if asked to.
func (a *app) submitted(ctx context.Context, follow follower, in *input, wait waiting, submit func(context.Context) (view.Result, error)) error {
	res, err := submit(ctx)
	if err != nil {
		return err
	}
	done := submission{Result: res}
	failed := refusal(res, in)
	if !a.json {
		a.printResult(res)
		if err := a.out.Flush(); err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
	}
	if failed == nil && wait.limit > 0 && res.State == "accepted" {
		done.Wait = a.wait(ctx, follow, res, time.Duration(wait.limit))
		failed = done.Wait.failure()
		if !a.json && failed == nil {
			a.print("%s\n", done.Wait.words())
		}
	}
	if a.json {
		if err := a.printJSON(done); err != nil {
			return err
		}
	}
	return failed
}

// refusal is the failure for a Result that says no, or nil.
func refusal(res view.Result, in *input) error {
	if res.State != "refused" {
		return nil
	}
	if len(res.Problems) > 0 {
		return documentProblems(res.Problems, in)
	}
	f := &failure{exit: exitRefused, err: res.Error}
	if res.Error == nil {
		f.err = wire.New(wire.CodeNotAllowed, "", "the controller refused it without saying why")
	}
	return f
}

// printResult shows a verdict: what the controller says, then who said what.
func (a *app) printResult(res view.Result) {
	version := clean(res.Version)
	switch res.State {
	case "accepted":
		a.print("accepted %s as rev %d: %s issued\n", version, res.Rev, plural(res.Issued, "document"))
		if !res.Deadline.IsZero() {
			a.print("on trial %s; keep it with: tandem config confirm\n", a.until(res.Deadline))
		}
	case "acceptable":
		a.print("%s would be accepted\n", version)
	default:
		a.print("%s\n", strings.TrimSpace(clean(res.State)+" "+version))
	}
	ch := res.Checks
	t := &table{indent: "  "}
	if ch.Asked > 0 {
		t.add("agreed", fmt.Sprintf("%d of %s asked", ch.Agreed, plural(ch.Asked, "node")))
	}
	for i, n := range ch.Refused {
		if i == maxShown {
			t.add("refused", fmt.Sprintf("by %d more", len(ch.Refused)-i))
			break
		}
		var why []string
		for _, e := range n.Errors {
			shown := *e
			shown.Node = ""
			why = append(why, brief(&shown))
		}
		t.rows = append(t.rows, []cell{{"refused", red}, {text: "by " + n.Node + ": " + strings.Join(why, "; ")}})
	}
	if len(ch.Silent) > 0 {
		t.rows = append(t.rows, []cell{{"silent", yellow}, {text: listed(ch.Silent) + " (online, but no answer in time)"}})
	}
	if len(ch.Unchecked) > 0 {
		t.add("unchecked", listed(ch.Unchecked)+" (offline; judged there when back)")
	}
	if p := res.Placed; p != nil {
		placedRows(t, p)
	}
	a.printTable(t)
}
