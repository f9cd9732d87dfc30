package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"tandem.internal/controller/app"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/owner"
	"tandem.internal/shared/settings"
)

var upgradeVerbs = []string{"check"}

// errObstacle ends a check that has printed what stands in the way.
var errObstacle = errors.New("something stands in the way")

type upgradeIn struct {
	app.Config
	JSON bool `name:"json"`
}

func (*upgradeIn) Help() map[string]string {
	return map[string]string{"json": "print the findings as JSON"}
}

func (*upgradeIn) Usage() string {
	return `Usage: tandem-controller upgrade check [flags]

Says whether this program can take over the unit of another version: its settings, its state directory, the
format of its journal, and the space for a copy of that. The other version may be running: nothing is
written, and no lock is taken. Root's acts as the user who owns the state directory. The settings are those
with which the controller is started. Exit status 1: something stands in the way, a line each; 2: wrong usage.

Example:
  tandem-controller upgrade check --config /etc/tandem/controller.yaml

`
}

// check is what a check prints with --json.
type check struct {
	OK       bool          `json:"ok"`
	Version  string        `json:"version"` // of this program
	StateDir string        `json:"stateDir,omitempty"`
	Findings []app.Finding `json:"findings"`
}

// upgradeCommand carries out what follows the word upgrade and returns the exit status.
func upgradeCommand(args []string, stdout, stderr io.Writer) int {
	err := onUpgrade(args, stdout)
	switch {
	case err == nil, errors.Is(err, settings.ErrPrinted):
		return 0
	case errors.Is(err, errObstacle): // which is printed
		return 1
	}
	fmt.Fprintln(stderr, "tandem-controller:", err)
	return 2
}

func onUpgrade(args []string, stdout io.Writer) error {
	if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
		args = []string{"check", "--help"}
	}
	if args[0] != "check" {
		return usageError{settings.Unexpected(args, upgradeVerbs)}
	}
	args = args[1:]
	c := check{Version: settings.Version}
	var in upgradeIn
	rest, err := settings.Load("tandem-controller upgrade check", &in, args, os.LookupEnv, stdout)
	wrong, mistake := errors.AsType[*settings.Error](err)
	switch {
	case mistake && strings.HasPrefix(wrong.Where, "--"), err != nil && !mistake:
		return err
	case mistake: // the state directory may be known all the same
		in.Unit = ""
		var some struct {
			StateDir string `name:"state-dir" default:"/var/lib/tandem/controller"`
		}
		if serr := settings.Some(&some, args, os.LookupEnv); serr == nil {
			in.StateDir = some.StateDir
		}
		in.JSON = slices.Contains(args, "--json")
	default:
		if err := settings.Unexpected(rest, nil); err != nil {
			return err
		}
		err = in.Check()
	}
	cfg := &in.Config
	if err != nil {
		cfg = &app.Config{StateDir: in.StateDir} // of the others nobody knows
	}
	about := app.Finding{About: "settings", Text: "this program understands them"}
	if err != nil {
		about = app.Finding{About: "settings", Obstacle: true, Text: err.Error() + " (put it right, or remove it)"}
	}
	c.Findings = append(c.Findings, about)
	if c.StateDir = in.StateDir; c.StateDir != "" {
		if err := owner.Become(c.StateDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.Findings = append(c.Findings, app.Finding{About: "state-dir", Obstacle: true, Text: err.Error()})
		} else {
			c.Findings = append(c.Findings, app.TakeOver(cfg)...)
		}
	}
	c.OK = !slices.ContainsFunc(c.Findings, func(f app.Finding) bool { return f.Obstacle })
	if err := show(stdout, in.JSON, c, c.text()); err != nil {
		return err
	}
	if !c.OK {
		return errObstacle
	}
	return nil
}

// text has a line for each finding, and one for all.
func (c *check) text() string {
	var b strings.Builder
	for _, f := range c.Findings {
		mark := "ok      "
		if f.Obstacle {
			mark = "OBSTACLE"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", mark, f.About, strings.ReplaceAll(f.Text, "\n", " "))
	}
	if c.OK {
		fmt.Fprintf(&b, "version %s can take over", c.Version)
	} else {
		fmt.Fprintf(&b, "version %s cannot take over", c.Version)
	}
	return term.CleanLines(b.String())
}
