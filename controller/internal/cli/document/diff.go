package document

import (
	"errors"
	"fmt"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// isFile reports whether an argument of diff is a file and not a version.
func isFile(arg string) bool {
	if arg == "-" {
		return true
	}
	_, err := unitconfig.Compare(arg, arg)
	return err != nil
}

// neither says more about an argument that is no version and no file that exists.
func neither(arg string, err error) error {
	f, ok := errors.AsType[*command.Failure](err)
	if ok && f.Err.Code == wire.CodeNotFound && f.From.File == arg && isFile(arg) {
		return command.Usage("%.200q is neither a version such as 2.0.0 nor a file", arg)
	}
	return err
}

func printDiff(a *command.App, v view.Diff) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	if len(v.Changes) == 0 {
		a.Print("no difference between %s and %s\n", term.Clean(v.From), term.Clean(v.To))
		return nil
	}
	entry := ""
	for _, c := range v.Changes {
		if c.Entry != entry {
			entry = c.Entry
			a.Print("%s\n", term.Clean(entry))
		}
		sign, colour, what := "~", term.Yellow, string(c.Before)+" -> "+string(c.After)
		switch {
		case c.Before == nil:
			sign, colour, what = "+", term.Green, string(c.After)
		case c.After == nil:
			sign, colour, what = "-", term.Red, string(c.Before)
		}
		line := a.Paint(colour, fmt.Sprintf("%s %s: %s", sign, term.Clean(c.Pointer), term.Clean(what)))
		if entry != "" {
			line = "  " + line
		}
		a.Print("%s\n", line)
	}
	if v.Omitted > 0 {
		a.Print("and %d more\n", v.Omitted)
	}
	return nil
}
