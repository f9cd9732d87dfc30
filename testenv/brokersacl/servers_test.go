package brokersacl

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"tandem.internal/broker/acl"
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
	everybody  = []acl.Identity{controller, cloud, operator, mallory, victim, dotted, long, decoy}
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
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
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
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
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
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
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
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{a.issue(t, subject, time.Hour)}}
}

// site is a running server.
type site struct {
	address string
	ca      *authority
	nodes   []acl.Identity // those that the server can serve
	// anyClientID: the server does not bind the client ID to the user.
	anyClientID bool
}

// dial connects as an identity in the way of the wire: client ID and user name are the same.
func (s *site) dial(t testing.TB, id acl.Identity, w *will) *client {
	t.Helper()
	c, err := dial(s.address, s.ca.config(t, id.String()), id.String(), id.String(), w)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	t.Cleanup(c.leave)
	return c
}

// observe connects an observer and subscribes it to everything.
func (s *site) observe(t testing.TB, i int) *client {
	t.Helper()
	c, err := dial(s.address, s.ca.config(t, observers[i]), observers[i], observers[i], nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.leave)
	mustSubscribe(t, c, "#")
	return c
}

// startMosquitto runs mosquitto in the way that the head of the exported file asks for.
func startMosquitto(t testing.TB) *site {
	t.Helper()
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		path = "/usr/sbin/mosquitto"
		if _, err = os.Stat(path); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal("mosquitto is not installed, and CI=true says that it must be")
			}
			t.Skip("SKIPPED: mosquitto is not installed, so the exported ACL file was NOT tested (apt-get install mosquitto)")
		}
	}
	s := &site{ca: newAuthority(t), nodes: []acl.Identity{mallory, dotted, long, decoy}}
	rulesFile, err := rules.Mosquitto(everybody)
	if err != nil {
		t.Fatal(err)
	}
	all := string(rulesFile)
	for _, name := range observers {
		all += "\nuser " + name + "\ntopic readwrite #\n"
	}
	write(t, filepath.Join(s.ca.dir, "tandem.acl"), all)
	port := freePort(t)
	s.address = "127.0.0.1:" + strconv.Itoa(port)
	conf := settingsIn(t, string(rulesFile), "  ")
	conf = strings.NewReplacer("THIS FILE", "tandem.acl", "listener 8883", "listener "+strconv.Itoa(port)+" 127.0.0.1").Replace(conf)
	log, err := os.Create(filepath.Join(s.ca.dir, "mosquitto.log"))
	if err != nil {
		t.Fatal(err)
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root\n" // else it takes one that may not read the directory
	}
	write(t, filepath.Join(s.ca.dir, "mosquitto.conf"), user+"log_dest stdout\nlog_type all\n"+conf)
	cmd := exec.Command(path, "-c", "mosquitto.conf")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.ca.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("mosquitto has ended by itself: %v", err)
		}
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			if out, err := os.ReadFile(log.Name()); err == nil {
				t.Logf("--- the end of mosquitto's log:\n%s", out[max(0, len(out)-3000):])
			}
		}
	})
	awaitPort(t, s.address)
	return s
}

// settingsIn takes the settings out of the head of an exported file: what is indented there.
func settingsIn(t testing.TB, text, indent string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# "+indent); ok {
			b.WriteString(rest)
		}
	}
	if b.Len() == 0 {
		t.Fatal("no settings in the head of the file")
	}
	return b.String()
}

// startNATS runs a nats-server inside this process, with the settings that the head of the exported
// file asks for.
func startNATS(t testing.TB) *site {
	t.Helper()
	s := &site{ca: newAuthority(t), nodes: []acl.Identity{mallory, long, decoy}, anyClientID: true}
	rulesFile, err := rules.NATS(slices.DeleteFunc(slices.Clone(everybody), func(id acl.Identity) bool { return id == dotted }), acl.NATSUsers{})
	if err != nil {
		t.Fatal(err)
	}
	all := "users = [\n"
	for _, name := range observers {
		all += fmt.Sprintf("    { user: \"tandem://%s/%s\", allowed_connection_types: [\"MQTT\"] }\n", unit, name)
	}
	write(t, filepath.Join(s.ca.dir, "users.conf"), strings.Replace(string(rulesFile), "users = [\n", all, 1))
	port := freePort(t)
	s.address = "127.0.0.1:" + strconv.Itoa(port)
	conf := settingsIn(t, string(rulesFile), "  ")
	conf = strings.NewReplacer("NAME", "test", "DIR", "'"+t.TempDir()+"'", "always", "2m", "0.0.0.0:8883", s.address,
		"ca.pem", "'"+s.ca.dir+"/ca.pem'", "broker.pem", "'"+s.ca.dir+"/broker.pem'", "broker-key.pem", "'"+s.ca.dir+"/broker-key.pem'").Replace(conf)
	write(t, filepath.Join(s.ca.dir, "nats.conf"), conf+"listen: 127.0.0.1:-1\ninclude users.conf\n")
	opts, err := server.ProcessConfigFile(filepath.Join(s.ca.dir, "nats.conf"))
	if err != nil {
		t.Fatalf("%v\n%s", err, conf)
	}
	opts.NoSigs = true
	n, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() {
		n.Shutdown()
		n.WaitForShutdown()
	})
	if !n.ReadyForConnections(patience) {
		t.Fatal("nats-server is not ready")
	}
	return s
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().(*net.TCPAddr).Port
}

func awaitPort(t testing.TB, address string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal(err)
		}
	}
}

// sites runs a test on each server.
func sites(t *testing.T, test func(*testing.T, *site)) {
	t.Run("mosquitto", func(t *testing.T) { test(t, startMosquitto(t)) })
	t.Run("nats", func(t *testing.T) { test(t, startNATS(t)) })
}
