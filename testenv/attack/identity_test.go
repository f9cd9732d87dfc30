package attack

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// identities are attempts to be somebody else.
var identities = []attempt{
	{"no certificate", nobody, shows(func(a *try) *tls.Config { return a.with() }),
		everywhere("tls: certificate required")},
	{"a certificate that it made itself", nobody,
		shows(func(a *try) *tls.Config { return a.with(a.selfMade("node/n1", nil, nil)) }),
		everywhere("tls: unknown certificate authority")},
	{"a certificate of a CA that calls itself the unit's", nobody,
		shows(func(a *try) *tls.Config { return a.with(a.forged()) }),
		refusals{"tls: unknown certificate authority", "tls: error decrypting message",
			"tls: unknown certificate authority"}},
	{"the certificate of n1 of another unit", nobody,
		shows(func(a *try) *tls.Config { return a.as("another unit's node/n1") }),
		everywhere("tls: unknown certificate authority")},
	{"a stolen certificate that has expired", anExpired, shows(func(a *try) *tls.Config { return a.as("node/old") }),
		everywhere("tls: expired certificate")},
	{"a certificate without its key", nobody, shows(func(a *try) *tls.Config {
		c := a.certs["node/n1"]
		c.PrivateKey = newKey(a.t)
		return a.with(c)
	}), everywhere("tls: error decrypting message")},
	{"a server's certificate, used as a client", nobody, shows(func(a *try) *tls.Config { return a.as("broker/b1") }),
		refusals{"tls: bad certificate", "tls: unsupported certificate", "tls: bad certificate"}},
	{"TLS 1.2", aNode, shows(func(a *try) *tls.Config {
		c := a.as("node/mallory")
		c.MaxVersion = tls.VersionTLS12
		return c
	}), everywhere("tls: protocol version not supported")},
	{"no TLS at all", nobody, func(a *try) string {
		conn, err := net.Dial("tcp", a.at)
		if err != nil {
			return why(err)
		}
		c, err := rawmqtt.New(conn, rawmqtt.Hello{ClientID: "node/n1", User: "node/n1"})
		if err == nil {
			c.Leave()
			return "A SESSION"
		}
		if strings.Contains(err.Error(), "not a CONNACK") || strings.Contains(err.Error(), "a packet of") {
			return "a TLS alert in clear"
		}
		return why(err)
	}, everywhere(closed)},
	{"the name of another node", aNode, calls("node/n1", "node/n1", of("n1").Live()), borrowed},
	{"the user name of another node", aNode, calls("node/mallory", "node/n1", of("n1").Live()), borrowed},
	{"the client ID of another node, to take its session over", aNode,
		calls("node/n1", "node/mallory", of("n1").Live()),
		refusals{"CONNACK 5", itself,
			notHere + "NATS lets anybody choose any client ID, as the threat model says; n1 would connect again"}},
	{"the client ID of the controller, to take its session over", aNode,
		calls("controller", "node/mallory", topic.ForController(unitName)),
		refusals{"CONNACK 5", itself,
			notHere + "NATS lets anybody choose any client ID, as the threat model says; " +
				"the controller would connect again"}},
	{"the name of the controller", aNode, calls("controller", "controller", topic.ForController(unitName)),
		refusals{"CONNACK 5", itself, notHere + "it is the client ID that NATS does not bind"}},
	{"the user name of the controller", aNode, calls("node/mallory", "controller", of("n1").Desired(wire.KindConfig)),
		borrowed},
	{"the name of the cloud", aNode, calls("cloud/eu", "cloud/eu", topic.ForInbox(unitName, "config")), borrowed},
	{"the name of an operator", aNode, calls("operator/witness2", "operator/witness2", of("n1").Request()), borrowed},
	{"a wildcard as a name", aNode, calls("node/+", "node/+", of("n1").Live()), borrowed},
	{"no name", aNode, calls("", "", of("n1").Live()), borrowed},
	{"a node's certificate that was replaced when it joined anew", aNode, func(a *try) string {
		before := a.certs["node/b5"]
		a.Joined("b5")
		a.certs["node/b5"], _ = a.Credentials("b5")
		c, err := rawmqtt.Dial(a.at, a.with(before), rawmqtt.Hello{ClientID: "node/b5", User: "node/b5"})
		if err == nil {
			c.Leave()
			return "A SESSION"
		}
		return why(err)
	}, refusals{"CONNACK 5", notHere + "a broker of the site knows no list; the certificate counts until it expires",
		notHere + "the same"}},
}

// shows is an attempt that must end with the handshake.
func shows(conf func(*try) *tls.Config) func(*try) string {
	return func(a *try) string { return a.handshake(a.at, conf(a)) }
}

// calls is mallory who calls itself somebody else, and says something on a topic of theirs.
func calls(clientID, user, name string) func(*try) string {
	return func(a *try) string {
		c, bad := a.hello("node/mallory", rawmqtt.Hello{ClientID: clientID, User: user})
		if bad != "" {
			return bad
		}
		if err := c.Publish(name, a.poison, true); err != nil {
			return why(err)
		}
		if _, err := c.Subscribe(0, of("n1").DesiredFilter()); err != nil {
			return why(err)
		}
		if err := a.mark(c, own("node/mallory")); err != nil {
			return "not even itself: " + why(err)
		}
		if bad := a.heard(); bad != "" {
			return bad
		}
		a.later = append(a.later, func() {
			for _, m := range c.Heard() {
				a.t.Errorf("as %s it hears %s", user, m.Topic)
			}
		})
		return itself
	}
}

// selfMade is a certificate of a node with the right words, signed by itself or by a parent.
func (a *try) selfMade(subject string, parent *x509.Certificate, signer any) tls.Certificate {
	key := newKey(a.t)
	t := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: subject},
		URIs:      []*url.URL{{Scheme: "tandem", Host: unitName, Path: "/" + subject}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if parent == nil {
		parent, signer = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// forged is a certificate of n1 by a CA with the name of the unit's, which goes along.
func (a *try) forged() tls.Certificate {
	key := newKey(a.t)
	t := &x509.Certificate{SerialNumber: big.NewInt(1),
		Subject: pkix.Name{CommonName: fmt.Sprintf("tandem CA %s", unitName)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		a.t.Fatal(err)
	}
	c := a.selfMade("node/n1", t, key)
	c.Certificate = append(c.Certificate, der)
	return c
}

// revocation comes last: the node does not come back in this unit.
var revocation = []attempt{
	{"a node is revoked while it speaks", aRevoked, func(a *try) string {
		c := a.session("node/gone")
		if err := c.Publish(own("node/gone"), "before", false); err != nil {
			return why(err)
		}
		if _, err := a.App.Unit().Revoke(controller.As(a.t.Context(), "ann"), controller.RevokeIn{
			NodeIn: controller.NodeIn{Node: "gone"}, Revoke: controller.Revoke{Reason: "stolen"},
		}); err != nil {
			a.t.Fatal(err)
		}
		if a.broker != nil { // as the README of deploy/brokers asks for
			a.broker.Reload(a.t, a.rules(a.t, "gone"))
		}
		if a.kind != mosquitto {
			if err := c.Ended(); err != nil {
				return err.Error()
			}
			return closed
		}
		return a.powerless(c)
	}, refusals{closed, "a session without any right", closed}},
	{"a revoked node comes back", aRevoked, func(a *try) string {
		c, bad := a.hello("node/gone", rawmqtt.Hello{ClientID: "node/gone", User: "node/gone"})
		if bad != "" {
			return bad
		}
		return a.powerless(c)
	}, refusals{"CONNACK 5", "a session without any right", "CONNACK 5"}},
}

// powerless tries what gone might do, and finds that it can do nothing.
func (a *try) powerless(c *rawmqtt.Client) string {
	if _, err := c.Subscribe(0, of("gone").DesiredFilter()); err != nil {
		return why(err)
	}
	if _, err := c.Subscribe(0, topic.ForController(unitName)); err != nil {
		return why(err)
	}
	for _, name := range []string{of("gone").Live(), of("gone").Reported(wire.KindInfo), of("n1").Live()} {
		if err := c.Publish(name, a.poison, true); err != nil {
			return why(err)
		}
	}
	if err := a.mark(a.session("node/mallory"), own("node/mallory")); err != nil { // one broker, one order
		return why(err)
	}
	a.later = append(a.later, func() {
		for _, m := range c.Heard() {
			a.t.Errorf("it hears %s", m.Topic)
		}
	})
	if bad := a.heard(); bad != "" {
		return bad
	}
	return "a session without any right"
}
