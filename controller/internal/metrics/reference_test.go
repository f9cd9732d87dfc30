package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"tandem.internal/broker/metrics"
	shown "tandem.internal/controller/internal/metrics"
)

var update = flag.Bool("update", false, "write the tables of shared/docs/metrics.md")

const reference = "../../../shared/docs/metrics.md"

// table is metrics as the reference lists them.
func table(all []metrics.Def) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, d := range all {
		labels := ""
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, labels, d.Help)
	}
	return b.String()
}

// TestReference: shared/docs/metrics.md has the tables that the programs make; -update writes them.
func TestReference(t *testing.T) {
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, all := range map[string][]metrics.Def{
		"both": {metrics.Build}, "controller": shown.Defs(), "broker": metrics.Defs(),
	} {
		begin, end := "<!-- made of the program: "+name+" -->\n", "<!-- end: "+name+" -->\n"
		before, rest, opened := strings.Cut(text, begin)
		old, after, closed := strings.Cut(rest, end)
		if !opened || !closed {
			t.Fatalf("%s has no place for the table %q", reference, name)
		}
		want := "\n" + table(all) + "\n"
		if old != want && !*update {
			t.Errorf("%s: the table %q is not what the program has; go test ./controller/internal/metrics -update",
				reference, name)
		}
		text = before + begin + want + end + after
	}
	if *update {
		if err := os.WriteFile(reference, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
