package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	controller "tandem.internal/controller/app"
)

// enrolled makes a token for a node by the operator's command.
func enrolled(t *testing.T, u *Unit, node string) (token, door string) {
	t.Helper()
	o := u.Tandem("node", "enroll", node, "--json")
	var e struct {
		Token      string `json:"token"`
		Controller string `json:"controller"`
	}
	if err := json.Unmarshal([]byte(o.Out), &e); o.Status != 0 || err != nil || e.Token == "" {
		t.Fatalf("enroll: %+v %v", o, err)
	}
	return e.Token, e.Controller
}

// joinAs runs tandem-node join as people do, the token on standard input.
func joinAs(t *testing.T, u *Unit, machine, door, token string) Output {
	t.Helper()
	file := filepath.Join(u.Dir, "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	return Run(t, u.Dir, nil, "sh", "-c", Binary(t, "tandem-node")+
		` join --controller "$0" --token - --state-dir "$1" <"$2"`, door, u.StateDir(machine), file)
}

// A unit with mutual TLS, of real programs: nodes join with what the operator's command prints, work,
// and one is revoked by a controller that is killed right afterwards.
func TestTrust(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	secure := []string{"--listen", "", "--listen-tls", "127.0.0.1:" + strconv.Itoa(u.Port), "--advertise", "127.0.0.1"}
	u.StartController(secure...)
	start := func(name string) {
		u.Nodes[name] = Start(t, name, nil, Binary(t, "tandem-node"), "--type", "main", "--state-dir", u.StateDir(name))
	}
	var tokens []string
	for _, name := range []string{"n1", "n2"} {
		token, door := enrolled(t, u, name)
		tokens = append(tokens, token)
		if o := joinAs(t, u, name, door, token); o.Status != 0 || !strings.Contains(o.Out, "node "+name+" of unit u1") {
			t.Fatalf("join: %+v", o)
		}
		if o := joinAs(t, u, "thief", door, token); o.Status != 1 || !strings.Contains(o.Errors, "wrong-state: ") {
			t.Errorf("the token again: %+v", o)
		}
		start(name)
		u.AwaitOnline(name, true)
	}
	if info, err := os.Stat(filepath.Join(u.StateDir("controller"), "ca-key.pem")); err != nil ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("the CA's key: %v %v", info.Mode(), err)
	}
	if _, err := u.Submit(Document("1.0.0", 1), ""); err != nil {
		t.Fatal(err)
	}
	u.AwaitVersion("1.0.0", "n1", "n2")

	// As n2, but with the name of n1; and without any certificate.
	impostor := Start(t, "impostor", nil, Binary(t, "tandem-node"), "--unit", "u1", "--node", "n1", "--type", "main",
		"--broker", "tcp://127.0.0.1:"+strconv.Itoa(u.Port), "--state-dir", u.StateDir("impostor"))
	Until(t, "the impostor is refused", func() string {
		if !strings.Contains(impostor.Log(), "no session with the broker") {
			return "it printed: " + impostor.Log()
		}
		return ""
	})
	impostor.Stop()
	if o := Run(t, u.Dir, nil, Binary(t, "tandem-node"), "--node", "n1", "--type", "main", "--state-dir",
		u.StateDir("n2")); o.Status != 2 || !strings.Contains(o.Errors, "joined as node") {
		t.Errorf("another name than it joined under: %+v", o)
	}

	if o := u.Tandem("node", "revoke", "n2", "--reason", "stolen"); o.Status != 0 {
		t.Fatalf("revoke: %+v", o)
	}
	u.Controller.Kill()
	u.StartController(secure...)
	u.AwaitOnline("n1", true)
	Until(t, "n2 is told no", func() string {
		if !strings.Contains(u.Nodes["n2"].Log(), "does not authorise") {
			return "it printed: " + u.Nodes["n2"].Log()
		}
		return ""
	})
	n2, err := Get[controller.Node](u, "/v1/nodes/n2")
	if err != nil || n2.Online || n2.Identity == nil || n2.Identity.State != "revoked" {
		t.Errorf("%+v %v", n2, err)
	}
	u.Nodes["n2"].Stop()
	token, door := enrolled(t, u, "n2")
	tokens = append(tokens, token)
	if o := joinAs(t, u, "n2", door, token); o.Status != 0 {
		t.Fatalf("join again: %+v", o)
	}
	start("n2")
	u.AwaitVersion("1.0.0", "n1", "n2")

	export := u.Tandem("journal", "export")
	for _, token := range tokens {
		for what, text := range map[string]string{"the journal": export.Out, "the controller's log": u.Controller.Log(),
			"a node's log": u.Nodes["n1"].Log() + u.Nodes["n2"].Log()} {
			if strings.Contains(text, token) {
				t.Errorf("a token is in %s", what)
			}
		}
	}
}
