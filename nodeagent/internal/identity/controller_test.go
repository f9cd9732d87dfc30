package identity

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

const life = 90 * 24 * time.Hour

// authority is a CA.
type authority struct {
	key  crypto.Signer
	cert *x509.Certificate
}

func newAuthority(t testing.TB, from time.Time) *authority {
	t.Helper()
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tandem CA u1"},
		NotBefore: from, NotAfter: from.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key, cert}
}

func (a *authority) sign(t testing.TB, pub crypto.PublicKey, template *x509.Certificate) []byte {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, pub, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func identityURI(t testing.TB, s string) []*url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return []*url.URL{u}
}

// controller plays a controller's join door, badly if that is wanted.
type controller struct {
	t   testing.TB
	ca  *authority
	now func() time.Time
	tok jointoken.Token

	mu      sync.Mutex
	used    string                     // hash of the key that the token was used for
	newest  [][]byte                   // certificates that count, in DER
	asked   []time.Time                // when renewals came
	refuse  *wire.Error                // to every request
	spoil   func(*jointoken.Admission) // the last thing that is done to an answer
	lose    bool                       // do the work, but cut the connection before the answer
	raw     http.HandlerFunc           // instead of everything
	unitKey ed25519.PublicKey
	keysRev uint64

	stranger bool // it is not of the CA that nodes believe

	cas *jointoken.CAList // nil: the controller is one from before there were rotations

	reportKeys []string // serial numbers for which a report key was given
	noReports  bool     // the controller is one from before there were report keys
}

func newController(t testing.TB, now func() time.Time) *controller {
	t.Helper()
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{t: t, now: now, ca: newAuthority(t, now().Add(-time.Hour).Truncate(time.Second)), unitKey: pub}
	if c.tok, err = jointoken.New("n1", jointoken.FingerprintOf(c.ca.cert.Raw), rand.Reader); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *controller) serverTLS() *tls.Config {
	key, err := newKey()
	if err != nil {
		c.t.Fatal(err)
	}
	leaf := c.ca.sign(c.t, key.Public(), &x509.Certificate{DNSNames: []string{jointoken.ServerName},
		NotBefore: c.ca.cert.NotBefore,
		NotAfter:  c.ca.cert.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	pool := x509.NewCertPool()
	pool.AddCert(c.ca.cert)
	return &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf, c.ca.cert.Raw}, PrivateKey: key}},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: pool, Time: c.now}
}

func (c *controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.raw != nil {
		c.raw(w, r)
		return
	}
	if r.URL.Path == jointoken.KeysPath {
		c.keyList(w, r)
		return
	}
	if r.URL.Path == jointoken.CAPath {
		c.caList(w, r)
		return
	}
	if r.URL.Path == jointoken.ReportKeyPath {
		c.reportKey(w, r)
		return
	}
	a, err := c.answer(r)
	if err != nil {
		e := refused(err)
		b, err := jointoken.Encode(&jointoken.Refusal{Error: e})
		if err != nil {
			c.t.Error(err)
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(b)
		return
	}
	if c.lose {
		panic(http.ErrAbortHandler)
	}
	if c.spoil != nil {
		c.spoil(a)
	}
	b, err := jointoken.Encode(a)
	if err != nil {
		c.t.Error(err)
	}
	_, _ = w.Write(b)
}

// keyList answers a node that asks for the keys.
func (c *controller) keyList(w http.ResponseWriter, r *http.Request) {
	c.asked = append(c.asked, c.now())
	if len(r.TLS.PeerCertificates) == 0 || c.refuse != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	b, err := jointoken.Encode(&jointoken.KeyList{Unit: "u1", KeysRev: c.keysRev,
		UnitKeys: []wire.Key{{ID: seal.KeyID(c.unitKey), Ed25519: c.unitKey}}})
	if err != nil {
		c.t.Error(err)
	}
	_, _ = w.Write(b)
}

// reportKey answers a node that asks for its report key: the bytes of its serial number, over and over.
func (c *controller) reportKey(w http.ResponseWriter, r *http.Request) {
	if c.noReports || len(r.TLS.PeerCertificates) == 0 {
		http.NotFound(w, r)
		return
	}
	serial := r.TLS.PeerCertificates[0].SerialNumber.Text(16)
	c.reportKeys = append(c.reportKeys, serial)
	b, err := jointoken.Encode(&jointoken.ReportKey{Unit: "u1", Node: "n1", Serial: serial, Key: keyFor(serial)})
	if err != nil {
		c.t.Error(err)
	}
	_, _ = w.Write(b)
}

func keyFor(serial string) []byte {
	return []byte(strings.Repeat(serial, wire.ReportKeySize)[:wire.ReportKeySize])
}

func (c *controller) answer(r *http.Request) (*jointoken.Admission, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var der []byte
	switch r.URL.Path {
	case jointoken.JoinPath:
		if c.refuse != nil {
			return nil, c.refuse
		}
		req, err := jointoken.DecodeJoin(body)
		if err != nil {
			return nil, err
		}
		if s, err := req.SecretBytes(); err != nil || s != c.tok.Secret {
			return nil, wire.New(wire.CodeNotAllowed, "", "wrong secret")
		}
		der = req.CSR
	case jointoken.RenewPath:
		c.asked = append(c.asked, c.now())
		if c.refuse != nil {
			return nil, c.refuse
		}
		if len(r.TLS.PeerCertificates) == 0 {
			return nil, wire.New(wire.CodeNotAllowed, "", "no certificate")
		}
		shown := r.TLS.PeerCertificates[0].Raw
		counts := false
		for _, k := range c.newest {
			counts = counts || bytes.Equal(k, shown)
		}
		if !counts {
			return nil, wire.New(wire.CodeNotAllowed, "", "the certificate does not count")
		}
		req, err := jointoken.DecodeRenew(body)
		if err != nil {
			return nil, err
		}
		der = req.CSR
		c.newest = [][]byte{shown}
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, err
	}
	if r.URL.Path == jointoken.JoinPath {
		sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
		if c.used != "" && c.used != string(sum[:]) {
			return nil, wire.New(wire.CodeWrongState, "", "the token was used before")
		}
		c.used, c.newest = string(sum[:]), nil
	}
	now := c.now().Truncate(time.Second)
	cert := c.ca.sign(c.t, csr.PublicKey, &x509.Certificate{URIs: identityURI(c.t, "tandem://u1/node/n1"),
		NotBefore: now, NotAfter: now.Add(life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	c.newest = append(c.newest, cert)
	return &jointoken.Admission{Unit: "u1", Node: "n1", Certificate: cert, CA: c.ca.cert.Raw,
		UnitKeys: []wire.Key{{ID: seal.KeyID(c.unitKey), Ed25519: c.unitKey}},
		Brokers:  []jointoken.Broker{{URL: "tls://gateway:8883", Name: jointoken.ServerName}}}, nil
}

// serve answers on real connections until stop is called, and returns how to dial it.
func (c *controller) serve(t testing.TB, conf *tls.Config) (dial DialFunc, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, l.Addr().String())
	}, c.serveOn(t, l, conf)
}

// serveInBubble is serve on in-memory connections, of which a bubble sees when they wait. A TLS
// connection takes five seconds to be closed there, because a pipe holds nothing that nobody reads.
func (c *controller) serveInBubble(t testing.TB, conf *tls.Config) (dial DialFunc, stop func()) {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	return l.dial, c.serveOn(t, l, conf)
}

func (c *controller) serveOn(t testing.TB, l net.Listener, conf *tls.Config) (stop func()) {
	srv := &http.Server{Handler: c, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(tls.NewListener(l, conf)); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	return sync.OnceFunc(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
}

// pipes is a listener of in-memory connections.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
