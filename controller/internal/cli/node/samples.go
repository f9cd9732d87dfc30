package node

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/wire"
)

func samples(a *command.App) *cobra.Command {
	last := 30
	cmd := &cobra.Command{
		Use: "samples NODE", Short: "Show what a node has measured lately: CPU, RAM, partitions, traffic",
		Long: `Show what a node has measured lately: shares of CPU, RAM, partitions and their inodes,
and bytes a second of traffic. The agent keeps the last 360 samples in memory, an hour
if it measures every 10 s. With --json all of them come, by parameter.`,
		Example: "  tandem node samples node-1\n  tandem node samples node-1 --last 360",
		Args:    command.NodeArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if last < 1 {
				return command.Usage("--last is a number of samples, 1 or more")
			}
			show := func(a *command.App, s view.NodeSamples) { printSamples(a, s, last) }
			return command.Ask(cmd.Context(), a, op.NodeSamples, op.NodeIn{Node: args[0]}, show,
				command.NearNode(args[0]), unanswered)
		},
	}
	cmd.Flags().IntVar(&last, "last", last, "show the last `N` samples")
	return cmd
}

func printSamples(a *command.App, s view.NodeSamples, last int) {
	if len(s.At) == 0 {
		a.Print("%s has measured nothing yet: the first sample comes a period after the start of its agent\n",
			term.Clean(s.Node))
		return
	}
	t := &term.Table{Head: []string{"TIME"}}
	for _, p := range s.Parameters {
		t.Head = append(t.Head, strings.ToUpper(p))
	}
	for i := max(0, len(s.At)-last); i < len(s.At); i++ {
		row := []any{a.Clock(time.UnixMilli(s.At[i]))}
		for k, p := range s.Parameters {
			row = append(row, measured(alert.Parameter(p), s.Values[k][i]))
		}
		t.Add(row...)
	}
	a.Table(t)
}

// measured is a value in words: a share in percent, or bytes a second.
func measured(p alert.Parameter, v wire.Measured) string {
	switch {
	case math.IsNaN(float64(v)):
		return "-"
	case p.Fraction():
		return fmt.Sprintf("%.1f %%", 100*float64(v))
	}
	return term.Size(uint64(max(0, v))) + "/s"
}
