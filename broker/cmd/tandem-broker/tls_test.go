package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// authority is a CA with its key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// issue makes a certificate that names identities.
func (a authority) issue(t *testing.T, identities ...string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"broker"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth,
			x509.ExtKeyUsageServerAuth}}
	for _, id := range identities {
		u, err := url.Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A broker with TLS of its own: who connects is whom the certificate names, and nobody else.
func TestCertificatesAreIdentities(t *testing.T) {
	dir, unit := t.TempDir(), newAuthority(t)
	own := unit.issue(t, "tandem://u1/broker/b1")
	secret, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cfg := &config{Unit: "u1", ListenTLS: []string{"127.0.0.1:0"}, MaxClients: 10,
		TLSCert: file("b1.pem", "CERTIFICATE", own.Certificate[0]), TLSKey: file("b1.key", "PRIVATE KEY", secret),
		TLSCA: file("ca.pem", "CERTIFICATE", unit.cert.Raw)}
	if cfg.complete(); len(cfg.Listen) != 0 {
		t.Errorf("it listens without TLS as well: %q", cfg.Listen)
	}
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	serving := make(chan struct{}, 1)
	log := zap.New(zapcore.RegisterHooks(core, func(e zapcore.Entry) error {
		if e.Message == "serving" {
			serving <- struct{}{}
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, cfg, log) }()
	<-serving
	addr := logs.FilterMessage("serving").All()[0].ContextMap()["address"].(string)
	pool := x509.NewCertPool()
	pool.AddCert(unit.cert)
	connect := func(user string, certs ...tls.Certificate) error {
		c := paho.NewClient(paho.NewClientOptions().AddBroker("tls://" + addr).SetClientID(user).SetUsername(user).
			SetProtocolVersion(4).SetConnectTimeout(5 * time.Second).SetAutoReconnect(false).SetTLSConfig(&tls.Config{
			RootCAs: pool, ServerName: "broker", Certificates: certs}))
		token := c.Connect()
		token.Wait()
		defer c.Disconnect(0)
		return token.Error()
	}
	n1 := unit.issue(t, "tandem://u1/node/n1")
	for _, c := range []struct {
		what, user string
		certs      []tls.Certificate
		ok         bool
	}{
		{"a node", "node/n1", []tls.Certificate{n1}, true},
		{"the controller", "controller", []tls.Certificate{unit.issue(t, "tandem://u1/controller")}, true},
		{"another node's name", "node/n2", []tls.Certificate{n1}, false},
		{"the controller's name", "controller", []tls.Certificate{n1}, false},
		{"another unit's node", "node/n1", []tls.Certificate{unit.issue(t, "tandem://u2/node/n1")}, false},
		{"no identity", "node/n1", []tls.Certificate{unit.issue(t)}, false},
		{"two identities", "node/n1",
			[]tls.Certificate{unit.issue(t, "tandem://u1/node/n1", "tandem://u1/node/n2")}, false},
		{"a broker", "broker/b1", []tls.Certificate{own}, false},
		{"no certificate", "node/n1", nil, false},
		{"another CA's", "node/n1", []tls.Certificate{newAuthority(t).issue(t, "tandem://u1/node/n1")}, false},
	} {
		if err := connect(c.user, c.certs...); (err == nil) != c.ok {
			t.Errorf("%s: %v, want success %v", c.what, err, c.ok)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
