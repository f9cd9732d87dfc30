package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/wire"
)

// What people do to a component at the node, with the agent played by the test.
func TestSlotOfComponent(t *testing.T) {
	n := newNode(t)
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bundle")
	if err := os.WriteFile(file, []byte("the bundle"), 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(status int, out, errs string, args ...string) {
		t.Helper()
		_, got, stdout, stderr := n.tandem(append([]string{"slot"}, args...)...)
		if got != status || !strings.Contains(stdout, out) || !strings.Contains(stderr, errs) {
			t.Errorf("%s: status %d\n%s%s; want %d %q %q", strings.Join(args, " "), got, stdout, stderr, status,
				out, errs)
		}
	}
	says(1, "", "there is no component os: the agent's setting --component", "try", "--component", "os")
	says(1, "", "is not the name of a component", "try", "--component", "a/b")
	store := disk.OpenStore(n.dir, "os", nil)
	agent := func(change func(r *update.Record)) {
		t.Helper()
		err := store.Make()
		if err == nil {
			err = store.Update(time.Now(), func(r update.Record) (update.Record, error) { change(&r); return r, nil })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	agent(func(r *update.Record) { r.Has.Active = "6" })
	says(0, "os         active  6        -     -", "", "status")
	says(1, "", "does not say its version: --version", "stage", file, "--component", "os")
	says(1, "", "should be sha256:00", "stage", file, "--component", "os", "--version", "7", "--hash", "00")
	says(1, "", "no such version", "try", "--component", "os")
	says(1, "", "no version of the component is on trial", "commit", "--component", "os")
	says(1, "", "no version of the component is on trial", "approve", "--component", "os")
	says(1, "", "no version of the component is staged", "rollback", "--component", "os")
	says(0, "tandem-node slot try --component os --state-dir "+n.dir+"\n", "",
		"stage", file, "--component", "os", "--version", "7", "--hash",
		"BAB59F2948216E8FF89B7FC8655F94DB6143A00897C68860D3BCF0FF9C2E5212")
	agent(func(r *update.Record) { r.Phase = update.Staged })
	says(1, "", "no such version", "try", "--component", "os", "--version", "8")
	says(1, "", "no slots to choose from", "try", "a", "--component", "os")
	// One trial on a node at a time.
	slots := slot.Open(slot.Config{Dir: filepath.Join(n.dir, slot.Dir)})
	_, status, _, errs := n.tandem("slot", "stage", n.program("1.4.0", ""), "--version", "1.4.0")
	if status != 0 {
		t.Fatal(errs)
	}
	if err := slots.Arm(record.A, 3); err != nil {
		t.Fatal(err)
	}
	says(1, "", "slot a: a trial is in progress", "try", "--component", "os")
	if _, err := slots.Rollback(record.A, wire.BootFallback, "by the test"); err != nil {
		t.Fatal(err)
	}
	says(0, "as soon as it is installed", "", "try", "--component", "os", "--version", "7")
	says(0, `"try": true`, "", "status", "--component", "os", "--json")
	says(0, "staged, to be tried", "", "status")
	agent(func(r *update.Record) { r.Phase, r.Tried, r.Try = update.Trying, true, "" })
	says(1, "", "component os, version 7: a trial is in progress", "try", "a")
	says(1, "", "is under way", "stage", file, "--component", "os", "--version", "8")
	says(0, "the agent sees it within a minute", "", "approve", "--component", "os")
	if r, err := store.Read(); err != nil || r.Approved != r.Number || r.Phase != update.Trying {
		t.Errorf("%+v %v", r, err)
	}
	says(0, "the agent does it", "", "rollback", "--component", "os", "--why", "no sound")
	if r, err := store.Read(); err != nil || r.Phase != update.RollingBack ||
		!strings.Contains(r.Why.Detail, "somebody at the node: no sound") {
		t.Errorf("%+v %v", r, err)
	}
	says(0, "inprogress", "", "status", "--component", "os")
	// What has failed is refused before it is there to be installed, and where it is: unless somebody insists.
	const hash = "sha256:bab59f2948216e8ff89b7fc8655f94db6143a00897c68860d3bcf0ff9c2e5212"
	agent(func(r *update.Record) {
		r.Phase, r.Version, r.Hash = update.Staged, "7", hash
		r.Quarantine = []wire.HealthFailed{{Hash: hash, Version: "7", Text: "no sound", At: time.Unix(0, 0)}}
	})
	failed := "version 7 failed here before: no sound (at 1970-01-01T00:00:00Z); --force tries it all the same, or " +
		"stage a newer version"
	says(1, "", failed, "try", "--component", "os")
	says(1, "", failed, "stage", file, "--component", "os", "--version", "7.1")
	if r, err := store.Read(); err != nil || r.Version != "7" || r.Phase != update.Staged {
		t.Errorf("%+v %v", r, err)
	}
	says(0, "in quarantine: os 7 ("+hash+"): no sound", "", "status", "--component", "os")
	says(0, `"text": "no sound"`, "", "status", "--json")
	says(0, "as soon as it is installed", "", "try", "--component", "os", "--force")
	agent(func(r *update.Record) { r.Try = "" })
	says(0, "for the agent to install", "", "stage", file, "--component", "os", "--version", "7.1", "--force")
	says(1, "", "no such version is in quarantine", "clear", "--component", "os", "--version", "8")
	says(0, "cleared", "", "clear", "--component", "os", "--version", "7")
	says(0, "as soon as it is installed", "", "try", "--component", "os")
	says(1, "", "no such version is in quarantine", "clear")
	agent(func(r *update.Record) { r.Off = true })
	says(1, "", "there is no component os", "commit", "--component", "os")
	says(0, `"slots"`, "", "status", "--json")
}
