package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/disk"
	"tandem.internal/shared/wire"
)

// inQuarantine plays the agent, which has written down in its update that slot b was on trial, or that it has failed:
// the launcher has ended the trial. Afterwards slot b is armed again.
func (n node) inQuarantine(file string) {
	n.t.Helper()
	st, err := slot.Open(slot.Config{Dir: filepath.Join(n.dir, slot.Dir)}).Status()
	if err != nil {
		n.t.Fatal(err)
	}
	own := disk.Own(n.dir, nil)
	agent := func(r update.Record) {
		n.t.Helper()
		if err := own.Update(time.Now(), func(update.Record) (update.Record, error) { return r, nil }); err != nil {
			n.t.Fatal(err)
		}
	}
	refused := func(want string, args ...string) {
		n.t.Helper()
		_, status, _, errs := n.tandem(append([]string{"slot"}, args...)...)
		if status != 1 || !strings.Contains(errs, want) {
			n.t.Errorf("%v: status %d, %s; want %q", args, status, errs, want)
		}
	}
	was := "version 2.0 failed here before: none of its starts came to a commit"
	for _, r := range []update.Record{
		{Number: 1, Phase: update.Trying, Version: "2.0", Hash: st.Last.Hash}, // no agent has run since
		{Number: 1, Quarantine: []wire.HealthFailed{{Hash: st.Last.Hash, Version: "2.0", Text: st.Last.Detail,
			At: time.Unix(0, 0)}}},
	} {
		agent(r)
		refused(was, "try", "b")
		refused(was, "stage", file)
		n.must("in quarantine: 2.0 (sha256:", "slot", "status")
		n.must("b        unused  2.0 ", "slot", "status")
	}
	n.must("slot b holds version 2.0", "slot", "stage", file, "--force")
	refused(was, "try")
	n.must("slot b runs on trial", "slot", "try", "--force")
	n.must("cleared", "slot", "clear", "--version", "2.0")
	refused("no such version is in quarantine", "clear")
}

// A file that cannot be read, and one that is none, are told of as before.
func TestStageTellsOfFiles(t *testing.T) {
	n := newNode(t)
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"/nowhere": "no such file", t.TempDir(): "is not a file"} {
		if _, status, _, errs := n.tandem("slot", "stage", file); status != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %s", file, status, errs)
		}
	}
}
