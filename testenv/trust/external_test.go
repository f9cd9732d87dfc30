package trust

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/broker/server"
	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/wire"
)

// certifyBroker has the unit's CA certify the broker b1 of the site, for loopback. It returns the certificate and those
// of the CAs in PEM.
func certifyBroker(t *testing.T, r *Rig) (cert, cas string, key *ecdsa.PrivateKey) {
	t.Helper()
	key = newKey(t)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.App.Unit().Certify(controller.As(t.Context(), "ann"), controller.CertifyIn{
		Certification: controller.Request{Identity: "broker/b1", Hosts: []string{"127.0.0.1"},
			CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.Certificate, c.CA, key
}

// site starts the controller anew at a broker of the site, which the unit's CA has certified. It returns how
// to start it once more there.
func site(t *testing.T, r *Rig) (b *server.Server, again func(*controller.Config)) {
	t.Helper()
	r.Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	again = func(c *controller.Config) {
		c.ListenTLS, c.JoinListen, c.Broker, c.BrokerUser = "", "127.0.0.1:0", "tls://"+l.Addr().String(), "controller"
	}
	r.Start(again)
	cert, cas, key := certifyBroker(t, r)
	block, _ := pem.Decode([]byte(cert))
	pool := x509.NewCertPool()
	if block == nil || !pool.AppendCertsFromPEM([]byte(cas)) {
		t.Fatalf("%q %q", cert, cas)
	}
	b, err = server.New(server.Config{Unit: "u1", Limits: server.Collectors(),
		Listeners: []net.Listener{tls.NewListener(l,
			&tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
				Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}}})},
		Verify: func(c server.ConnectInfo) (string, error) { // as brokers do that know no list: by the name
			leaf := c.TLS.PeerCertificates[0]
			if len(leaf.URIs) != 1 || path.Clean(leaf.URIs[0].Path)[1:] != leaf.Subject.CommonName {
				return "", errors.New("the name is not the one in the URI")
			}
			return leaf.Subject.CommonName, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Stop()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	return b, again
}

// The controller and a node meet at a broker of the site, all three with certificates.
func TestBrokerOfTheSite(t *testing.T) {
	r := NewRig(t)
	site(t, r)
	if err := r.Join("n1", r.Enroll("n1")); err != nil {
		t.Fatal(err)
	}
	cfg := node.NewConfig("", "", "mainType", r.Dir+"/n1")
	a, err := node.New(cfg, node.Deps{Log: r.Log, Now: r.Now, Capacity: func(*wire.NodeInfo) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Run("n1", a.Run)()
	r.Online("n1", true)
}

// TestRevokedBroker: the controller does not speak to a broker whose certificate was revoked, and nodes end their
// sessions with it and begin none, after a restart as well.
func TestRevokedBroker(t *testing.T) {
	r := NewRig(t)
	_, again := site(t, r)
	r.Joined("n1")
	stop := r.Agent("n1")
	r.Online("n1", true)
	r.Until("n1 can be told", func() string {
		if r.View("n1").Info == nil || r.View("n1").Info.Attributes["tandem.ca"] == "" {
			return "it has not said which CAs it believes"
		}
		return ""
	})
	until := func(what string, good func(up bool, why string) bool) {
		r.Until(what, func() string {
			s, err := r.App.Unit().Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !good(s.Broker.Up, s.Broker.Error) {
				return fmt.Sprintf("up %v, error %q", s.Broker.Up, s.Broker.Error)
			}
			return ""
		})
	}
	until("the controller reaches its broker", func(up bool, _ string) bool { return up })
	disown := controller.Disown{Identity: "broker/b1"}
	if _, err := r.App.Unit().Disown(controller.As(t.Context(), "ann"), disown); err != nil {
		t.Fatal(err)
	}
	said := func(what, with string) int {
		return r.Logs.FilterMessageSnippet(what).Filter(func(e observer.LoggedEntry) bool {
			return strings.Contains(fmt.Sprint(e.ContextMap()), with)
		}).Len()
	}
	refuses := func(when string, more int) {
		r.Until("n1 refuses it "+when, func() string {
			if said("no session with the broker", "its certificate was revoked or replaced") < more {
				return "it has not said so"
			}
			return ""
		})
	}
	r.Until("n1 ends its session", func() string {
		if said("its session ends", "") == 0 {
			return "it has not"
		}
		return ""
	})
	refuses("at once", 1)
	r.Stop()
	stop()
	stop = r.Agent("n1") // while the controller is away
	refuses("after a restart", 2)
	stop()
	r.Start(again)
	until("the controller refuses it", func(up bool, why string) bool {
		return !up && strings.Contains(why, "its certificate, of broker/b1, was revoked")
	})
}
