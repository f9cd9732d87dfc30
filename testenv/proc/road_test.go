package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The whole road: a file, the controller, every node, and back to the operator; then everything
// stops, starts again on the same state, and an offline node catches up.
func TestTheWholeRoad(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	u.StartController()
	if info, err := os.Stat(u.Socket); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the control socket is open to everybody: %v %v", info.Mode(), err)
	}
	u.StartNode("n1", "main")
	u.StartNode("n2", "second")
	u.StartNode("n3", "second", "--max-priority", "10")
	for _, n := range []string{"n1", "n2", "n3"} {
		u.AwaitOnline(n, true)
	}
	file := filepath.Join(u.Dir, "unit.json")
	apply := func(version string, mark int, flags ...string) Output {
		t.Helper()
		if err := os.WriteFile(file, Document(version, mark), 0o600); err != nil {
			t.Fatal(err)
		}
		return u.Tandem(append([]string{"config", "apply", file}, flags...)...)
	}
	if o := apply("1.0.0", 1, "--wait"); o.Status != 0 || !strings.Contains(o.Out, "3 of 3 nodes") {
		t.Fatalf("apply: %+v", o)
	}
	u.AwaitVersion("1.0.0", "n1", "n2", "n3")
	if o := apply("1.0.0", 1); o.Status != 1 || !strings.Contains(o.Errors, "already-exists") {
		t.Errorf("the same version again: %+v", o)
	}
	if o := apply("0.9.0", 1); o.Status != 1 || !strings.Contains(o.Errors, "wrong-state") {
		t.Errorf("a lower version: %+v", o)
	}
	if o := apply("1.1.0", 10); o.Status != 1 || !strings.Contains(o.Errors, "n3") {
		t.Errorf("a priority that n3 refuses: %+v", o)
	}
	if o := u.Tandem("config", "status"); o.Status != 0 || !strings.Contains(o.Out, "1.0.0") {
		t.Errorf("status: %+v", o)
	}

	// Offline, then there again.
	u.Nodes["n2"].Stop()
	u.AwaitOnline("n2", false)
	if o := apply("1.2.0", 2, "--wait"); o.Status != 0 || !strings.Contains(o.Out, "n2") {
		t.Errorf("apply with n2 offline: %+v", o)
	}
	u.CheckFile("n2", "1.0.0")
	u.StartNode("n2", "second")
	u.AwaitVersion("1.2.0", "n1", "n2", "n3")

	// Everything stops and goes on.
	for _, p := range u.Nodes {
		p.Stop()
	}
	u.Controller.Stop()
	if o := u.Tandem("unit", "status"); o.Status != 3 || !strings.Contains(o.Errors, "tandem-controller") {
		t.Errorf("no controller: %+v", o)
	}
	if o := u.Verify(filepath.Join(u.StateDir("controller"), "journal.db")); o.Status != 0 {
		t.Errorf("verify of the journal: %+v", o)
	}
	u.StartController()
	u.StartNode("n1", "main")
	u.StartNode("n2", "second")
	u.StartNode("n3", "second", "--max-priority", "10")
	u.AwaitVersion("1.2.0", "n1", "n2", "n3")
	if o := u.Tandem("config", "history"); !strings.Contains(o.Out, "1.0.0") || !strings.Contains(o.Out, "refused") {
		t.Errorf("history: %+v", o)
	}
	if o := apply("1.3.0", 3, "--wait"); o.Status != 0 {
		t.Errorf("apply after the restart: %+v", o)
	}
}

// A trial that is confirmed stays; one that is not goes back by itself.
func TestTrial(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	u.StartController()
	u.StartNode("n1", "main")
	u.AwaitOnline("n1", true)
	submit := func(version, query string) {
		t.Helper()
		if res, err := u.Submit(Document(version, 1), query); err != nil || res.State != "accepted" {
			t.Fatalf("%s: %+v %v", version, res, err)
		}
	}
	submit("1.0.0", "")
	u.AwaitVersion("1.0.0", "n1")
	submit("1.1.0", "?mode=try&confirmWithin=PT1M")
	Until(t, "the trial can be confirmed", func() string {
		if o := u.Tandem("config", "confirm"); o.Status != 0 {
			return o.Errors
		}
		return ""
	})
	u.AwaitVersion("1.1.0", "n1")
	submit("1.2.0", "?mode=try&confirmWithin=PT2S")
	Until(t, "the trial is over", func() string {
		if o := u.Tandem("config", "history"); !strings.Contains(o.Out, "expired") {
			return o.Out
		}
		return ""
	})
	u.AwaitVersion("1.1.0", "n1")
}
