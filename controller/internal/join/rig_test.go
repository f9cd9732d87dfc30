package join

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
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
	seen  []record.Enrolment
	root  []byte // as DoorRoot returns it

	cas atomic.Pointer[jointoken.CAList]
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
		c.state.Apply(uint64(len(c.seen)), c.now, "", d.Record)
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

func (c *core) Admit(_ context.Context, p ca.Peer, _ string) error {
	return c.Certified(p.Subject, p.Serial)
}

func (c *core) Keys() ([]wire.Key, uint64) {
	return []wire.Key{{ID: "k1", Ed25519: make([]byte, 32)}}, 7
}

func (c *core) DoorCAs() jointoken.CAList { return *c.cas.Load() }

func (c *core) DoorRoot() []byte { return c.root }

func (c *core) Floor(_ context.Context, node string) (jointoken.Floor, error) {
	return jointoken.Floor{Epoch: 3, Rev: 9,
		Kinds: map[wire.Kind]wire.Stamp{"config": {Epoch: 3, Rev: uint64(len(node))}}}, nil
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
	r.core.cas.Store(&jointoken.CAList{Unit: "u1", CAs: r.ca.Certificates(), Signs: r.ca.Fingerprint().String(),
		Rev: 3})
	zc, logs := observer.New(zap.DebugLevel)
	r.logs = logs
	cfg := Config{Unit: "u1", CA: r.ca, Core: r.core, Log: zap.New(zc),
		Brokers: []jointoken.Broker{{URL: "tls://127.0.0.1:8883", Name: jointoken.ServerName}}}
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
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
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
	if err := r.core.Enrolment(r.t.Context(),
		enrol.Enrol{Subject: "node/" + node, Hash: tok.Secret.Hash()}); err != nil {
		r.t.Fatal(err)
	}
	return tok
}

// admitted sends a request that has to succeed, and returns the certificate for use.
func (r *rig) admitted(c *http.Client, path string, key crypto.Signer, body []byte) (tls.Certificate,
	*jointoken.Admission) {
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
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
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
