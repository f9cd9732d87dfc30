package brokersacl

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/broker/acl"
	"tandem.internal/testenv/rawmqtt"
	"tandem.internal/testenv/site"
)

// unit has a dot, which NATS subjects cannot carry as it is.
const unit = "u.1"

var rules = acl.Rules{Unit: unit}

// The unit: everybody whom the exported rules name. long has the longest name there may be, dotted
// one with a dot; decoy is called like the controller, so that a server which loses the role on
// the way would take one for the other.
var (
	controller = acl.Identity{Role: acl.Controller}
	cloud      = acl.Identity{Role: acl.Cloud, Name: "eu"}
	operator   = acl.Identity{Role: acl.Operator, Name: "n1"}
	mallory    = acl.Identity{Role: acl.Node, Name: "n1"}
	victim     = acl.Identity{Role: acl.Node, Name: "n2"}
	dotted     = acl.Identity{Role: acl.Node, Name: "n1.x"}
	long       = acl.Identity{Role: acl.Node, Name: strings.Repeat("n", 63)}
	decoy      = acl.Identity{Role: acl.Node, Name: "controller"}
)

// observers are no identities of ours: they may do everything, and see everything that gets through.
var observers = []string{"observer-a", "observer-b", "observer-c"}

// authority issues the certificates of one test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  ed25519.PrivateKey
	n    int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a test"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{dir: t.TempDir(), key: key, n: 1}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file(t, "ca.pem", "CERTIFICATE", der)
	server := a.issue(t, "broker", time.Hour)
	a.file(t, "broker.pem", "CERTIFICATE", server.Certificate[0])
	der, err = x509.MarshalPKCS8PrivateKey(server.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	a.file(t, "broker-key.pem", "PRIVATE KEY", der)
	return a
}

func (a *authority) file(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
		0o600); err != nil {
		t.Fatal(err)
	}
}

// issue makes a certificate whose common name is the subject, "node/n1", and whose URI is
// tandem://u1/node/n1.
func (a *authority) issue(t testing.TB, subject string, life time.Duration) tls.Certificate {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.n++
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.n), Subject: pkix.Name{CommonName: subject},
		URIs:      []*url.URL{{Scheme: "tandem", Host: unit, Path: "/" + subject}},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, pub, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) config(t testing.TB, subject string) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{a.issue(t, subject, time.Hour)}}
}

// unitAt is a unit at a running server.
type unitAt struct {
	address string
	ca      *authority
	nodes   []acl.Identity // those that the server can serve
	// anyClientID: the server does not bind the client ID to the user.
	anyClientID bool
}

// dial connects as an identity in the way of the wire: client ID and user name are the same.
func (s *unitAt) dial(t testing.TB, id acl.Identity, w *rawmqtt.Will) *rawmqtt.Client {
	t.Helper()
	c, err := dial(s.address, s.ca.config(t, id.String()), id.String(), id.String(), w)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	t.Cleanup(c.Leave)
	return c
}

// observe connects an observer and subscribes it to everything.
func (s *unitAt) observe(t testing.TB, i int) *rawmqtt.Client {
	t.Helper()
	c, err := dial(s.address, s.ca.config(t, observers[i]), observers[i], observers[i], nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Leave)
	mustSubscribe(t, c, "#")
	return c
}

// start runs a server with what "tandem-broker acl" prints for it.
func start(t testing.TB, format string, run func(testing.TB, site.Config) *site.Broker, nodes ...acl.Identity) *unitAt {
	t.Helper()
	s := &unitAt{ca: newAuthority(t), nodes: nodes}
	args := []string{"--unit", unit, "--cloud", cloud.Name, "--operator", operator.Name, "--node", victim.Name}
	for _, id := range nodes {
		args = append(args, "--node", id.Name)
	}
	rules := site.Rules(t, format, args...)
	b := run(t, site.Config{Unit: unit, Dir: s.ca.dir, Rules: rules, Hands: observers})
	s.address, s.anyClientID = b.Address, b.AnyClientID
	return s
}

func startMosquitto(t testing.TB) *unitAt {
	t.Helper()
	site.FindMosquitto(t)
	return start(t, "mosquitto", site.Mosquitto, mallory, dotted, long, decoy)
}

func startNATS(t testing.TB) *unitAt {
	t.Helper()
	return start(t, "nats", site.NATS, mallory, long, decoy)
}

func dial(address string, config *tls.Config, clientID, user string, w *rawmqtt.Will) (*rawmqtt.Client, error) {
	return rawmqtt.Dial(address, config, rawmqtt.Hello{ClientID: clientID, User: user, Will: w})
}

func mustSubscribe(t testing.TB, c *rawmqtt.Client, filters ...string) {
	t.Helper()
	for _, f := range filters {
		if code, err := c.Subscribe(0, f); err != nil || code == rawmqtt.Failure {
			t.Fatalf("subscription to %s: %v %v", f, code, err)
		}
	}
}

// sites runs a test on each server.
func sites(t *testing.T, test func(*testing.T, *unitAt)) {
	t.Run("mosquitto", func(t *testing.T) { test(t, startMosquitto(t)) })
	t.Run("nats", func(t *testing.T) { test(t, startNATS(t)) })
}

// TestShippedConfiguration: the configurations that are shipped and the settings at the heads of the
// exported files agree where they speak of the same thing.
func TestShippedConfiguration(t *testing.T) {
	shipped, err := os.ReadFile("../../deploy/brokers/mosquitto.conf")
	if err != nil {
		t.Fatal(err)
	}
	asked := site.Settings(t, site.Rules(t, "mosquitto", "--unit", unit, "--node", "n1"))
	both := 0
	for line := range strings.Lines(string(shipped)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || key == "#" || key == "listener" || key == "allow_anonymous" {
			continue
		}
		for other := range strings.Lines(asked) {
			if rest, same := strings.CutPrefix(strings.TrimSpace(other), key+" "); same {
				both++
				if rest != value {
					t.Errorf("%s is %s as shipped, and %s where the rules are used", key, value, rest)
				}
			}
		}
	}
	if both < 2 {
		t.Errorf("only %d settings are in both", both)
	}
}
