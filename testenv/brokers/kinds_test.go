package brokers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"

	"tandem.internal/broker/server"
	"tandem.internal/testenv/proc"
)

const (
	unit     = "u1"
	password = "open sesame" // everybody's, where passwords count
)

// broker is one kind of broker under the control of a test. Its address stays the same.
type broker interface {
	address() string
	start()
	stop()
	kill() // with no chance to save anything
	wipe() // forget everything; it does not run then
}

// traits are what the suite has to know about a kind.
type traits struct {
	embedded bool // in the controller
	keeps    bool // has retained messages on disk
	open     bool // lets everybody write everything
	noDots   bool // refuses client IDs with dots, so node names as well
	qos      int  // of subscriptions
}

func TestEmbeddedBroker(t *testing.T) {
	t.Parallel()
	suite(t, &embedded{addr(t)}, traits{embedded: true, qos: 1})
}

func TestTandemBroker(t *testing.T) {
	t.Parallel()
	suite(t, &tandemBroker{t: t, addr: addr(t)}, traits{qos: 1})
}

func TestMosquitto(t *testing.T) {
	t.Parallel()
	suite(t, newMosquitto(t), traits{keeps: true, open: true, qos: 1})
}

func TestNATS(t *testing.T) {
	t.Parallel()
	suite(t, &natsServer{t: t, addr: addr(t), dir: t.TempDir()}, traits{keeps: true, open: true, noDots: true, qos: 0})
}

func addr(t *testing.T) string { return "127.0.0.1:" + strconv.Itoa(proc.Port(t)) }

// await waits until something listens.
func await(t *testing.T, addr string) {
	t.Helper()
	proc.Until(t, "the broker listens on "+addr, func() string {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err.Error()
		}
		if err := c.Close(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// embedded is the broker in the controller; it lives and dies with it.
type embedded struct{ addr string }

func (e *embedded) address() string { return e.addr }
func (e *embedded) start()          {}
func (e *embedded) stop()           {}
func (e *embedded) kill()           {}
func (e *embedded) wipe()           {}

// tandemBroker is what the program tandem-broker runs.
type tandemBroker struct {
	t    *testing.T
	addr string
	now  *server.Server
}

func (b *tandemBroker) address() string { return b.addr }

func (b *tandemBroker) start() {
	b.t.Helper()
	l, err := net.Listen("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.now, err = server.New(server.Config{Unit: unit, Listeners: []net.Listener{l}, Limits: server.Collectors(),
		Passwords: map[string]string{"controller": password, "cloud/c1": password, "operator/o1": password}})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.now.Start(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tandemBroker) stop() {
	if err := b.now.Close(); err != nil {
		b.t.Error(err)
	}
}

func (b *tandemBroker) kill() { b.stop() }
func (b *tandemBroker) wipe() {}

// mosquitto is Eclipse mosquitto with deploy/brokers/mosquitto.conf.
type mosquitto struct {
	t                    *testing.T
	addr, dir, path, cfg string
	now                  *proc.Process
}

func newMosquitto(t *testing.T) *mosquitto {
	t.Helper()
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/mosquitto")
	}
	if err != nil {
		const missing = "mosquitto is not installed (apt-get install mosquitto): the product is NOT tested against it"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		fmt.Fprintln(os.Stderr, "SKIPPED: "+missing)
		t.Skip(missing)
	}
	m := &mosquitto{t: t, addr: addr(t), dir: t.TempDir(), path: path}
	shipped, err := os.ReadFile("../../deploy/brokers/mosquitto.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(m.addr)
	if err != nil {
		t.Fatal(err)
	}
	text := replace(t, string(shipped), "\nlistener 1883 127.0.0.1\n", "\nlistener "+port+" 127.0.0.1\n")
	text = replace(t, text, "\npersistence false\n", "\npersistence true\npersistence_location "+m.dir+"/\n")
	if os.Geteuid() == 0 {
		text += "user root\n"
	}
	m.cfg = filepath.Join(m.dir, "mosquitto.conf")
	if err := os.WriteFile(m.cfg, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// replace changes the one place that a configuration has for a test.
func replace(t *testing.T, text, old, by string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("the shipped configuration has %q not exactly once", old)
	}
	return strings.Replace(text, old, by, 1)
}

func (m *mosquitto) address() string { return m.addr }

func (m *mosquitto) start() {
	m.t.Helper()
	m.now = proc.Start(m.t, "mosquitto", nil, m.path, "-c", m.cfg)
	await(m.t, m.addr)
}

func (m *mosquitto) stop() {
	m.now.Signal(syscall.SIGTERM)
	if status := m.now.Wait(10 * time.Second); status != 0 {
		m.t.Errorf("mosquitto ended with status %d:\n%s", status, m.now.Log())
	}
}

func (m *mosquitto) kill() { m.now.Kill() }

func (m *mosquitto) wipe() {
	if err := os.Remove(filepath.Join(m.dir, "mosquitto.db")); err != nil {
		m.t.Error(err)
	}
}

// natsServer is NATS server with deploy/brokers/nats.conf.
type natsServer struct {
	t         *testing.T
	addr, dir string
	loose     bool // it lets long messages through
	now       *nats.Server
}

func (n *natsServer) address() string { return n.addr }

func (n *natsServer) start() {
	n.t.Helper()
	opts, err := nats.ProcessConfigFile("../../deploy/brokers/nats.conf")
	if err != nil {
		n.t.Fatal(err)
	}
	if opts.Host != "127.0.0.1" || opts.MQTT.Host != "127.0.0.1" || opts.MQTT.Port != 1883 {
		n.t.Errorf("the shipped configuration listens on %s and %s:%d", opts.Host, opts.MQTT.Host, opts.MQTT.Port)
	}
	_, port, err := net.SplitHostPort(n.addr)
	if err != nil {
		n.t.Fatal(err)
	}
	if opts.MQTT.Port, err = strconv.Atoi(port); err != nil {
		n.t.Fatal(err)
	}
	if n.loose {
		opts.MaxPayload = 8 << 20
	}
	opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = nats.RANDOM_PORT, n.dir, true, true
	if n.now, err = nats.NewServer(opts); err != nil {
		n.t.Fatal(err)
	}
	n.now.Start()
	if !n.now.ReadyForConnections(proc.Patience) {
		n.t.Fatal("NATS server does not get ready")
	}
	await(n.t, n.addr)
}

func (n *natsServer) stop() {
	n.now.Shutdown()
	n.now.WaitForShutdown()
}

func (n *natsServer) kill() { n.stop() }

func (n *natsServer) wipe() {
	if err := os.RemoveAll(filepath.Join(n.dir, "jetstream")); err != nil {
		n.t.Error(err)
	}
}
