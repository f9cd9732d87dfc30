package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const shipped = "../../deploy/monitoring"

// program is the path of a program of Debian's package prometheus; without it the test is skipped, never in CI.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	missing := name + " is not installed (apt-get install prometheus): deploy/monitoring is NOT tested with it"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	fmt.Fprintln(os.Stderr, "SKIPPED: "+missing)
	t.Skip(missing)
	return ""
}

// promtool runs promtool in a directory and returns what it printed.
func promtool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program(t, "promtool"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestAlertRules(t *testing.T) {
	promtool(t, shipped, "check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml")
	promtool(t, shipped, "test", "rules", "alerts-test.yaml")
}

// metric is a name of a metric of ours.
var metric = regexp.MustCompile(`\btandem_[a-z_]+`)

// reference is the metrics of shared/docs/metrics.md, by name, with their types.
func reference(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(tandem_[a-z_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(
		read(t, "../../shared/docs/metrics.md"), -1) {
		all[row[1]] = row[2]
	}
	if len(all) < 30 {
		t.Fatalf("the reference has %d metrics", len(all))
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unknown are the metrics in an expression that nothing has.
func unknown(known map[string]string, expr string) (all []string) {
	for _, name := range metric.FindAllString(expr, -1) {
		base := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if cut, ok := strings.CutSuffix(name, suffix); ok && known[cut] == "histogram" {
				base = cut
			}
		}
		if known[base] == "" {
			all = append(all, name)
		}
	}
	return all
}

// ruleFile is a file of rules, as far as this test reads it.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert string
			Expr  string
		}
	}
}

// TestAlertsAreOfWhatThereIs: every metric in an alert is in the reference, and every alert has a unit test.
func TestAlertsAreOfWhatThereIs(t *testing.T) {
	var rules ruleFile
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(shipped, "alerts.yaml"))), &rules); err != nil {
		t.Fatal(err)
	}
	known, tests, n := reference(t), read(t, filepath.Join(shipped, "alerts-test.yaml")), 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			if bad := unknown(known, r.Expr); bad != nil {
				t.Errorf("%s: there is no %v", r.Alert, bad)
			}
			fires := regexp.MustCompile(`alertname: ` + r.Alert + `\s+exp_alerts:\s+- exp_labels`)
			if !fires.MatchString(tests) {
				t.Errorf("no unit test has %s fire", r.Alert)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d alerts", n)
	}
}

// dashboard is the JSON of Grafana, as far as this test reads it.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
}

// TestDashboard: promtool understands each expression, and the metrics in them are in the reference; of those that are
// there each but a few is on the dashboard.
func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, filepath.Join(shipped, "dashboard.json"))), &d); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")
	known := reference(t)
	seen := map[string]bool{ // of little use there
		"tandem_build_info": true, "tandem_node_build_info": true,
		"tandem_broker_received_bytes_total": true, "tandem_broker_sent_bytes_total": true,
		"tandem_counted_timestamp_seconds": true, "tandem_refusing": true,
		"tandem_broker_up": true, "tandem_maintenance": true}
	type rule map[string]any
	var rules []rule
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || len(p.Targets) == 0 {
			t.Errorf("panel %q: %+v", p.Title, p)
		}
		ids[p.ID] = true
		for i, target := range p.Targets {
			if bad := unknown(known, target.Expr); bad != nil {
				t.Errorf("panel %q: there is no %v", p.Title, bad)
			}
			for name := range known {
				seen[name] = seen[name] || strings.Contains(target.Expr, name)
			}
			rules = append(rules, rule{"record": fmt.Sprintf("panel%d:%d", p.ID, i),
				"expr": variables.Replace(target.Expr)})
		}
	}
	for name := range known {
		if !seen[name] {
			t.Errorf("%s is not on the dashboard", name)
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dashboard.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	said := promtool(t, dir, "check", "rules", "dashboard.yaml")
	if want := fmt.Sprintf("%d rules found", len(rules)); !strings.Contains(said, want) || len(rules) < 40 {
		t.Errorf("%d expressions: %s", len(rules), said)
	}
}

// TestUnknownIsSeen: this test's own eyes.
func TestUnknownIsSeen(t *testing.T) {
	known := map[string]string{"tandem_a": "gauge", "tandem_h_seconds": "histogram"}
	got := unknown(known, `tandem_a{x="1"} / tandem_b + rate(tandem_h_seconds_bucket[5m]) + tandem_a_count`)
	if !slices.Equal(got, []string{"tandem_b", "tandem_a_count"}) {
		t.Errorf("%v", got)
	}
}
