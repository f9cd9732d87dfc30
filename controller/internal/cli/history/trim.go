package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

// trimFiles is how many files of a plan people are shown.
const trimFiles = 10

func trim(a *command.App) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "trim --dry-run", Short: "Show what the next trim of the journal would remove, and by which rule",
		Long: `Show what the next trim of the journal would remove if it came now, and by which
rule. The controller trims by itself: ten minutes after its start, once a day, and when
the journal has grown. What is kept says its setting --keep.`,
		Example: "  tandem journal trim --dry-run", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !dry {
				return command.Usage("the controller trims its journal by itself; --dry-run shows what would go")
			}
			return command.Ask(cmd.Context(), a, op.TrimPlan, op.None{}, printTrim)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "change nothing: the controller alone trims its journal")
	return cmd
}

// amount is how much there is; nothing is empty.
func amount(n int, bytes int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d, %s", n, term.Size(uint64(bytes)))
}

// printTrim shows what would go of each kind, and in which files.
func printTrim(a *command.App, p view.TrimPlan) {
	t := &term.Table{Head: []string{"KIND", "KEPT AT MOST", "THERE", "WOULD GO", "BY"}}
	for _, k := range p.Kinds {
		var why []string
		for _, name := range slices.Sorted(maps.Keys(k.Why)) {
			why = append(why, fmt.Sprintf("%s %d", name, k.Why[name]))
		}
		name := k.Kind
		if name == "" {
			name = "(always kept)"
		}
		t.Add(name, k.Rule, amount(k.There.Records, k.There.Bytes),
			term.Yellow.Cell(amount(k.Goes.Records, k.Goes.Bytes)), strings.Join(why, ", "))
	}
	a.Table(t)
	a.Print("\nof the records up to number %d; the newest %d stay, but documents that are too many of their source\n",
		p.UpTo, p.KeepRecords)
	if p.At.IsZero() {
		a.Print("the controller's clock has jumped: nothing would go for its age\n")
	}
	if p.Records == 0 {
		a.Print("nothing would go\n")
		return
	}
	a.Print("%s would go%s; nothing was changed\n", term.Plural(p.Records, "record"), withDocuments(p.Documents))
	if p.Dir == "" {
		a.Print("they would not be exported: the controller has no --keep-export\n")
		return
	}
	a.Print("they would be exported to %s, compressed:\n", p.Dir)
	for _, f := range p.Files[:min(len(p.Files), trimFiles)] {
		a.Print("  %s: %s, %s%s\n", f.Name, term.Plural(f.Records, "record"), term.Size(uint64(f.Bytes)),
			withDocuments(f.Documents))
	}
	if more := len(p.Files) - trimFiles; more > 0 {
		a.Print("  and %d files more\n", more)
	}
}

func withDocuments(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf(", with documents of %s", term.Size(uint64(bytes)))
}
