package upgrade

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
)

// demoLimit is how long make demo-upgrade may take, without its build: as long as it says, and half of that again.
const demoLimit = 270 * time.Second

// TestDemoUpgrade: the script of make demo-upgrade, which brings up a unit and releases a good version, one that
// crashes, one that hangs, one that somebody else has signed and one below the floor, ends well; what is on the disks
// of the nodes then is what it says, and nothing runs any more.
func TestDemoUpgrade(t *testing.T) {
	t.Parallel()
	bin := filepath.Dir(proc.Binary(t, "tandem"))
	build := exec.Command(filepath.Join(proc.Root(t), "deploy/demo/versions"), filepath.Join(bin, "versions"), "")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir, run := t.TempDir(), filepath.Join(t.TempDir(), "u")
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(filepath.Join(proc.Root(t), "deploy"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bin, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	d := proc.StartDemoScript(t, dir, run, []string{"TANDEM_UP_DIR=" + run, "TANDEM_UP_PORT=" +
		strconv.Itoa(proc.Port(t))}, "bash", "deploy/demo/upgrade")
	if status := d.Wait(demoLimit); status != 0 {
		t.Fatalf("it ended with %d", status)
	}
	d.CheckStopped()
	log := d.Log()
	at := 0
	for _, want := range []string{"COMMIT", "1 successful", "version 2.0.0 in slot a brings settings: beat\n",
		"no action required", "ROLLBACK", "none of its starts came to a commit", "QUARANTINE",
		"version 3.0.0 failed here before", "in quarantine: 3.0.0", "WRONG SIGNATURE", "unknown-key",
		"BELOW THE FLOOR", "below-floor", "All of it went as it should"} {
		i := strings.Index(log[at:], want)
		if i < 0 {
			t.Fatalf("%q is not told, or not in its place:\n%s", want, log)
		}
		at += i
	}
	for node, want := range map[string]struct{ good, version, failed, floor string }{
		"node-1": {"a", "2.0.0", "", "2.0.0"},
		"node-2": {"factory", "3.0.0", "3.0.0", ""},
		"node-3": {"factory", "4.0.0", "4.0.0", ""},
	} {
		o := proc.Run(t, dir, nil, proc.Binary(t, "tandem-node"), "slot", "status", "--state-dir",
			filepath.Join(run, node), "--json")
		var s struct {
			slots
			Floor      string
			Quarantine []wire.HealthFailed
		}
		if err := json.Unmarshal([]byte(o.Out), &s, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatalf("%s: %v %s%s", node, err, o.Out, o.Errors)
		}
		failed := ""
		for _, q := range s.Quarantine {
			failed += q.Version
		}
		if s.Running != want.good || s.Last.Version != want.version || s.Last.Committed != (want.failed == "") ||
			s.Trial || s.Floor != want.floor || failed != want.failed {
			t.Errorf("%s: %s, want %+v", node, o.Out, want)
		}
	}
}
