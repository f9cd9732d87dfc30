package proc

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	controller "tandem.internal/controller/app"
)

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// started is a unit with one node that runs 1.0.0.
func started(t *testing.T) *Unit {
	t.Helper()
	u := NewUnit(t)
	u.StartController("--report-jitter", "100ms")
	u.StartNode("n1", "main")
	u.AwaitOnline("n1", true)
	u.accept("1.0.0", 1)
	u.AwaitVersion("1.0.0", "n1")
	return u
}

func (u *Unit) accept(version string, mark int) {
	u.t.Helper()
	if res, err := u.Submit(Document(version, mark), ""); err != nil || res.State != "accepted" {
		u.t.Fatalf("%s: %+v %v", version, res, err)
	}
}

// A journal restored from a backup brings the whole unit back to what it was, and on from there.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	u := started(t)
	copied := filepath.Join(u.Dir, "backup.db")
	has(t, u.Tandem("journal", "backup", copied), 0, copied, "")
	has(t, u.Tandem("journal", "backup", copied), 2, "", "already-exists")
	has(t, u.Verify(copied), 0, "the chain is whole", "")
	u.accept("1.1.0", 2)
	u.AwaitVersion("1.1.0", "n1")
	u.Controller.Stop()
	if err := os.Rename(copied, filepath.Join(u.StateDir("controller"), "journal.db")); err != nil {
		t.Fatal(err)
	}
	u.StartController("--report-jitter", "100ms")
	status, err := Get[controller.SourceStatus](u, "/v1/config/status")
	if err != nil {
		t.Fatal(err)
	}
	if status.State == "failed" { // the copy of the unit configuration is of 1.1.0
		has(t, u.Tandem("config", "restore"), 0, "", "")
	}
	u.AwaitVersion("1.0.0", "n1")
	u.accept("1.1.0", 2)
	u.AwaitVersion("1.1.0", "n1")
}

// Without a journal the unit goes on from the readable copy; without the copy it is written again;
// altered, it stops everything until it is put right.
func TestLostFiles(t *testing.T) {
	t.Parallel()
	u := started(t)
	dir := u.StateDir("controller")
	file := filepath.Join(dir, "unit-config.json")
	u.Controller.Stop()
	remove(t, file)
	u.StartController("--report-jitter", "100ms")
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the copy was not written again: %v", err)
	}
	u.Controller.Stop()
	remove(t, filepath.Join(dir, "journal.db"))
	u.StartController("--report-jitter", "100ms")
	has(t, u.Tandem("config", "history"), 0, "accepted  file", "")
	u.AwaitVersion("1.0.0", "n1")
	u.accept("1.1.0", 2)
	u.AwaitVersion("1.1.0", "n1")

	u.Controller.Stop()
	if err := os.WriteFile(file, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.StartController("--report-jitter", "100ms")
	has(t, u.Tandem("config", "status"), 0, "failed", "")
	has(t, u.Tandem("config", "restore"), 0, "1.1.0", "")
	has(t, u.Tandem("config", "status"), 0, "installed", "")
	u.accept("1.2.0", 3)
	u.AwaitVersion("1.2.0", "n1")

	u.Controller.Stop()
	remove(t, filepath.Join(dir, "unit-key.pem"))
	has(t, Run(t, u.Dir, nil, u.ControllerArgs()...), 1, "", "restore the key from a backup")
	journal := filepath.Join(dir, "journal.db")
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] ^= 0x5a
	}
	if err := os.WriteFile(journal, data, 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, u.Verify(journal), 2, "", "is not a Tandem journal")
}

// A node whose state was cut while it was killed comes back unaided, and an operator sees what happened and what to do.
func TestNodeStateIsDamaged(t *testing.T) {
	t.Parallel()
	u := started(t)
	u.Nodes["n1"].Kill()
	state := filepath.Join(u.StateDir("n1"), "state.db")
	if err := os.Truncate(state, 9000); err != nil {
		t.Fatal(err)
	}
	has(t, Run(t, u.Dir, nil, Binary(t, "tandem-node"), "trust", "--state-dir", u.StateDir("n1")), 1, "", "is damaged")
	u.StartNode("n1", "main")
	u.AwaitOnline("n1", true)
	u.accept("1.1.0", 2)
	u.AwaitVersion("1.1.0", "n1")
	Until(t, "the event is there", func() string {
		o := u.Tandem("events", "--node", "n1", "--type", "state-lost")
		if !strings.Contains(o.Out, "it is cut short") || !strings.Contains(o.Out, "; kept as state.db.bad-") ||
			!strings.Contains(o.Out, "it knows from a copy whom to believe and what is old") {
			return o.Out + o.Errors
		}
		return ""
	})
	has(t, u.Tandem("node", "n1"), 0, "see to the disk, then remove state.db.bad-", "")
}

// A node that loses its state begins as a new one and gets its document; one that loses config.json
// writes it again.
func TestNodeLosesItsFiles(t *testing.T) {
	t.Parallel()
	u := started(t)
	u.Nodes["n1"].Stop()
	remove(t, filepath.Join(u.StateDir("n1"), "config.json"))
	u.StartNode("n1", "main")
	u.AwaitOnline("n1", true)
	Until(t, "config.json is back", func() string {
		if _, err := os.Stat(filepath.Join(u.StateDir("n1"), "config.json")); err != nil {
			return err.Error()
		}
		return ""
	})
	u.AwaitVersion("1.0.0", "n1")
	u.Nodes["n1"].Stop()
	if err := os.RemoveAll(u.StateDir("n1")); err != nil {
		t.Fatal(err)
	}
	u.StartNode("n1", "main")
	Until(t, "config.json is there", func() string {
		if _, err := os.Stat(filepath.Join(u.StateDir("n1"), "config.json")); err != nil {
			return err.Error()
		}
		return ""
	})
	u.AwaitVersion("1.0.0", "n1")
	if status, body, err := u.request(http.MethodGet, "/readyz", nil); err != nil || status != http.StatusOK {
		t.Errorf("%d %s %v", status, body, err)
	}
}
