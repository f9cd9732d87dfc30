package apitest

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

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

func ref(rev uint64, version string) wire.DocRef {
	return wire.DocRef{Epoch: 1, Rev: rev, Version: version, Hash: wire.Hash([]byte(version))}
}

func attempt(rev uint64, version string, state wire.State, err *wire.Error) *wire.Attempt {
	r := ref(rev, version)
	return &wire.Attempt{Epoch: r.Epoch, Rev: r.Rev, Version: r.Version, Hash: r.Hash, State: state, Error: err,
		Attempt: 1, At: Now.Add(-time.Minute)}
}

func node(name, nodeType string, online bool, since time.Duration, d view.Document) view.Node {
	d.ReportedAt = Now.Add(-since)
	return view.Node{
		Node: name, Type: nodeType, Online: online, Since: Now.Add(-since), FirstSeen: Now.Add(-48 * time.Hour),
		InSync:    d.InSync,
		Documents: map[wire.Kind]view.Document{wire.KindConfig: d},
		Info: &wire.NodeInfo{Type: nodeType, OS: "linux", Arch: "arm64", CPUs: 4, RAM: 2 << 30,
			Partitions:   []wire.Partition{{Name: "services", Path: "/var/services", Size: 8 << 30}},
			AgentVersion: "1.0.0"},
		Boot: "b-" + name, Session: 2, Events: 7,
	}
}

// Sample is a unit of four nodes on version 2.0.0: one has it, one refused it, one is applying it, one is away.
func Sample() State {
	two := ref(12, "2.0.0")
	one := ref(5, "1.9.0")
	want := &view.Desired{DocRef: two, Mode: wire.ModeApply, Issued: Now.Add(-2 * time.Minute)}
	bad := &wire.Error{Code: wire.CodeBadValue, Path: "/alertRules/partitions/0/name",
		Message: `there is no partition "logs" on this node`}
	s := State{
		Now: Now,
		Nodes: []view.Node{
			node("node-1", "mainType", true, 3*time.Hour,
				view.Document{Desired: want, Running: &two, Last: attempt(12, "2.0.0", wire.StateInstalled, nil),
					InSync: true}),
			node("node-2", "mainType", true, 90*time.Second,
				view.Document{Desired: want, Running: &one, Last: attempt(12, "2.0.0", wire.StateRejected, bad)}),
			node("node-3", "secondaryType", true, 26*time.Hour,
				view.Document{Desired: want, Running: &one, Last: attempt(12, "2.0.0", wire.StateApplying, nil)}),
			node("node-4", "secondaryType", false, 5*time.Minute,
				view.Document{Desired: want, Running: &one, Last: attempt(5, "1.9.0", wire.StateInstalled, nil)}),
		},
		Documents: map[string][]byte{"1.9.0": Document("1.9.0"), "2.0.0": Document("2.0.0")},
		Versions: []view.Version{
			{Seq: 4, At: Now.Add(-30 * time.Hour), Version: "1.9.0", State: "accepted", Who: "uid:0(root)", Via: "file",
				Mode: wire.ModeApply, Hash: wire.Hash(Document("1.9.0"))},
			{Seq: 9, At: Now.Add(-10 * time.Minute), Version: "1.9.0", State: "refused", Who: "uid:1000(alice)",
				Via: "cli", Mode: wire.ModeApply,
				Error: wire.New(wire.CodeAlreadyExists, "/version", "version 1.9.0 is already installed")},
			{Seq: 11, At: Now.Add(-2 * time.Minute), Version: "2.0.0", State: "accepted", Who: "uid:1000(alice)",
				Via: "cli", Mode: wire.ModeApply, Hash: wire.Hash(Document("2.0.0"))},
		},
		Config: view.SourceStatus{
			State: "installed", Version: "2.0.0", Rev: 12, Since: Now.Add(-2 * time.Minute),
			Progress: view.Progress{Nodes: 4, Online: 3, Installed: 1, OnlineMissing: 1, Failed: 1,
				Missing: []view.Laggard{
					{Node: "node-2", Online: true, State: wire.StateRejected, Error: bad},
					{Node: "node-3", Online: true, State: wire.StateApplying},
					{Node: "node-4"},
				}},
		},
		Status: view.UnitStatus{
			Unit: "u1", Epoch: 1, Rev: 14, Version: "1.0.0", Started: Now.Add(-30 * time.Hour),
			Broker:  view.Broker{Embedded: true, Address: "127.0.0.1:1883", Up: true, Since: Now.Add(-30 * time.Hour)},
			Trouble: []string{"node-2 rejected version 2.0.0"},
		},
	}
	for i, e := range []view.Entry{
		{Type: "opened", Data: jsontext.Value(`{"version":"1.0.0"}`)},
		{Type: "submission", Who: "uid:1000(alice)", Kind: "config", Data: jsontext.Value(`{"via":"cli"}`)},
		{Type: "accepted", Who: "uid:1000(alice)", Kind: "config", Data: jsontext.Value(`{"version":"2.0.0"}`)},
		{Type: "issued", Kind: "config", Data: jsontext.Value(`{"version":"2.0.0","nodes":4}`)},
		{Type: "report", Node: "node-1", Kind: "config", Data: jsontext.Value(`{"state":"installed"}`)},
		{Type: "live", Node: "node-4", Data: jsontext.Value(`{"up":false}`)},
	} {
		e.Seq, e.At = uint64(9+i), Now.Add(time.Duration(i-6)*time.Second)
		s.Entries = append(s.Entries, e)
	}
	return s
}
