package duty

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tandem.internal/nodeagent/key/tpmtest"
	"tandem.internal/shared/workload"
	"tandem.internal/testenv/proc"
)

// Users of the test that nobody else is.
const (
	agentUser = 64011
	keyUser   = 64012
	otherUser = 64013
)

// thief is a hook that asks the key program for a key, as tandem-node join does.
const thief = `#!/bin/sh
unset TANDEM_NODE # the thief's own: join would take it for --node
echo "$TANDEM_PROPERTY_token" | "$TANDEM_PROPERTY_program" join --controller "$TANDEM_PROPERTY_door" --token - \
	--key "$TANDEM_PROPERTY_key" --state-dir "$TANDEM_DIR/state" >"$TANDEM_DIR/result.new" 2>&1
mv "$TANDEM_DIR/result.new" "$TANDEM_DIR/result"
exec sleep 1000
`

// as runs a command as another user, as root's direct child.
func as(uid int, argv ...string) []string {
	id := strconv.Itoa(uid)
	return append([]string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"}, argv...)
}

// enroll makes a token and says where the join door is.
func (s *site) enroll(node string) (token, door string) {
	s.t.Helper()
	var e struct{ Token, Controller string }
	o := s.Tandem("node", "enroll", node, "--json")
	if err := json.Unmarshal([]byte(o.Out), &e); o.Status != 0 || err != nil || e.Token == "" {
		s.t.Fatalf("enroll: %+v %v", o, err)
	}
	return e.Token, e.Controller
}

// join has a machine join as a user.
func (s *site) join(uid int, machine, token, door, key string) proc.Output {
	s.t.Helper()
	dir := s.StateDir(machine)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		s.t.Fatal(err)
	}
	return proc.Run(s.t, s.Dir, nil, as(uid, "sh", "-c", `echo "$0" >"$1/token"; exec "$2" join --controller "$3" `+
		`--token - --key "$4" --state-dir "$1" <"$1/token"`, token, dir, proc.Binary(s.t, "tandem-node"), door, key)...)
}

// TestKeyOfAnotherUser: with real programs and users, the agent has its key with the key program; nobody else is
// answered, what the agent runs neither.
func TestKeyOfAnotherUser(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) { keyOfAnotherUser(t) })
	t.Run("tpm", func(t *testing.T) { keyOfAnotherUser(t, "--tpm", tpmtest.Start(t).Setting) })
}

// keyOfAnotherUser is the test with a key program that has more flags.
func keyOfAnotherUser(t *testing.T, flags ...string) {
	if _, err := exec.LookPath("setpriv"); os.Getuid() != 0 || err != nil {
		t.Skip("NOT TRIED: the key program with users of its own. It takes root, and setpriv")
	}
	s := newSite(t, "--listen", "", "--listen-tls", "127.0.0.1:0", "--advertise", "127.0.0.1")
	for _, dir := range []string{s.Dir, filepath.Dir(proc.Binary(t, "tandem-node"))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	keys := s.StateDir("keys")
	if err := os.Mkdir(keys, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(keys, keyUser, keyUser); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(keys, "socket")
	key := "unix:" + socket
	program := proc.Start(t, "tandem-key", nil, as(keyUser, append([]string{proc.Binary(t, "tandem-key"), "--socket",
		socket, "--dir", filepath.Join(keys, "dir"), "--agent", strconv.Itoa(agentUser)}, flags...)...)...)
	proc.Until(t, "the key program serves", func() string {
		if _, err := os.Stat(socket); err != nil {
			return program.Log()
		}
		return ""
	})
	token, door := s.enroll("n1")
	if o := s.join(agentUser, "n1", token, door, key); o.Status != 0 {
		t.Fatalf("join: %+v\n%s", o, program.Log())
	}
	s.Nodes["n1"] = proc.Start(t, "n1", nil, as(agentUser, proc.Binary(t, "tandem-node"), "--type", "main", "--key",
		key, "--state-dir", s.StateDir("n1"), "--workload-read", filepath.Dir(proc.Binary(t, "tandem-node")))...)
	s.AwaitOnline("n1", true)

	token, door = s.enroll("n2")
	s.apply("1.0.0", instance("Instance", "thief@n1", fmt.Sprintf(`"token":%q,"door":%q,"key":%q,"program":%q`, token,
		door, key, proc.Binary(t, "tandem-node")), named(workload.HookStart, s.artifact("Resource", "start", thief))))
	var found []string
	proc.Until(t, "the hook has asked", func() string {
		found, _ = filepath.Glob(filepath.Join(s.StateDir("n1"), "workloads/slots/thief/*/result"))
		if len(found) == 0 {
			return "not yet: " + s.Tandem("workload", "logs", "thief@n1").Out
		}
		return ""
	})
	if got, err := os.ReadFile(found[0]); err != nil || !strings.Contains(string(got), "it hung up") {
		t.Errorf("%v: the hook is answered: %s", err, got)
	}
	if o := s.join(otherUser, "other", token, door, key); o.Status == 0 || !strings.Contains(o.Errors, "it hung up") {
		t.Errorf("another user: %+v", o)
	}
	for _, why := range []string{"of the same user, as hooks do", "and not of the agent's"} {
		proc.Until(t, "the key program says: "+why, func() string {
			if !strings.Contains(program.Log(), why) {
				return program.Log()
			}
			return ""
		})
	}
	if o := proc.Run(t, s.Dir, nil, as(agentUser, "cat", filepath.Join(keys, "dir", "keys.json"))...); o.Status == 0 {
		t.Error("the agent's user can read the keys")
	}
	// The same question of the same user is answered if root asks.
	if o := s.join(agentUser, "n2", token, door, key); o.Status != 0 {
		t.Errorf("join: %+v\n%s", o, program.Log())
	}
	s.emptied("n1")
}
