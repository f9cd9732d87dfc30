package join

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// core plays the controller's core without a disk.
type core struct {
	mu    sync.Mutex
	now   time.Time
	state *enrol.State
	fail  error
	seen  []enrol.Data
}

func (c *core) Enrolment(_ context.Context, ev enrol.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	d := c.state.Decide(c.now, ev)
	if d.Record != nil {
		c.seen = append(c.seen, d.Record)
		c.state.Apply(c.now, "", d.Record)
	}
	if d.Err != nil {
		return d.Err
	}
	return nil
}

func (c *core) Certified(subject, serial string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.state.Counts(subject, serial); err != nil {
		return err
	}
	return nil
}

func (c *core) Keys() ([]wire.Key, uint64) {
	return []wire.Key{{ID: "k1", Ed25519: make([]byte, 32)}}, 7
}

func (c *core) Floor(_ context.Context, node string) (jointoken.Floor, error) {
	return jointoken.Floor{Epoch: 3, Rev: 9, Kinds: map[wire.Kind]wire.Stamp{"config": {Epoch: 3, Rev: uint64(len(node))}}}, nil
}

func (c *core) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *core) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// rig is an open door.
type rig struct {
	t    *testing.T
	core *core
	ca   *ca.CA
	addr string
	logs *observer.ObservedLogs
}

func newRig(t *testing.T, tune func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, core: &core{now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), state: enrol.New()}}
	var err error
	if r.ca, err = ca.Open(ca.Config{Unit: "u1", Dir: t.TempDir(), Now: r.core.clock}); err != nil {
		t.Fatal(err)
	}
	zc, logs := observer.New(zap.DebugLevel)
	r.logs = logs
	cfg := Config{Unit: "u1", CA: r.ca, Core: r.core, Log: zap.New(zc), Brokers: []jointoken.Broker{{URL: "tls://127.0.0.1:8883", Name: jointoken.ServerName}}}
	if tune != nil {
		tune(&cfg)
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) client(certs ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.ca.PEM())
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs: pool, ServerName: jointoken.ServerName, Certificates: certs, Time: r.core.clock}}}
}

// post sends a body and returns what came back.
func (r *rig) post(c *http.Client, path, contentType string, body []byte) (int, http.Header, []byte, error) {
	res, err := c.Post("https://"+r.addr+path, contentType, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, b, err
}

func (r *rig) token(node string) jointoken.Token {
	r.t.Helper()
	tok, err := jointoken.New(node, r.ca.Fingerprint(), rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.core.Enrolment(r.t.Context(), enrol.Enrol{Subject: "node/" + node, Hash: tok.Secret.Hash()}); err != nil {
		r.t.Fatal(err)
	}
	return tok
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func csr(t testing.TB, key crypto.Signer, name string) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func joinBody(t testing.TB, tok jointoken.Token, csr []byte) []byte {
	t.Helper()
	req := jointoken.NewJoinRequest(tok, csr)
	b, err := jointoken.Encode(&req)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func renewBody(t testing.TB, csr []byte) []byte {
	t.Helper()
	b, err := jointoken.Encode(&jointoken.RenewRequest{CSR: csr})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// admitted sends a request that has to succeed, and returns the certificate for use.
func (r *rig) admitted(c *http.Client, path string, key crypto.Signer, body []byte) (tls.Certificate, *jointoken.Admission) {
	r.t.Helper()
	status, _, answer, err := r.post(c, path, "application/json", body)
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("%s: %d %s %v", path, status, answer, err)
	}
	a, err := jointoken.DecodeAdmission(answer)
	if err != nil {
		r.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(a.Certificate)
	if err != nil {
		r.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{a.Certificate}, PrivateKey: key, Leaf: leaf}, a
}

func (r *rig) refused(what string, c *http.Client, path string, body []byte, status int, code wire.Code) string {
	r.t.Helper()
	got, _, answer, err := r.post(c, path, "application/json", body)
	e := jointoken.DecodeRefusal(answer)
	if err != nil || got != status || e == nil || e.Code != code {
		r.t.Errorf("%s: %d %s %v, want %d %s", what, got, answer, err, status, code)
	}
	return string(answer)
}

func TestJoinAndRenew(t *testing.T) {
	r := newRig(t, nil)
	tok, key := r.token("n1"), newKey(t)
	cert, a := r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, tok, csr(t, key, "n1")))
	if a.Unit != "u1" || a.Node != "n1" || !bytes.Equal(a.CA, r.ca.Certificate()) || len(a.UnitKeys) != 1 || a.Brokers[0].URL != "tls://127.0.0.1:8883" {
		t.Errorf("%+v", a)
	}
	if err := r.core.state.Counts("node/n1", cert.Leaf.SerialNumber.Text(16)); err != nil {
		t.Error(err)
	}
	if got := cert.Leaf.NotAfter.Sub(r.core.now); got != ca.NodeLife {
		t.Errorf("valid for %v", got)
	}
	// The answer was lost: the same token and key again.
	cert, _ = r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, tok, csr(t, key, "")))

	r.core.pass(60 * 24 * time.Hour)
	next := newKey(t)
	renewed, _ := r.admitted(r.client(cert), jointoken.RenewPath, next, renewBody(t, csr(t, next, "n1")))
	for _, c := range []tls.Certificate{cert, renewed} {
		if err := r.core.state.Counts("node/n1", c.Leaf.SerialNumber.Text(16)); err != nil {
			t.Error(err)
		}
	}
	third := newKey(t)
	r.core.pass(time.Hour)
	r.admitted(r.client(renewed), jointoken.RenewPath, third, renewBody(t, csr(t, third, "n1")))
}

func TestRefusals(t *testing.T) {
	r := newRig(t, nil)
	good := newKey(t)
	goodCSR := csr(t, good, "n1")
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	open := r.token("n1")
	guess := open
	guess.Secret[0] ^= 1
	plain := r.client()
	type attempt struct {
		name   string
		path   string
		body   []byte
		status int
		code   wire.Code
	}
	attempts := []attempt{
		{"guessed", jointoken.JoinPath, joinBody(t, guess, goodCSR), 403, wire.CodeNotAllowed},
		{"another node's request", jointoken.JoinPath, joinBody(t, open, csr(t, good, "n2")), 403, wire.CodeWrongTarget},
		{"weak key", jointoken.JoinPath, joinBody(t, open, csr(t, weak, "n1")), 400, wire.CodeBadValue},
		{"altered request", jointoken.JoinPath, joinBody(t, open, append(goodCSR[:len(goodCSR)-1:len(goodCSR)-1], goodCSR[len(goodCSR)-1]^1)), 400, wire.CodeBadSignature},
		{"no request", jointoken.JoinPath, joinBody(t, open, []byte("hello")), 400, wire.CodeMalformed},
		{"unknown field", jointoken.JoinPath, []byte(`{"node":"n1","secret":"` + strings.Repeat("0", 32) + `","csr":"AA==","admin":true}`), 400, wire.CodeUnknownField},
		{"no JSON", jointoken.JoinPath, []byte("<html>"), 400, wire.CodeMalformed},
		{"huge", jointoken.JoinPath, bytes.Repeat([]byte(" "), 1<<20), 413, wire.CodeTooLarge},
		{"renewing as nobody", jointoken.RenewPath, renewBody(t, goodCSR), 403, wire.CodeNotAllowed},
	}
	other := open
	other.Node = "n2"
	attempts = append(attempts, attempt{"for another node", jointoken.JoinPath, joinBody(t, other, csr(t, good, "n2")), 403, wire.CodeWrongTarget})
	for _, a := range attempts {
		r.core.pass(time.Minute) // the limits have a test of their own
		answer := r.refused(a.name, plain, a.path, a.body, a.status, a.code)
		if strings.Contains(answer, hex.EncodeToString(open.Secret[:])) {
			t.Errorf("%s: the answer repeats the secret", a.name)
		}
	}
	if len(r.core.state.Lookup("node/n1").Certificates) != 0 {
		t.Fatal("something was issued")
	}

	r.core.pass(time.Minute)
	cert, _ := r.admitted(plain, jointoken.JoinPath, good, joinBody(t, open, goodCSR))
	thief := newKey(t)
	r.refused("used", plain, jointoken.JoinPath, joinBody(t, open, csr(t, thief, "n1")), 409, wire.CodeWrongState)
	r.refused("renewed at once", r.client(cert), jointoken.RenewPath, renewBody(t, csr(t, thief, "n1")), 503, wire.CodeUnavailable)
	r.core.pass(time.Hour)
	r.refused("renewed for another node", r.client(cert), jointoken.RenewPath, renewBody(t, csr(t, thief, "n2")), 403, wire.CodeWrongTarget)
	late := r.token("n1")
	r.core.pass(25 * time.Hour)
	r.refused("expired", plain, jointoken.JoinPath, joinBody(t, late, csr(t, thief, "n1")), 410, wire.CodeExpired)
	if err := r.core.Enrolment(t.Context(), enrol.Revoke{Subject: "node/n1"}); err != nil {
		t.Fatal(err)
	}
	r.core.pass(time.Hour)
	r.refused("revoked", r.client(cert), jointoken.RenewPath, renewBody(t, csr(t, thief, "n1")), 403, wire.CodeNotAllowed)
	r.core.pass(time.Hour)
	withdrawn := r.token("n1")
	if err := r.core.Enrolment(t.Context(), enrol.Revoke{Subject: "node/n1"}); err != nil {
		t.Fatal(err)
	}
	r.refused("withdrawn", plain, jointoken.JoinPath, joinBody(t, withdrawn, csr(t, thief, "n1")), 403, wire.CodeNotAllowed)

	// After its time a certificate does not even get through TLS.
	r.core.pass(100 * 24 * time.Hour)
	if status, _, answer, err := r.post(r.client(cert), jointoken.RenewPath, "application/json", renewBody(t, csr(t, thief, "n1"))); err == nil {
		t.Errorf("expired certificate: %d %s", status, answer)
	}
	for _, e := range r.logs.All() {
		for _, tok := range []jointoken.Token{open, late, withdrawn} {
			if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line, hex.EncodeToString(tok.Secret[:])) || strings.Contains(line, tok.Text()) {
				t.Errorf("a secret is in the log: %s", line)
			}
		}
	}
}

// An answer is given only for what is durable.
func TestNothingIsIssuedWithoutTheCore(t *testing.T) {
	r := newRig(t, nil)
	tok, key := r.token("n1"), newKey(t)
	body := joinBody(t, tok, csr(t, key, "n1"))
	r.core.fail = wire.New(wire.CodeStorage, "", "disk full")
	r.refused("disk full", r.client(), jointoken.JoinPath, body, 503, wire.CodeStorage)
	r.core.fail = errors.New("some internals: " + hex.EncodeToString(tok.Secret[:]))
	if answer := r.refused("broken", r.client(), jointoken.JoinPath, body, 500, wire.CodeInternal); strings.Contains(answer, "internals") {
		t.Errorf("internals are told: %s", answer)
	}
	r.core.fail = nil
	r.admitted(r.client(), jointoken.JoinPath, key, body)
}

func TestWhatIsNoRequest(t *testing.T) {
	r := newRig(t, nil)
	c := r.client()
	for _, q := range []struct {
		method, path, contentType string
		want                      int
	}{
		{"GET", "/join", "", 405}, {"PUT", "/join", "application/json", 405}, {"POST", "/", "application/json", 404},
		{"POST", "/join/", "application/json", 404}, {"POST", "//join", "application/json", 404}, {"POST", "/JOIN", "application/json", 404},
		{"POST", "/join/../renew", "application/json", 404}, {"GET", "/v1/nodes", "", 404},
		{"POST", "/join", "text/plain", 415}, {"POST", "/join", "application/x-www-form-urlencoded", 415}, {"POST", "/join", "", 415},
	} {
		req, err := http.NewRequest(q.method, "https://"+r.addr+q.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", q.contentType)
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != q.want && !(q.want == 404 && res.StatusCode/100 == 3) {
			t.Errorf("%s %s as %q: %d, want %d", q.method, q.path, q.contentType, res.StatusCode, q.want)
		}
		r.core.pass(time.Minute)
	}
	if res, err := http.Post("http://"+r.addr+"/join", "application/json", strings.NewReader("{}")); err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP: %d", res.StatusCode)
		}
	}
	if len(r.core.seen) != 0 {
		t.Error("something came through")
	}
	old := r.client()
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
	if _, _, _, err := r.post(old, "/join", "application/json", nil); err == nil {
		t.Error("TLS 1.2 was spoken")
	}
}

func TestGuessingIsSlow(t *testing.T) {
	r := newRig(t, nil)
	tok, key := r.token("n1"), newKey(t)
	guess := tok
	guess.Secret[3] ^= 0xff
	body := joinBody(t, guess, csr(t, key, "n1"))
	c := r.client()
	limited := 0
	for range 30 {
		status, h, _, err := r.post(c, jointoken.JoinPath, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		if status == http.StatusTooManyRequests {
			if limited++; h.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if limited != 20 {
		t.Errorf("%d of 30 guesses were not even looked at, want 20", limited)
	}
	// Even who has the right one has to wait then, and is let in afterwards.
	r.refused("the right one", c, jointoken.JoinPath, joinBody(t, tok, csr(t, key, "n1")), 429, wire.CodeUnavailable)
	r.core.pass(time.Minute)
	r.admitted(c, jointoken.JoinPath, key, joinBody(t, tok, csr(t, key, "n1")))
}

func TestSlowClientsAreCut(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Timeout = 300 * time.Millisecond })
	ended := func(what string, nc net.Conn) {
		t.Helper()
		if err := nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, nc); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Errorf("%s: still there after %v", what, patience)
		}
	}
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ended("no handshake", nc)

	conf := r.client().Transport.(*http.Transport).TLSClientConfig
	for what, text := range map[string]string{
		"half a header": "POST /join HTTP/1.1\r\nHost: x\r\n",
		"half a body":   "POST /join HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
	} {
		for giveUp := time.Now().Add(patience); ; { // a busy machine may be too slow itself, now and then
			tc, err := tls.Dial("tcp", r.addr, conf)
			if err == nil {
				defer tc.Close()
				if _, err = io.WriteString(tc, text); err == nil {
					ended(what, tc)
					break
				}
			}
			if time.Now().After(giveUp) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
}

// patience bounds waits that only a failing test waits out.
const patience = time.Minute

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxConns, c.MaxPerAddress = 3, 2 })
	var held []net.Conn
	for range 2 {
		nc, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		held = append(held, nc)
	}
	extra, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	if err := extra.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := extra.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the third connection is kept: %v", err)
	}
	held[0].Close()
	tok, key := r.token("n1"), newKey(t)
	body := joinBody(t, tok, csr(t, key, "n1"))
	for deadline := time.Now().Add(patience); ; {
		status, _, _, err := r.post(r.client(), jointoken.JoinPath, "application/json", body)
		if err == nil && status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no room is made: %d %v", status, err)
		}
	}
}

// The keys are told to whoever shows a certificate that counts, and to nobody else; a join brings what is
// old.
func TestKeys(t *testing.T) {
	r := newRig(t, nil)
	key := newKey(t)
	cert, a := r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, r.token("n1"), csr(t, key, "n1")))
	if a.KeysRev != 7 || len(a.UnitKeys) != 1 || a.Floor.Rev != 9 || a.Floor.Kinds["config"] != (wire.Stamp{Epoch: 3, Rev: 2}) {
		t.Errorf("%+v", a)
	}
	ask := func(body string, certs ...tls.Certificate) (int, []byte) {
		t.Helper()
		status, _, answer, err := r.post(r.client(certs...), jointoken.KeysPath, "application/json", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return status, answer
	}
	status, answer := ask("{}", cert)
	if l, err := jointoken.DecodeKeys(answer); status != http.StatusOK || err != nil || l.Unit != "u1" || l.KeysRev != 7 || len(l.UnitKeys) != 1 {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := ask("{}"); status != http.StatusForbidden {
		t.Errorf("without a certificate: %d %s", status, answer)
	}
	if status, answer := ask(`{"node":"n2"}`, cert); status != http.StatusBadRequest {
		t.Errorf("with a body: %d %s", status, answer)
	}
	if err := r.core.Enrolment(t.Context(), enrol.Revoke{Subject: "node/n1"}); err != nil {
		t.Fatal(err)
	}
	if status, answer := ask("{}", cert); status != http.StatusForbidden || !strings.Contains(string(answer), "revoked") {
		t.Errorf("after it was revoked: %d %s", status, answer)
	}
}
