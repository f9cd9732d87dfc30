package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A package keeps the installed program in a slot before it replaces that, and has the new one tried: there is a way
// back from it. An older one changes nothing.
func TestPackageUpgradesByTrial(t *testing.T) {
	t.Setenv(asNode, "1")
	n := newNode(t)
	upgrade := func(file, verb, want string, fails bool) {
		t.Helper()
		out, err := exec.Command(file, "slot", verb, "--state-dir", n.dir).CombinedOutput()
		if (err != nil) != fails || !strings.Contains(string(out), want) {
			t.Errorf("%s by %s: %v, %s; want %q", verb, file, err, out, want)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n.launched("devel", nil, byDefault)
	newer, older := n.bundled("7.0.0", ""), n.bundled("6.0.0", "")
	upgrade(self, "adopt", "version devel is in force in slot a, as the way back", false)
	n.launched("devel", nil, byDefault)
	upgrade(newer, "upgrade", "slot b runs on trial with the next start of the agent, at most 3 times", false)
	upgrade(self, "adopt", "trial", true)
	upgrade(older, "upgrade", "trial", true)
	n.launched("7.0.0", nil, byDefault)
	for range 2 {
		n.launched("7.0.0", nil, byDefault)
	}
	n.launched("devel", nil, byDefault) // it did not prove itself

	upgrade(older, "upgrade", "slot b runs on trial", false)
	n.launched("6.0.0", nil, byDefault)
	n.must("slot b is in force", "slot", "commit")
	for _, verb := range []string{"adopt", "upgrade"} {
		upgrade(older, verb, "slot b stays in force", false)
	}
	upgrade(n.bundled("5.0.0", ""), "upgrade", "slot b stays in force", false)
	n.launched("6.0.0", nil, byDefault)
	n.must("devel (as installed)", "slot", "status")
}

// Without a slot in force there is nothing that an upgrade could go back to, and nothing is staged.
func TestPackageWithoutSlots(t *testing.T) {
	t.Setenv(asNode, "1")
	n := newNode(t)
	n.launched("devel", nil, byDefault)
	out, err := exec.Command(n.bundled("7.0.0", ""), "slot", "upgrade", "--state-dir", n.dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "slot factory stays in force") {
		t.Errorf("%v, %s", err, out)
	}
	if out, err = exec.Command(n.bundled("7.0.0", ""), "slot", "adopt", "--state-dir", n.dir, "--component",
		"app").CombinedOutput(); err == nil {
		t.Errorf("a component is adopted: %s", out)
	}
}
