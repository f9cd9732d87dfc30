package trust

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/broker/acl"
	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/testenv/proc"
	"tandem.internal/testenv/rawmqtt"
	brokers "tandem.internal/testenv/site"
)

// atSite is a unit at mosquitto or NATS, where everybody has a certificate of the unit's CA.
type atSite struct {
	*Rig
	nats   bool
	broker *brokers.Broker
	minor  int // of the newest configuration
}

// dir is where the broker has its files.
func (s *atSite) dir() string { return filepath.Join(s.Dir, "broker") }

// file writes one of the broker's files.
func (s *atSite) file(name string, data []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir(), name), data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// files reads some of the broker's files.
func (s *atSite) files(names ...string) map[string][]byte {
	s.t.Helper()
	all := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(s.dir(), name))
		if err != nil {
			s.t.Fatal(err)
		}
		all[name] = data
	}
	return all
}

// takeCAs gives the broker the controller's ca.pem, which has this many certificates.
func (s *atSite) takeCAs(want int) {
	s.t.Helper()
	if got := s.certificates(); got != want {
		s.t.Fatalf("%d certificates are in ca.pem, want %d", got, want)
	}
	data, err := os.ReadFile(filepath.Join(s.Dir, "controller", "ca.pem"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.file("ca.pem", data)
}

// readCAs has the broker read ca.pem: mosquitto does so at its start only.
func (s *atSite) readCAs() {
	s.t.Helper()
	if s.nats {
		s.broker.Reload(s.t, s.rules())
	} else {
		s.broker.Wipe(s.t)
	}
}

// certify gives the broker a new key and certificate.
func (s *atSite) certify() {
	s.t.Helper()
	cert, _, key := certifyBroker(s.t, s.Rig)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.file("broker.pem", []byte(cert))
	s.file("broker-key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// rules are what the broker is to enforce.
func (s *atSite) rules() (text []byte) {
	s.t.Helper()
	who := []acl.Identity{{Role: acl.Controller}, {Role: acl.Node, Name: "n1"}, {Role: acl.Node, Name: "n2"},
		{Role: acl.Node, Name: "n3"}}
	var err error
	if s.nats {
		text, err = acl.Rules{Unit: "u1"}.NATS(who, acl.NATSUsers{})
	} else {
		text, err = acl.Rules{Unit: "u1"}.Mosquitto(who)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// newAtSite starts a unit at a broker of the site.
func newAtSite(t *testing.T, nats bool) *atSite {
	t.Helper()
	run := brokers.NATS
	if !nats {
		brokers.FindMosquitto(t)
		run = brokers.Mosquitto
	}
	s := &atSite{Rig: Idle(t), nats: nats}
	s.Pass(-10 * time.Minute) // the broker's clock is the machine's: the unit's must never be ahead of it
	port := proc.Port(t)
	s.Start(func(c *controller.Config) {
		c.ListenTLS, c.JoinListen, c.BrokerUser = "", "127.0.0.1:0", "controller"
		c.Broker = fmt.Sprintf("tls://127.0.0.1:%d", port)
		if nats {
			c.SubscribeQoS = 0
		}
	})
	if err := os.Mkdir(s.dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	s.takeCAs(1)
	s.certify()
	s.broker = run(t, brokers.Config{Unit: "u1", Dir: s.dir(), Rules: s.rules(), Port: port})
	return s
}

// agent starts the agent of a node.
func (s *atSite) agent(name string) (stop func()) {
	return s.Agent(name, func(c *node.Config) {
		if s.nats {
			c.SubscribeQoS = 0
		}
	})
}

// works waits until nodes run a new configuration, which the broker brings them.
func (s *atSite) works(nodes ...string) {
	s.t.Helper()
	s.minor++
	version := fmt.Sprintf("1.%d.0", s.minor)
	s.apply(version)
	s.runs(version, nodes...)
}

// session begins a session as n3, with a certificate, at a broker whose own is of a CA.
func (s *atSite) session(own tls.Certificate, roots *x509.CertPool) error {
	c, err := rawmqtt.Dial(s.broker.Address, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1",
		Certificates: []tls.Certificate{own}}, rawmqtt.Hello{ClientID: "node/n3", User: "node/n3"})
	if err == nil {
		c.Leave()
	}
	return err
}

// TestCARotationAtSite: the CA of a unit at a broker of the site is rotated as security.md says, nodes and controller
// come back at each step, and who has a certificate of the retired CA does not.
func TestCARotationAtSite(t *testing.T) {
	t.Run("mosquitto", func(t *testing.T) { rotationAtSite(t, newAtSite(t, false)) })
	t.Run("NATS", func(t *testing.T) { rotationAtSite(t, newAtSite(t, true)) })
}

func rotationAtSite(t *testing.T, s *atSite) {
	var stop func() // n3's agent
	for _, n := range []string{"n1", "n2", "n3"} {
		s.Joined(n)
		stop = s.agent(n)
		s.Online(n, true)
	}
	s.works("n1", "n2", "n3")
	s.Pass(2 * time.Minute) // who has just joined does not renew at once
	old, oldRoots := s.Credentials("n3")

	ids := s.rotateCA(false)
	one, two := ids[0], ids[1]
	s.unready(two)
	s.takeCAs(2)
	s.readCAs()
	s.works("n1", "n2", "n3")
	s.rotateCA(false)
	for _, n := range []string{"n1", "n2", "n3"} {
		s.certifiedBy(n, two)
	}
	stop()
	own, roots := s.Credentials("n3")
	for name, c := range map[string]tls.Certificate{"old": old, "new": own} {
		if err := s.session(c, oldRoots); err != nil {
			t.Errorf("the %s certificate, while both CAs count: %v", name, err)
		}
	}

	// The broker follows; everybody believes it without a restart.
	refusedAs(t, s.retireCA(one, false), "broker/b1")
	before := s.files("broker.pem", "broker-key.pem")
	s.certify()
	s.broker.Reload(t, s.rules())
	if err := s.session(old, roots); err != nil {
		t.Errorf("the broker does not show its new certificate: %v", err)
	}
	s.broker.Wipe(t)
	s.works("n1", "n2")

	// Retired: out of the broker's file as well.
	s.unready(one)
	if err := s.retireCA(one, false); err != nil {
		t.Fatal(err)
	}
	s.takeCAs(1)
	s.readCAs()
	err := s.session(old, roots)
	t.Logf("the old certificate: %v", err)
	if err == nil {
		t.Error("a certificate of the retired CA is let in")
	}
	if err := s.session(own, roots); err != nil {
		t.Errorf("the new certificate: %v", err)
	}
	s.broker.Wipe(t)
	s.agent("n3")
	s.works("n1", "n2", "n3")
	s.allProved("n1", "n2", "n3")

	// Who has the key of a broker with a certificate of the retired CA is nobody's broker, not even the controller's.
	for name, data := range before {
		s.file(name, data)
	}
	s.broker.Wipe(t)
	s.Until("the controller refuses it", func() string {
		st, err := s.App.Unit().Status(t.Context())
		if err != nil || st.Broker.Up || !strings.Contains(st.Broker.Error, "not signed by a trusted authority") {
			return fmt.Sprintf("up %v, %q, %v", st.Broker.Up, st.Broker.Error, err)
		}
		return ""
	})
}
