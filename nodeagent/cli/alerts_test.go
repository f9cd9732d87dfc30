package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/alert"
)

const (
	samplesDir  = "../../deploy/samples/"
	sampleRules = samplesDir + "unit-config.json"
)

func command(t *testing.T, ctx context.Context, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = new(program).run(ctx, args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// Every recording that ships can be read to its end.
func TestShippedSamples(t *testing.T) {
	files, err := filepath.Glob(samplesDir + "*.csv")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := alert.NewReader(f)
		for err == nil {
			_, err = r.Next()
		}
		if err != io.EOF {
			t.Errorf("%s: %v", file, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestReplayTable(t *testing.T) {
	status, out, errs := command(t, t.Context(), "alerts", "replay", "--rules", sampleRules, "--node", "node-1",
		"--samples", samplesDir+"node-samples-seconds.csv")
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
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

func TestReplayJSON(t *testing.T) {
	// A node's own document does as well, and says for whom it is.
	file := filepath.Join(t.TempDir(), "config.json")
	const config = `{"formatVersion":"7","version":"1.2.3","node":{"codename":"ecu-7"},` +
		`"alertRules":{"cpu":{"minTimeout":"PT1M","minThreshold":0.3,"maxThreshold":0.8}},"priority":0}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := command(t, t.Context(), "alerts", "replay", "--json", "--rules", file, "--samples",
		samplesDir+"node-samples.csv")
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
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

func TestReplayRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := samplesDir + "node-samples.csv"
	percent := file("percent.csv", "time,cpu\n1,0.5\n2,80\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"play"}, `unexpected argument "play"`},
		{[]string{"sampel"}, "did you mean sample?"},
		{[]string{"replay"}, "--rules: required"},
		{[]string{"replay", "--rules", sampleRules}, "--samples: required"},
		{[]string{"replay", "--rules", sampleRules, "--samples", good}, "say whose rules with --node"},
		{[]string{"replay", "--rules", filepath.Join(dir, "none"), "--samples", good}, "no such file"},
		{[]string{"replay", "--rules", sampleRules, "--node", "n", "--samples", filepath.Join(dir, "none")},
			"no such file"},
		{[]string{"replay", "--rules", sampleRules, "--node", "n", "--samples", percent},
			"percent.csv: line 3, column 3: "},
		{[]string{"replay", "--rules", file("broken.json", "{"), "--node", "n", "--samples", good},
			"broken.json: line 1, column "},
		{[]string{"replay", "--rules",
			file("bad.json", `{"formatVersion":"7","version":"1.0.0","alertRules":{"cpu":{"maxThreshold":80}}}`),
			"--samples", good}, "bad.json: line 1, column "},
		{[]string{"replay", "--rules", samplesDir + "unit-config-percent.json", "--node", "n", "--samples", good},
			"unit-config-percent.json: line "},
		{[]string{"replay", "extra", "--rules", sampleRules}, "unexpected argument"},
		{[]string{"sample", "--count", "-1"}, "--count"},
		{[]string{"sample", "--period", "1ms"}, "below 100ms"},
		{[]string{"sample", "--interface", "eth["}, "interface pattern"},
	} {
		status, out, errs := command(t, t.Context(), append([]string{"alerts"}, c.args...)...)
		if status != exitUsage || out != "" || !strings.HasPrefix(errs, "tandem-node: ") ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d, %q, %q; want %q", c.args, status, out, errs, c.want)
		}
	}
	if status, out, _ := command(t, t.Context(), "alerts", "--help"); status != 0 ||
		!strings.Contains(out, "Example:") {
		t.Errorf("%d, %s", status, out)
	}
}

// What sample prints, replay reads.
func TestSampleIsReplayed(t *testing.T) {
	status, out, errs := command(t, t.Context(), "alerts", "sample", "--count", "3", "--period", "100ms", "--partition",
		"data="+t.TempDir(), "--partition", "gone=/nowhere")
	if status != 0 || strings.Count(out, "\n") != 4 ||
		!strings.HasPrefix(out,
			"time,cpu,ram,download,upload,partition:data,inodes:data,partition:gone,inodes:gone\n") {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	if !strings.Contains(errs, "partition:gone is not known") || strings.Count(errs, "gone: ") != 2 {
		t.Errorf("%s", errs)
	}
	file := filepath.Join(t.TempDir(), "now.csv")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs = command(t, t.Context(), "alerts", "replay", "--rules", sampleRules, "--type", "mainType",
		"--node", "node-1", "--samples", file)
	if status != 0 || !strings.Contains(out, "partition:services") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

func TestSampleStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status, out, errs := command(t, ctx, "alerts", "sample"); status != 0 || errs != "" ||
		strings.Count(out, "\n") != 1 {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	var stderr bytes.Buffer
	if status := new(program).run(t.Context(), []string{"alerts", "sample"}, full{}, &stderr); status != exitError ||
		!strings.Contains(stderr.String(), "output: disk full") {
		t.Errorf("status %d, %s", status, stderr.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }
