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
     "alertRules": {"ram": {"minTimeout": "PT1S", "minThreshold": 0.1, "maxThreshold": 0.9}}, "labels": ["mainNode"], "priority": 1},
    {"nodeGroupSubject": {"codename": "mainType"}, "resourceRatios": {"cpu": 50, "ram": 51, "storage": 52, "state": 53}, "priority": 2},
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
		r := u.submission(view.Submission{Document: []byte(seedDoc("1.5.0")), DryRun: true})
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
			return u.submission(view.Submission{Document: []byte(doc), DryRun: true})
		}
		before, file := u.entries("issued"), u.file()

		if r := check(seedDoc("1.0.0")); r.State != "refused" || r.Error.Code != wire.CodeAlreadyExists || r.Checks.Asked != 0 {
			t.Errorf("the same version: %+v", r)
		}
		if r := check(seedDoc("0.9.0")); r.State != "refused" || r.Error.Code != wire.CodeWrongState || r.Checks.Asked != 0 {
			t.Errorf("a lower version: %+v", r)
		}
		if r := check(seedDoc("1.1.0")); r.State != "acceptable" || r.Checks.Asked != 3 || r.Checks.Agreed != 3 || fmt.Sprint(r.Checks.Unchecked) != "[node-4]" {
			t.Errorf("a higher version: %+v", r)
		}
		for _, n := range []*seedNode{one, two, three} {
			if len(n.checks) != 1 || string(n.checks[0].Body) != seedBody(t, "1.1.0", n.name, n.kind) || n.checks[0].Version != "1.1.0" {
				t.Errorf("%s was asked about %+v", n.name, n.checks)
			}
		}
		two.refuse = refuses("1.2.0")
		if r := check(seedDoc("1.2.0")); r.State != "refused" || r.Error.Code != wire.CodeNotAllowed || r.Error.Node != "node-2" || len(r.Checks.Refused) != 1 {
			t.Errorf("a node refuses: %+v", r)
		}
		three.mute = true
		began := time.Now()
		if r := check(seedDoc("1.3.0")); r.State != "acceptable" || fmt.Sprint(r.Checks.Silent) != "[node-3]" || r.Checks.Agreed != 2 {
			t.Errorf("a node is silent: %+v", r)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the silent node held the check up for %v", took)
		}
		u.wantState("installed 1.0.0")
		if u.entries("issued") != before || u.file() != file || one.received() != "" {
			t.Error("a check changed something")
		}
	})
}

// Update: the refused leave everything as it was, the accepted go to file, journal and every node.
func TestSeed000Update(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		nodes := []*seedNode{u.node("node-1", "mainType"), u.node("node-2", "mainType"), u.node("node-3", "edgeType"), u.node("node-4", "otherType")}
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
		if got := n.received(); got != "1.0.0" {
			t.Errorf("the node got %q", got)
		}
		u.wantState("installed 1.0.0")
	})
}

// Node Info Change: who is given a document, when, and who is not.
func TestSeed000NodeInfoChange(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.node("node-1", "mainType")
		one.info()
		one.reboot()
		if got := one.received(); got != "" || u.entries("issued") != 0 {
			t.Errorf("not installed, and node-1 got %q", got)
		}
		u.install(seedDoc("1.0.0"))
		if got := one.received(); got != "1.0.0" {
			t.Errorf("node-1 got %q", got)
		}

		issued := u.entries("issued")
		one.reboot() // runs what it should
		one.info()
		u.hub.Cut("node/node-1")
		if got := one.received(); got != "" || u.entries("issued") != issued {
			t.Errorf("the versions are the same, and node-1 got %q", got)
		}

		two := u.node("node-2", "edgeType") // registers
		if got := two.received(); got != "1.0.0" || u.entries("issued") != issued+1 {
			t.Errorf("node-2 registered and got %q", got)
		}

		two.stop() // offline while the configuration changes, twice
		u.install(seedDoc("1.1.0"))
		u.install(seedDoc("1.2.0"))
		two.start()
		if got := two.received(); got != "1.2.0" {
			t.Errorf("node-2 was away and got %q", got)
		}
		one.received()

		two.kind = "mainType" // its information changes
		two.info()
		if got, body := two.received(), string(two.body()); got != "1.2.0" || body != seedBody(t, "1.2.0", "node-2", "mainType") {
			t.Errorf("node-2 has another type and got %q, %s", got, body)
		}
		if got := one.received(); got != "" {
			t.Errorf("node-2's change gave node-1 %q", got)
		}
	})
}

// Node Info Change, the error state: a node that comes back in error gets its document again, once a
// boot, until it runs it.
func TestSeed000NodeInError(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.node("node-1", "mainType")
		one.refuse = refuses("1.0.0")
		if r := u.submission(view.Submission{Document: []byte(seedDoc("1.0.0")), Offline: true}); r.State != "accepted" {
			t.Fatalf("%+v", r)
		}
		if got := one.received(); got != "1.0.0" {
			t.Fatalf("node-1 got %q", got)
		}
		back := func() string { // a boot, and more to hear of the node in it
			one.reboot()
			one.info()
			u.hub.Cut("node/node-1")
			synctest.Wait()
			one.info()
			return one.received()
		}
		if got := back(); got != "1.0.0" {
			t.Errorf("node-1 came back in error and got %q", got)
		}
		one.refuse = nil
		if got := back(); got != "1.0.0" {
			t.Errorf("node-1 can take it after another boot and got %q", got)
		}
		if p := u.status().Progress; p.Installed != 1 || p.Failed != 0 {
			t.Errorf("%+v", p)
		}
		if got := back(); got != "" {
			t.Errorf("node-1 runs it and got %q", got)
		}
	})
}

// Providing: one provider serves any node's resolved configuration; its bytes are those distributed.
func TestSeed000Provider(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		if _, err := u.core.Resolved(t.Context(), "node-1", "mainType"); err == nil || wire.AsError(err).Code != wire.CodeNotFound {
			t.Errorf("without a configuration: %v", err)
		}
		nodes := []*seedNode{u.node("node-1", "mainType"), u.node("node-2", "mainType"), u.node("node-3", "otherType")}
		u.install(seedDoc("1.0.0"))
		for i, rule := range []string{"node", "type", "default"} {
			n := nodes[i]
			r, err := u.core.Resolved(t.Context(), n.name, "") // the type is the one that the node told
			if err != nil || r.Rule != rule || r.Type != n.kind || string(r.Document) != string(n.body()) {
				t.Errorf("%s: %+v %v", n.name, r, err)
			}
		}
		r, err := u.core.Resolved(t.Context(), "never-heard-of", "")
		if want := `{"formatVersion":"7","version":"1.0.0","node":{"codename":"never-heard-of"},"priority":0}`; err != nil || string(r.Document) != want {
			t.Errorf("%s %v", r.Document, err)
		}
		u.write("{")
		if _, err := u.core.Resolved(t.Context(), "node-1", ""); err != nil {
			t.Errorf("the damaged copy took the provider along: %v", err)
		}
	})
}

// Status Reporting: version, state, error; to the operator and to the cloud side.
func TestSeed000Status(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		want := func(s string) {
			t.Helper()
			u.wantState(s)
			if got := u.cloud(); got != s {
				t.Errorf("the cloud side sees %q, want %q", got, s)
			}
		}
		want("absent")
		u.install(seedDoc("1.0.0"))
		want("installed 1.0.0")
		u.submit(seedDoc("0.5.0")) // refused: the state stays, and what was attempted stands beside it
		want("installed 1.0.0")
		if a := u.status().Attempted; a == nil || a.Version != "0.5.0" || a.Error.Code != wire.CodeWrongState {
			t.Errorf("attempted: %+v", a)
		}
		u.write("}")
		u.restart()
		want("failed 1.0.0 malformed")
		if _, err := u.core.Restore(t.Context(), "tester"); err != nil {
			t.Fatal(err)
		}
		want("installed 1.0.0")
		u.install(seedDoc("1.0.1"))
		want("installed 1.0.1")
	})
}
