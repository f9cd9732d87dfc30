package cli

import (
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/shared/wire"
)

// The plans of the tests.
const (
	goodPlan = `{
  "waves": [{"name": "first", "count": 1, "canary": true}, {"type": "mainType", "percent": 50}, {"percent": 100}],
  "failureBudget": {"percent": 10},
  "groups": [{"label": "line-4", "maxUnavailable": {"count": 1}}],
  "windows": [{"cron": "0 2 * * sat", "zone": "Europe/Berlin", "duration": "PT20M"}],
  "onAbort": "take-back"
}`
	quickPlan = `{"waves": [{"count": 1, "canary": true}, {"percent": 100}], "maxUnavailable": {"count": 1}}`
	badPlan   = `{
  "waves": [{"count": 0}, {"percent": 90}],
  "failBudget": {"count": 1},
  "gate": {"healthy": ["alert"]},
  "windows": [{"cron": "0 2 30 2 *", "zone": "Mars/Base", "duration": "P1M"}]
}`
)

// TestPlans: the file of a plan is checked without a controller, and told in words; every mistake is told with its
// place.
func TestPlans(t *testing.T) {
	for _, suffix := range []string{"", "-json"} {
		b := newBench(t, apitest.Start(t))
		b.env["TANDEM_SOCKET"] = b.dir + "/none"
		b.write("good.json", goodPlan)
		b.write("quick.json", quickPlan)
		b.write("bad.json", badPlan)
		b.write("large.json", `{"waves": [`+strings.Repeat(`{"name": "`+strings.Repeat("x", 128)+`", "count": 1},`, 31)+
			`{"percent": 100}]}`)
		b.write("unit.json", string(apitest.Document("9.0.0")))
		for _, c := range []struct{ name, args, stdin string }{
			{"check", "rollout check DIR/good.json", ""},
			{"check-quick", "rollout check -", quickPlan},
			{"check-bad", "rollout check DIR/bad.json", ""},
			{"check-none", "rollout check", ""},
			{"check-missing", "rollout check DIR/missing.json", ""},
			{"check-two", "rollout check DIR/good.json DIR/bad.json", ""},
			{"chekc", "rollout chekc DIR/good.json", ""},
			{"no-command", "rollout", ""},
			{"show-status", "rollout show --status faild", ""},
			{"show-status-none", "rollout show --status well", ""},
			{"show-two", "rollout show r1 r2", ""},
			{"show-flag", "rollout show --limt 3", ""},
			{"abort-both", "rollout abort r1 --leave --take-back", ""},
			{"abort-leave-now", "rollout abort r1 --leave --now", ""},
			{"apply-bad", "config apply DIR/unit.json --rollout DIR/bad.json", ""},
			{"apply-large", "config apply DIR/unit.json --rollout DIR/large.json", ""},
			{"apply-try", "config apply DIR/unit.json --rollout DIR/quick.json --try 2m", ""},
			{"apply-stdin", "config apply - --rollout -", "{}"},
			{"apply-missing", "workload apply DIR/missing.json --rollout DIR/missing.json", ""},
		} {
			args := strings.Fields(strings.ReplaceAll(c.args, "DIR", b.dir))
			if suffix != "" {
				args = append(args, "--json")
			}
			golden(t, "rollout-plan-"+c.name+suffix, b.transcript(c.stdin, args...))
		}
	}
}

// TestRollouts shows rollouts to people, on a terminal and elsewhere, and as JSON.
func TestRollouts(t *testing.T) {
	set, now := begun(t)
	for _, suffix := range []string{"", "-terminal", "-json"} {
		b := benchOf(t, apitest.Start(t), showing(apitest.Start(t), set, now))
		b.io.Now = func() time.Time { return now }
		b.io.OutTerminal = suffix == "-terminal"
		for _, c := range []struct{ name, args string }{
			{"list", "rollout list"},
			{"why", "why rollout"},
			{"why-done", "why rollout r1"},
			{"show", "rollout show r2"},
			{"show-none-named", "rollout show --limit 2"},
			{"show-failed", "rollout show --status failed"},
			{"show-aborted", "rollout show r1"},
			{"show-unknown", "rollout show r3"},
			{"watch-aborted", "rollout show r1 --watch"},
			{"watch-unknown", "rollout show rr1 --watch"},
		} {
			args := strings.Fields(c.args)
			if suffix == "-json" {
				args = append(args, "--json")
			}
			golden(t, "rollout-"+c.name+suffix, b.transcript("", args...))
		}
	}
	b := newBench(t, apitest.Start(t))
	for name, args := range map[string]string{
		"none-list": "rollout list", "none-show": "rollout show", "none-pause": "rollout pause",
		"none-resume": "rollout resume r1", "none-abort": "rollout abort r1 --take-back --now",
	} {
		golden(t, "rollout-"+name, b.transcript("", strings.Fields(args)...))
	}
}

// TestRolloutOfAUnit has a unit roll a configuration out, and people pause, resume and end it: the journal has who did
// what.
func TestRolloutOfAUnit(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.write("good.json", string(apitest.Document("2.1.0")))
	b.write("plan.json", strings.Replace(quickPlan, `{"count": 1}}`, `{"count": 3}}`, 1))
	for _, c := range []struct {
		name, args string
		before     func()
	}{
		{"apply", "config apply DIR/good.json --rollout DIR/plan.json", nil},
		{"show", "rollout show", nil},
		{"again", "config apply DIR/good.json", nil},
		{"status", "config status", nil},
		{"pause", "rollout pause --reason lunch", nil},
		{"pause-again", "rollout pause", nil},
		{"list", "rollout list", nil},
		{"resume", "rollout resume", nil},
		{"installed", "rollout show", func() {
			for _, n := range []string{"node-1", "node-2", "node-3"} {
				b.unit.Report(n, wire.KindConfig, wire.StateInstalled, nil, nil)
			}
		}},
		{"abort", "rollout abort --take-back --now --json", nil},
		{"abort-again", "rollout abort --leave", nil},
		{"ended", "rollout show --json", nil},
		{"events", "events --type rollout", nil},
		{"resume-ended", "rollout resume config-1000", nil},
	} {
		if c.before != nil {
			c.before()
		}
		args := strings.Fields(strings.ReplaceAll(c.args, "DIR", b.dir))
		golden(t, "rollout-unit-"+c.name, b.transcript("", args...))
	}
}
