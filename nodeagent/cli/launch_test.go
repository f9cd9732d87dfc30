package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/slot"
)

// The test binary is tandem-node, too: where this variable is set, and where an agent in a test starts its own program
// with a verb. Else that would run the tests.
const asNode = "TEST_BINARY_IS_TANDEM_NODE"

func init() {
	if os.Getenv(asNode) != "" || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		Main(Extras{})
	}
}

// node is a node with real processes.
type node struct {
	t   *testing.T
	dir string
	log string // of what the slots' programs say
}

func newNode(t *testing.T) node {
	dir := t.TempDir()
	return node{t, filepath.Join(dir, "state"), filepath.Join(dir, "log")}
}

// tandem runs tandem-node and returns its process ID, exit status and output. What does not become
// another program needs no process of its own.
func (n node) tandem(args ...string) (pid, status int, stdout, stderr string) {
	n.t.Helper()
	if args[0] == "slot" {
		var out, errs bytes.Buffer
		args = slices.Insert(slices.Clone(args), min(2, len(args)), "--state-dir", n.dir)
		status := new(program).run(n.t.Context(), args, &out, &errs)
		return os.Getpid(), status, out.String(), errs.String()
	}
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asNode+"=1", "TANDEM_STATE_DIR="+n.dir, "LOG="+n.log, "TANDEM_SLOT_TRIES=99")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		n.t.Fatal(err)
	}
	return cmd.Process.Pid, cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// must runs tandem-node, which has to succeed and to print something.
func (n node) must(want string, args ...string) string {
	n.t.Helper()
	_, status, out, errs := n.tandem(args...)
	if status != 0 || !strings.Contains(out, want) {
		n.t.Fatalf("%v: status %d, stdout %q, stderr %q; want %q", args, status, out, errs, want)
	}
	return out
}

// launch starts the agent and returns what the slot's program has noted.
func (n node) launch(want string, args ...string) (stderr string) {
	n.t.Helper()
	if err := os.WriteFile(n.log, nil, 0o600); err != nil {
		n.t.Fatal(err)
	}
	pid, status, _, errs := n.tandem(append([]string{"launch", "--"}, args...)...)
	noted, err := os.ReadFile(n.log)
	if err != nil {
		n.t.Fatal(err)
	}
	if want = strings.ReplaceAll(want, "PID", fmt.Sprint(pid)) + "\n"; status != 7 || string(noted) != want {
		n.t.Fatalf("status %d, noted %q, want %q; stderr %q", status, noted, want, errs)
	}
	return errs
}

// program writes an agent of version v.
func (n node) program(v, more string) string {
	n.t.Helper()
	file := filepath.Join(n.t.TempDir(), "tandem-node-"+v)
	text := "#!/bin/sh\nif [ \"$*\" = version ]; then " + more + " echo \"tandem-node " + v + " (test)\"; exit; fi\n" +
		// A Go program takes the first of two variables of one name, a shell the last.
		"[ \"$(tr '\\0' '\\n' </proc/$$/environ | grep -c '^TANDEM_SLOT_TRIES=')\" = 1 ] || " +
		"echo 'two counts of tries' >>\"$LOG\"\n" +
		"echo \"" + v + " $$ slot=$TANDEM_SLOT trial=$TANDEM_SLOT_TRIAL tries=$TANDEM_SLOT_TRIES " +
		"reason=$TANDEM_BOOT_REASON args=$*\" >>\"$LOG\"\nexit 7\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return file
}

func TestSlotsByHand(t *testing.T) {
	n := newNode(t)
	// Without slots the installed binary runs, with the agent's arguments.
	n.must("tandem-node devel", "launch", "--", "version")
	n.must("factory  active", "slot", "status")
	n.must("factory  active", "slot", "status", "--component", "agent")

	one := n.program("1.0", "")
	n.must("slot a holds version 1.0", "slot", "stage", one, "--version", "1.0")
	n.must("slot factory is active: it came with the node\n", "slot", "status")
	n.must("slot a runs on trial", "slot", "try", "--tries", "2")
	n.must("slot a is tried with the next start of the agent: 2 starts at most\n", "slot", "status")
	n.launch("1.0 PID slot=a trial=1 tries=1 reason=update args=--beat 5s x", "--beat", "5s", "x")
	n.must("slot a runs on trial, and is not committed: 1 start left after this one\n", "slot", "status")
	n.must("slot a may be kept: the agent sees it within a minute", "slot", "approve")
	n.must("slot a runs on trial, and is approved by somebody at the node, but not committed yet: 1 start left after "+
		"this one\n", "slot", "status")
	n.must("slot a is in force; the one before is slot factory", "slot", "commit")
	n.must("it was committed after a trial; a rollback goes to slot factory\n", "slot", "status")
	n.launch("1.0 PID slot=a trial=0 tries=0 reason=fatal args=")

	two := n.program("2.0", "")
	n.must("slot b holds version 2.0", "slot", "stage", two)
	n.must(`"state": "updating"`, "slot", "try", "--tries=2", "--json")
	n.launch("2.0 PID slot=b trial=1 tries=1 reason=update args=")
	n.must("b        inprogress  2.0", "slot", "status")
	if err := slot.Open(slot.Config{Dir: filepath.Join(n.dir, slot.Dir)}).Direct(); err != nil {
		t.Fatal(err)
	}
	n.must("slot b is on trial, and does not run now: 1 start left\n", "slot", "status")
	n.launch("2.0 PID slot=b trial=1 tries=0 reason=fatal args=")
	if errs := n.launch("1.0 PID slot=a trial=0 tries=0 reason=fallback args="); !strings.Contains(errs,
		"the trial of slot b is over") {
		t.Errorf("the launcher does not say why: %q", errs)
	}
	n.must("version 2.0 in slot b was given up: fallback", "slot", "status")

	n.inQuarantine(two)

	// Tried once more on request, and committed; then back by hand.
	n.must("slot b runs on trial", "slot", "try", "b")
	n.launch("2.0 PID slot=b trial=1 tries=2 reason=update args=")
	n.must("slot b is in force; the one before is slot a", "slot", "commit")
	n.must("slot b is given up; slot a runs with the next start", "slot", "rollback", "--why", "it smells")
	n.must("the next start will be because of fallback: it smells", "slot", "status")
	n.launch("1.0 PID slot=a trial=0 tries=0 reason=fallback args=")

	// The good slot's file is damaged: what is left runs, and says so.
	if err := os.WriteFile(filepath.Join(n.dir, slot.Dir, "a", "tandem-node"), []byte("#!/bin/sh\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	_, _, out, errs := n.tandem("launch", "--", "version")
	if !strings.Contains(out, "tandem-node devel") ||
		!strings.Contains(errs, "slot factory stands in; slot a: broken: its file has 10 bytes") {
		t.Errorf("%q %q", out, errs)
	}
	n.must("factory  active", "slot", "status")
}

func TestLaunchWithoutADisk(t *testing.T) {
	n := newNode(t)
	if err := os.WriteFile(n.dir, nil, 0o600); err != nil { // a file where the directory should be
		t.Fatal(err)
	}
	_, status, out, errs := n.tandem("launch", "--", "version")
	if status != 0 || !strings.Contains(out, "tandem-node devel") || !strings.Contains(errs, "cannot be written down") {
		t.Errorf("%d %q %q", status, out, errs)
	}
}

// A slot whose program does not execute here ends its trial at once.
func TestLaunchOfWhatDoesNotExecute(t *testing.T) {
	n := newNode(t)
	n.must("", "launch", "--", "version")
	n.must("slot a", "slot", "stage", n.program("1.0", ""))
	n.must("slot a", "slot", "try")
	if err := os.Chmod(filepath.Join(n.dir, slot.Dir, "a", "tandem-node"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, status, out, errs := n.tandem("launch", "--", "version")
	if status != 0 || !strings.Contains(out, "tandem-node devel") ||
		!strings.Contains(errs, "it cannot be started: execute ") {
		t.Errorf("%d %q %q", status, out, errs)
	}
	n.must("a        unused  1.0                   failed", "slot", "status")
}

func TestSlotErrors(t *testing.T) {
	n := newNode(t)
	n.must("", "launch", "--", "version")
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := n.program("1.0", "")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"slot", "burn"}, 2, `unexpected argument "burn"; --help shows the usage`},
		{[]string{"slot", "stats"}, 2, "did you mean status?"},
		{[]string{"slot", "stage"}, 2, "needs the name of a file"},
		{[]string{"slot", "stage", "a", "b"}, 2, `unexpected argument "b"`},
		{[]string{"slot", "status", "x"}, 2, "unexpected argument"},
		{[]string{"slot", "status", "--tries", "1"}, 2, "no such flag"},
		{[]string{"slot", "stage", plain + "x"}, 1, "no such file"},
		{[]string{"slot", "stage", filepath.Dir(plain)}, 1, "is not a file"},
		{[]string{"slot", "stage", plain}, 1, "refused: it fails its self-test: it is no program for this machine\n"},
		{[]string{"slot", "stage", n.program("3.0", "exit 3;")}, 1, "refused: it fails its self-test: exit status 3"},
		{[]string{"slot", "stage", n.program("3.0", "echo hello; exit;")}, 1, `it says "hello", and not which version`},
		{[]string{"slot", "stage", good, "--version", "2.0"}, 1,
			"it says that it is version 1.0, and it should be 2.0"},
		{[]string{"slot", "stage", good, "--hash", strings.Repeat("0", 64)}, 1, "and it should be sha256:000"},
		{[]string{"slot", "try"}, 1, "nothing is staged that was not tried yet"},
		{[]string{"slot", "try", "a"}, 1, "the slot holds nothing that may boot"},
		{[]string{"slot", "try", "factory"}, 1, "in force already"},
		{[]string{"slot", "try", "c"}, 1, "no slot that can be tried"},
		{[]string{"slot", "commit"}, 1, "no trial is in progress"},
		{[]string{"slot", "approve"}, 1, "no trial is in progress"},
		{[]string{"slot", "rollback"}, 1, "there is nothing to roll back to"},
		{[]string{"slot", "status", "--state-dir", plain + "x"}, 1, "--state-dir names the agent's"},
		{[]string{"launch", "x"}, 2, "the agent's flags come after --"},
		{[]string{"launch", "--beat", "5s"}, 2, "no such flag"},
	} {
		_, status, _, errs := n.tandem(c.args...)
		if status != c.status || !strings.Contains(errs, c.want) || !strings.HasPrefix(errs, "tandem-node: ") {
			t.Errorf("%v: status %d, stderr %q; want %d, %q", c.args, status, errs, c.status, c.want)
		}
	}
	// What was refused leaves neither a file nor a slot that waits.
	if out := n.must("", "slot", "status", "--json"); strings.Contains(out, "updating") {
		t.Errorf("%s", out)
	}
	if _, err := os.Stat(filepath.Join(n.dir, slot.Dir, "a", "tandem-node")); !os.IsNotExist(err) {
		t.Errorf("the file of a refused binary: %v", err)
	}
	n.must("tandem-node slot stage FILE", "slot", "--help")
	n.must("tandem-node launch", "launch", "--help")
}

// The agent's state directory is the launcher's, too, if its flags name one.
func TestLaunchTakesOverTheStateDirectory(t *testing.T) {
	n := newNode(t)
	other := filepath.Join(t.TempDir(), "other")
	n.must("state-dir: \""+other+"\"", "launch", "--", "--unit", "u", "--type", "t", "--state-dir", other,
		"--print-config")
	if _, err := os.Stat(filepath.Join(other, slot.Dir)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(n.dir); !os.IsNotExist(err) {
		t.Errorf("the default one was used: %v", err)
	}
}
