package app

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/wire"
)

// What is not known has no line, names are escaped, and the lines of a metric stand together below its type.
func TestExposition(t *testing.T) {
	s := monitor.Sample{}
	s.Wall = time.Unix(1_795_000_000, 250e6)
	s.Readings = []alert.Reading{{Parameter: alert.CPU, Value: 0.25},
		{Parameter: alert.RAM, Err: errors.New("unknown")}, {Parameter: alert.Download, Value: 1.5e9},
		{Parameter: alert.Upload}, {Parameter: alert.Partition(`a"b\`), Value: 0.5},
		{Parameter: alert.Inodes(`a"b\`), Value: 0.1}, {Parameter: alert.Partition("cpu"), Value: 1},
		{Parameter: alert.Inodes("cpu"), Err: errors.New("unknown")}}
	h := wire.Health{Contact: wire.HealthContact{In: true},
		Checks: []wire.HealthCheck{{Name: "cpu", OK: true}, {Name: "disk"}}}
	lines := strings.Split(exposition(s, &h), "\n")
	var values []string
	for _, l := range lines {
		if !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "tandem_node_build_info") {
			values = append(values, strings.TrimPrefix(l, "tandem_node_"))
		}
	}
	want := `sampled_timestamp_seconds 1.79500000025e+09
cpu_ratio 0.25
download_bytes_per_second 1.5e+09
upload_bytes_per_second 0
partition_ratio{partition="a\"b\\"} 0.5
partition_ratio{partition="cpu"} 1
partition_inodes_ratio{partition="a\"b\\"} 0.1
contact 1
check_ok{check="cpu"} 1
check_ok{check="disk"} 0
`
	if got := strings.Join(values, "\n"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	seen := ""
	for _, l := range lines[:len(lines)-1] {
		name := strings.FieldsFunc(strings.TrimPrefix(strings.TrimPrefix(l, "# HELP "), "# TYPE "),
			func(r rune) bool { return r == ' ' || r == '{' })[0]
		if strings.HasPrefix(l, "# HELP") {
			seen = name
		}
		if name != seen || strings.HasPrefix(l, "# TYPE") && !strings.HasSuffix(l, " gauge") {
			t.Errorf("%q stands below %s", l, seen)
		}
	}
}

// The reference has every metric that the agent writes, and no other.
func TestMetricsReference(t *testing.T) {
	doc, err := os.ReadFile("../../shared/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	s := monitor.Sample{}
	for _, p := range []alert.Parameter{alert.CPU, alert.RAM, alert.Download, alert.Upload, alert.Partition("x"),
		alert.Inodes("x")} {
		s.Readings = append(s.Readings, alert.Reading{Parameter: p})
	}
	var want, got []string
	for _, m := range regexp.MustCompile(`# HELP (tandem_node_\S+) (.*)`).FindAllStringSubmatch(
		exposition(s, &wire.Health{Checks: []wire.HealthCheck{{Name: "x"}}}), -1) {
		want = append(want, m[1]+" "+m[2])
	}
	rows := regexp.MustCompile("(?m)^\\| `(tandem_node_\\w+)` \\| gauge \\| [^|]*\\| (.*) \\|$")
	for _, m := range rows.FindAllStringSubmatch(string(doc), -1) {
		got = append(got, m[1]+" "+m[2])
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(want) != 10 {
		t.Errorf("in metrics.md\n%s\nof the program\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The file is there after each sample, as a whole; trouble with it is told once, until there is another.
func TestTextfile(t *testing.T) {
	bubble(t, func(r *rig) {
		out := r.logging()
		dir := filepath.Join(t.TempDir(), "collector")
		file := filepath.Join(dir, "tandem.prom")
		r.cfg.Textfile, r.cfg.SamplePeriod = file, 10*time.Second
		r.start()
		pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		pass(time.Minute)
		if n := strings.Count(out.String(), "textfile of metrics cannot be written"); n != 1 {
			t.Errorf("%d lines about a directory that is not there", n)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		stamp := func() string {
			t.Helper()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "\ntandem_node_ram_ratio 0.25\n") {
				t.Errorf("%s", text)
			}
			return regexp.MustCompile(`(?m)^tandem_node_sampled_timestamp_seconds (.*)$`).FindString(string(text))
		}
		pass(10 * time.Second)
		first := stamp()
		pass(10 * time.Second)
		if second := stamp(); second == first {
			t.Errorf("the file is not written anew: %s", first)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%v %v", left, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o044 != 0o044 {
			t.Errorf("node_exporter cannot read it: %v %v", info.Mode(), err)
		}
	})
}
