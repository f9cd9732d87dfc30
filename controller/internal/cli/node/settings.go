package node

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/shared/wire"
)

// timers are the flags for timers, in the order of settingFlags.times.
var timers = []string{"reset", "fallback", "test", "deadline", "contact", "watchdog"}

// settingFlags are the flags that give settings of health.
type settingFlags struct {
	times            [6]command.Duration
	approval, reboot string
	checks           []string
}

func newSettingFlags(cmd *cobra.Command) *settingFlags {
	s, f := &settingFlags{}, cmd.Flags()
	for i, what := range []string{
		"in normal operation, reboot after so long without contact",
		"during a trial, roll back after so long without contact",
		"commit a trial after so long in good health", "roll a trial back that has run for so long",
		"how long a word from the controller counts as contact",
		"a loop that stands still for so long ends the agent",
	} {
		f.Var(&s.times[i], timers[i], what)
	}
	f.StringVar(&s.approval, "approval", "", "whether somebody has to approve what was tried; `yes` or no")
	f.StringVar(&s.reboot, "reboot", "", "whether the agent may reboot the machine; `yes` or no")
	f.StringArrayVar(&s.checks, "check", nil,
		"`limit` of a check, as cpu=0.95:5m: cpu, ram and disk as fractions, network in bytes per second; repeatable")
	return s
}

// settings returns what the flags give, or else the file that is the argument.
func (s *settingFlags) settings(a *command.App, cmd *cobra.Command, args []string) (*wire.HealthSettings, error) {
	given := false
	for _, name := range append(slices.Clone(timers), "approval", "reboot", "check") {
		given = given || cmd.Flags().Changed(name)
	}
	switch {
	case given && len(args) == 1:
		return nil, command.Usage("%s takes settings by flags or in a FILE, not both", cmd.CommandPath())
	case given:
		return s.read()
	case len(args) == 1:
		return readSettings(a, args[0])
	}
	return nil, command.Lacks(cmd, "settings, by flags or in a FILE")
}

func (s *settingFlags) read() (*wire.HealthSettings, error) {
	h := &wire.HealthSettings{FormatVersion: wire.HealthFormat}
	for i, to := range []*wire.Span{&h.Reset, &h.Fallback, &h.Test, &h.Deadline, &h.Contact, &h.Watchdog} {
		d := time.Duration(s.times[i])
		if d%time.Second != 0 {
			return nil, command.Usage("%v is not a whole number of seconds", d)
		}
		*to = wire.SpanOf(d)
	}
	for _, f := range []struct {
		name, text string
		to         **bool
	}{{"approval", s.approval, &h.Approval}, {"reboot", s.reboot, &h.Reboot}} {
		switch f.text {
		case "":
		case "yes", "no":
			*f.to = new(f.text == "yes")
		default:
			return nil, command.Usage("--%s is yes or no, not %.40q", f.name, f.text)
		}
	}
	for _, c := range s.checks {
		if err := addLimit(h, c); err != nil {
			return nil, err
		}
	}
	if err := h.Check(); err != nil {
		return nil, &command.Failure{Exit: command.ExitUsage, Err: err}
	}
	return h, nil
}

// addLimit reads a limit such as cpu=0.95:5m.
func addLimit(h *wire.HealthSettings, text string) error {
	name, rest, _ := strings.Cut(text, "=")
	limit, length, timed := strings.Cut(rest, ":")
	if h.Checks == nil {
		h.Checks = &wire.HealthLimits{}
	}
	to := map[string]**wire.HealthLimit{
		"cpu": &h.Checks.CPU, "ram": &h.Checks.RAM, "disk": &h.Checks.Disk, "network": &h.Checks.Network,
	}[name]
	most, err := strconv.ParseFloat(limit, 64)
	if to == nil || err != nil {
		return command.Usage(
			"--check %.80q: a limit is written as cpu=0.95:5m; there are cpu, ram, disk and network", text)
	}
	if *to != nil {
		return command.Usage("--check %s is given twice", name)
	}
	l := &wire.HealthLimit{Max: most}
	if timed {
		d, err := command.ParseDuration(length)
		if err != nil || d <= 0 || d%time.Second != 0 {
			return command.Usage("--check %.80q: %q is not a duration such as 90s or 5m", text, length)
		}
		l.For = wire.SpanOf(d)
	}
	*to = l
	return nil
}

// readSettings reads settings as the wire has them.
func readSettings(a *command.App, file string) (*wire.HealthSettings, error) {
	in, err := a.Read(file)
	if err != nil {
		return nil, err
	}
	fail := func(err *wire.Error) error {
		return &command.Failure{Exit: command.ExitUsage, Err: err, From: in}
	}
	if len(bytes.TrimSpace(in.Text)) == 0 {
		return nil, fail(wire.New(wire.CodeMalformed, "", "the document is empty"))
	}
	h, err := wire.Decode[wire.HealthSettings](in.Text)
	if err != nil {
		return nil, fail(wire.AsError(err))
	}
	return h, nil
}
