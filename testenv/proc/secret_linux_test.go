package proc

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// No secret is in a log, on a command line, in --print-config, in the journal's export, or in a
// file that others may read.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	if err := os.Chmod(u.Dir, 0o755); err != nil { // as open as a directory above may be
		t.Fatal(err)
	}
	const password, nodePassword = "sesame-of-the-controller", "sesame-of-node-one"
	listen := "127.0.0.1:" + strconv.Itoa(u.Port)
	passwords := []string{"TANDEM_PASSWORDS=controller=" + password + ",node/n1=" + nodePassword}
	broker := Start(t, "broker", passwords, Binary(t, "tandem-broker"), "--unit", "u1", "--listen", listen,
		"--log-level", "debug")
	own := []string{"TANDEM_BROKER_PASSWORD=" + password}
	args := u.ControllerArgs("--broker", "tcp://"+listen, "--log-level", "debug", "--http", "127.0.0.1:"+
		strconv.Itoa(Port(t)))
	u.Controller = Start(t, "controller", own, args...)
	u.AwaitReady()
	ann := newToken(t, u, "ann", "admin")
	has(t, Run(t, u.Dir, ann.env()[:2], Binary(t, "tandem"), "token", "list"), 0, "ann", "")
	node := []string{"TANDEM_PASSWORD=" + nodePassword}
	u.Nodes["n1"] = Start(t, "n1", node, u.NodeArgs("n1", "main", "--log-level", "debug")...)
	wrong := Start(t, "n2", []string{"TANDEM_PASSWORD=" + nodePassword + "-wrong"},
		u.NodeArgs("n1", "main", "--log-level", "debug", "--state-dir", u.StateDir("n2"))...)
	u.AwaitOnline("n1", true)
	if res, err := u.Submit(Document("1.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	u.AwaitVersion("1.0.0", "n1")

	data, err := os.ReadFile(filepath.Join(u.StateDir("controller"), "unit-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	seed := parsed.(ed25519.PrivateKey).Seed()
	secrets := map[string][]byte{
		"the key's bytes": seed, "the key in hex": []byte(hex.EncodeToString(seed)),
		"the key's PEM":     bytes.Split(data, []byte("\n"))[1],
		"the key in base64": []byte(base64.StdEncoding.EncodeToString(seed)[:40]),
		"the password":      []byte(password), "the node's password": []byte(nodePassword),
		"the token": []byte(ann.Token[5:40]),
	}
	look := func(where string, data []byte) {
		t.Helper()
		for what, secret := range secrets {
			if bytes.Contains(data, secret) {
				t.Errorf("%s is in %s", what, where)
			}
		}
	}
	for _, p := range []*Process{broker, u.Controller, u.Nodes["n1"], wrong} {
		look("the log of "+p.Name, []byte(p.Log()))
		line, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/cmdline")
		if err != nil {
			t.Error(err)
		}
		look("the command line of "+p.Name, line)
	}
	for name, env := range map[string][]string{"tandem-broker": passwords, "tandem-controller": own,
		"tandem-node": node} {
		o := Run(t, u.Dir, env, Binary(t, name), "--print-config")
		has(t, o, 0, "***", "")
		look(name+" --print-config", []byte(o.Out+o.Errors))
	}
	for _, args := range [][]string{{"journal", "export"}, {"events", "--limit", "1000"}, {"unit", "status", "--json"},
		{"node", "n1", "--json"}, {"token", "list", "--json"}} {
		o := u.Tandem(args...)
		has(t, o, 0, "", "")
		look("tandem "+args[0], []byte(o.Out+o.Errors))
	}
	err = filepath.WalkDir(u.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		// What the launcher reads, who may be another user, is for others too; it is searched all the same.
		if info.Mode().Perm()&0o077 != 0 && !strings.Contains(path, "/slots/") {
			t.Errorf("%s is open to others: %v", path, info.Mode())
		}
		data, err := os.ReadFile(path)
		if filepath.Base(path) != "unit-key.pem" {
			look(path, data)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, dir := range []string{"controller", "n1"} {
		if info, err := os.Stat(u.StateDir(dir)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: mode %v, not 0700 (%v)", dir, info.Mode().Perm(), err)
		}
	}
}
