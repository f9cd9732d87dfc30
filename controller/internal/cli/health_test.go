package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func healthy(s *apitest.State) {
	apitest.Healthy(s)
	set := func(text, who string) view.HealthSetting {
		h, err := wire.Decode[wire.HealthSettings]([]byte(text))
		if err != nil {
			panic(err)
		}
		return view.HealthSetting{Settings: *h, Rev: 7, At: s.Now.Add(-time.Hour), Who: who}
	}
	all := set(`{"formatVersion":"1","reset":"P7D","contact":"PT2M30S"}`, "uid:1000(alice)")
	s.Settings = view.HealthSettings{Rev: 7, All: &all,
		Types: map[string]view.HealthSetting{
			"mainType": set(`{"formatVersion":"1","approval":true,"checks":{"disk":{"max":0.9,"for":"PT5M"}}}`,
				"token/ann")},
		Nodes: map[string]view.HealthSetting{"node-2": set(`{"formatVersion":"1","reboot":false}`, "token/ann")}}
}

func maintained(s *apitest.State) {
	s.Status.Maintenance = &view.Maintenance{Since: s.Now.Add(-time.Hour), Until: s.Now.Add(90 * time.Minute),
		Who: "uid:1000(alice)", Reason: "a new switch"}
}

// told gives the unit events of nodes and orders of operators.
func told(s *apitest.State) {
	s.Entries = nil
	for i, e := range []view.Entry{
		{Type: "event", Node: "node-1", Kind: "alert", Data: alert("raise", 0.971234, "")},
		{Type: "event", Node: "node-1", Kind: "alert", Data: alert("continue", 0.7, "")},
		{Type: "event", Node: "node-1", Kind: "alert", Data: alert("fall", 0.2, "below-threshold")},
		{Type: "event", Node: "node-1", Kind: "alert", Data: alert("fall", 0.97, "rule-removed")},
		{Type: "event", Node: "node-1", Kind: "boot",
			Data: jsontext.Value(
				`{"v":1,"node":"node-1","type":"boot","detail":{"reason":"fallback","text":"no contact","restarts":12}}`)},
		{Type: "event", Node: "node-1", Kind: "trial-committed",
			Data: jsontext.Value(`{"detail":{"slot":"b","version":"1.5.0"}}`)},
		{Type: "event", Node: "node-1", Kind: "trial-rolled-back",
			Data: jsontext.Value(
				`{"detail":{"component":"os","version":"7","reason":"fallback","text":"version 7: no contact"}}`)},
		{Type: "event", Node: "node-1", Kind: "component-ended",
			Data: jsontext.Value(`{"detail":{"component":"os","version":"8","text":"version 8: install: failed"}}`)},
		{Type: "event", Node: "node-1", Kind: "check-failed",
			Data: jsontext.Value(`{"detail":{"check":"disk","text":"0.99, limit 0.98"}}`)},
		{Type: "event", Node: "node-1", Kind: "commit-failed",
			Data: jsontext.Value(
				`{"error":{"code":"storage","message":"the disk is full"},"detail":{"slot":"b","version":"1.5.0"}}`)},
		{Type: "event", Node: "node-1", Kind: "stale", Data: jsontext.Value(`{"detail":{"rev":3}}`)},
		{Type: "event", Node: "node-1", Kind: "alert", Data: jsontext.Value(`"odd"`)},
		{Type: "settings", Who: "token/ann", Kind: "health",
			Data: jsontext.Value(`{"types":["press"],"settings":{"formatVersion":"1","reset":"P1D"}}`)},
		{Type: "settings", Who: "token/ann", Kind: "health", Data: jsontext.Value(`{"all":true}`)},
		{Type: "unit-maintenance", Who: "token/ann",
			Data: jsontext.Value(`{"until":"2026-11-20T12:00:00Z","reason":"a new switch"}`)},
		{Type: "unit-maintenance", Data: jsontext.Value(`{"reason":"its time is over"}`)},
		{Type: "request", Node: "node-1", Who: "token/ann",
			Data: jsontext.Value(
				`{"id":"reboot-1","method":"reboot","params":{"reason":"new kernel"},"notAfter":"2026-11-20T12:00:00Z"}`)},
		{Type: "reply", Node: "node-1", Data: jsontext.Value(`{"id":"reboot-1","method":"reboot"}`)},
		{Type: "request", Node: "node-1", Who: "token/ann",
			Data: jsontext.Value(
				`{"id":"restart-1","method":"restart","params":{"service":"web"},"notAfter":"2026-11-20T12:00:00Z"}`)},
		{Type: "note", Node: "node-1", Who: "token/ann",
			Data: jsontext.Value(`{"text":"read the logs of web@node-1"}`)},
		{Type: "event", Node: "node-1", Kind: "workload-exit",
			Data: jsontext.Value(
				`{"detail":{"slot":"web@node-1","id":"web-2","exit":{"code":3,"at":"2026-11-20T09:59:00Z"},"text":"exit status 3: bad, 4 times in a row"}}`)},
		{Type: "event", Node: "node-1", Kind: "workload-back",
			Data: jsontext.Value(
				`{"detail":{"slot":"web@node-1","id":"web-1","text":"web-1 is back"},"error":{"code":"apply-failed","message":"web-2 did not stay up"}}`)},
		{Type: "event", Node: "node-1", Kind: "watchdog",
			Data: jsontext.Value(`{"detail":{"name":"monitor","verdict":"late","for":"PT50S"}}`)},
		{Type: "event", Node: "node-1", Kind: "watchdog",
			Data: jsontext.Value(
				`{"detail":{"name":"pump","program":true,"verdict":"unreadable","text":"pump.pid is not a regular file"}}`)},
		{Type: "reply", Node: "node-1",
			Data: jsontext.Value(
				`{"id":"try-1","method":"try","error":{"code":"wrong-state","message":"nothing is staged","node":"node-1"}}`)},
	} {
		e.Seq, e.At = uint64(9+i), s.Now.Add(time.Duration(i-20)*time.Second)
		s.Entries = append(s.Entries, e)
	}
}

func alert(state string, value float64, reason string) jsontext.Value {
	text := `{"v":1,"node":"node-1","boot":"b","seq":3,"at":"2026-11-20T09:59:00Z","type":"alert","detail":{"timestamp":"2026-11-20T09:59:00Z","tag":"systemQuotaAlert",` +
		`"node":{"codename":"node-1"},"parameter":"cpu","value":` + command.Amount(value) + `,"state":"` + state +
		`","since":"2026-11-20T09:57:00Z","minTimeout":"PT2S","minThreshold":0.5,"maxThreshold":0.9`
	if reason != "" {
		text += `,"reason":"` + reason + `"`
	}
	return jsontext.Value(text + "}}")
}

// TestHealthCommands runs the commands about health as a person does, for people and as JSON.
func TestHealthCommands(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  string
		state change
	}{
		{"nodes-health", "nodes", healthy},
		{"node-health", "node node-1", func(s *apitest.State) {
			healthy(s)
			s.Nodes[0].Raised = []view.Alert{{Tag: "systemQuotaAlert", Parameter: "partition:services", Value: 0.97,
				Min: 0.5, Max: 0.9, Since: s.Now.Add(-time10), At: s.Now}}
		}},
		{"health", "health node-1", healthy},
		{"node-components", "node node-1", func(s *apitest.State) {
			healthy(s)
			s.Nodes[0].Components = apitest.Components
		}},
		{"health-silent", "health node-3", nil},
		{"health-offline", "health node-4", healthy},
		{"health-misspelt", "health node1", healthy},
		{"health-settings", "health settings", healthy},
		{"health-settings-none", "health settings", nil},
		{"health-settings-node", "health settings --node node-1", healthy},
		{"health-settings-node-none", "health settings --node node-3", nil},
		{"health-set", "health set --all --reset 7d --fallback 5m --test 10m --watchdog 90s", nil},
		{"health-set-type", "health set --type mainType --approval yes --reboot no --check disk=0.9:5m --check " +
			"network=12500000", nil},
		{"health-set-file", "health set --node node-1 --node node-9 FILE", nil},
		{"health-set-bad-file", "health set --all BAD", nil},
		{"health-set-cross", "health set --all --contact 10m", nil},
		{"health-set-percent", "health set --all --check cpu=95", nil},
		{"health-unset", "health unset --type mainType", healthy},
		{"health-unset-nothing", "health unset --all", nil},
		{"node-reboot", "node reboot node-1 --reason kernel", nil},
		{"node-reboot-offline", "node reboot node-4 --reason kernel", nil},
		{"node-reboot-no-answer", "node reboot node-1 --reason kernel", func(s *apitest.State) {
			s.Fail = map[string]error{"Order": &wire.Error{Code: wire.CodeNoAnswer,
				Message: "the node has not answered in time", Node: "node-1"}}
		}},
		{"node-try", "node try node-1", nil},
		{"node-try-refused", "node try node-1 --version 1.6.0", nil},
		{"node-try-component", "node try node-1 --component os --version 1.5.0", nil},
		{"node-try-component-unknown", "node try node-1 --component oz", nil},
		{"node-approve", "node approve node-1 --version 1.5.0", nil},
		{"unit-maintenance", "unit maintenance --for 2h --reason switch", nil},
		{"unit-maintenance-long", "unit maintenance --for 2d --reason switch", nil},
		{"unit-maintenance-end", "unit maintenance --end", maintained},
		{"unit-maintenance-end-none", "unit maintenance --end", nil},
		{"unit-status-maintenance", "unit status", maintained},
		{"events-health", "events", told},
		{"events-alerts", "events --type alert --node node-1", told},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				s := apitest.Sample()
				if c.state != nil {
					c.state(&s)
				}
				b := newBench(t, s)
				files := strings.NewReplacer("FILE", b.write("health.json", `{"formatVersion":"1","reset":"P1D"}`),
					"BAD", b.write("bad.json", `{"formatVersion":"1","rest":"P1D"}`))
				args := strings.Fields(files.Replace(c.args))
				if suffix != "" {
					args = append(args, "--json")
				}
				golden(t, c.name+suffix, b.transcript("", args...))
			})
		}
	}
}

// TestHealthMistakes: what cannot be meant is refused before a controller is asked.
func TestHealthMistakes(t *testing.T) {
	b := newBench(t, apitest.Sample())
	for args, want := range map[string]string{
		"health":                                       "needs NODE",
		"health set --all":                             "needs settings",
		"health set --reset 7d":                        "one of them",
		"health set --all --type x --reset 7d":         "one of them",
		"health set --node a/b --reset 7d":             "node's ID",
		"health set --all --reset 0s":                  "above zero",
		"health set --all --reset 1500ms":              "whole number",
		"health set --all --reset 1m":                  "/reset",
		"health set --all --approval maybe":            "yes or no",
		"health set --all --check cpu":                 "cpu=0.95:5m",
		"health set --all --check gpu=1":               "cpu=0.95:5m",
		"health set --all --check cpu=1:x":             "not a duration",
		"health set --all --check cpu=1 --check cpu=1": "twice",
		"health set --all --reset 7d x.json":           "not both",
		"health set --all none.json":                   "no such file",
		"health unset":                                 "one of them",
		"health settings x":                            "one argument too many",
		"node reboot node-1":                           "needs --reason",
		"node approve node-1":                          "needs --version",
		"node try":                                     "needs NODE",
		"unit maintenance":                             "needs --for",
		"unit maintenance --for 1h":                    "needs --reason",
		"unit maintenance --end --for 1h":              "needs --for and --reason, or --end",
	} {
		if _, stderr, exit := b.run("", strings.Fields(args)...); exit != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s; want %q", args, exit, stderr, want)
		}
	}
	b.unit.Do(func(s *apitest.State) {
		if s.Who != "" {
			t.Errorf("the controller was asked by %s", s.Who)
		}
	})
	stdout, stderr, exit := b.run(`{"formatVersion":"1","reset":"P1D"}`, "health", "set", "--all", "-")
	if exit != 0 || stderr != "" || !strings.Contains(stdout, "reset 1d") {
		t.Errorf("%d %s %s", exit, stdout, stderr)
	}
}
