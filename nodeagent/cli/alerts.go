package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/settings"
)

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

sample prints what this node measures, a line a period, as CSV. It needs no controller, and changes nothing.
tandem config replay says what alert rules would have done.

Example:
  tandem-node alerts sample --partition data=/var/lib > day.csv
`

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
	case "help", "--help", "-h":
		if _, err := io.WriteString(stdout, alertsUsage); err != nil {
			return fail(exitError, err)
		}
		return exitOK
	default:
		return fail(exitUsage, settings.Unexpected([]string{verb}, []string{"sample"}))
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
