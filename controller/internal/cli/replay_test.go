package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/controller/internal/cli/command"
)

const samplesDir = "../../../deploy/samples/"

// replayed runs config replay without a controller.
func replayed(t *testing.T, args ...string) (exit int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	exit = Run(t.Context(), append([]string{"config", "replay"}, args...), IO{In: strings.NewReader(""), Out: &stdout,
		Err: &stderr, Env: func(string) (string, bool) { return "", false }})
	return exit, stdout.String(), stderr.String()
}

func TestReplayTable(t *testing.T) {
	exit, out, errs := replayed(t, samplesDir+"unit-config.json", "--node", "node-1", "--samples",
		samplesDir+"node-samples-seconds.csv")
	if exit != 0 || errs != "" {
		t.Fatalf("exit %d, %s", exit, errs)
	}
	for _, line := range []string{
		"TIME ALERT STATE VALUE UP FOR",
		"2.5 cpu raise 0.950 0s",
		"10 cpu fall 0.200 7.5s below-threshold",
		"32.5 upload raise 415 0s",
		"cpu 0.300 0.800 PT2S 30 0 0.200 0.950 5 0 5 0 37.5s 7.5s",
		"download 100 200 PT5S 0 30 - - 0 0 0 0 0s 0s",
		"upload 300 400 PT6S 30 0 350 495 1 0 0 0 40s (still) 40s",
	} {
		found := false
		for l := range strings.Lines(out) {
			found = found || strings.Join(strings.Fields(l), " ") == line
		}
		if !found {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
}

// A node's own document does as well, and says for whom it is.
func TestReplayJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	const config = `{"formatVersion":"7","version":"1.2.3","node":{"codename":"ecu-7"},` +
		`"alertRules":{"cpu":{"minTimeout":"PT1M","minThreshold":0.3,"maxThreshold":0.8}},"priority":0}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	exit, out, errs := replayed(t, "--json", file, "--samples", samplesDir+"node-samples.csv")
	if exit != 0 || errs != "" {
		t.Fatalf("exit %d, %s", exit, errs)
	}
	var got struct {
		Version, Node, From, To string
		Rules                   []struct {
			Parameter, UpFor       string
			Raises, Falls, Samples int
		}
		Alerts []struct {
			Timestamp, Tag, Parameter, State, Since, Reason string
			Node                                            struct{ Codename string }
			Value                                           float64
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.Version != "1.2.3" || got.Node != "ecu-7" || got.From != "2026-11-20T10:00:00Z" ||
		got.To != "2026-11-20T10:09:50Z" || len(got.Rules) != 1 || len(got.Alerts) != 3 {
		t.Fatalf("%+v", got)
	}
	if r := got.Rules[0]; r.Parameter != "cpu" || r.Raises != 1 || r.Falls != 1 || r.Samples != 60 ||
		r.UpFor != "PT2M30S" {
		t.Errorf("%+v", r)
	}
	if a := got.Alerts[0]; a.Timestamp != "2026-11-20T10:02:00Z" || a.Tag != "systemQuotaAlert" ||
		a.Node.Codename != "ecu-7" || a.State != "raise" || a.Value < 0.86 {
		t.Errorf("%+v", a)
	}
	if a := got.Alerts[1]; a.State != "continue" || a.Timestamp != "2026-11-20T10:03:00Z" {
		t.Errorf("%+v", a)
	}
	if a := got.Alerts[2]; a.State != "fall" || a.Reason != "below-threshold" || a.Since != "2026-11-20T10:02:00Z" {
		t.Errorf("%+v", a)
	}
}

func TestReplayIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules, good := samplesDir+"unit-config.json", samplesDir+"node-samples.csv"
	percent := file("percent.csv", "time,cpu\n1,0.5\n2,80\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "FILE"},
		{[]string{rules}, "--samples FILE is needed"},
		{[]string{"-", "--samples", "-"}, "cannot both"},
		{[]string{rules, "--samples", good}, "say whose rules with --node"},
		{[]string{filepath.Join(dir, "none"), "--samples", good}, "no such file"},
		{[]string{rules, "--node", "n", "--samples", filepath.Join(dir, "none")}, "no such file"},
		{[]string{rules, "--node", "n", "--samples", percent}, "line 3, column 3: "},
		{[]string{rules, "--node", "n", "--samples", "-"}, "the file is empty"},
		{[]string{file("broken.json", "{"), "--node", "n", "--samples", good}, "broken.json"},
		{[]string{file("bad.json", `{"formatVersion":"7","version":"1.0.0","alertRules":{"cpu":{"maxThreshold":80}}}`),
			"--samples", good}, "bad.json"},
		{[]string{samplesDir + "unit-config-percent.json", "--node", "n", "--samples", good}, "config-percent.json"},
	} {
		exit, out, errs := replayed(t, c.args...)
		if exit != command.ExitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit %d, %q, %q; want %q", c.args, exit, out, errs, c.want)
		}
	}
}
