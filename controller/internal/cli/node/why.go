package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/history"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// whyLines is how many lines of the log are shown.
const whyLines = 10

// whyJSON is what why prints with --json.
type whyJSON struct {
	view.SlotWhy
	Hook     string      `json:"hook,omitempty"` // whose output Log is; absent: the process's
	Log      []byte      `json:"log,omitempty"`  // the last lines of it, in base64
	LogError *wire.Error `json:"logError,omitempty"`
	// what the process uses; absent: none runs, or the agent does not tell
	Process *wire.WorkloadProcess `json:"process,omitempty"`
}

func whySlot(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "why SLOT", Short: "Say why a slot does not run, or how it runs",
		Long: `Say in one sentence why a slot does not run what it should, or how it runs. Below it is
what is known, from the set to the process, with the newest events and the last lines that the process, or the hook in
question, has written.`,
		Example: "  tandem workload why web@node-1", Args: command.Args("SLOT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := parseSlot(args[0])
			if err != nil {
				return err
			}
			in := op.SlotIn{Node: s.Node, Service: s.Service}
			var shown error
			err = command.Gather(cmd.Context(), a, func(ctx context.Context, c *client.Client) (v whyJSON, err error) {
				if v.SlotWhy, err = client.Call(ctx, c, op.WhySlot, in); err == nil {
					err = v.readLog(ctx, c, in)
				}
				return v, err
			}, func(a *command.App, v whyJSON) { shown = printWhy(a, &v) }, nearSlot(s))
			return errors.Join(err, shown)
		},
	}
}

// readLog asks an online node for the end of a slot's log. That it cannot be had is a part of the page.
func (v *whyJSON) readLog(ctx context.Context, c *client.Client, in op.SlotIn) error {
	if !v.Slot.Online || v.Slot.Report == nil || v.Slot.Report.State == wire.WorkloadStopped {
		return nil
	}
	v.Hook = why.HookOf(&v.Slot)
	l, err := client.Call(ctx, c, op.SlotLogs, op.LogsIn{SlotIn: in, Tail: wire.MaxLogs, Hook: v.Hook})
	if e, ok := errors.AsType[*wire.Error](err); ok {
		v.LogError = e
		return nil
	}
	v.Log, v.Process = lastLines(l.Data, whyLines), l.Process
	return err
}

// usage says what a process uses.
func usage(p *wire.WorkloadProcess) string {
	all := []string{fmt.Sprintf("PID %d", p.PID)}
	if p.Processes > 1 {
		all = append(all, fmt.Sprintf("%d processes", p.Processes))
	}
	if p.Memory > 0 {
		all = append(all, "memory "+term.Size(p.Memory))
	}
	all = append(all, fmt.Sprintf("processor time %.2f s", float64(p.CPUMs)/1000))
	return strings.Join(all, ", ")
}

func printWhy(a *command.App, v *whyJSON) error {
	a.PrintWhy(v.Why)
	if v.Process != nil {
		a.Print("\nits process: %s\n", usage(v.Process))
	}
	if len(v.Events) > 0 {
		a.Print("\n")
		if err := history.PrintEntries(a, v.Events); err != nil {
			return err
		}
	}
	switch {
	case v.LogError != nil:
		a.Print("\nthe log cannot be had: %s\n", term.Clean(command.Brief(v.LogError)))
	case len(v.Log) > 0:
		text := strings.TrimSuffix(term.CleanLines(string(v.Log)), "\n")
		a.Print("\nlast lines of %s\n%s\n", cmp.Or(v.Hook, workload.HookStart), text)
	}
	return nil
}
