package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/cli/command"
)

var (
	pageLine = regexp.MustCompile("(?m)^  \\w+: \\([^)]*\\) =>\\s*(?:\"(tandem [^\"\n]*)\"|`(tandem [^`\n]*)`),$")
	pageFlag = regexp.MustCompile(`\$\{flag\("([a-z-]+)", [\w.]+\)\}`)
	pageIf   = regexp.MustCompile(`\$\{\w+ \? " (--[a-z]+)" : ""\}`)
	pageMany = regexp.MustCompile(`\$\{those\(of\)\}`)
	pageWord = regexp.MustCompile(`\$\{(?:word\()?(\w+)\)?\}`)
)

// TestPageCommandsExist: every line that the dashboard shows beside a button is a command that there is, with flags and
// as many arguments as it takes.
func TestPageCommandsExist(t *testing.T) {
	text, err := os.ReadFile("../dashboard/files/app/commands.mjs")
	if err != nil {
		t.Fatal(err)
	}
	all := pageLine.FindAllStringSubmatch(string(text), -1)
	n := strings.Count(string(text), "tandem ") - strings.Count(string(text), "// ")
	if len(all) < 40 || len(all) < n-5 {
		t.Fatalf("%d lines of about %d were understood", len(all), n)
	}
	for _, m := range all {
		line := m[1] + m[2]
		line = pageFlag.ReplaceAllString(line, " --$1 x")
		line = pageIf.ReplaceAllString(line, " $1")
		line = pageMany.ReplaceAllString(line, "--where x --expect x --yes-all-nodes")
		for _, kind := range []string{"config", "workload", "component"} {
			findLine(t, strings.Fields(pageWord.ReplaceAllStringFunc(line, func(v string) string {
				if strings.Contains(v, "kind") {
					return kind
				}
				return "x"
			})))
			if !strings.Contains(line, "${kind}") {
				break
			}
		}
	}
}

// findLine finds a command line, without running it.
func findLine(t *testing.T, line []string) {
	t.Helper()
	cmd, rest, err := root(command.New(IO{Env: func(string) (string, bool) { return "", false }})).Find(line[1:])
	if err != nil || cmd.RunE == nil {
		t.Errorf("%q: there is no such command: %v", line, err)
		return
	}
	var args []string
	for i := 0; i < len(rest); i++ {
		if rest[i] == "--" {
			args = append(args, rest[i+1:]...)
			break
		}
		name, isFlag := strings.CutPrefix(rest[i], "--")
		if !isFlag {
			args = append(args, rest[i])
			continue
		}
		f := lookup(cmd, name)
		if f == nil {
			t.Errorf("%q: there is no flag --%s", line, name)
			continue
		}
		if f.Changed = true; f.NoOptDefVal == "" {
			i++ // its value
		}
	}
	if cmd.Args == nil {
		return
	}
	if err := cmd.Args(cmd, args); err != nil {
		t.Errorf("%q: %v", line, err)
	}
}

func lookup(cmd *cobra.Command, name string) *pflag.Flag {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f
	}
	return cmd.InheritedFlags().Lookup(name)
}
