package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api/apitest"
)

// TestLogCommands shows the logs of agents, and changes what programs log.
func TestLogCommands(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  string
		state change
	}{
		{"node-logs", "node logs node-1", nil},
		{"node-logs-lines", "node logs node-1 --lines 2", nil},
		{"node-logs-level", "node logs node-1 --level warn", nil},
		{"node-logs-older", "node logs node-2", nil},
		{"node-logs-offline", "node logs node-4", nil},
		{"node-logs-misspelt", "node logs node1", nil},
		{"node-log-level", "node log-level node-1 debug --for 30m", nil},
		{"node-log-level-default", "node log-level node-1 default", nil},
		{"node-log-level-offline", "node log-level node-4 debug", nil},
		{"unit-log-level", "unit log-level", nil},
		{"node-samples", "node samples node-1", nil},
		{"node-samples-last", "node samples node-1 --last 1", nil},
		{"node-samples-older", "node samples node-2", nil},
		{"node-samples-offline", "node samples node-4", nil},
		{"unit-log-level-set", "unit log-level debug --for 2h", nil},
		{"unit-log-level-default", "unit log-level default", nil},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				t.Parallel()
				c.state.bench(t).golden(t, c.name, suffix, strings.Fields(c.args))
			})
		}
	}
}

// TestLogMistakes: what cannot be meant is refused before a controller is asked.
func TestLogMistakes(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	before := b.newest()
	for args, want := range map[string]string{
		"node logs":                               "NODE",
		"node logs node-1 --lines 0":              "--lines",
		"node logs node-1 --lines 1001":           "--lines",
		"node logs node-1 --level loud":           "none of debug",
		"node log-level node-1":                   "LEVEL",
		"node log-level node-1 loud":              "none of debug",
		"node log-level node-1 debug --for 25h":   "from 1s to 24h",
		"node log-level node-1 default --for 10m": "goes with a level",
		"node samples node-1 --last 0":            "--last",
		"unit log-level --for 1h":                 "LEVEL",
		"unit log-level debug info":               "too many",
	} {
		if _, stderr, exit := b.run("", strings.Fields(args)...); exit != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s; want %q", args, exit, stderr, want)
		}
	}
	if e := b.newest(); e.Seq != before.Seq {
		t.Errorf("the controller was asked by %s", e.Who)
	}
}

// TestNodeLogsFollow: -f prints what comes, tells of what is lost and of a restart, and ends when asked to. What is
// printed cannot move a terminal's cursor.
func TestNodeLogsFollow(t *testing.T) {
	t.Parallel()
	b := newBench(t, apitest.StartSample(t))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs strings.Builder
	out := &until{what: "started", end: cancel}
	io := b.io
	io.In, io.Out, io.Err, io.OutTerminal = strings.NewReader(""), out, &errs, true
	io.Env = func(k string) (string, bool) { v, ok := b.env[k]; return v, ok }
	exit := Run(ctx, []string{"node", "logs", "node-1", "-f", "--lines", "2"}, io)
	for _, want := range []string{"debug until", "the agent has started again", "3 lines were lost"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("standard error has no %q: %s", want, errs.String())
		}
	}
	if exit != 0 || strings.Count(out.String(), "warn  certificate not renewed") != 2 ||
		strings.ContainsAny(out.String(), "\x1b\x07") {
		t.Errorf("%d %q", exit, out.String())
	}
}
