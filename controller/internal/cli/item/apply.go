package item

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/document"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

func apply(a *command.App) *cobra.Command {
	var f asked
	only := ""
	cmd := &cobra.Command{
		Use: "apply", Short: "Have nodes run what should run where",
		Long: `Decide what should run where, as plan does, and submit it: first components, as the list
of components, then services, as the set of workloads. One that is refused does not hold up the
other, and neither does an item that has no place: what is not there is listed at the end, with
the reason. With --wait the exit status is 4 unless everything that should run does. The commands
component and workload say what becomes of each document, and bring an earlier one back. The
controller has to be started with --steering desired.`,
		Example: "  tandem desired apply --dry-run\n  tandem desired apply --wait",
		Args:    command.Args(),
	}
	f.decides(cmd)
	cmd.Flags().StringVar(&only, "only", "", "submit `components` or workloads only")
	d := document.NewDecided(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		kinds := []wire.Kind{wire.KindComponents, wire.KindWorkloads}
		switch k := wire.Kind(only); {
		case k == kinds[0] || k == kinds[1]:
			kinds = []wire.Kind{k}
		case only != "":
			return command.Usage("--only is components or workloads, not %.40q", only)
		}
		return f.apply(cmd.Context(), a, d, kinds)
	}
	return cmd
}

// apply submits the documents of some kinds, waits for the nodes if that is asked for, and lists what is not there. It
// goes on after a failure of one kind, and reports all of them.
func (f *asked) apply(ctx context.Context, a *command.App, d *document.Decided, kinds []wire.Kind) error {
	var sent []*document.Sent
	var failed []error
	for _, k := range kinds {
		one, err := d.Send(a, a.Kinds.Source(k), func(c *client.Client, s op.Submit) (view.Result, error) {
			return client.Call(ctx, c, op.ApplyDesired, op.ApplyDesiredIn{DecideIn: f.input(), Of: k,
				DryRun: s.DryRun, Offline: s.Offline, Force: s.Force, Rollout: s.Rollout})
		})
		if err != nil {
			failed = append(failed, err)
			continue
		}
		sent = append(sent, one)
	}
	if len(sent) == 0 {
		return command.Join(failed)
	}
	for _, one := range sent {
		if err := one.Wait(ctx, a); err != nil {
			failed = append(failed, err)
		}
	}
	var p desired.Plan
	if err := a.Connect(func(c *client.Client) (err error) {
		p, err = client.Call(ctx, c, op.PlanDesired, f.input())
		return err
	}); err != nil {
		return command.Join(append(failed, err))
	}
	missing := lacking(&p, kinds)
	if a.JSON {
		if err := a.PrintJSON(notThere{missing}); err != nil {
			return err
		}
	}
	for i := range missing {
		if i == 0 && !a.JSON {
			a.Print("\nnot there:\n")
		}
		if !a.JSON {
			a.Print("  %s\n", term.Clean(missing[i].Why))
		}
	}
	if len(missing) > 0 && d.Waits() {
		failed = append(failed, command.Refuse(command.ExitIncomplete, wire.CodeNotFound, "what is listed as not "+
			"there should run: %d", len(missing)))
	}
	return command.Join(failed)
}

// notThere is what apply prints as JSON at the end.
type notThere struct {
	NotThere []desired.Reason `json:"notThere"` // items and instances that should be there
}

// lacking are the reasons of what should be there, and is not, among what documents of some kinds are made of.
func lacking(p *desired.Plan, kinds []wire.Kind) []desired.Reason {
	all := []desired.Reason{}
	for i := range p.Reasons {
		r := &p.Reasons[i]
		of := wire.KindWorkloads
		if r.Type == items.Component {
			of = wire.KindComponents
		}
		if r.Lacking() && slices.Contains(kinds, of) {
			all = append(all, *r)
		}
	}
	return all
}

func showState(a *command.App) *cobra.Command {
	var in op.DesiredStateIn
	cmd := &cobra.Command{
		Use: "show", Short: "List components and instances of services, and how each is",
		Long: `List the components and the instances of services that should run, as they were applied
last, with what their nodes tell of them.`,
		Example: "  tandem desired show\n  tandem desired show --node node-1",
		Args:    command.Args(),
	}
	cmd.Flags().StringVar(&in.Node, "node", "", "of this `node` only")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return command.Ask(cmd.Context(), a, op.ShowDesired, in, printState)
	}
	return cmd
}

func printState(a *command.App, s op.DesiredState) {
	if len(s.Instances) == 0 {
		a.Print("nothing of update items is to run\n")
		return
	}
	t := &term.Table{Head: []string{"NODE", "ITEM", "VERSION", "SUBJECT", "RUNTIME", "STATE", "WHY"}}
	for i := range s.Instances {
		v := &s.Instances[i]
		subject := v.Subject
		if v.Type == items.Service {
			subject += "/" + strconv.Itoa(v.Index)
		}
		t.Add(v.Node, string(v.Type)+" "+v.Codename, v.Version, subject, v.Runtime, stateCell(v.State), v.Why)
	}
	a.Table(t)
	for i := range s.Moves {
		a.Print("%s\n", term.Clean(s.Moves[i].Why))
	}
}

func stateCell(state string) term.Cell {
	switch state {
	case string(wire.ComponentInstalled), string(wire.WorkloadRunning):
		return term.Green.Cell(state)
	case string(wire.ComponentFailed):
		return term.Red.Cell(state)
	}
	return term.Yellow.Cell(state)
}
