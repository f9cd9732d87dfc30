package duty

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"tandem.internal/shared/workload"
	"tandem.internal/testenv/proc"
)

// hostile is a hook that tries to do what the agent's user may, and writes down how that went. The node's state
// directory and agent are among its properties.
const hostile = `#!/bin/sh
state=$TANDEM_PROPERTY_state agent=$TANDEM_PROPERTY_agent
try() { # NAME COMMAND…
	name=$1; shift
	if "$@" >/dev/null 2>&1; then echo "$name done"; else echo "$name refused"; fi
}
{
	try own-file touch "$TANDEM_DIR/own"
	try own-directory sh -c 'mkdir -m 700 "$TANDEM_DIR/deep" && touch "$TANDEM_DIR/deep/file"'
	try temporary mktemp
	try hosts cat /etc/hosts
	try key cat "$state/identity/identity.json"
	try state cat "$state/state.db"
	try config cat "$state/config.json"
	try slot touch "$state/slots/a/tandem-node"
	try others ls "$state/workloads/slots"
	try resource sh -c 'echo x >"$TANDEM_DIR/iss_hook_start"'
	try resources ls "$state/resources/copies"
	try keeper cat "$state/keeper/identity"
	try signal-keeper kill -0 $PPID
	try signal-agent kill -0 $agent
	try signal-own kill -0 $$
	try memory dd if=/proc/$agent/mem bs=1 count=1
	try environment cat /proc/$agent/environ
	try namespace unshare -U true
	try mount mount -t tmpfs none "$TANDEM_DIR"
	try set-user grep -q 'NoNewPrivs:.0' /proc/self/status
} >"$TANDEM_DIR/result.new"
mv "$TANDEM_DIR/result.new" "$TANDEM_DIR/result"
exec sleep 1000
`

// hostileMay are what the hook is to be able to do: no more than its own.
const hostileMay = `own-file done
own-directory done
temporary done
hosts done
key refused
state refused
config refused
slot refused
others refused
resource refused
resources refused
keeper refused
signal-keeper refused
signal-agent refused
signal-own done
memory refused
environment refused
namespace refused
mount refused
set-user refused
`

// A hostile hook is kept to its own directory and processes, and the controller shows how far it is confined.
func TestHostileHook(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.strictNode("n1", "--workload-status", "2s")
	hostileHook(t, s, "")
}

var userRanges atomic.Uint32

// slotUsers are five users that nobody else is; the two tests that need them have five each: a keeper kills all that
// its slots' users run, whoever started that.
func slotUsers() string {
	first := 1_000_000 + 10*os.Getpid() + 5*int(userRanges.Add(1)%2)
	return fmt.Sprintf("%d-%d", first, first+4)
}

// TestSlotsHaveUsers: a hostile hook with a user of its own is kept as well, below an agent of root's and below one
// that is not, whose keeper root has started; and the agent removes what that user has made.
func TestSlotsHaveUsers(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); os.Getuid() != 0 || err != nil {
		t.Skip("NOT TRIED: slots with users of their own. It takes root, and setpriv")
	}
	users, extra := slotUsers(), "user+net"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		if _, err := os.Stat("/sys/fs/cgroup/unified/cgroup.controllers"); err != nil {
			t.Log("NOT TRIED: keeping slots from loopback addresses; there is no cgroup v2")
			extra = "user"
		}
	}
	t.Run("root", func(t *testing.T) {
		s := newSite(t)
		s.open(t)
		s.strictNode("n1", "--workload-users", users, "--confine", "none+"+extra)
		hostileHook(t, s, extra)
	})
	t.Run("service", func(t *testing.T) {
		s := newSite(t)
		s.open(t)
		state, program := s.StateDir("n1"), proc.Binary(t, "tandem-node")
		if err := os.MkdirAll(state, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(state, agentUser, agentUser); err != nil {
			t.Fatal(err)
		}
		// with what tandem-keeper.service leaves it of root's rights
		proc.Start(t, "keeper", nil, "setpriv", "--no-new-privs", "--inh-caps=-all",
			"--bounding-set=-all,+setuid,+setgid,+kill,+bpf,+net_admin", "--", program, "keep",
			"--dir", filepath.Join(state, "keeper"), "--users", users,
			"--user", fmt.Sprintf("%d:%d", agentUser, agentUser))
		s.Nodes["n1"] = proc.Start(t, "n1", nil, as(agentUser, s.NodeArgs("n1", "main", "--workload-users", users,
			"--confine", "none+"+extra, "--workload-window", "2s", "--workload-grace", "1s")...)...)
		s.AwaitOnline("n1", true)
		hostileHook(t, s, extra)
	})
}

// open lets everybody pass to the unit's directory and to the programs.
func (s *site) open(t *testing.T) {
	t.Helper()
	for _, dir := range []string{s.Dir, filepath.Dir(s.Dir), filepath.Dir(proc.Binary(t, "tandem-node"))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// hostileHook runs the hostile hook on node n1, and looks how far it gets and what is said of it: its level, with an
// extra; "": none.
func hostileHook(t *testing.T, s *site, extra string) {
	state := s.StateDir("n1")
	for _, dir := range []string{"identity", "slots/a"} { // of a node that has joined, and was updated
		if err := os.MkdirAll(filepath.Join(state, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "identity/identity.json"), []byte("the key"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.apply("1.0.0", instance("Instance", "evil@n1", fmt.Sprintf(`"state":%q,"agent":"%d"`, state,
		s.Nodes["n1"].PID()), named(workload.HookStart, s.artifact("Resource", "start", hostile))))
	s.awaitSettled("evil@n1")
	var found []string
	proc.Until(t, "the hook has tried everything", func() string {
		found, _ = filepath.Glob(filepath.Join(state, "workloads/slots/evil/*/result"))
		if len(found) == 0 {
			return "not yet: " + s.Tandem("workload", "logs", "evil@n1").Out
		}
		return ""
	})
	o := s.await("evil@n1", "is said to be confined",
		func(o slot) bool { return o.Report != nil && o.Report.Confined != "" })
	base, with, _ := strings.Cut(o.Report.Confined, "+")
	if !strings.HasPrefix(with, extra) {
		t.Errorf("it is confined to %q, without %q", o.Report.Confined, extra)
	}
	if base != "landlock" && extra == "" {
		t.Skipf("NOT TRIED: what is confined to landlock; this kernel does %q", base)
	}
	if got, err := os.ReadFile(found[0]); err != nil || string(got) != hostileMay {
		t.Errorf("%v\n%s", err, got)
	}
	for _, args := range [][]string{{"workload", "list"}, {"node", "n1"}} {
		if out := s.Tandem(args...); out.Status != 0 || !strings.Contains(out.Out, "CONFINED") ||
			!strings.Contains(out.Out, o.Report.Confined) {
			t.Errorf("%q: %+v", args, out)
		}
	}
	s.emptied("n1")
}
