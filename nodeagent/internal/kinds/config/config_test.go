package config

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// newKind makes the kind, and where it puts the alert rules that are in force.
func newKind(t *testing.T, rules unitconfig.LocalRules) (kind.Kind, *[][]alert.Rule) {
	t.Helper()
	var told [][]alert.Rule
	k, err := New(Config{Path: filepath.Join(t.TempDir(), "config.json"),
		ID: inbox.Identity{Unit: "u1", Node: "n1"}, Rules: rules,
		Timeout: time.Second, Run: func(context.Context, []string, []string) error { return nil },
		Alerts: func(r []alert.Rule) { told = append(told, r) }})
	if err != nil {
		t.Fatal(err)
	}
	return k, &told
}

func doc(body string) inbox.Doc {
	return inbox.Doc{Stamp: wire.Stamp{Epoch: 1, Rev: 1}, Version: "1.0.0", Hash: wire.Hash([]byte(body)),
		Mode: wire.ModeApply, Body: []byte(body)}
}

func TestCheck(t *testing.T) {
	highest := uint32(3)
	rules := unitconfig.LocalRules{MaxPriority: &highest, AllowedLabels: []string{"main"}, Partitions: []string{"data"}}
	k, _ := newKind(t, rules)
	for _, c := range []struct {
		name, body string
		want       string // codes and paths
	}{
		{"good", `{"formatVersion":"7","version":"1.0.0","priority":3,"labels":["main"]}`, ""},
		{"not JSON", `{`, "malformed"},
		{"format", `{"formatVersion":"6","version":"1.0.0"}`, "wrong-version /formatVersion"},
		{"unknown field", `{"formatVersion":"7","version":"1.0.0","x":1}`, "unknown-field /x"},
		{"envelope's version", `{"formatVersion":"7","version":"1.0.1"}`, "bad-value /version"},
		{"another node's", `{"formatVersion":"7","version":"1.0.0","node":{"codename":"n2"}}`,
			"wrong-target /node/codename"},
		{"priority and label", `{"formatVersion":"7","version":"1.0.0","priority":4,"labels":["x"]}`,
			"not-allowed /labels/0, not-allowed /priority"},
		{"partition",
			`{"formatVersion":"7","version":"1.0.0","alertRules":{"partitions":
				[{"name":"x","minThreshold":0.1,"maxThreshold":0.2}]}}`,
			"not-found /alertRules/partitions/0/name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			_, errs := k.Check(doc(c.body))
			for _, e := range errs {
				got = append(got, strings.TrimSpace(string(e.Code)+" "+e.Path))
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("%q, want %q", s, c.want)
			}
		})
	}
}

// The rules of the document in force reach the alerts; those of one that cannot be read do not take them away.
func TestAlertRulesInForce(t *testing.T) {
	k, told := newKind(t, unitconfig.LocalRules{})
	good := doc(`{"formatVersion":"7","version":"1.0.0",
		"alertRules":{"cpu":{"minTimeout":"PT1M","minThreshold":0.1,"maxThreshold":0.2}}}`)
	saved := k.Load(inbox.Durable{Running: good, Flight: inbox.Flight{Doc: doc(`{"formatVersion":"8"}`)}})
	if err := k.InForce(saved.Running); err != nil {
		t.Fatal(err)
	}
	if err := k.InForce(saved.Flight.Doc); err == nil || err.Code != wire.CodeNotSupported {
		t.Errorf("a document that cannot be read: %v", err)
	}
	if err := k.InForce(inbox.Doc{}); err != nil {
		t.Error(err)
	}
	rule := alert.Rule{Parameter: alert.CPU, MinTimeout: duration.Duration(time.Minute), Min: 0.1, Max: 0.2}
	if want := [][]alert.Rule{{rule}, nil}; !reflect.DeepEqual(*told, want) {
		t.Errorf("the alerts were told %v, want %v", *told, want)
	}
}
