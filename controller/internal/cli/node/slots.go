package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// workloadStatus shows the state of the set of workloads.
var workloadStatus = op.VerbsOf(op.Subject{Name: string(wire.KindWorkloads)}).Status

// slotsJSON is what list prints with --json: the set, and the slots.
type slotsJSON struct {
	view.SourceStatus
	List []view.Slot `json:"list"`
}

func slots(a *command.App) *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use: "list", Short: "List the slots of the unit: what runs where, what should, and why not",
		Example: "  tandem workload list\n  tandem workload list --node node-1", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckNodeFlag(cmd, node); err != nil {
				return err
			}
			both := func(ctx context.Context, c *client.Client) (all slotsJSON, err error) {
				if all.SourceStatus, err = client.Call(ctx, c, workloadStatus, op.None{}); err != nil {
					return all, err
				}
				list, err := client.Call(ctx, c, op.ListSlots, op.SlotsIn{Node: node})
				all.List = list.Slots
				return all, err
			}
			return command.Gather(cmd.Context(), a, both, func(a *command.App, all slotsJSON) {
				printWorkloads(a, all.SourceStatus, all.List, node)
			}, command.NearNode(node))
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "the slots of this node; its `ID`")
	return cmd
}

// printWorkloads lists slots, and below them the status of the set. If node is not empty, it lists the slots only.
func printWorkloads(a *command.App, st view.SourceStatus, slots []view.Slot, node string) {
	switch {
	case st.Version == "" && len(slots) == 0:
		a.Print("no workloads were applied yet\n")
	case len(slots) == 0 && node != "":
		a.Print("%s has no slots\n", term.Clean(node))
	case len(slots) == 0:
		a.Print("version %s has no slots\n", term.Clean(st.Version))
	default:
		printSlots(a, slots, "")
	}
	if node != "" {
		return
	}
	if st.Version != "" {
		a.Print("\n")
	}
	printSet(a, st)
	a.Laggards(st.Progress)
}

// PrintWorkloadStatus shows the status of the set, and the slots and nodes that are not as they should be.
func PrintWorkloadStatus(a *command.App, st view.SourceStatus) {
	if st.Version == "" {
		a.Print("no workloads were applied yet\n")
	}
	printSet(a, st)
	if len(st.Slots.Missing) > 0 {
		a.Print("\n")
		printSlots(a, st.Slots.Missing, "")
		if st.Slots.Omitted > 0 {
			a.Print("and %d more\n", st.Slots.Omitted)
		}
	}
	a.Laggards(st.Progress)
}

// printSet shows the set's version, counts and error, and the newest refused submission.
func printSet(a *command.App, st view.SourceStatus) {
	if st.Version != "" {
		s, p := st.Slots, st.Progress
		away := ""
		if s.Away > 0 {
			away = fmt.Sprintf(", %d away", s.Away)
		}
		if s.Stopped > 0 {
			away += fmt.Sprintf(", %d stopped", s.Stopped)
		}
		a.Print("version %s, by %s %s: %d of %s as wanted%s; %d of %s with the newest document\n",
			term.Clean(st.Version), term.Clean(cmp.Or(st.Who, "the controller")), a.Ago(st.Since),
			s.Running+s.Completed, term.Plural(s.Slots, "slot"), away, p.Installed, term.Plural(p.Nodes, "node"))
	}
	if st.Error != nil {
		a.Print("failed: %s\n", command.Brief(st.Error))
	}
	if t := st.Attempted; t != nil {
		a.Print("refused %s: version %s by %s: %s\n", a.Ago(t.At), term.Clean(cmp.Or(t.Version, "?")),
			term.Clean(t.Who), command.Brief(t.Error))
	}
	if st.NoBroker != "" {
		a.Print("%s\n", term.Clean(why.NoBroker(st.NoBroker)))
	}
}

// printSlots shows slots as a table.
func printSlots(a *command.App, slots []view.Slot, indent string) {
	t := &term.Table{Indent: indent, Head: []string{"SLOT", "STATE", "CONFIGURATION", "AGE", "RESTARTS", "NEXT",
		"CONFINED", "WHY"}}
	for _, s := range slots {
		id, age, restarts, next, confined := s.Desired, "", "", "", ""
		if r := s.Report; r != nil {
			id, age, confined = r.ID, a.Age(r.Since), r.Confined
			if r.Restarts > 0 {
				restarts = strconv.FormatUint(r.Restarts, 10)
			}
			if s.State == view.SlotAway {
				age = a.Age(s.Since)
			}
			if !r.Next.IsZero() && s.State == string(wire.WorkloadRestarting) {
				next = "now"
				if left := r.Next.Sub(a.Now()); left >= time.Second {
					next = "in " + term.Span(left)
				}
			}
		}
		t.Add(s.Slot, slotColour(s).Cell(s.State), id, age, restarts, next, confined, s.Why)
	}
	a.Table(t)
}

func slotColour(s view.Slot) term.Colour {
	switch {
	case s.Desired == "":
		return term.Plain
	case s.Settled:
		return term.Green
	case s.State == string(wire.WorkloadFailed), s.State == string(wire.WorkloadRestarting):
		return term.Red
	}
	return term.Yellow
}

func restartSlot(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "restart SLOT", Short: "Have a node start a slot's process anew",
		Example: "  tandem workload restart web@node-1", Args: command.Args("SLOT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := parseSlot(args[0])
			if err != nil {
				return err
			}
			in := op.SlotIn{Node: s.Node, Service: s.Service}
			return command.Ask(cmd.Context(), a, op.RestartSlot, in, func(a *command.App, _ view.Ordered) {
				a.Print("%s is started anew. To see what becomes of it: tandem workload list --node %s\n", s, s.Node)
			}, nearSlot(s), unanswered)
		},
	}
}

func stopSlot(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "stop SLOT", Short: "Stop a slot until it is started, whatever set is applied",
		Long: `Stop a slot. What it has on its node stays there, and what is applied meanwhile is
prepared, and not started. It stays stopped until "tandem workload start", whoever restarts; a node that is offline
obeys when it is back.`,
		Example: "  tandem workload stop web@node-1",
	}
	return switchSlot(a, cmd, op.StopSlot, "%s is to stop, until: tandem workload start %[1]s\n")
}

func startSlot(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "start SLOT", Short: "Let a slot that was stopped run again",
		Example: "  tandem workload start web@node-1",
	}
	return switchSlot(a, cmd, op.StartSlot, "%s may run again. To see what becomes of it: tandem workload why %[1]s\n")
}

func switchSlot(
	a *command.App, cmd *cobra.Command, o op.Op[op.SlotIn, view.SlotStop], done string,
) *cobra.Command {
	cmd.Args = command.Args("SLOT")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := parseSlot(args[0])
		if err != nil {
			return err
		}
		in := op.SlotIn{Node: s.Node, Service: s.Service}
		return command.Ask(cmd.Context(), a, o, in, func(a *command.App, _ view.SlotStop) {
			a.Print(done, s.String())
		}, nearSlot(s))
	}
	return cmd
}

// parseSlot reads the argument of a command.
func parseSlot(arg string) (workload.Slot, error) {
	s, err := workload.ParseSlot(arg)
	if err != nil {
		return s, command.Usage("%s", err)
	}
	return s, nil
}

// nearSlot adds the nearest slots to a not-found error; if none is near, the nearest nodes.
func nearSlot(s workload.Slot) command.Explain {
	return func(ctx context.Context, c *client.Client, err error) error {
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != wire.CodeNotFound {
			return err
		}
		all, failed := client.Call(ctx, c, op.ListSlots, op.SlotsIn{})
		if failed != nil {
			return err // the first error says more
		}
		var known []string
		for _, k := range all.Slots {
			known = append(known, k.Slot)
		}
		if len(near.All(s.String(), known)) == 0 {
			if unknown := command.KnownNode(ctx, c, s.Node); unknown != nil {
				return unknown
			}
		}
		return command.Nearest(s.String(), "tandem workload list shows them",
			func(context.Context, *client.Client) ([]string, error) { return known, nil })(ctx, c, err)
	}
}
