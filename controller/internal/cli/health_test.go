package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// healthy has settings of health, and its nodes tell theirs.
func healthy(u *apitest.Rig) {
	set := func(who string, scope view.Scope, text string) {
		h, err := wire.Decode[wire.HealthSettings]([]byte(text))
		must(err)
		_, err = u.SetHealth(as(who), op.SetHealth{Scope: scope, Settings: h})
		must(err)
	}
	set(apitest.Alice, view.Scope{All: true}, `{"formatVersion":"1","reset":"P7D","contact":"PT2M30S"}`)
	set(apitest.Ann, view.Scope{Types: []string{"mainType"}},
		`{"formatVersion":"1","approval":true,"checks":{"disk":{"max":0.9,"for":"PT5M"}}}`)
	set(apitest.Ann, view.Scope{Nodes: []string{"node-2"}}, `{"formatVersion":"1","reboot":false}`)
	u.Healthy()
}

var maintained = played(func(u *apitest.Rig) {
	_, err := u.Maintain(as(apitest.Alice), op.Maintain{For: "PT1H30M", Reason: "a new switch"})
	must(err)
})

// jumped is a unit whose clock has jumped.
var jumped = played(func(u *apitest.Rig) { u.Jump(40 * 24 * time.Hour) })

// told gives the unit events of nodes and orders of operators.
func told() (entries []view.Entry) {
	for i, e := range []view.Entry{
		{Type: "event", Node: "node-1", Kind: "alert", Data: alert("raise", 0.971234, "")},
		{Type: "event", Node: "node-1", Kind: "alert", Data: alert("continue", 0.7, "")},
		{Type: "event", Node: "node-1", Kind: "alert", Data: alert("fall", 0.2, "below-threshold")},
		{Type: "event", Node: "node-1", Kind: "alert", Data: alert("fall", 0.97, "rule-removed")},
		{Type: "event", Node: "node-1", Kind: "boot",
			Data: jsontext.Value(
				`{"v":1,"node":"node-1","type":"boot","detail":{"reason":"fallback","text":"no contact",` +
					`"restarts":12}}`)},
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
				`{"id":"reboot-1","method":"reboot","params":{"reason":"new kernel"},` +
					`"notAfter":"2026-11-20T12:00:00Z"}`)},
		{Type: "reply", Node: "node-1", Data: jsontext.Value(`{"id":"reboot-1","method":"reboot"}`)},
		{Type: "request", Node: "node-1", Who: "token/ann",
			Data: jsontext.Value(
				`{"id":"restart-1","method":"restart","params":{"service":"web"},"notAfter":"2026-11-20T12:00:00Z"}`)},
		{Type: "note", Node: "node-1", Who: "token/ann",
			Data: jsontext.Value(`{"text":"read the logs of web@node-1"}`)},
		{Type: "event", Node: "node-1", Kind: "workload-exit",
			Data: jsontext.Value(
				`{"detail":{"slot":"web@node-1","id":"web-2","exit":{"code":3,"at":"2026-11-20T09:59:00Z"},` +
					`"text":"exit status 3: bad, 4 times in a row"}}`)},
		{Type: "event", Node: "node-1", Kind: "workload-back",
			Data: jsontext.Value(
				`{"detail":{"slot":"web@node-1","id":"web-1","text":"web-1 is back"},` +
					`"error":{"code":"apply-failed","message":"web-2 did not stay up"}}`)},
		{Type: "event", Node: "node-1", Kind: "watchdog",
			Data: jsontext.Value(`{"detail":{"name":"monitor","verdict":"late","for":"PT50S"}}`)},
		{Type: "event", Node: "node-1", Kind: "watchdog",
			Data: jsontext.Value(
				`{"detail":{"name":"pump","program":true,"verdict":"unreadable",` +
					`"text":"pump.pid is not a regular file"}}`)},
		{Type: "reply", Node: "node-1",
			Data: jsontext.Value(
				`{"id":"try-1","method":"try","error":{"code":"wrong-state","message":"nothing is staged",` +
					`"node":"node-1"}}`)},
	} {
		e.Seq, e.At = uint64(9+i), apitest.Now.Add(time.Duration(i-20)*time.Second)
		entries = append(entries, e)
	}
	return entries
}

// quarantined is a unit in which node-3 has staged what has failed on node-4.
var quarantined = played(healthy, func(u *apitest.Rig) {
	hash := wire.Hash([]byte("os 7"))
	h := wire.Health{Indicator: wire.IndicatorContact, Text: "x", Settings: wire.HealthSettings{}.Complete(),
		Boot:       wire.HealthBoot{Reason: wire.BootStop, At: u.Now()},
		Components: []wire.HealthComponent{{Name: "os", State: wire.SlotUpdating, Version: "6", Next: "7", Hash: hash}}}
	u.Report("node-3", wire.KindHealth, wire.StateInstalled, nil, wire.Encode(&h))
	h.Components = nil
	h.Quarantine = []wire.HealthFailed{{Component: "os", Version: "7", Hash: hash, At: u.Now().Add(-time.Hour),
		Text: "no contact with the controller for PT5M"}, {Version: "1.5.0", Hash: wire.Hash([]byte("1.5.0")),
		At: u.Now().Add(-time.Minute), Text: "no sound"}}
	u.Report("node-4", wire.KindHealth, wire.StateInstalled, nil, wire.Encode(&h))
	join(u, "node-4", apitest.Now.AddDate(0, 3, 0))
	must(u.Enrolment(context.Background(), enrol.Prove{Subject: "node/node-4", Serial: "1"}))
})

func alert(state string, value float64, reason string) jsontext.Value {
	text := `{"v":1,"node":"node-1","boot":"b","seq":3,"at":"2026-11-20T09:59:00Z","type":"alert",` +
		`"detail":{"timestamp":"2026-11-20T09:59:00Z","tag":"systemQuotaAlert",` +
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
		{"nodes-health", "nodes", played(healthy)},
		{"node-health", "node node-1", played(healthy, func(u *apitest.Rig) {
			u.Event("node-1", 2, "alert", `{"tag":"systemQuotaAlert","parameter":"partition:services","value":0.97,`+
				`"state":"raise","since":"2026-11-20T09:50:00Z","minThreshold":0.5,"maxThreshold":0.9}`)
		})},
		{"health", "health node-1", played(healthy)},
		{"node-components", "node node-1", played(healthy)},
		{"health-silent", "health node-3", nil},
		{"health-offline", "health node-4", played(healthy)},
		{"health-misspelt", "health node1", played(healthy)},
		{"health-settings", "health settings", played(healthy)},
		{"health-settings-none", "health settings", nil},
		{"health-settings-node", "health settings --node node-1", played(healthy)},
		{"health-settings-node-none", "health settings --node node-3", nil},
		{"health-set", "health set --all --reset 7d --fallback 5m --test 10m --watchdog 90s", nil},
		{"health-set-type", "health set --type mainType --approval yes --reboot no --check disk=0.9:5m --check " +
			"network=12500000", nil},
		{"health-set-file", "health set --node node-1 --node node-9 FILE", nil},
		{"health-set-bad-file", "health set --all BAD", nil},
		{"health-set-cross", "health set --all --contact 10m", nil},
		{"health-set-percent", "health set --all --check cpu=95", nil},
		{"health-unset", "health unset --type mainType", played(healthy)},
		{"health-unset-nothing", "health unset --all", nil},
		{"node-reboot", "node reboot node-1 --reason kernel", nil},
		{"node-reboot-offline", "node reboot node-4 --reason kernel", nil},
		{"node-reboot-no-answer", "node reboot node-1 --reason kernel", unanswered},
		{"node-try", "node try node-1", nil},
		{"node-try-refused", "node try node-1 --version 1.6.0", nil},
		{"node-try-component", "node try node-1 --component os --version 1.5.0", nil},
		{"node-try-component-unknown", "node try node-1 --component oz", nil},
		{"node-try-quarantined", "node try node-3 --component os", quarantined},
		{"node-try-forced", "node try node-3 --component os --force", quarantined},
		{"health-quarantine", "health node-4", quarantined},
		{"node-approve", "node approve node-1 --version 1.5.0", nil},
		{"unit-maintenance", "unit maintenance --for 2h --reason switch", nil},
		{"unit-maintenance-long", "unit maintenance --for 2d --reason switch", nil},
		{"unit-maintenance-end", "unit maintenance --end", maintained},
		{"unit-maintenance-end-none", "unit maintenance --end", nil},
		{"unit-status-maintenance", "unit status", maintained},
		{"unit-status-clock", "unit status", jumped},
		{"health-set-clock", "health set --all --reset 7d", jumped},
		{"clock-confirm", "clock confirm", jumped},
		{"clock-confirm-none", "clock confirm", nil},
		{"events-health", "events", tells(told())},
		{"events-alerts", "events --type alert --node node-1", tells(told())},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				t.Parallel()
				b := c.state.bench(t)
				files := strings.NewReplacer("FILE", b.write("health.json", `{"formatVersion":"1","reset":"P1D"}`),
					"BAD", b.write("bad.json", `{"formatVersion":"1","rest":"P1D"}`))
				args := strings.Fields(files.Replace(c.args))
				b.golden(t, c.name, suffix, args)
			})
		}
	}
}

// TestHealthMistakes: what cannot be meant is refused before a controller is asked.
func TestHealthMistakes(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	before := b.newest()
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
	if e := b.newest(); e.Seq != before.Seq {
		t.Errorf("the controller was asked by %s", e.Who)
	}
	stdout, stderr, exit := b.run(`{"formatVersion":"1","reset":"P1D"}`, "health", "set", "--all", "-")
	if exit != 0 || stderr != "" || !strings.Contains(stdout, "reset 1d") {
		t.Errorf("%d %s %s", exit, stdout, stderr)
	}
}
