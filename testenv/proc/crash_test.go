package proc

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/wire"
)

// history is the answer to GET /v1/config/history.
type history struct {
	Versions []controller.Version `json:"versions"`
}

const kills = 6 // of each kind of program, in every run

// submitting submits version after version until told to stop, and tells which were accepted.
// It ends at the first submission that gets no answer.
func submitting(u *Unit, next *int, stop <-chan struct{}) (accepted []string) {
	for {
		select {
		case <-stop:
			return accepted
		default:
		}
		*next++
		version := fmt.Sprintf("1.0.%d", *next)
		res, err := u.Submit(Document(version, *next), "")
		if err != nil {
			return accepted
		}
		if res.State == "accepted" {
			accepted = append(accepted, version)
		}
	}
}

// after closes the channel at a random moment within a time: the moment is what is tested.
func after(chance *rand.Rand, within time.Duration) <-chan time.Time {
	return time.After(time.Duration(chance.Int64N(int64(within))))
}

// The controller is killed at random moments while it takes submissions. What it had accepted is
// there after the restart, byte for byte, and the nodes end up on the newest.
func TestKilledController(t *testing.T) {
	t.Parallel()
	chance := Seed(t)
	u := NewUnit(t)
	u.StartController()
	nodes := []string{"n1", "n2"}
	u.StartNode("n1", "main")
	u.StartNode("n2", "second")
	accepted := map[string]bool{}
	version := 0
	for round := range kills {
		result := make(chan []string)
		go func() { result <- submitting(u, &version, nil) }()
		<-after(chance, 500*time.Millisecond)
		u.Controller.Kill()
		for _, v := range <-result {
			accepted[v] = true
		}
		u.StartController()
		past, err := Get[history](u, "/v1/config/history")
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, v := range past.Versions {
			if v.State == "accepted" {
				there[v.Version] = true
			}
		}
		for v := range accepted {
			if !there[v] {
				t.Errorf("round %d: %s was accepted and is forgotten", round, v)
			}
		}
		status, err := Get[controller.SourceStatus](u, "/v1/config/status")
		if err != nil || status.State != "installed" && len(accepted) > 0 {
			t.Errorf("round %d: %+v %v", round, status, err)
		}
		if status.State == "installed" {
			var mark int
			if _, err := fmt.Sscanf(status.Version, "1.0.%d", &mark); err != nil {
				t.Fatal(err)
			}
			code, doc, err := u.request(http.MethodGet, "/v1/config", nil)
			if err != nil || code != http.StatusOK || string(doc) != string(Document(status.Version, mark)) {
				t.Errorf("round %d: the installed document: %d %v %s", round, code, err, doc)
			}
		}
	}
	if len(accepted) == 0 {
		t.Error("nothing was ever accepted")
	}
	version++
	last := fmt.Sprintf("1.0.%d", version)
	if res, err := u.Submit(Document(last, version), ""); err != nil || res.State != "accepted" {
		t.Fatalf("after the last restart: %+v %v", res, err)
	}
	u.AwaitVersion(last, nodes...)
	if o := u.Tandem("journal", "verify"); o.Status != 0 {
		t.Errorf("verify: %+v", o)
	}
	t.Logf("%d kills, %d submissions, %d accepted", kills, version, len(accepted))
}

// A node is killed at random moments, and once exactly while its command runs. It never has half a
// file or one of wrong mode, and ends up on the newest.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	chance := Seed(t)
	u := NewUnit(t)
	u.StartController("--check-timeout", "1s") // a node that dies while it is asked counts as silent only then
	marks := filepath.Join(u.Dir, "marks")
	script := filepath.Join(u.Dir, "on-apply")
	// The command is slow when the file slow is there, and leaves a mark when it begins.
	text := "#!/bin/sh\necho begin $TANDEM_MODE $TANDEM_VERSION >>" + marks + "\n[ ! -e " + u.Dir +
		"/slow ] || sleep 0.5\necho end $TANDEM_MODE $TANDEM_VERSION >>" + marks + "\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	start := func() { u.StartNode("n1", "main", "--on-apply", script) }
	start()
	version := 0
	for round := range kills {
		stop, result := make(chan struct{}), make(chan []string)
		go func() { result <- submitting(u, &version, stop) }()
		<-after(chance, 400*time.Millisecond)
		u.Nodes["n1"].Kill()
		close(stop)
		<-result
		data, err := os.ReadFile(filepath.Join(u.StateDir("n1"), "config.json"))
		switch {
		case os.IsNotExist(err):
		case err != nil:
			t.Fatal(err)
		case !strings.HasSuffix(strings.TrimSpace(string(data)), "}"):
			t.Errorf("round %d: half a file: %s", round, data)
		}
		start()
	}
	newest := func() string {
		version++
		v := fmt.Sprintf("1.0.%d", version)
		if res, err := u.Submit(Document(v, version), ""); err != nil || res.State != "accepted" {
			t.Fatalf("%s: %+v %v", v, res, err)
		}
		return v
	}
	u.AwaitOnline("n1", true)
	u.AwaitVersion(newest(), "n1")

	// While the command runs.
	if err := os.WriteFile(filepath.Join(u.Dir, "slow"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	v := newest()
	Until(t, "the command runs", func() string {
		data, err := os.ReadFile(marks)
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(string(data), "begin apply "+v+"\n") {
			return "not yet"
		}
		return ""
	})
	u.Nodes["n1"].Kill()
	if err := os.Remove(filepath.Join(u.Dir, "slow")); err != nil {
		t.Fatal(err)
	}
	start()
	u.AwaitVersion(v, "n1")
	data, err := os.ReadFile(marks)
	if err != nil {
		t.Fatal(err)
	}
	if after := string(data)[strings.Index(string(data), "begin apply "+v+"\n")+1:]; !strings.Contains(after, "begin") {
		t.Errorf("the command was not run again for %s:\n%s", v, data)
	}
	if !strings.HasSuffix(strings.TrimSpace(string(data)), v) {
		t.Errorf("the software was not told of %s last:\n%s", v, data)
	}
}

// The on-apply command fails: the node keeps what it has, says so, and the operator sees why.
func TestFailingCommand(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	u.StartController()
	u.StartNode("n1", "main", "--on-apply", "test ! -e "+filepath.Join(u.Dir, "broken"))
	u.AwaitOnline("n1", true)
	if res, err := u.Submit(Document("1.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	u.AwaitVersion("1.0.0", "n1")
	if err := os.WriteFile(filepath.Join(u.Dir, "broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(u.Dir, "unit.json")
	if err := os.WriteFile(file, Document("1.1.0", 2), 0o600); err != nil {
		t.Fatal(err)
	}
	o := u.Tandem("config", "apply", file, "--wait")
	if o.Status != 4 || !strings.Contains(o.Errors, "n1") {
		t.Errorf("apply: %+v", o)
	}
	if err := os.Remove(filepath.Join(u.Dir, "broken")); err != nil {
		t.Fatal(err)
	}
	n, err := Get[controller.Node](u, "/v1/nodes/n1")
	if d := n.Documents[wire.KindConfig]; err != nil || d.Last == nil || !d.Last.State.Settled() ||
		d.Last.State == wire.StateInstalled {
		t.Errorf("%+v %v", n.Documents, err)
	}
	if o := u.Tandem("config", "rollback", "1.0.0", "--as", "1.2.0", "--wait"); o.Status != 0 {
		t.Errorf("rollback: %+v", o)
	}
	u.AwaitVersion("1.2.0", "n1")
}
