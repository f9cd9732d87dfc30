package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/broker/acl"
)

func identities(nodes ...string) []acl.Identity {
	who := []acl.Identity{{Role: acl.Controller}, {Role: acl.Cloud, Name: "eu"}, {Role: acl.Operator, Name: "ann"}}
	for _, n := range nodes {
		who = append(who, acl.Identity{Role: acl.Node, Name: n})
	}
	return who
}

// What the command prints is what the rules say, wherever the names come from.
func TestACL(t *testing.T) {
	rules := acl.Rules{Unit: "u1"}
	mosquitto, err := rules.Mosquitto(identities("n1", "n2"))
	if err != nil {
		t.Fatal(err)
	}
	nats, err := rules.NATS(identities("n1", "n2"), acl.NATSUsers{})
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[acl.Identity]string{}
	for _, id := range identities("n1", "n2") {
		secrets[id] = "secret"
	}
	passwords, err := rules.NATS(identities("n1", "n2"), acl.NATSUsers{Passwords: secrets})
	if err != nil {
		t.Fatal(err)
	}
	listed := `{"nodes":[{"node":"n1","type":"main","online":true,"identity":{"state":"joined"}},{"node":"thief",` +
		`"identity":{"state":"revoked"}},{"node":"n2","online":false}]}`
	file := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(file, []byte("# the line\nn1\n\n n2 # the second\nn1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	both := []string{"--unit", "u1", "--cloud", "eu", "--operator", "ann"}
	for _, c := range []struct {
		name  string
		args  []string
		stdin string
		want  []byte
	}{
		{"mosquitto", []string{"mosquitto", "--node", "n1", "--node", "n2"}, "", mosquitto},
		{"flags first", []string{"--node", "n1", "--node", "n2", "mosquitto"}, "", mosquitto},
		{"named twice", []string{"mosquitto", "--node", "n1", "--node", "n2", "--node", "n1"}, "", mosquitto},
		{"nats", []string{"nats", "--node", "n1", "--node", "n2"}, "", nats},
		{"a list", []string{"nats", "--nodes", file}, "", nats},
		{"a list and a flag", []string{"nats", "--nodes", "-", "--node", "n2"}, "n1", nats},
		{"tandem nodes --json", []string{"nats", "--nodes", "-"}, listed, nats},
		{"passwords", []string{"nats", "--nodes", file, "--passwords", "controller=secret", "--passwords",
			"node/n1=secret", "--passwords", "node/n2=secret",
			"--passwords", "cloud/eu=secret", "--passwords", "operator/ann=secret"}, "", passwords},
	} {
		var out bytes.Buffer
		if err := printACL(append(c.args, both...), strings.NewReader(c.stdin), &out); err != nil ||
			!bytes.Equal(out.Bytes(), c.want) {
			t.Errorf("%s: %v\n%s", c.name, err, out.Bytes())
		}
	}
}

func TestACLErrors(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, exitUsage, "for which broker?"},
		{[]string{"rabbit", "--unit", "u1"}, exitUsage, "mosquitto and nats are known"},
		{[]string{"nats", "n1"}, exitUsage, `"n1"; nodes are named with --node`},
		{[]string{"nats", "--node", "n1"}, exitUsage, "--unit"},
		{[]string{"nats", "--unit", "u1"}, exitUsage, "name the nodes with --node"},
		{[]string{"nats", "--unit", "u1", "--node", "node/n1"}, exitUsage, "without the role in front"},
		{[]string{"nats", "--unit", "u1", "--node", "+"}, exitUsage, `"+" is no name`},
		{[]string{"nats", "--unit", "u1", "--node", "n1", "--cloud", ""}, exitUsage, "--cloud"},
		{[]string{"nats", "--unit", "u1", "--node", "a.b"}, exitError, "refuses client IDs with dots"},
		{[]string{"nats", "--unit", "u1", "--nodes", "/nowhere"}, exitError, "/nowhere"},
		{[]string{"nats", "--unit", "u1", "--node", "n1", "--nothing"}, exitUsage, "--nothing"},
		{[]string{"nats", "--unit", "u1", "--node", "n1", "--passwords", "node/n1=hunter2"}, exitError,
			"controller has no password"},
		{[]string{"nats", "--unit", "u1", "--node", "n1", "--passwords", "node/n2=hunter2"}, exitUsage,
			"node/n2 has one, but is not named"},
		{[]string{"nats", "--unit", "u1", "--node", "n1", "--passwords", "n1=hunter2"}, exitUsage, "--passwords"},
		{[]string{"mosquitto", "--unit", "u1", "--node", "n1", "--passwords", "node/n1=hunter2"}, exitUsage,
			"mosquitto_passwd"},
	} {
		var out, errs bytes.Buffer
		status := run(context.Background(), append([]string{"acl"}, c.args...), &out, &errs)
		if status != c.status || !strings.Contains(errs.String(), c.want) || out.Len() > 0 ||
			strings.Contains(errs.String(), "hunter2") {
			t.Errorf("%v: status %d, %q, printed %q", c.args, status, errs.String(), out.String())
		}
	}
	if _, err := nodeNames([]byte(`{"nodes":"n1"}`)); err == nil ||
		!strings.Contains(err.Error(), "tandem nodes --json") {
		t.Error(err)
	}
	if _, err := (&aclConfig{Nodes: "-"}).identities(broken{}); err == nil ||
		!strings.Contains(err.Error(), "--nodes") {
		t.Error(err)
	}
}

// broken is a pipe that breaks.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, fs.ErrClosed }

func TestACLHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"acl", "--help"}, &out, &errs); status != exitOK ||
		errs.Len() != 0 {
		t.Errorf("status %d, %q", status, errs.String())
	}
	for _, want := range []string{"acl mosquitto|nats", "Examples:", "tandem nodes --json", "--unit", "--node",
		"--nodes", "--cloud", "--operator"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q", want)
		}
	}
}
