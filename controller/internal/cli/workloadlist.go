package cli

import (
	"cmp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// slotsJSON is what list prints with --json: the set, and the slots.
type slotsJSON struct {
	view.WorkloadStatus
	List []view.Slot `json:"list"`
}

func (a *app) slots() *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use: "list", Short: "List the slots of the unit: what runs where, what should, and why not",
		Example: "  tandem workload list\n  tandem workload list --node node-1", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("node") {
				if err := checkNode(cmd, node); err != nil {
					return err
				}
			}
			return a.with(func(c *client.Client) error {
				st, err := c.WorkloadStatus(cmd.Context())
				if err != nil {
					return err
				}
				list, err := c.Slots(cmd.Context(), node)
				if err != nil {
					return a.unknownNode(cmd.Context(), c, node, err)
				}
				if a.json {
					return a.printJSON(slotsJSON{st, list.Slots})
				}
				a.printWorkloads(st, list.Slots, node)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "the slots of this node; its `ID`")
	return cmd
}

func (a *app) printWorkloads(st view.WorkloadStatus, slots []view.Slot, node string) {
	switch {
	case st.Version == "" && len(slots) == 0:
		a.print("no workloads were applied yet\n")
	case len(slots) == 0 && node != "":
		a.print("%s has no slots\n", clean(node))
	case len(slots) == 0:
		a.print("version %s has no slots\n", clean(st.Version))
	default:
		a.printSlots(slots, "")
	}
	if node != "" {
		return
	}
	if st.Version != "" {
		s, p := st.Slots, st.Progress
		a.print("\nversion %s, by %s %s: %d of %s as wanted; %d of %s with the newest document\n",
			clean(st.Version), clean(cmp.Or(st.Who, "the controller")), a.ago(st.Since), s.Running+s.Completed, plural(s.Slots, "slot"), p.Installed, plural(p.Nodes, "node"))
	}
	if st.Error != nil {
		a.print("failed: %s\n", brief(st.Error))
	}
	if t := st.Attempted; t != nil {
		a.print("refused %s: version %s by %s: %s\n", a.ago(t.At), clean(cmp.Or(t.Version, "?")), clean(t.Who), brief(t.Error))
	}
	a.laggards(st.Progress)
}

// printSlots shows slots as a table.
func (a *app) printSlots(slots []view.Slot, indent string) {
	t := &table{indent: indent, head: []string{"SLOT", "STATE", "CONFIGURATION", "AGE", "RESTARTS", "NEXT", "WHY"}}
	for _, s := range slots {
		id, age, restarts, next := s.Desired, "", "", ""
		if r := s.Report; r != nil {
			id, age = r.ID, a.age(r.Since)
			if r.Restarts > 0 {
				restarts = strconv.FormatUint(r.Restarts, 10)
			}
			if !r.Next.IsZero() && r.State == wire.WorkloadRestarting {
				next = "now"
				if left := r.Next.Sub(a.Now()); left >= time.Second {
					next = "in " + span(left)
				}
			}
		}
		t.rows = append(t.rows, []cell{{text: s.Slot}, {s.State, slotColour(s)}, {text: id}, {text: age}, {text: restarts}, {text: next}, {text: s.Why}})
	}
	a.printTable(t)
}

func slotColour(s view.Slot) string {
	switch {
	case s.Desired == "":
		return ""
	case s.Settled:
		return green
	case s.State == string(wire.WorkloadFailed), s.State == string(wire.WorkloadRestarting):
		return red
	}
	return yellow
}

func (a *app) restartSlot() *cobra.Command {
	return &cobra.Command{
		Use: "restart SLOT", Short: "Have a node start a slot's process anew", Example: "  tandem workload restart web@node-1", Args: want("SLOT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := parseSlot(args[0])
			if err != nil {
				return err
			}
			return a.with(func(c *client.Client) error {
				o, err := c.RestartSlot(cmd.Context(), s.Node, s.Service)
				if err != nil {
					return a.ofSlot(cmd.Context(), c, s, err)
				}
				if a.json {
					return a.printJSON(o)
				}
				a.print("%s is started anew. To see what becomes of it: tandem workload list --node %s\n", s, s.Node)
				return nil
			})
		},
	}
}
