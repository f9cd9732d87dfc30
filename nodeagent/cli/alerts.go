package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/nodeagent/internal/alert"
	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/unitconfig"
)

// replayConfig is the configuration of tandem-node alerts replay.
type replayConfig struct {
	Rules   string `name:"rules"`
	Samples string `name:"samples"`
	Node    string `name:"node"`
	Type    string `name:"type"`
	JSON    bool   `name:"json"`
}

// Help describes the settings.
func (*replayConfig) Help() map[string]string {
	return map[string]string{
		"rules": "the rules: a unit configuration, or a node's config.json (required)",
		"samples": "the recorded samples, CSV as tandem-node alerts sample prints it; - reads standard input " +
			"(required)",
		"node": "with a unit configuration: the node whose rules are replayed",
		"type": "with a unit configuration: the node's type",
		"json": "print JSON",
	}
}

// sampleConfig is the configuration of tandem-node alerts sample.
type sampleConfig struct {
	Period     time.Duration     `name:"period" default:"10s"`
	Count      int               `name:"count" default:"0"`
	Partitions map[string]string `name:"partition"`
	Interfaces []string          `name:"interface"`
}

// Help describes the settings.
func (*sampleConfig) Help() map[string]string {
	return map[string]string{
		"period":    "time between two samples",
		"count":     "samples to print; 0: until it is stopped",
		"partition": "partition to measure, as name=path",
		"interface": "network interface to count, a name or a pattern such as eth*; none: all but the loopback",
	}
}

const alertsUsage = `Usage: tandem-node alerts sample [--period 10s] [--partition NAME=PATH]…
       tandem-node alerts replay --rules FILE --samples CSV [--node ID] [--type TYPE] [--json]

sample prints what this node measures, a line a period, as CSV. replay prints what alert rules would have
done over such a recording: which alerts they would have raised and when those would have ended, and for
each rule how often and for how long. Neither needs a controller, and neither changes anything.

Example:
  tandem-node alerts sample --partition data=/var/lib > day.csv
  tandem-node alerts replay --rules unit-config.json --node node-1 --samples day.csv
`

var alertsVerbs = []string{"sample", "replay"}

// Usage opens the help of tandem-node alerts replay.
func (*replayConfig) Usage() string { return alertsUsage }

// Usage opens the help of tandem-node alerts sample.
func (*sampleConfig) Usage() string { return alertsUsage }

// alerts is tandem-node alerts.
func alerts(ctx context.Context, args []string, stdout, stderr io.Writer, fail func(int, error) int) int {
	verb := "--help"
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	var err error
	switch verb {
	case "sample":
		var cfg sampleConfig
		if err = loadVerb("tandem-node alerts sample", &cfg, args, stdout); err == nil {
			limitMemory()
			err = sample(ctx, cfg, stdout, stderr)
		}
	case "replay":
		var cfg replayConfig
		if err = loadVerb("tandem-node alerts replay", &cfg, args, stdout); err == nil {
			err = replay(cfg, stdout)
		}
	case "help", "--help", "-h":
		if _, err := io.WriteString(stdout, alertsUsage); err != nil {
			return fail(exitError, err)
		}
		return exitOK
	default:
		return fail(exitUsage, settings.Unexpected([]string{verb}, alertsVerbs))
	}
	var broken *outputError
	switch {
	case err == nil, errors.Is(err, settings.ErrPrinted):
		return exitOK
	case errors.As(err, &broken):
		return fail(exitError, err)
	}
	return fail(exitUsage, err)
}

// outputError says that what was found could not be written.
type outputError struct{ err error }

func (e *outputError) Error() string { return "output: " + e.err.Error() }

func loadVerb(program string, cfg settings.Config, args []string, stdout io.Writer) error {
	lookup := func(key string) (string, bool) {
		if key == "TANDEM_CONFIG" { // the agent's file, which has other settings
			return "", false
		}
		return os.LookupEnv(key)
	}
	rest, err := settings.Load(program, cfg, args, lookup, stdout)
	if err == nil {
		err = settings.Unexpected(rest, nil)
	}
	return err
}

// sample prints live samples as CSV until ctx ends. What is unknown is empty there, and says why on stderr
// whenever the reason changes.
func sample(ctx context.Context, cfg sampleConfig, stdout, stderr io.Writer) error {
	if cfg.Count < 0 {
		return errors.New("--count: negative")
	}
	m, err := monitor.New(monitor.Config{Period: cfg.Period, Partitions: cfg.Partitions, Interfaces: cfg.Interfaces})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	columns := m.Parameters()
	_, err = fmt.Fprintln(stdout, alert.CSVHeader(columns))
	why := map[alert.Parameter]string{}
	for n := 0; err == nil && (cfg.Count == 0 || n < cfg.Count); n++ {
		select {
		case <-ctx.Done():
			n = cfg.Count
			err = ctx.Err()
		case s := <-m.Samples():
			for _, r := range s.Readings {
				text := ""
				if r.Err != nil {
					text = r.Err.Error()
				}
				if text != why[r.Parameter] && err == nil {
					why[r.Parameter] = text
					if text != "" {
						_, err = fmt.Fprintf(stderr, "tandem-node: %s is not known: %s\n", r.Parameter, text)
					}
				}
			}
			if err == nil {
				_, err = fmt.Fprintln(stdout, alert.CSVLine(s.Sample, columns))
			}
		}
	}
	stopped := ctx.Err() != nil
	cancel()
	if rerr := <-done; rerr != nil && err == nil {
		_, err = fmt.Fprintln(stderr, "tandem-node:", rerr)
	}
	if err != nil && !stopped {
		return &outputError{err}
	}
	return nil
}

// replayed is the JSON of tandem-node alerts replay.
type replayed struct {
	Version string     `json:"version"` // of the configuration that has the rules
	Node    string     `json:"node"`
	From    *time.Time `json:"from,omitempty"` // of the first and the last sample
	To      *time.Time `json:"to,omitempty"`
	alert.Replay
}

func replay(cfg replayConfig, stdout io.Writer) error {
	switch {
	case cfg.Rules == "":
		return errors.New("--rules: required; --help shows the usage")
	case cfg.Samples == "":
		return errors.New("--samples: required; --help shows the usage")
	}
	nc, err := nodeConfig(cfg)
	if err != nil {
		return err
	}
	in := io.Reader(os.Stdin)
	if cfg.Samples != "-" {
		f, err := os.Open(cfg.Samples)
		if err != nil {
			return fmt.Errorf("--samples: %w", err)
		}
		defer f.Close()
		in = f
	}
	r, err := alert.NewReader(bufio.NewReader(in))
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.Samples, err)
	}
	out := replayed{Version: nc.Version, Node: cfg.Node}
	if nc.Node != nil {
		out.Node = nc.Node.Codename
	}
	out.Replay, err = alert.Run(out.Node, alert.Rules(nc.AlertRules), alert.Limits{}, func() (alert.Sample, error) {
		s, err := r.Next()
		if err == nil {
			at := s.Wall
			if out.From == nil {
				out.From = &at
			}
			out.To = &at
		}
		return s, err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.Samples, err)
	}
	if cfg.JSON {
		err = json.MarshalWrite(stdout, &out, jsontext.WithIndent("  "), json.Deterministic(true))
		if err == nil {
			_, err = fmt.Fprintln(stdout)
		}
	} else {
		err = out.table(stdout, r.Seconds())
	}
	if err != nil {
		return &outputError{err}
	}
	return nil
}

// nodeConfig reads the file with the rules, whichever of the two it is.
func nodeConfig(cfg replayConfig) (*unitconfig.NodeConfig, error) {
	data, err := durable.ReadFile(cfg.Rules, unitconfig.MaxDocument)
	if err != nil {
		return nil, fmt.Errorf("--rules: %w", err)
	}
	var shape struct {
		Nodes jsontext.Value `json:"nodes"`
	}
	if json.Unmarshal(data, &shape) == nil && shape.Nodes == nil {
		nc, problems := unitconfig.ParseNode(data)
		if problems != nil {
			return nil, fmt.Errorf("%s: %w", cfg.Rules, problems)
		}
		return nc, nil
	}
	uc, problems := unitconfig.Parse(data)
	if problems != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Rules, problems)
	}
	if cfg.Node == "" && cfg.Type == "" {
		return nil, fmt.Errorf("%s is a unit configuration: say whose rules with --node, --type or both", cfg.Rules)
	}
	nc, _ := unitconfig.Resolve(uc, cfg.Node, cfg.Type)
	return &nc, nil
}

// table prints the alerts in their order, and then what each rule did.
func (r *replayed) table(w io.Writer, seconds bool) error {
	at := func(t time.Time) string {
		if seconds {
			return strconv.FormatFloat(float64(t.UnixMicro())/1e6, 'f', -1, 64)
		}
		return t.UTC().Format(time.RFC3339)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var err error
	row := func(format string, a ...any) {
		if err == nil {
			_, err = fmt.Fprintf(t, format+"\n", a...)
		}
	}
	row("TIME\tALERT\tSTATE\tVALUE\tUP FOR\t")
	for _, a := range r.Alerts {
		note := a.Reason
		if a.Suppressed > 0 {
			note = fmt.Sprintf("%d came and went unsent", a.Suppressed)
		}
		row("%s\t%s\t%s\t%s\t%v\t%s", at(a.Timestamp), a.Parameter, a.State, figure(a.Parameter, a.Value),
			a.Timestamp.Sub(a.Since), note)
	}
	row("\nRULE\tMIN\tMAX\tMINTIMEOUT\tSAMPLES\tUNKNOWN\tLOWEST\tHIGHEST\tRAISED\tCONTINUED\tFELL\tUNTOLD\tUP\tLONGEST")
	for _, o := range r.Rules {
		lowest, highest := "-", "-"
		if o.Samples > 0 {
			lowest, highest = figure(o.Parameter, o.Lowest), figure(o.Parameter, o.Highest)
		}
		up := o.UpFor.Std().String()
		if o.Up {
			up += " (still)"
		}
		row("%s\t%s\t%s\t%v\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%v", o.Parameter, figure(o.Parameter, o.Min),
			figure(o.Parameter, o.Max), o.MinTimeout,
			o.Samples, o.Unknown, lowest, highest, o.Raises, o.Continues, o.Falls, o.Suppressed, up, o.LongestUp.Std())
	}
	if len(r.Rules) == 0 {
		row("none: version %s of the configuration has no alert rules for this node", r.Version)
	}
	if err == nil {
		err = t.Flush()
	}
	return err
}

// figure shows a value as rules have it.
func figure(p alert.Parameter, v float64) string {
	if p.Fraction() {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
