package secrets

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

func TestMain(m *testing.M) { os.Exit(proc.Main(m)) }

// What is planted. Each is recognisable, and its shape is one that its place allows.
const (
	controllerPassword = "planted-password-of-the-controller"
	nodePassword       = "planted-password-of-node-one"
	wrongPassword      = "planted-password-that-is-wrong"
	token              = "tdo1.planted-token-of-an-operator-0001"
	pin                = "31415926535897932"
	wrongToken         = "planted-token-that-is-wrong-0002"
)

// search looks for secrets in what others could see.
type search struct {
	t       *testing.T
	secrets map[string][]byte
	looked  int
}

func newSearch(t *testing.T) *search {
	s := &search{t: t, secrets: map[string][]byte{}}
	for _, text := range []string{controllerPassword, nodePassword, wrongPassword, token, wrongToken, pin} {
		s.plant(text, []byte(text))
	}
	return s
}

// plant adds a secret, and the forms in which it could come out.
func (s *search) plant(name string, secret []byte) {
	s.secrets[name] = secret
	s.secrets[name+" in hexadecimal"] = []byte(hex.EncodeToString(secret))
	for skip := range 3 { // in base64 its letters depend on what stands before
		text := base64.StdEncoding.EncodeToString(append(make([]byte, skip), secret...))
		s.secrets[fmt.Sprintf("%s in base64, shifted by %d", name, skip)] = []byte(text[4 : len(text)-4])
	}
}

func (s *search) look(where string, data []byte) {
	s.t.Helper()
	s.looked++
	for what, secret := range s.secrets {
		if at := bytes.Index(data, secret); at >= 0 {
			s.t.Errorf("%s is in %s: …%q", what, where, data[max(0, at-60):at])
		}
	}
}

// process looks at all of a process that another user can see, and at what it has printed.
func (s *search) process(p *proc.Process) {
	s.t.Helper()
	s.look("the log of "+p.Name, []byte(p.Log()))
	if !p.Alive() {
		return
	}
	dir := "/proc/" + strconv.Itoa(p.PID())
	for _, name := range []string{"cmdline", "comm", "status"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			s.t.Error(err)
		}
		s.look(name+" of "+p.Name, data)
	}
	if info, err := os.Stat(filepath.Join(dir, "environ")); err != nil || info.Mode().Perm() != 0o400 {
		s.t.Errorf("environ of %s: %v %v", p.Name, info.Mode(), err)
	}
}

// files looks at everything below a directory: none may be open to others, and only those named
// may hold a secret.
func (s *search) files(dir string, holds ...string) {
	s.t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		// For other programs, and searched all the same: a certificate, and what the launcher, another user
		// perhaps, has to read.
		public := filepath.Base(path) == "ca.pem" || strings.Contains(path+"/", "/slots/")
		if path != dir && info.Mode().Perm()&0o007 != 0 && info.Mode().Type() != fs.ModeSymlink && !public {
			s.t.Errorf("%s is open to everybody: %v", path, info.Mode())
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, name := range holds {
			if filepath.Base(path) == name {
				return err
			}
		}
		s.look(path, data)
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

func writeFile(t *testing.T, path, text string, mode fs.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// signingKey is the private half that the controller made at its first start.
func signingKey(t *testing.T, path string) ed25519.PrivateKey {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("%s is no PEM file", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(ed25519.PrivateKey)
}

// get asks the TCP door for something with a token, and returns all that comes back.
func get(t *testing.T, port int, method, path, bearer, body string) string {
	t.Helper()
	r, err := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		r.Header.Set("Authorization", bearer)
	}
	client := http.Client{Timeout: proc.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(res.Body)
	if err == nil {
		err = res.Body.Close()
	}
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return fmt.Sprint(res.StatusCode, res.Header, string(data))
}

// operator makes a token that may do everything.
func operator(t *testing.T, u *proc.Unit) string {
	t.Helper()
	o := u.Tandem("token", "create", "ann", "--role", "admin", "--json")
	var g struct{ Token string }
	if err := json.Unmarshal([]byte(o.Out), &g); err != nil || g.Token == "" {
		t.Fatalf("%v in %s%s", err, o.Out, o.Errors)
	}
	return g.Token
}

// TestNoSecretGetsOut runs a unit with a broker of its own, a node whose on-apply command fails and
// prints all that it knows, a client with a wrong password and callers with wrong tokens.
func TestNoSecretGetsOut(t *testing.T) {
	t.Parallel()
	u, s := proc.NewUnit(t), newSearch(t)
	listen, httpPort := "127.0.0.1:"+strconv.Itoa(u.Port), proc.Port(t)
	broker := proc.Start(t, "broker", []string{"TANDEM_PASSWORDS=controller=" + controllerPassword + ",node/n1=" +
		nodePassword},
		proc.Binary(t, "tandem-broker"), "--unit", "u1", "--listen", listen, "--log-level", "debug")
	u.Controller = proc.Start(t, "controller", []string{"TANDEM_BROKER_PASSWORD=" + controllerPassword},
		u.ControllerArgs("--broker", "tcp://"+listen,
			"--log-level", "debug", "--http", "127.0.0.1:"+strconv.Itoa(httpPort))...)
	u.AwaitReady()
	ann := operator(t, u)
	s.plant("the operator's token", []byte(ann[len("tdo1."):]))
	key := signingKey(t, filepath.Join(u.StateDir("controller"), "unit-key.pem"))
	s.plant("the signing key", key.Seed())

	// The command fails and says everything that it can find.
	dump := writeFile(t, filepath.Join(u.Dir, "dump"), "#!/bin/sh\nenv\ncat /proc/self/environ\nexit 1\n", 0o700)
	n1 := proc.Start(t, "n1", []string{"TANDEM_PASSWORD=" + nodePassword}, u.NodeArgs("n1", "main", "--log-level",
		"debug", "--on-apply", dump)...)
	n2 := proc.Start(t, "n2", []string{"TANDEM_PASSWORD=" + wrongPassword}, u.NodeArgs("n1", "main", "--log-level",
		"debug", "--state-dir", u.StateDir("n2"))...)
	u.AwaitOnline("n1", true)
	if res, err := u.Submit(proc.Document("1.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	proc.Until(t, "n1 has failed to apply", func() string {
		o := u.Tandem("node", "n1", "--json")
		if !strings.Contains(o.Out, "apply-failed") {
			return o.Out + o.Errors
		}
		return ""
	})
	proc.Until(t, "the wrong password was noticed", func() string {
		if !strings.Contains(broker.Log(), "wrong password") {
			return broker.Log()
		}
		return ""
	})

	for _, path := range []string{"/v1/config", "/v1/config/status", "/v1/config/history",
		"/v1/config/resolved?node=n1", "/v1/config/explain?node=n1&pointer=/priority",
		"/v1/nodes", "/v1/nodes/n1", "/v1/events", "/v1/journal/verify", "/v1/journal/export", "/v1/journal/backup",
		"/v1/journal/trim",
		"/v1/unit/status", "/v1/tokens", "/", "/dashboard.js", "/healthz", "/readyz",
		"/metrics", "/debug/pprof/", "/debug/vars"} {
		for _, bearer := range []string{"Bearer " + ann, "Bearer " + token, "Bearer " + wrongToken, "Basic " + ann, ann,
			"Bearer " + ann + "x", ""} {
			s.look("the answer to "+path, []byte(get(t, httpPort, http.MethodGet, path, bearer, "")))
		}
	}
	for _, body := range []string{"{", `{"formatVersion":"7","version":"0.1.0","nodes":[]}`,
		strings.Repeat("[", 10_000)} {
		s.look("the answer to a bad submission",
			[]byte(get(t, httpPort, http.MethodPost, "/v1/config", "Bearer "+ann, body)))
	}
	for _, args := range [][]string{{"journal", "export"}, {"events", "--limit", "1000"}, {"unit", "status", "--json"},
		{"nodes"}, {"node", "n1"}, {"config", "status"}, {"config", "history"}} {
		o := u.Tandem(args...)
		s.look("tandem "+strings.Join(args, " "), []byte(o.Out+o.Errors))
	}
	for _, p := range []*proc.Process{broker, u.Controller, n1, n2} {
		s.process(p)
	}
	n1.Stop()
	u.Controller.Stop()
	broker.Stop()
	for _, p := range []*proc.Process{broker, u.Controller, n1, n2} {
		s.process(p)
	}
	s.files(u.Dir, "unit-key.pem")
	if s.looked < 100 {
		t.Errorf("only %d places were looked at", s.looked)
	}
}

// TestMistakesDoNotEchoSecrets: who makes a mistake with a secret sees it in no error, for errors
// end in logs and tickets.
func TestMistakesDoNotEchoSecrets(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), newSearch(t)
	quote, err := json.Marshal(nodePassword)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string, mode fs.FileMode) string {
		return writeFile(t, filepath.Join(dir, name), text, mode)
	}
	controller := []string{"tandem-controller", "--unit", "u1", "--state-dir", filepath.Join(dir, "c"), "--socket",
		filepath.Join(dir, "s"), "--listen", "127.0.0.1:0"}
	node := []string{"tandem-node", "--unit", "u1", "--node", "n1", "--type", "main", "--state-dir",
		filepath.Join(dir, "n")}
	broker := []string{"tandem-broker", "--unit", "u1"}
	with := func(base []string, more ...string) []string { return append(append([]string(nil), base...), more...) }
	for _, c := range []struct {
		name string
		env  []string
		argv []string
	}{
		{"passwords without a user", []string{"TANDEM_PASSWORDS=" + nodePassword}, broker},
		{"passwords of an unknown role", []string{"TANDEM_PASSWORDS=ghost/x=" + nodePassword}, broker},
		{"passwords without a user, as a flag", nil, with(broker, "--passwords", nodePassword)},
		{"a list where passwords belong", nil,
			with(broker, "--config", file("a.yaml", "unit: u1\npasswords: ["+nodePassword+"]\n", 0o600))},
		{"a map where a password belongs", nil,
			with(node, "--config", file("b.yaml", "password: {a: "+nodePassword+"}\n", 0o600))},
		{"a number where a password belongs", nil,
			with(node, "--config", file("f.yaml", "password: "+pin+".5\n", 0o600))},
		{"a number among the passwords", nil,
			with(broker, "--config", file("g.yaml", "passwords: {controller: "+pin+".5}\n", 0o600))},
		{"two passwords", nil, with(node, "--config", file("c.yaml", "password: "+nodePassword+"\npassword: "+
			wrongPassword+"\n", 0o600))},
		{"a password with a broken quote", nil,
			with(node, "--config", file("d.yaml", "password: \""+nodePassword+"\n", 0o600))},
		{"a file that is only a password", nil, with(node, "--config", file("e.yaml", nodePassword, 0o600))},
		{"a password in the broker's URL", nil, with(node, "--broker", "tcp://node:"+nodePassword+"@127.0.0.1:1883")},
		{"a password in the broker's URL, to the controller", nil, with(controller, "--broker", "tcp://controller:"+
			controllerPassword+"@127.0.0.1:1")},
		{"half a token in a file", nil, []string{"tandem", "--url", "http://127.0.0.1:1", "--token-file",
			file("half", token+"\n", 0o600), "nodes"}},
		{"two tokens in a line", nil, []string{"tandem", "--url", "http://127.0.0.1:1", "--token-file",
			file("space", token+" "+wrongToken+"\n", 0o600), "nodes"}},
		{"a token instead of its name", nil, []string{"tandem", "--socket", filepath.Join(dir, "none"), "token",
			"revoke", token}},
		{"a private key where the CA belongs", nil, []string{"tandem", "--url", "https://127.0.0.1:1", "--ca",
			file("ca", "-----BEGIN PRIVATE KEY-----\n"+string(quote)+"\n", 0o600), "nodes"}},
		{"a certificate with a key that is none", nil, with(controller, "--http", "127.0.0.1:0", "--http-cert",
			file("cert", nodePassword, 0o600), "--http-key", file("ckey", nodePassword, 0o600))},
		{"a private key where the public one belongs", nil,
			with(node, "--unit-key", file("key", "-----BEGIN PRIVATE KEY-----\n"+string(quote)+"\n", 0o600))},
		{"the operator's token to nobody", []string{"TANDEM_TOKEN=" + token},
			[]string{"tandem", "--url", "http://127.0.0.1:1", "nodes"}},
		{"print-config of the node", []string{"TANDEM_PASSWORD=" + nodePassword}, with(node, "--print-config")},
		{"print-config of the broker", []string{"TANDEM_PASSWORDS=controller=" + controllerPassword},
			with(broker, "--print-config")},
		{"print-config of the controller", []string{"TANDEM_BROKER_PASSWORD=" + controllerPassword},
			with(controller, "--print-config")},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := proc.Run(t, dir, c.env, append([]string{proc.Binary(t, c.argv[0])}, c.argv[1:]...)...)
			if o.Status == 0 && !strings.Contains(c.name, "print-config") {
				t.Errorf("it went through: %s", o.Out)
			}
			s.t = t
			s.look("what it printed", []byte(o.Out+o.Errors))
		})
	}
}

// TestSearchFinds: the search itself notices a secret in each form.
func TestSearchFinds(t *testing.T) {
	s := newSearch(t)
	for _, leak := range []string{
		"x" + token + "y", hex.EncodeToString([]byte("--" + token + "--")),
		base64.StdEncoding.EncodeToString([]byte("a" + token + "b")),
		base64.StdEncoding.EncodeToString([]byte("ab" + token)),
		base64.StdEncoding.EncodeToString([]byte(token + "abc")),
	} {
		found := false
		for _, secret := range s.secrets {
			found = found || bytes.Contains([]byte(leak), secret)
		}
		if !found {
			t.Errorf("%s was not noticed", leak)
		}
	}
}
