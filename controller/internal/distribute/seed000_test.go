package distribute_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// These tests follow seed 000 heading by heading; shared/docs/seed-000.md says which statement each shows.

// seedDoc is a unit configuration with an entry for node-1, one for its type, and one for another.
func seedDoc(version string) string {
	return fmt.Sprintf(`{
  "formatVersion": "7",
  "version": %q,
  "nodes": [
    {"version": "1.0.0", "node": {"codename": "node-1"}, "nodeGroupSubject": {"codename": "mainType"},
     "alertRules": {"ram": {"minTimeout": "PT1S", "minThreshold": 0.1, "maxThreshold": 0.9}},
     "labels": ["mainNode"], "priority": 1},
    {"nodeGroupSubject": {"codename": "mainType"},
     "resourceRatios": {"cpu": 50, "ram": 51, "storage": 52, "state": 53}, "priority": 2},
    {"nodeGroupSubject": {"codename": "edgeType"}, "priority": 3}
  ]
}
`, version)
}

// seedBody is what a node is to get from seedDoc.
func seedBody(t *testing.T, version, node, kind string) string {
	t.Helper()
	uc, problems := unitconfig.Parse([]byte(seedDoc(version)))
	if problems != nil {
		t.Fatal(problems)
	}
	c, _ := unitconfig.Resolve(uc, node, kind)
	return string(unitconfig.EncodeNode(c))
}

func refuses(version string) func(string) *wire.Error {
	return func(v string) *wire.Error {
		if v != version {
			return nil
		}
		return wire.New(wire.CodeNotAllowed, "/priority", "too high for this node")
	}
}

// Startup (Load): the file decides between installed, absent and failed.
func TestSeed000Load(t *testing.T) {
	for _, c := range []struct {
		name, file string // "-": there is none
		want       string
		gets       string // by the node that is there
	}{
		{"no file", "-", "absent", ""},
		{"a whole file", seedDoc("1.0.0"), "installed 1.0.0", "1.0.0"},
		{"not JSON", "{", "failed malformed", ""},
		{"an empty file", "", "failed malformed", ""},
		{"another format", strings.Replace(seedDoc("1.0.0"), `"7"`, `"6"`, 1), "failed wrong-version", ""},
		{"an unknown field", strings.Replace(seedDoc("1.0.0"), `"labels"`, `"lables"`, 1), "failed unknown-field", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inSeedUnit(t, func(t *testing.T, u *seedUnit) {
				if c.file != "-" {
					u.write(c.file)
				}
				u.start()
				u.wantState(c.want)
				if got := u.cloud(); got != c.want {
					t.Errorf("the cloud side sees %q", got)
				}
				n := u.node("node-1", "mainType")
				if got := n.received(); got != c.gets {
					t.Errorf("the node got %q, want %q", got, c.gets)
				}
				if failed := strings.HasPrefix(c.want, "failed"); failed != (u.entries("state") == 1) {
					t.Errorf("%d records of a changed state", u.entries("state"))
				}
				u.restart() // the same again, from journal and file
				u.wantState(c.want)
				if got := n.received(); got != "" {
					t.Errorf("after a restart the node got %q again", got)
				}
				// Whatever there was, a valid configuration gets the unit going.
				u.install(seedDoc("1.0.1"))
				u.wantState("installed 1.0.1")
				if got := n.received(); got != "1.0.1" || u.file() != seedDoc("1.0.1") {
					t.Errorf("after a valid update the node got %q, the file is %s", got, u.file())
				}
			})
		})
	}
}

// A damaged file cannot be left by a version rule: a failed unit takes a lower one.
func TestSeed000FailedIsLeft(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		u.install(seedDoc("2.0.0"))
		n := u.node("node-1", "mainType")
		n.received()
		u.write(seedDoc("9.9.9"))
		u.restart()
		u.wantState("failed 2.0.0 hash-mismatch")
		other := u.node("node-2", "mainType")
		if got := n.received() + other.received(); got != "" {
			t.Errorf("distributed %q while failed", got)
		}
		if got := u.cloud(); got != "failed 2.0.0 hash-mismatch" {
			t.Errorf("the cloud side sees %q", got)
		}
		r := u.submission(view.Submission{Kind: "config", Document: []byte(seedDoc("1.5.0")), DryRun: true})
		if r.State != "acceptable" {
			t.Errorf("the check of a lower version says %s %v", r.State, r.Error)
		}
		u.install(seedDoc("1.5.0"))
		u.wantState("installed 1.5.0")
		if a, b := n.received(), other.received(); a != "1.5.0" || b != "1.5.0" {
			t.Errorf("the nodes got %q and %q", a, b)
		}
		u.restart()
		u.wantState("installed 1.5.0")
	})
}

// Startup: what a crash left undone with the file is done.
func TestSeed000CopyIsMended(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		u.install(seedDoc("1.0.0"))
		u.install(seedDoc("2.0.0"))
		n := u.node("node-1", "mainType")
		n.received()
		u.stop()
		u.write(seedDoc("1.0.0")) // accepted, journaled, and then the power went
		u.start()
		u.wantState("installed 2.0.0")
		if u.file() != seedDoc("2.0.0") {
			t.Errorf("an older copy is still %s", u.file())
		}
		u.stop()
		if err := os.Remove(u.copyPath()); err != nil {
			t.Fatal(err)
		}
		u.start()
		u.wantState("installed 2.0.0")
		if u.file() != seedDoc("2.0.0") {
			t.Errorf("a missing copy is %s", u.file())
		}
		if got := n.received(); got != "" {
			t.Errorf("the node got %q again", got)
		}
	})
}

// Check: rules, then every node's own verdict on its own part. Nothing changes.
func TestSeed000Check(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		u.install(seedDoc("1.0.0"))
		one, two, three := u.node("node-1", "mainType"), u.node("node-2", "mainType"), u.node("node-3", "otherType")
		u.node("node-4", "mainType").stop()
		for _, n := range []*seedNode{one, two, three} {
			n.received()
		}
		check := func(doc string) view.Result {
			return u.submission(view.Submission{Kind: "config", Document: []byte(doc), DryRun: true})
		}
		before, file := u.entries("issued"), u.file()

		if r := check(seedDoc("1.0.0")); r.State != "refused" || r.Error.Code != wire.CodeAlreadyExists ||
			r.Checks.Asked != 0 {
			t.Errorf("the same version: %+v", r)
		}
		if r := check(seedDoc("0.9.0")); r.State != "refused" || r.Error.Code != wire.CodeWrongState ||
			r.Checks.Asked != 0 {
			t.Errorf("a lower version: %+v", r)
		}
		if r := check(seedDoc("1.1.0")); r.State != "acceptable" || r.Checks.Asked != 3 || r.Checks.Agreed != 3 ||
			fmt.Sprint(r.Checks.Unchecked) != "[node-4]" {
			t.Errorf("a higher version: %+v", r)
		}
		for _, n := range []*seedNode{one, two, three} {
			if len(n.checks) != 1 || string(n.checks[0].Body) != seedBody(t, "1.1.0", n.name, n.kind) ||
				n.checks[0].Version != "1.1.0" {
				t.Errorf("%s was asked about %+v", n.name, n.checks)
			}
		}
		two.refuse = refuses("1.2.0")
		if r := check(seedDoc("1.2.0")); r.State != "refused" || r.Error.Code != wire.CodeNotAllowed ||
			r.Error.Node != "node-2" || len(r.Checks.Refused) != 1 {
			t.Errorf("a node refuses: %+v", r)
		}
		three.mute = true
		began := time.Now()
		if r := check(seedDoc("1.3.0")); r.State != "acceptable" || fmt.Sprint(r.Checks.Silent) != "[node-3]" ||
			r.Checks.Agreed != 2 {
			t.Errorf("a node is silent: %+v", r)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the silent node held the check up for %v", took)
		}
		u.wantState("installed 1.0.0")
		if u.entries("issued") != before || u.entries("refused") != 0 || u.status().Attempted != nil ||
			u.file() != file || one.received() != "" {
			t.Error("a check changed something")
		}
	})
}

// Update: the refused leave everything as it was, the accepted go to file, journal and every node.
func TestSeed000Update(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		nodes := []*seedNode{u.node("node-1", "mainType"), u.node("node-2", "mainType"), u.node("node-3", "edgeType"),
			u.node("node-4", "otherType")}
		for _, n := range nodes {
			if n.body() != nil {
				t.Errorf("%s has a document before there is a configuration", n.name)
			}
		}
		u.install(seedDoc("1.0.0")) // nothing is installed: nothing to compare with
		u.install(seedDoc("2.0.0"))
		u.wantState("installed 2.0.0")
		info, err := os.Stat(u.copyPath())
		if err != nil || info.Mode() != 0o600 || u.file() != seedDoc("2.0.0") {
			t.Errorf("file: %v %v %s", info.Mode(), err, u.file())
		}
		for _, n := range nodes {
			if got := n.received(); got != "1.0.0 2.0.0" {
				t.Errorf("%s got %q", n.name, got)
			}
			if got, want := string(n.body()), seedBody(t, "2.0.0", n.name, n.kind); got != want {
				t.Errorf("%s got %s\nwant %s", n.name, got, want)
			}
		}
		nodes[0].refuse = refuses("3.0.0")
		for doc, want := range map[string]wire.Code{
			seedDoc("2.0.0"):       wire.CodeAlreadyExists,
			seedDoc("2.0.0+again"): wire.CodeAlreadyExists,
			seedDoc("1.9.9"):       wire.CodeWrongState,
			seedDoc("2.0.0-rc.1"):  wire.CodeWrongState,
			seedDoc("two"):         wire.CodeInvalidArgument,
			seedDoc("3.0.0"):       wire.CodeNotAllowed,
			"{}":                   wire.CodeMissing,
		} {
			if r := u.submit(doc); r.State != "refused" || r.Error.Code != want {
				t.Errorf("%.60s: %s %v, want %s", doc, r.State, r.Error, want)
			}
		}
		u.wantState("installed 2.0.0")
		for _, n := range nodes {
			if got := n.received(); got != "" {
				t.Errorf("%s got %q although it was refused", n.name, got)
			}
		}
		if u.file() != seedDoc("2.0.0") {
			t.Error("a refused submission reached the file")
		}
		u.restart()
		u.wantState("installed 2.0.0")
		if r := u.submit(seedDoc("2.0.0")); r.Error == nil || r.Error.Code != wire.CodeAlreadyExists {
			t.Errorf("a restart forgot the version: %+v", r)
		}
	})
}

// Introduction, Cloud Communication: the cloud side pushes and is answered; one path with the others.
func TestSeed000Cloud(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		n := u.node("node-1", "mainType")
		push := func(id, doc string) wire.Answer {
			t.Helper()
			m := wire.Submission{V: wire.Version, ID: id, From: "cloud", Document: jsontext.Value(doc)}
			if err := u.hub.Publish(topic.ForInbox(seedName, "config"), wire.Encode(&m), false); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			payload, ok := u.hub.Retained(topic.ForOutbox(seedName, "config"))
			if !ok {
				t.Fatal("no answer")
			}
			a, err := wire.Decode[wire.Answer](payload)
			if err != nil || a.ID != id {
				t.Fatalf("answer %s: %v", payload, err)
			}
			return *a
		}
		if a := push("a", seedDoc("1.0.0")); a.State != "accepted" || a.Version != "1.0.0" {
			t.Errorf("%+v", a)
		}
		if a := push("b", seedDoc("1.0.0")); a.State != "refused" || a.Error.Code != wire.CodeAlreadyExists {
			t.Errorf("%+v", a)
		}
		if a := push("c", seedDoc("0.1.0")); a.State != "refused" || a.Error.Code != wire.CodeWrongState {
			t.Errorf("%+v", a)
		}
		if a := push("a", seedDoc("1.0.0")); a.State != "accepted" || a.Version != "1.0.0" { // again: not judged again
			t.Errorf("%+v", a)
		}
		// not the same, but for its ID
		if a := push("a", seedDoc("0.2.0")); a.State != "refused" || a.Version != "0.2.0" {
			t.Errorf("%+v", a)
		}
		if got := n.received(); got != "1.0.0" {
			t.Errorf("the node got %q", got)
		}
		u.wantState("installed 1.0.0")
	})
}
