package fleet

import (
	"bytes"
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"

	"tandem.internal/controller/app"
	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/wire"
)

var lostNodes = flag.Int("lost-nodes", 100, "nodes of the unit whose controller's machine is lost")

// backInStep is the longest that it may take until every node of a unit is in step again.
const backInStep = time.Minute

// machine runs a controller with its broker behind a pipe, until it is lost.
func machine(t *testing.T, pipe *linktest.Pipe, dir, backupTo string) (a *app.App, lose func()) {
	t.Helper()
	l, err := pipe.Listen()
	if err != nil {
		t.Fatal(err)
	}
	a, err = app.New(app.Config{Unit: "u1", StateDir: dir, Listen: "127.0.0.1:0", CheckTimeout: 10 * time.Second,
		ReportJitter: 5 * time.Second, BackupTo: []string{backupTo}},
		app.Deps{NoAPI: true, Listeners: []net.Listener{l}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	lost := false
	lose = func() {
		if lost {
			return
		}
		lost = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(lose)
	return a, lose
}

// TestMachineIsLost: a controller's machine is lost with everything on it. Its unit is restored from a backup on
// another one, and without a hand on any node all of them are in step with what the backup has, though they have newer
// documents; and then follow what is submitted.
func TestMachineIsLost(t *testing.T) {
	n := *lostNodes
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	pipe := linktest.NewPipe()
	dir := filepath.Join(t.TempDir(), "lost")
	a, lose := machine(t, pipe, dir, key.Recipient().String())
	f := New(Config{Unit: "u1", Nodes: n, Types: []string{"a", "b"}, Dial: pipe.Dial,
		Backoff: link.Backoff{Min: 250 * time.Millisecond, Max: 5 * time.Second}})
	t.Cleanup(f.Close)
	f.Start()
	ctx := patience(t)
	if err := f.AwaitOnline(ctx, n); err != nil {
		t.Fatal(err)
	}
	submit := func(version string) {
		t.Helper()
		r, err := a.Unit().Submit(ctx, app.Submission{Kind: "config", Document: document(version), Who: "test",
			Via: "cli"})
		if err != nil || r.State != "accepted" {
			t.Fatalf("%+v %v", r, err)
		}
	}
	inStep := func(version string) {
		t.Helper()
		for ctx.Err() == nil {
			changed := a.Unit().Changed()
			s, err := a.Unit().SourceStatus(ctx, wire.KindConfig)
			if err != nil {
				t.Fatal(err)
			}
			if s.Version == version && s.Progress.Installed == n && s.Progress.Online == n {
				return
			}
			await(t, changed, f)
		}
		t.Fatalf("not all have %s: %+v", version, f.Stats())
	}
	submit("1.0.0")
	inStep("1.0.0")
	var file bytes.Buffer
	if err := a.Unit().BackupUnit(ctx, app.BackupIn{}, &file); err != nil {
		t.Fatal(err)
	}
	submit("2.0.0")
	inStep("2.0.0")
	lose()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}

	begin := time.Now()
	dir = filepath.Join(t.TempDir(), "other")
	if _, err := (app.Restore{Dir: dir, Now: time.Now}).Run(ctx, bytes.NewReader(file.Bytes()),
		[]age.Identity{key}); err != nil {
		t.Fatal(err)
	}
	a, _ = machine(t, pipe, dir, key.Recipient().String())
	inStep("1.0.0")
	took := time.Since(begin)
	t.Logf("%d nodes in step %v after the restore began; a backup of %d bytes", n, took.Round(10*time.Millisecond),
		file.Len())
	if took > backInStep {
		t.Errorf("%d nodes took %v", n, took)
	}
	submit("2.1.0")
	inStep("2.1.0")
	if s := f.Stats(); s.Refused > int64(n) { // each may be shown its old document, before it has said what it has
		t.Errorf("%+v", s)
	}
}
