package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/slot"
)

// What was tried with a floor shows at the node, keeps older versions out there, and at the launcher. The owner's own
// --floor lets them in again.
func TestFloorAtTheNode(t *testing.T) {
	n := newNode(t)
	n.must("tandem-node devel", "launch", "--", "version")
	n.share(maker)
	signed := func(version, more string) string {
		t.Helper()
		file := n.program(version, "")
		sign(t, maker, file, "tandem-node "+version+more, file+".minisig")
		return file
	}
	key := []string{"--publisher-key", maker.Public()}
	if out := n.must("SLOT", "slot", "status"); strings.Contains(out, "is tried") {
		t.Error(out)
	}
	n.must("holds version 2.0.0", "slot", "stage", signed("2.0.0", " floor:1.5.0"))
	n.must("runs on trial", "slot", "try")
	n.launch("2.0.0 PID slot=a trial=1 tries=2 reason=update args="+strings.Join(key, " "), key...)
	n.must("is in force", "slot", "commit")
	n.must("no version below 1.5.0 is tried: a publisher has signed that", "slot", "status")
	old := signed("1.4.0", "")
	n.refused("below-floor: version 1.4.0 is below 1.5.0", "slot", "stage", old)

	// The agent's start with --floor leaves it for the commands.
	file := filepath.Join(n.dir, "floor")
	if err := os.WriteFile(file, []byte("1.3.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.must("the setting --floor says so; a publisher has signed 1.5.0", "slot", "status")
	n.must("holds version 1.4.0", "slot", "stage", old)
	n.must("runs on trial", "slot", "try")
	errs := n.launch("2.0.0 PID slot=a trial=0 tries=0 reason=fallback args="+strings.Join(key, " "), key...)
	if !strings.Contains(errs, "below-floor") { // whose settings do not say so
		t.Errorf("%q", errs)
	}
	n.must("holds version 1.4.0", "slot", "stage", old)
	n.must("runs on trial", "slot", "try", "--force")
	own := append(key, "--floor", "1.3.0")
	n.launch("1.4.0 PID slot=b trial=1 tries=2 reason=update args="+strings.Join(own, " "), own...)
	n.must("is in force", "slot", "commit")
	n.launch("1.4.0 PID slot=b trial=0 tries=0 reason=fatal args="+strings.Join(key, " "), key...) // it stays
	if data, err := os.ReadFile(filepath.Join(n.dir, slot.Dir, "floor")); err != nil || !strings.Contains(string(data),
		"1.5.0") {
		t.Errorf("%s %v", data, err)
	}
}
