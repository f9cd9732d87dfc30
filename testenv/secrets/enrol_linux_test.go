package secrets

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tandem.internal/shared/jointoken"
	"tandem.internal/testenv/proc"
)

// scalar is the secret number of a key, which is in every form that the key has.
func scalar(t *testing.T, key any) []byte {
	t.Helper()
	k, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("a key of type %T", key)
	}
	raw, err := k.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// keyOf reads the private key of a PEM file.
func keyOf(t *testing.T, path string) any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			return key
		}
	}
	t.Fatalf("no private key in %s", path)
	return nil
}

// nodeKey is the private key of a machine that has joined.
func nodeKey(t *testing.T, state string) any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(state, "identity", "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Key []byte }
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	key, err := x509.ParsePKCS8PrivateKey(f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestNoSecretOfEnrolmentGetsOut runs a unit with mutual TLS: nodes join with tokens that are good,
// used, guessed and withdrawn, work, and are revoked. Neither the tokens nor the keys of the CA, of the
// unit and of the nodes are anywhere but where they belong; an operator's token is nowhere at all.
func TestNoSecretOfEnrolmentGetsOut(t *testing.T) {
	t.Parallel()
	u, s := proc.NewUnit(t), newSearch(t)
	http := "127.0.0.1:" + strconv.Itoa(proc.Port(t))
	u.StartController("--listen", "", "--listen-tls", "127.0.0.1:"+strconv.Itoa(u.Port), "--advertise", "127.0.0.1",
		"--http", "https://"+http, "--log-level", "debug")
	state := u.StateDir("controller")
	s.plant("the CA's key", scalar(t, keyOf(t, filepath.Join(state, "ca-key.pem"))))
	s.plant("the signing key", signingKey(t, filepath.Join(state, "unit-key.pem")).Seed())
	ann := operator(t, u)
	s.plant("an operator's token", []byte(strings.TrimPrefix(ann, "tdo1.")))

	door := ""
	enroll := func(node string) (token string) {
		o := u.Tandem("node", "enroll", node, "--json")
		var e struct{ Token, Controller string }
		if err := json.Unmarshal([]byte(o.Out), &e); err != nil || e.Token == "" {
			t.Fatalf("enroll: %+v %v", o, err)
		}
		parsed, err := jointoken.Parse(e.Token)
		if err != nil {
			t.Fatal(err)
		}
		s.plant("the token of "+node, []byte(e.Token))
		s.plant("the secret in the token of "+node, parsed.Secret[:])
		s.plant("the same as it is sent", []byte(hex.EncodeToString(parsed.Secret[:])))
		door = e.Controller
		return e.Token
	}
	// join does it as people do, and everything that is printed is searched.
	join := func(machine, token string) int {
		file := writeFile(t, filepath.Join(t.TempDir(), "token"), token+"\n", 0o600)
		o := proc.Run(t, u.Dir, nil, "sh", "-c", proc.Binary(t, "tandem-node")+
			` join --controller "$0" --token - --state-dir "$1" <"$2"`, door, u.StateDir(machine), file)
		s.look("tandem-node join of "+machine, []byte(o.Out+o.Errors))
		return o.Status
	}
	first := enroll("n1")
	if status := join("n1", first); status != 0 {
		t.Fatalf("n1 does not join: status %d", status)
	}
	s.plant("the key of n1", scalar(t, nodeKey(t, u.StateDir("n1"))))
	withdrawn := enroll("n2")
	good := enroll("n2")
	if join("thief", first) == 0 || join("thief", withdrawn) == 0 || join("thief", good[:len(good)-3]+"abc") == 0 {
		t.Error("a token that was used, withdrawn or mistyped has let a machine join")
	}
	// A token on the command line is refused, and not repeated.
	o := proc.Run(t, u.Dir, nil, proc.Binary(t, "tandem-node"), "join", "--controller", door, "--token", first,
		"--state-dir", u.StateDir("thief"))
	s.look("tandem-node join with the token as a flag", []byte(o.Out+o.Errors))
	if o.Status != 2 || !strings.Contains(o.Errors, "every user of this machine can read an argument") {
		t.Errorf("a token as a flag: status %d, %s", o.Status, o.Errors)
	}
	if status := join("n2", good); status != 0 {
		t.Fatalf("n2 does not join: status %d", status)
	}
	s.plant("the key of n2", scalar(t, nodeKey(t, u.StateDir("n2"))))
	joinByBatch(t, u, s)

	dump := writeFile(t, filepath.Join(u.Dir, "dump"), "#!/bin/sh\nenv\ncat /proc/self/environ\nexit 1\n", 0o700)
	start := func(name string) *proc.Process {
		return proc.Start(t, name, nil, proc.Binary(t, "tandem-node"), "--type", "main", "--state-dir",
			u.StateDir(name), "--log-level", "debug", "--on-apply", dump)
	}
	processes := []*proc.Process{u.Controller, start("n1"), start("n2")}
	u.AwaitOnline("n1", true)
	u.AwaitOnline("n2", true)
	if res, err := u.Submit(proc.Document("1.0.0", 1), ""); err != nil || res.State != "accepted" {
		t.Fatalf("%+v %v", res, err)
	}
	o = u.Tandem("node", "revoke", "n2", "--reason", "stolen")
	s.look("tandem node revoke", []byte(o.Out+o.Errors))
	u.AwaitOnline("n2", false)

	for _, path := range []string{"/v1/nodes", "/v1/nodes/n1", "/v1/nodes/n2", "/v1/events", "/v1/journal/export",
		"/v1/journal/backup", "/v1/unit/status", "/v1/tokens",
		"/v1/enrol/batches", "/v1/enrol/pending", "/", "/metrics"} {
		for _, bearer := range []string{ann, first, ann + "x", ""} {
			s.look("the answer to "+path, ask(t, http, path, bearer))
		}
	}
	for _, args := range [][]string{{"journal", "export"}, {"events", "--limit", "1000"}, {"unit", "status", "--json"},
		{"nodes", "--json"}, {"node", "n1", "--json"}, {"node", "n2"}, {"token", "list"}} {
		o := u.Tandem(args...)
		s.look("tandem "+strings.Join(args, " "), []byte(o.Out+o.Errors))
	}
	for _, p := range processes {
		s.process(p)
	}
	for _, p := range processes {
		p.Stop()
		s.process(p)
	}
	s.files(u.Dir, "unit-key.pem", "ca-key.pem", "identity.json")
	for path, holds := range map[string]string{
		filepath.Join(state, "unit-key.pem"): "the signing key", filepath.Join(state, "ca-key.pem"): "the CA's key",
		filepath.Join(u.StateDir("n1"), "identity", "identity.json"): "the key of n1",
		filepath.Join(u.StateDir("n2"), "identity", "identity.json"): "the key of n2",
		filepath.Join(u.StateDir("n3"), "identity", "identity.json"): "the key of n3",
	} {
		s.only(path, holds)
	}
	if s.looked < 60 {
		t.Errorf("only %d places were looked at", s.looked)
	}
}

// only looks at a file that holds one secret, and no other.
func (s *search) only(path, holds string) {
	s.t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		s.t.Errorf("%s: %v %v", path, info, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	others := &search{t: s.t, secrets: map[string][]byte{}}
	for what, secret := range s.secrets {
		if !strings.HasPrefix(what, holds) {
			others.secrets[what] = secret
		}
	}
	others.look(path, data)
}

// ask sends one request to the TLS door and returns all that comes back.
func ask(t *testing.T, at, path, bearer string) []byte {
	t.Helper()
	// who answers is not in question here
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: proc.Patience}, "tcp", at,
		&tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: unit\r\nAuthorization: Bearer "+bearer+
		"\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return data
}
