package document

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/node"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// workloadCommands are the commands about workloads that are no verbs of documents.
func workloadCommands(a *command.App) []*cobra.Command {
	return append(node.SlotCommands(a), fill(a))
}

func fill(a *command.App) *cobra.Command {
	o := &options{}
	var slot string
	cmd := &cobra.Command{
		Use:   "fill FILE…",
		Short: "Apply the fillers in some files to the topologies in them, and print what would run",
		Long: `Read topologies, fillers, instances and jobs from the files, apply the fillers, and
print the instances and jobs that come out. No controller is asked.

With --json the output is a file that can be applied.`,
		Example: "  tandem workload fill topology.json fillers.json --explain", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			in, err := readSet(a, cmd, files, o)
			if err != nil {
				return err
			}
			return printFilled(a, in.content.(*workload.Filled), slot, o.explain)
		},
	}
	lenientFlag(cmd.Flags(), o)
	cmd.Flags().BoolVar(&o.explain, "explain", false, "say which filler gave each value, and why others did not apply")
	cmd.Flags().StringVar(&slot, "slot", "", "print the one `slot` only, service@node")
	return cmd
}

// filledJSON is what fill prints with --json --explain.
type filledJSON struct {
	Configurations jsontext.Value      `json:"configurations"`
	Slots          map[string]slotJSON `json:"slots"`
}

type slotJSON struct {
	Fillers []string          `json:"fillers"`
	Origins map[string]string `json:"origins"` // JSON pointer: filler, or "" for the slot's own entry
	Passed  map[string]string `json:"passed,omitempty"`
}

func printFilled(a *command.App, filled *workload.Filled, slot string, explain bool) error {
	configs := filled.Configs
	if slot != "" {
		s, err := workload.ParseSlot(slot)
		if err != nil {
			return command.Usage("--slot: %s", err)
		}
		configs = slices.DeleteFunc(slices.Clone(configs), func(c workload.Config) bool { return c.Slot != s })
		if len(configs) == 0 {
			var known []string
			for _, c := range filled.Configs {
				known = append(known, c.Slot.String())
			}
			return command.Refuse(command.ExitRefused, wire.CodeNotFound,
				"no file has the slot %.80s%s", slot, command.Suggest(slot, known, ""))
		}
	}
	if a.JSON {
		encoded := jsontext.Value(workload.Encode(configs))
		if !explain {
			return a.PrintJSON(encoded)
		}
		out := filledJSON{encoded, map[string]slotJSON{}}
		for _, c := range configs {
			x := filled.Slots[c.Slot]
			out.Slots[c.Slot.String()] = slotJSON{append([]string{}, x.Fillers...), x.Origins, x.Passed}
		}
		return a.PrintJSON(out)
	}
	if len(configs) == 0 {
		return command.Refuse(command.ExitRefused, wire.CodeNotFound,
			"the files have no topology, instance or job, so nothing would run")
	}
	for i, c := range configs {
		if i > 0 {
			a.Print("\n")
		}
		printConfig(a, c, filled.Slots[c.Slot], explain)
	}
	return nil
}

func printConfig(a *command.App, c workload.Config, x workload.Explanation, explain bool) {
	by := "no filler applies"
	if len(x.Fillers) > 0 {
		by = "filled by " + strings.Join(x.Fillers, ", ")
	}
	a.Print("%s  %s, %s\n", term.Clean(c.Slot.String()), c.Class.Short(), term.Clean(by))
	t := &term.Table{Indent: "  "}
	if explain {
		t.Head = []string{"WHERE", "FROM", "VALUE"}
	} else {
		t.Head = []string{"WHERE", "VALUE"}
	}
	row := func(at, value string) {
		if explain {
			t.Add(at, cmp.Or(x.Origins[at], "-"), value)
		} else {
			t.Add(at, value)
		}
	}
	if c.ConfigurationID != "" {
		row("/configurationId", c.ConfigurationID)
	}
	if c.Container != nil {
		each(c.Container.Constraints, "/container/constraints", func(at, v string) { row(at, v) })
	}
	each(c.Properties, "/properties", func(at, v string) { row(at, v) })
	each(c.Resources, "/resources", func(at string, r workload.Artifact) { row(at, artifact(r)) })
	each(c.TimeLimits, "/timeLimits", func(at string, l workload.Limit) { row(at, limit(l)) })
	a.Table(t)
	if !explain {
		return
	}
	for _, n := range slices.Sorted(maps.Keys(x.Passed)) {
		a.Print("  %s does not apply: %s\n", term.Clean(n), term.Clean(x.Passed[n]))
	}
}

// each visits a map in the order of its names, with the JSON pointer of each value.
func each[V any](m map[string]V, under string, visit func(at string, v V)) {
	for _, n := range slices.Sorted(maps.Keys(m)) {
		visit(string(jsontext.Pointer(under).AppendToken(n)), m[n])
	}
}

// artifact renders a resource on one line.
func artifact(r workload.Artifact) string {
	parts := []string{strings.Join(r.URLs, " or ")}
	for _, p := range []struct{ name, value string }{{"uuid", r.UUID}, {"", r.Verification.Checksum}} {
		if p.value != "" {
			parts = append(parts, strings.TrimSpace(p.name+" "+p.value))
		}
	}
	if id := r.Signer(); id != "" {
		parts = append(parts, "signed with "+string(id))
	}
	if r.Size > 0 {
		parts = append(parts, term.Plural(int(r.Size), "byte"))
	}
	if r.Verification.CheckPeriod > 0 {
		parts = append(parts, "checked every "+r.Verification.CheckPeriod.String())
	}
	if r.Cached {
		parts = append(parts, "cached")
	}
	if r.Class == workload.DynamicResource {
		parts = append(parts, "dynamic")
	}
	return strings.Join(parts, ", ")
}

// limit renders a hook's time limits on one line.
func limit(l workload.Limit) string {
	var parts []string
	for _, p := range []struct {
		name  string
		value *int64
	}{
		{"restart after at least", l.MinRestartPeriodMs}, {"at most", l.MaxRestartPeriodMs},
		{"growing by", l.RestartPeriodScaleMs}, {"killed after", l.MaxExecutionTimeMs},
	} {
		if p.value != nil {
			parts = append(parts, fmt.Sprintf("%s %d ms", p.name, *p.value))
		}
	}
	if l.RestartPeriodBackoff != nil {
		parts = append(parts, fmt.Sprintf("× %g each time", *l.RestartPeriodBackoff))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}
