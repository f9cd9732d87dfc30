package ca

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func request(t testing.TB, key crypto.Signer, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestParseRequest(t *testing.T) {
	key := newKey(t)
	plain := request(t, key, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1"}})
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	altered := append([]byte(nil), plain...)
	altered[len(altered)-1] ^= 1
	// Another's key under one's own signature: the public key is swapped, the signature stays.
	stolen := append([]byte(nil), plain...)
	other := request(t, newKey(t), &x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1"}})
	if len(other) == len(stolen) {
		copy(stolen[40:100], other[40:100])
	} else {
		stolen[60] ^= 1
	}
	for _, c := range []struct {
		name string
		der  []byte
		want wire.Code
	}{
		{"P-256", plain, ""},
		{"P-384", request(t, p384, &x509.CertificateRequest{}), ""},
		{"Ed25519", request(t, ed, &x509.CertificateRequest{}), ""},
		{"P-224", request(t, p224, &x509.CertificateRequest{}), wire.CodeBadValue},
		{"RSA", request(t, weak, &x509.CertificateRequest{}), wire.CodeBadValue},
		{"altered signature", altered, wire.CodeBadSignature},
		{"empty", nil, wire.CodeMalformed},
		{"PEM", []byte("-----BEGIN CERTIFICATE REQUEST-----"), wire.CodeMalformed},
		{"cut", plain[:len(plain)-10], wire.CodeMalformed},
		{"more behind it", append(append([]byte(nil), plain...), 0), wire.CodeMalformed},
		{"huge", request(t, key, &x509.CertificateRequest{Subject: pkix.Name{CommonName: strings.Repeat("n",
			maxRequest)}}), wire.CodeTooLarge},
	} {
		r, err := ParseRequest(c.der)
		got := wire.Code("")
		if e, ok := errors.AsType[*wire.Error](err); ok {
			got = e.Code
		}
		if got != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v, want code %q", c.name, err, c.want)
		}
		if err == nil && len(r.Hash) != 64 {
			t.Errorf("%s: hash %q", c.name, r.Hash)
		}
	}
	if _, err := ParseRequest(stolen); err == nil {
		t.Error("a request with another's key was taken")
	}
}

// bearer issues a client certificate and returns it for use.
func bearer(t testing.TB, c *CA, subject string, from, until time.Time) tls.Certificate {
	t.Helper()
	key := newKey(t)
	serial, err := NewSerial()
	if err != nil {
		t.Fatal(err)
	}
	der, err := c.Issue(key.Public(), Grant{Subject: subject, Serial: serial, From: from, Until: until})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if leaf.SerialNumber.Text(16) != serial {
		t.Fatalf("serial %s became %s", serial, leaf.SerialNumber.Text(16))
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestIssuedCertificate(t *testing.T) {
	c := open(t, Config{})
	key := newKey(t)
	uri, err := url.Parse("tandem://u1/node/other")
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRequest(request(t, key,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "admin", Organization: []string{"evil"}},
			DNSNames: []string{"controller.tandem.internal"}, URIs: []*url.URL{uri}}))
	if err != nil {
		t.Fatal(err)
	}
	from, until := c.Validity(NodeLife)
	der, err := c.Issue(r.Key, Grant{Subject: "node/n1", Serial: "abc", From: from, Until: until})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if leaf.Subject.String() != "CN=node/n1" || len(leaf.DNSNames) != 0 || len(leaf.URIs) != 1 ||
		leaf.URIs[0].String() != "tandem://u1/node/n1" ||
		leaf.IsCA || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth ||
		leaf.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("the request got its wishes: %v %v %v", leaf.Subject, leaf.DNSNames, leaf.URIs)
	}
	if !leaf.NotAfter.Equal(day.Add(NodeLife)) || !leaf.NotBefore.Before(day) {
		t.Errorf("valid from %v until %v", leaf.NotBefore, leaf.NotAfter)
	}
	for _, bad := range []struct{ subject, serial string }{{"node/n1", ""}, {"node/n1", "xyz"}, {"node/n1", "-1"},
		{"node/n1", "0"}, {"node/", "1"}, {"root", "1"}, {"node/a/b", "1"}, {"broker/", "1"}, {"broker", "1"}} {
		if _, err := c.Issue(r.Key, Grant{Subject: bad.subject, Serial: bad.serial, From: from,
			Until: until}); err == nil {
			t.Errorf("%q was issued under serial %q", bad.subject, bad.serial)
		}
	}
}

func TestValidityEndsWithTheCA(t *testing.T) {
	dir := t.TempDir()
	open(t, Config{Dir: dir})
	c := open(t, Config{Dir: dir, Now: at(day.AddDate(9, 11, 15))})
	if _, until := c.Validity(NodeLife); !until.Equal(c.Expires()) {
		t.Errorf("until %v, the CA ends at %v", until, c.Expires())
	}
	c = open(t, Config{})
	if from, _ := c.Validity(NodeLife); from.Before(c.signs().cert.NotBefore) {
		t.Errorf("from %v, before the CA", from)
	}
}

// handshake connects a client to a server configuration and returns what the server sees.
func handshake(t testing.TB, server, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			serverErr = err
			return
		}
		defer nc.Close()
		tc := tls.Server(nc, server)
		if serverErr = tc.HandshakeContext(ctx); serverErr == nil {
			state = tc.ConnectionState()
			_, serverErr = tc.Write([]byte{1}) // in TLS 1.3 a client hears of a refusal when it reads
		}
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	tc := tls.Client(nc, client)
	if clientErr = tc.HandshakeContext(ctx); clientErr == nil {
		_, clientErr = tc.Read(make([]byte, 1))
	}
	if clientErr != nil {
		nc.Close()
	}
	<-done
	return state, serverErr, clientErr
}

func clientConfig(c *CA, certs ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: c.trust.Load().pool, ServerName: jointoken.ServerName, Certificates: certs, Time: c.now}
}

func TestMutualTLS(t *testing.T) {
	c, foreign := open(t, Config{}), open(t, Config{})
	s, err := c.Server([]string{"127.0.0.1", "gateway.local"})
	if err != nil {
		t.Fatal(err)
	}
	from, until := c.Validity(NodeLife)
	good := bearer(t, c, "node/n1", from, until)
	serverCert, err := s.certificate("")
	if err != nil {
		t.Fatal(err)
	}
	forged := good
	forged.PrivateKey = newKey(t)
	old := clientConfig(c, good)
	old.MaxVersion = tls.VersionTLS12
	byHost := clientConfig(c, good)
	byHost.ServerName = "gateway.local"
	byIP := clientConfig(c, good)
	byIP.ServerName = "127.0.0.1"
	wrongHost := clientConfig(c, good)
	wrongHost.ServerName = "elsewhere.local"
	for _, tt := range []struct {
		name   string
		client *tls.Config
		ok     bool
	}{
		{"good", clientConfig(c, good), true},
		{"by host name", byHost, true},
		{"by address", byIP, true},
		{"another host", wrongHost, false},
		{"no certificate", clientConfig(c), false},
		{"expired", clientConfig(c, bearer(t, c, "node/n1", day.Add(-48*time.Hour), day.Add(-time.Second))), false},
		{"not valid yet", clientConfig(c, bearer(t, c, "node/n1", day.Add(time.Hour), until)), false},
		{"of another CA of the same name", clientConfig(c, bearer(t, foreign, "node/n1", from, until)), false},
		{"without the key", clientConfig(c, forged), false},
		{"the server's own certificate", clientConfig(c, *serverCert), false},
		{"TLS 1.2", old, false},
		{"a client that trusts another CA", clientConfig(foreign, good), false},
	} {
		state, serverErr, clientErr := handshake(t, s.Mutual(), tt.client)
		if ok := serverErr == nil && clientErr == nil; ok != tt.ok {
			t.Errorf("%s: server %v, client %v, want success %v", tt.name, serverErr, clientErr, tt.ok)
			continue
		}
		if tt.ok {
			p, err := c.PeerOf(&state)
			if err != nil || p.Subject != "node/n1" || p.Serial != good.Leaf.SerialNumber.Text(16) ||
				!p.Expires.Equal(until) || state.DidResume {
				t.Errorf("%s: peer %+v, %v", tt.name, p, err)
			}
		}
	}
}

func TestOptionalTLS(t *testing.T) {
	c := open(t, Config{})
	s, err := c.Server(nil)
	if err != nil {
		t.Fatal(err)
	}
	state, serverErr, clientErr := handshake(t, s.Optional(), clientConfig(c))
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	if p, err := c.PeerOf(&state); err == nil {
		t.Errorf("nobody is %+v", p)
	}
	if p, err := c.PeerOf(nil); err == nil {
		t.Errorf("nothing is %+v", p)
	}
	expired := bearer(t, c, "node/n1", day.Add(-48*time.Hour), day.Add(-time.Second))
	if _, serverErr, _ := handshake(t, s.Optional(), clientConfig(c, expired)); serverErr == nil {
		t.Error("an expired certificate was taken")
	}
}

// The controller's own certificate is renewed long before it ends.
func TestServerCertificateIsRenewed(t *testing.T) {
	now := day
	c := open(t, Config{Now: func() time.Time { return now }})
	s, err := c.Server(nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.certificate("")
	if err != nil {
		t.Fatal(err)
	}
	made := 1
	for last := first; now.Before(day.AddDate(1, 0, 0)); now = now.Add(time.Hour) {
		cert, err := s.certificate("")
		if err != nil {
			t.Fatal(err)
		}
		if left := cert.Leaf.NotAfter.Sub(now); left < serverLife/4 {
			t.Fatalf("at %v the certificate has %v left", now, left)
		}
		if cert != last {
			if cert.Leaf.SerialNumber.Cmp(last.Leaf.SerialNumber) == 0 {
				t.Fatal("the same serial again")
			}
			made, last = made+1, cert
		}
	}
	if made < 17 || made > 20 {
		t.Errorf("%d certificates in a year", made)
	}
}

// A node's certificate that is not of this unit, or names nobody, is nobody's.
func TestPeerOfRefuses(t *testing.T) {
	c := open(t, Config{})
	uris := func(list ...string) *tls.ConnectionState {
		leaf := &x509.Certificate{}
		for _, s := range list {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			leaf.URIs = append(leaf.URIs, u)
		}
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf},
			VerifiedChains: [][]*x509.Certificate{{leaf}}}
	}
	unverified := uris("tandem://u1/node/n1")
	unverified.VerifiedChains = nil
	for _, s := range []*tls.ConnectionState{uris(), uris("tandem://u2/node/n1"),
		uris("tandem://u1/node/n1", "tandem://u1/node/n2"),
		uris("tandem://u1/admin/n1"), uris("spiffe://u1/node/n1"), unverified} {
		if p, err := c.PeerOf(s); err == nil {
			t.Errorf("taken as %+v", p)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(request(f, newKey(f), &x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1"}}))
	f.Fuzz(func(t *testing.T, der []byte) {
		r, err := ParseRequest(der)
		if err == nil && (r.Key == nil || len(r.Hash) != 64) {
			t.Fatalf("%+v", r)
		}
		if _, ok := errors.AsType[*wire.Error](err); err != nil && !ok {
			t.Fatalf("%v is no *wire.Error", err)
		}
	})
}
