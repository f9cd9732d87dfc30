package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/jointoken"
)

// authority is the CA of a unit.
func authority(t *testing.T, unit string) *ca.CA {
	t.Helper()
	c, err := ca.Open(ca.Config{Unit: unit, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// issued is a certificate that the unit's CA gave somebody who is not the controller.
func issued(t *testing.T, c *ca.CA, g ca.Grant) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if g.Serial, err = ca.NewSerial(); err != nil {
		t.Fatal(err)
	}
	g.From, g.Until = c.Validity(time.Hour)
	der, err := c.Issue(key.Public(), g)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, c.Certificate()}, PrivateKey: key}
}

// foreign is a certificate for hosts that signs itself.
func foreign(t *testing.T, hosts ...string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "foreign"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IsCA: true, BasicConstraintsValid: true}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// door serves TLS with a certificate and says whether anybody got through.
func door(t *testing.T, conf *tls.Config) (url string, came func() bool) {
	t.Helper()
	requests := make(chan string, 16)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Header.Get("Authorization")
		if _, err := w.Write([]byte(`{"nodes":[]}`)); err != nil {
			t.Error(err)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Listener = tls.NewListener(s.Listener, conf)
	s.Start()
	t.Cleanup(s.Close)
	return "https://" + s.Listener.Addr().String(), func() bool { return len(requests) > 0 }
}

func with(c *tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{*c}}
}

func pemOf(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }

// pins trusts whoever one of two certificates vouches for.
func pins(t *testing.T, a, b []byte) *Trust {
	t.Helper()
	p, err := ParsePin(jointoken.FingerprintOf(a).String() + ", " + jointoken.FingerprintOf(b).String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTrust: a token goes to whoever the given CA vouches for as the controller, and to nobody else.
func TestTrust(t *testing.T) {
	unit, other := authority(t, "u1"), authority(t, "u1")
	controller, err := unit.Server([]string{"gateway.local"}) // reached by another name than that
	if err != nil {
		t.Fatal(err)
	}
	imitation, err := other.Server([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	self, selfElsewhere := foreign(t, "127.0.0.1"), foreign(t, "elsewhere.local")
	pin := func(der []byte) *Trust {
		p, err := ParsePin(" " + jointoken.FingerprintOf(der).String() + "\n")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	file := func(der []byte) *Trust {
		f, err := ParseCA(pemOf(der))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	unpadded := foreign(t, "127.0.0.1")
	unpadded.Certificate = append(unpadded.Certificate, unit.Certificate()) // shows the CA, which has not signed it
	for _, c := range []struct {
		name  string
		door  *tls.Config
		trust *Trust
		want  string // "": trusted; else in the error
	}{
		{"the controller, by its CA's fingerprint", controller.Optional(), pin(unit.Certificate()), ""},
		{"the controller, by its CA's file", controller.Optional(), file(unit.Certificate()), ""},
		{"the controller, by its CA's fingerprint or another's", controller.Optional(),
			pins(t, other.Certificate(), unit.Certificate()), ""},
		{"an imitation, by two", imitation.Optional(), pins(t, unit.Certificate(), self.Certificate[0]), "nothing"},
		{"the controller, by nothing", controller.Optional(), nil, "--ca"},
		{"another unit of that name, by fingerprint", imitation.Optional(), pin(unit.Certificate()),
			"nothing was sent"},
		{"another unit of that name, by file", imitation.Optional(), file(unit.Certificate()), "nothing was sent"},
		{"a node", with(issued(t, unit, ca.Grant{Subject: "node/n1"})), pin(unit.Certificate()), "nothing was sent"},
		{"a broker for this very host",
			with(issued(t, unit, ca.Grant{Subject: "broker/b1", Hosts: []string{"127.0.0.1"}})),
			pin(unit.Certificate()), "nothing was sent"},
		{"the same, by file", with(issued(t, unit, ca.Grant{Subject: "broker/b1", Hosts: []string{"127.0.0.1"}})),
			file(unit.Certificate()), "nothing was sent"},
		{"somebody who shows our CA beside his own", with(unpadded), pin(unit.Certificate()), "nothing was sent"},
		{"a given certificate, by file", with(self), file(self.Certificate[0]), ""},
		{"a given certificate, by its own fingerprint", with(self), pin(self.Certificate[0]), ""},
		{"one of another host, by file", with(selfElsewhere), file(selfElsewhere.Certificate[0]), "nothing was sent"},
		{"TLS 1.2 only", &tls.Config{Certificates: []tls.Certificate{*self}, MaxVersion: tls.VersionTLS12},
			file(self.Certificate[0]), "tls: protocol version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, came := door(t, c.door)
			cl, err := New(Options{URL: url, Token: "secret-token", Trust: c.trust, Timeout: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			_, err = Call(t.Context(), cl, op.ListNodes, op.NodesIn{})
			if (err == nil) != (c.want == "") || came() != (c.want == "") {
				t.Fatalf("%v; somebody got a request: %v", err, came())
			}
			if err == nil {
				return
			}
			u, ok := errors.AsType[*Unreachable](err)
			if !ok || !strings.Contains(u.Hint, c.want) || strings.Contains(err.Error(), "secret-token") {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := New(Options{URL: "http://127.0.0.1:1", Trust: pin(unit.Certificate())}); err == nil ||
		!strings.Contains(err.Error(), "https://") {
		t.Errorf("a CA for an address without TLS: %v", err)
	}
}

func TestParseTrust(t *testing.T) {
	for _, bad := range []string{"", "sha256:", "sha256:00", strings.Repeat("0", 64),
		"sha256:" + strings.Repeat("g", 64), "sha256:" + strings.Repeat("0", 66), "md5:" + strings.Repeat("0", 64)} {
		if _, err := ParsePin(bad); err == nil {
			t.Errorf("%q is a fingerprint", bad)
		}
	}
	for _, bad := range []string{"", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if _, err := ParseCA([]byte(bad)); err == nil {
			t.Errorf("%q is a CA", bad)
		}
	}
}

// FuzzTrust: what is pasted as a CA, in either form, is read or refused.
func FuzzTrust(f *testing.F) {
	f.Add("sha256:" + strings.Repeat("ab", 32))
	f.Add("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePin(text)
		want := strings.ToLower(strings.Join(fields(text), " or "))
		if err == nil && p.names() != want {
			t.Fatalf("%q is read as %s", text, p.names())
		}
		if c, err := ParseCA([]byte(text)); err == nil && c.roots == nil {
			t.Fatal("no CA and no error")
		}
	})
}

// fields are the parts of a text between commas, without the white space around each.
func fields(text string) (all []string) {
	for one := range strings.SplitSeq(text, ",") {
		all = append(all, strings.TrimSpace(one))
	}
	return all
}

// TestWrongScheme: http:// where TLS is spoken, and the other way round, is said.
func TestWrongScheme(t *testing.T) {
	url, _ := door(t, with(foreign(t, "127.0.0.1")))
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for wrong, want := range map[string]string{"http" + strings.TrimPrefix(url, "https"): "https://",
		"https" + strings.TrimPrefix(plain.URL, "http"): "http://"} {
		cl, err := New(Options{URL: wrong, Timeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Call(t.Context(), cl, op.ListNodes, op.NodesIn{})
		if u, ok := errors.AsType[*Unreachable](err); !ok || !strings.Contains(u.Hint, want) {
			t.Errorf("%s: %v", wrong, err)
		}
		cl.Close()
	}
}
