package apitest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Now is the time in samples.
var Now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// Document is a unit configuration: an entry for node-1, one for every node of mainType.
func Document(version string) []byte {
	return []byte(`{
  "formatVersion": "7",
  "version": "` + version + `",
  "nodes": [
    {
      "node": {"codename": "node-1"},
      "nodeGroupSubject": {"codename": "mainType"},
      "alertRules": {"ram": {"minTimeout": "PT1S", "minThreshold": 0.1, "maxThreshold": 0.9}},
      "labels": ["mainNode"],
      "priority": 1
    },
    {
      "nodeGroupSubject": {"codename": "mainType"},
      "alertRules": {"ram": {"minTimeout": "PT1S", "minThreshold": 0.1, "maxThreshold": 0.8}}
    }
  ]
}
`)
}

// StartSample starts a unit of four nodes on version 2.0.0: node-1 has it, node-2 refused it, node-3 is applying it,
// and
// node-4 is away. Before that they had 1.9.0. Its clock says Now.
func StartSample(tb testing.TB) *Rig {
	tb.Helper()
	return startSample(tb, distribute.Config{})
}

// StartSteered is StartSample of a unit in which items and subjects say what runs.
func StartSteered(tb testing.TB) *Rig {
	tb.Helper()
	return startSample(tb, distribute.Config{Desired: true})
}

// StartRelieving is StartSteered, and services leave nodes that are overloaded, which is looked for all the time.
func StartRelieving(tb testing.TB) *Rig {
	tb.Helper()
	return startSample(tb, distribute.Config{Desired: true, Rebalance: true, Relieve: 5 * time.Millisecond})
}

// StartMetered is StartSample of a unit whose core tells m what it does.
func StartMetered(tb testing.TB, m distribute.Meter) *Rig {
	tb.Helper()
	return startSample(tb, distribute.Config{Meter: m})
}

func startSample(tb testing.TB, more distribute.Config) *Rig {
	tb.Helper()
	r := start(tb, Now.Add(-48*time.Hour), more)
	r.sample()
	r.at(0)
	return r
}

// Alice and Ann are who did what there is in samples.
const (
	Alice = "uid:1000(alice)"
	Ann   = "token/ann"
)

// at moves the clock to so long before Now.
func (r *Rig) at(before time.Duration) { r.Advance(Now.Add(-before).Sub(r.Now())) }

// Submit submits a document, for the unit configuration unless s says otherwise.
func (r *Rig) Submit(s view.Submission) view.Result {
	if s.Kind == "" {
		s.Kind = wire.KindConfig
	}
	res, err := r.Core.Submit(context.Background(), s)
	if err != nil {
		r.tb.Error(err)
	}
	return res
}

// types are the types of the sample's nodes.
var types = map[string]string{"node-1": "mainType", "node-2": "mainType", "node-3": "secondaryType",
	"node-4": "secondaryType"}

func (r *Rig) sample() {
	nodes := slices.Sorted(maps.Keys(types))
	for _, node := range nodes {
		r.Connect(node, true)
		r.Info(node)
	}
	r.at(30 * time.Hour)
	r.Submit(view.Submission{Document: Document("1.9.0"), Who: "uid:0(root)", Via: "file"})
	for _, node := range nodes {
		r.Report(node, wire.KindConfig, wire.StateInstalled, nil, nil)
	}
	r.reconnect(26*time.Hour, "node-3")
	r.reconnect(3*time.Hour, "node-1")
	r.at(10 * time.Minute)
	r.Submit(view.Submission{Document: Document("1.9.0"), Who: Alice, Via: "cli"})
	r.at(5 * time.Minute)
	r.Connect("node-4", false)
	r.at(2 * time.Minute)
	r.Submit(view.Submission{Document: Document("2.0.0"), Who: Alice, Via: "cli"})
	r.reconnect(90*time.Second, "node-2")
	r.at(time.Minute)
	r.Report("node-1", wire.KindConfig, wire.StateInstalled, nil, nil)
	r.Report("node-2", wire.KindConfig, wire.StateRejected, wire.New(wire.CodeBadValue, "/alertRules/partitions/0/name",
		`there is no partition "logs" on this node`), nil)
	r.Report("node-3", wire.KindConfig, wire.StateApplying, nil, nil)
}

func (r *Rig) reconnect(before time.Duration, node string) {
	r.at(before)
	r.Connect(node, false)
	r.Connect(node, true)
}

// Healthy has the nodes of a sample tell their health: node-1 tries a version and has raised an alert, node-2 has a
// check that fails, node-3 is well, node-4 was when it went away.
func (r *Rig) Healthy() {
	well := wire.Health{Indicator: wire.IndicatorContact, Text: wire.IndicatorTexts[wire.IndicatorContact],
		Contact: wire.HealthContact{In: true}, Boot: wire.HealthBoot{Reason: wire.BootPowerFail, At: r.Now()},
		Settings: wire.HealthSettings{}.Complete()}
	failing := well
	failing.Indicator, failing.Text = wire.IndicatorCheck, wire.IndicatorTexts[wire.IndicatorCheck]
	failing.Checks = []wire.HealthCheck{{Name: "disk", Since: r.Now()}}
	for i, h := range []*wire.Health{trying(r.Now()), &failing, &well, &well} {
		r.Report(fmt.Sprint("node-", i+1), wire.KindHealth, wire.StateInstalled, nil, wire.Encode(h))
	}
	r.Event("node-1", 1, "alert", `{"tag":"systemQuotaAlert","parameter":"cpu","value":0.97,"state":"raise",`+
		`"since":"2026-11-20T09:57:00Z","minThreshold":0.5,"maxThreshold":0.9}`)
}

// trying is what a node tells that tries a version.
func trying(now time.Time) *wire.Health {
	return &wire.Health{
		Indicator: wire.IndicatorContact, Text: wire.IndicatorTexts[wire.IndicatorContact],
		Contact: wire.HealthContact{In: true, Since: now.Add(-6 * time.Minute), Result: wire.ContactSuccess,
			Last: now.Add(-time.Minute), Document: now.Add(-2 * time.Minute)},
		Slots: []wire.HealthSlot{{ID: "a", State: wire.SlotActive, Version: "1.4.0", Verified: true},
			{ID: "b", State: wire.SlotInProgress, Version: "1.5.0", Verified: true}},
		Current: "b", Components: components,
		Trial: &wire.HealthTrial{Slot: "b", Version: "1.5.0", Since: now.Add(-6 * time.Minute),
			Remaining: wire.SpanOf(4 * time.Minute), Deadline: wire.SpanOf(24 * time.Minute),
			Approval: wire.ApprovalNeeded,
			WaitsFor: []wire.HealthWait{{Code: wire.WaitApproval, Text: "somebody says that it may be kept"},
				{Code: wire.WaitTestTime, Text: "PT4M in good health"}}},
		// which waits for the trial
		Restart: &wire.HealthRestart{Reason: wire.BootReboot, Detail: "by the controller: new kernel",
			At: now.Add(-30 * time.Second)},
		Boot: wire.HealthBoot{Reason: wire.BootUpdate, Detail: "version 1.5.0", Restarts: 12,
			At: now.Add(-6 * time.Minute)},
		Checks: []wire.HealthCheck{{Name: "cpu", OK: true, Since: now.Add(-6 * time.Minute)},
			{Name: "disk", Message: "0.99, limit 0.98", Since: now.Add(-time.Minute)}},
		Settings: wire.HealthSettings{}.Complete(),
	}
}

var components = []wire.HealthComponent{
	{Name: "app", State: wire.SlotActive, Version: "3.1", Running: "3.1", Text: "given up: version 3.2: no contact"},
	{Name: "os", State: wire.SlotUpdating, Version: "6", Next: "7", Running: "6", Text: "staged"},
}

// Rotating announces a second signing key to a sample, which node-3 does not know yet.
func (r *Rig) Rotating() {
	if _, err := r.RotateKey(caller.Named(context.Background(), "ann", "cli"), op.RotateKey{}); err != nil {
		r.tb.Error(err)
	}
	kids := newKeyring().IDs()
	for _, node := range []string{"node-1", "node-2", "node-4"} {
		r.Info(node, kids...)
	}
	r.Info("node-3", kids[0])
}
