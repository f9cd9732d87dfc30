package plan_test

import (
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout/plan"
)

const waves = `"waves": [{"count": 1, "canary": true}, {"percent": 30}, {"percent": 100}]`

func parse(t *testing.T, text string) *plan.Plan {
	t.Helper()
	p, problems := plan.Parse([]byte(text), time.LoadLocation)
	if problems != nil {
		t.Fatalf("%s: %v", text, problems)
	}
	return p
}

// What a plan leaves out is set.
func TestPlanDefaults(t *testing.T) {
	p := parse(t, "{"+waves+"}")
	if p.Gate.Soak.Std() != 10*time.Minute || p.Deadline.Std() != 30*time.Minute ||
		p.AbsentAfter.Std() != 24*time.Hour || len(p.Gate.Healthy) != 4 ||
		p.FailureBudget.Of(1000) != 0 || plan.Limit(p.MaxUnavailable, 100) != 10 ||
		p.OnAbort != plan.Leave {
		t.Errorf("%+v", p)
	}
}

func TestPlanWithEverything(t *testing.T) {
	p := parse(t, `{"waves": [{"name": "first", "count": 1, "perType": true, "canary": true},
		{"label": "a", "percent": 50}, {"label": "a"}, {"type": "edge", "count": 3}, {"percent": 40}, {"percent": 100}],
		"gate": {"soak": "PT1M", "healthy": ["alerts", "workloads"]}, "failureBudget": {"count": 2},
		"maxUnavailable": {"percent": 20}, "groups": [{"type": "edge", "maxUnavailable": {"count": 1}}],
		"deadline": "PT5M", "absentAfter": "PT1H", "onAbort": "take-back",
		"windows": [{"cron": "30 2 * * sat", "zone": "Europe/Berlin", "duration": "PT2H"}]}`)
	if len(p.Waves) != 6 || p.OnAbort != plan.TakeBack || len(p.Gate.Healthy) != 2 ||
		*p.Groups[0].MaxUnavailable.Count != 1 {
		t.Errorf("%+v", p)
	}
}

// Numbers are integers: budgets and limits are rounded down, and a limit is at least 1.
func TestPlanNumbers(t *testing.T) {
	percent := func(n int) plan.Amount { return plan.Amount{Percent: &n} }
	for _, c := range []struct{ percent, all, budget, limit int }{
		{10, 9, 0, 1}, {10, 5, 0, 1}, {10, 10, 1, 1}, {30, 10, 3, 3}, {33, 10, 3, 3}, {100, 7, 7, 7}, {1, 0, 0, 1},
		{99, 1_000_000, 990_000, 990_000},
	} {
		if b, l := percent(c.percent).Of(c.all), plan.Limit(percent(c.percent), c.all); b != c.budget || l != c.limit {
			t.Errorf("%d %% of %d: budget %d, limit %d", c.percent, c.all, b, l)
		}
	}
}

// Every mistake is refused with its place and reason. The fifth scenario is among them.
func TestPlanRefusals(t *testing.T) {
	window := func(cron, zone, duration string) string {
		return `{` + waves + `, "windows": [{"cron": "` + cron + `", "zone": "` + zone + `", "duration": "` +
			duration + `"}]}`
	}
	wave := func(text string) string { return `{"waves": [` + text + `, {"percent": 100}]}` }
	for name, c := range map[string]struct{ text, pointer, reason string }{
		"no waves":              {`{}`, "/waves", "missing"},
		"no wave":               {`{"waves": []}`, "/waves", "there must be a wave"},
		"unknown":               {`{` + waves + `, "budget": 1}`, "/budget", "unknown field"},
		"twice":                 {`{` + waves + `, ` + waves + `}`, "/waves", "appears twice"},
		"yaml":                  {"waves:\n  - count: 1\n", "", "YAML"},
		"maxUnavailable 0":      {`{` + waves + `, "maxUnavailable": {"count": 0}}`, "/maxUnavailable/count", "with 0"},
		"maxUnavailable 0 %":    {`{` + waves + `, "maxUnavailable": {"percent": 0}}`, "/maxUnavailable/percent", "0"},
		"maxUnavailable number": {`{` + waves + `, "maxUnavailable": 1}`, "/maxUnavailable", "must be an object"},
		"both amounts": {`{` + waves + `, "failureBudget": {"count": 1, "percent": 1}}`,
			"/failureBudget", "one of"},
		"no amount": {`{` + waves + `, "failureBudget": {}}`, "/failureBudget", "exactly one"},
		"a fraction": {`{` + waves + `, "failureBudget": {"percent": 1.5}}`,
			"/failureBudget/percent", "1.5"},
		"negative": {`{` + waves + `, "failureBudget": {"count": -1}}`, "/failureBudget/count", "not -1"},
		"101 %":    {wave(`{"percent": 101}`), "/waves/0/percent", "not 101"},
		"soak as deadline": {`{` + waves + `, "gate": {"soak": "PT5M"}, "deadline": "PT5M"}`, "/deadline",
			"not shorter than the deadline PT5M"},
		"soak beyond default": {`{` + waves + `, "gate": {"soak": "PT1H"}}`, "/gate/soak", "no node could pass"},
		"deadline below":      {`{` + waves + `, "deadline": "PT10M"}`, "/deadline", "no node could pass"},
		"soak of nothing":     {`{` + waves + `, "gate": {"soak": "PT0S"}}`, "/gate/soak", "at least one second"},
		"soak negative":       {`{` + waves + `, "gate": {"soak": "-PT5M"}}`, "/gate/soak", "negative"},
		"months":              {`{` + waves + `, "deadline": "P1M"}`, "/deadline", "calendar"},
		"healthy empty":       {`{` + waves + `, "gate": {"healthy": []}}`, "/gate/healthy", "leave healthy out"},
		"healthy unknown":     {`{` + waves + `, "gate": {"healthy": ["alert"]}}`, "/gate/healthy/0", `mean "alerts"`},
		"healthy twice": {`{` + waves + `, "gate": {"healthy": ["alerts", "alerts"]}}`, "/gate/healthy/1",
			"twice"},
		"count and percent": {wave(`{"count": 1, "percent": 5}`), "/waves/0", "not both"},
		"wave of nothing":   {wave(`{"name": "x"}`), "/waves/0", "needs count"},
		"count 0":           {wave(`{"count": 0}`), "/waves/0/count", "not 0"},
		"perType":           {wave(`{"percent": 10, "perType": true}`), "/waves/0/perType", "needs a count"},
		"late canary":       {wave(`{"count": 1}, {"count": 1, "canary": true}`), "/waves/1/canary", "only the first"},
		"falling":           {wave(`{"percent": 50}, {"percent": 30}`), "/waves/1/percent", "does not rise above 50"},
		"last wave":         {`{"waves": [{"count": 1}]}`, "/waves/0", "every node that is left"},
		"last wave selects": {`{"waves": [{"percent": 100, "type": "edge"}]}`, "/waves/0", "every node that is left"},
		"empty label":       {wave(`{"label": ""}`), "/waves/0/label", "1 to 128"},
		"group of all": {`{` + waves + `, "groups": [{"maxUnavailable": {"count": 1}}]}`, "/groups/0",
			"needs label or type"},
		"group without": {`{` + waves + `, "groups": [{"type": "x"}]}`, "/groups/0/maxUnavailable", "missing"},
		"on abort":      {`{` + waves + `, "onAbort": "takeback"}`, "/onAbort", `did you mean "take-back"`},
		"30 February":   {window("0 2 30 2 *", "UTC", "PT1H"), "/windows/0/cron", "no date fits"},
		"six fields":    {window("0 0 2 * * *", "UTC", "PT1H"), "/windows/0/cron", "five plain fields"},
		"@daily":        {window("@daily", "UTC", "PT1H"), "/windows/0/cron", "five plain fields"},
		"TZ in cron":    {window("TZ=UTC 0 2 * * *", "UTC", "PT1H"), "/windows/0/cron", "five plain fields"},
		"TZ alone":      {window("TZ=UTC", "UTC", "PT1H"), "/windows/0/cron", "five plain fields"},
		"minute 61":     {window("61 2 * * *", "UTC", "PT1H"), "/windows/0/cron", "above maximum"},
		"22-4":          {window("0 22-4 * * *", "UTC", "PT1H"), "/windows/0/cron", "beyond end of range"},
		"no zone":       {window("0 2 * * *", "", "PT1H"), "/windows/0/zone", "name of a time zone"},
		"Local":         {window("0 2 * * *", "Local", "PT1H"), "/windows/0/zone", "name of a time zone"},
		"Mars":          {window("0 2 * * *", "Mars/Base", "PT1H"), "/windows/0/zone", "no time zone"},
		"eight days":    {window("0 2 * * *", "UTC", "P8D"), "/windows/0/duration", "at most P7D"},
		"no duration": {`{` + waves + `, "windows": [{"cron": "0 2 * * *", "zone": "UTC"}]}`, "/windows/0/duration",
			"missing"},
	} {
		p, problems := plan.Parse([]byte(c.text), time.LoadLocation)
		if problems == nil || p != nil {
			t.Errorf("%s: taken as %+v", name, p)
			continue
		}
		if first := problems.First(); first.Path != c.pointer || !strings.Contains(first.Message, c.reason) {
			t.Errorf("%s: at %q %q, want %q %q", name, first.Path, first.Message, c.pointer, c.reason)
		}
	}
}

// A window that shuts before a node may be at an end is worth a word.
func TestPlanWarnings(t *testing.T) {
	for duration, want := range map[string]int{"PT20M": 1, "PT30M": 0} {
		p := parse(t, `{`+waves+`, "windows": [{"cron": "0 2 * * *", "zone": "UTC", "duration": "`+duration+`"}]}`)
		if got := p.Warnings(); len(got) != want {
			t.Errorf("%s: %q", duration, got)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte("{" + waves + "}"))
	f.Add([]byte(`{"waves": [{"percent": 100}],
		"windows": [{"cron": "* * 29 2 *", "zone": "UTC", "duration": "PT1S"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, problems := plan.Parse(data, time.LoadLocation)
		if (p == nil) != (problems != nil) {
			t.Fatalf("%+v, %v", p, problems)
		}
		if p == nil {
			return
		}
		w, err := p.Open(time.LoadLocation)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		if open, until := w.At(now); len(p.Windows) > 0 && (until.IsZero() || open && !until.After(now)) {
			t.Fatalf("open %v until %v", open, until)
		}
	})
}
