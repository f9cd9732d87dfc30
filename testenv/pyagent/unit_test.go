package pyagent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/broker/acl"
	controller "tandem.internal/controller/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
	"tandem.internal/testenv/rawmqtt"
	"tandem.internal/testenv/site"
	"tandem.internal/testenv/trust"
)

const (
	unitName = "u1"
	node     = "ecu-1"
	python   = "/usr/bin/python3"
	limit    = 500 // the agent's --max-priority
)

// needPython skips the test where the agent cannot run, except where CI is true.
func needPython(t *testing.T) {
	t.Helper()
	out, err := exec.Command(python, "-c", "import paho.mqtt.client, cryptography").CombinedOutput()
	if err == nil {
		return
	}
	const missing = "python3-paho-mqtt or python3-cryptography is not installed (apt-get install python3-paho-mqtt " +
		"python3-cryptography): the agent in Python is NOT tested"
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %s", missing, out)
	}
	fmt.Fprintln(os.Stderr, "SKIPPED: "+missing)
	t.Skip(missing)
}

// unit is a controller, a broker, and one node: the agent in Python. All of them have certificates.
type unit struct {
	*trust.Rig
	t       *testing.T
	change  func(*controller.Config)
	broker  *site.Broker // nil: embedded
	handTLS *tls.Config  // of somebody who may say everything at broker
	args    []string     // of the agent
	agent   *proc.Process
	minor   int
}

func (u *unit) dir() string { return filepath.Join(u.Dir, node) }

// newUnit starts a unit at a kind of broker: "embedded", "mosquitto" or "NATS". The node has joined.
func newUnit(t *testing.T, kind string) *unit {
	needPython(t)
	if kind == "mosquitto" {
		site.FindMosquitto(t)
	}
	u := &unit{Rig: trust.Idle(t), t: t,
		args: []string{"--type", "mainType", "--max-priority", fmt.Sprint(limit)}}
	port := proc.Port(t) // it stays the same when the controller starts again
	door, brokerPort := port+1, proc.Port(t)
	u.change = func(c *controller.Config) {
		c.ListenTLS, c.JoinListen = fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", door)
		c.ReportGrace, c.ReportJitter = 500*time.Millisecond, 100*time.Millisecond
		if kind != "embedded" {
			c.ListenTLS, c.Broker, c.BrokerUser = "", fmt.Sprintf("tls://127.0.0.1:%d", brokerPort), "controller"
		}
		if kind == "NATS" {
			c.SubscribeQoS = 0
		}
	}
	u.Start(u.change)
	if kind == "NATS" {
		u.args = append(u.args, "--subscribe-qos", "0")
	}
	if kind != "embedded" {
		u.startBroker(kind, brokerPort)
	}
	if out := proc.Run(t, u.Dir, nil, u.joins(u.Enroll(node))...); out.Status != 0 {
		t.Fatalf("joining: %+v", out)
	}
	u.start()
	return u
}

// joins is the command that joins with a token.
func (u *unit) joins(token string, args ...string) []string {
	u.t.Helper()
	file := filepath.Join(u.Dir, "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		u.t.Fatal(err)
	}
	command := []string{"/bin/sh", "-c", `token=$1; shift; exec "$@" <"$token"`, "join", file}
	return append(command, u.script("join.py", append(args, "--controller", u.App.JoinURL())...)...)
}

// script is a program of the agent's.
func (u *unit) script(name string, args ...string) []string {
	file := filepath.Join(proc.Root(u.t), "deploy", "agents", "python", name)
	return append([]string{python, "-B", file, "--dir", u.dir()}, args...)
}

// run starts the agent.
func (u *unit) run() { u.agent = proc.Start(u.t, "the agent", nil, u.script("agent.py", u.args...)...) }

// start starts the agent and waits for it.
func (u *unit) start() {
	u.t.Helper()
	u.run()
	u.Online(node, true)
}

// certify has the unit's CA certify somebody who is not a node.
func (u *unit) certify(identity string, hosts ...string) tls.Certificate {
	u.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		u.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		u.t.Fatal(err)
	}
	csr := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	c, err := u.App.Unit().Certify(controller.As(u.t.Context(), "ann"), controller.CertifyIn{
		Certification: controller.Request{Identity: identity, CSR: string(csr), Hosts: hosts}})
	if err != nil {
		u.t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(c.Certificate))
	if block == nil {
		u.t.Fatalf("%+v", c)
	}
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
}

// startBroker starts the site's broker, with the rules that are exported for it.
func (u *unit) startBroker(kind string, port int) {
	u.t.Helper()
	dir := filepath.Join(u.Dir, "broker")
	own, hand := u.certify("broker/b1", "127.0.0.1"), u.certify("cloud/hand")
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(u.Dir, "controller", "ca.pem"))
	if err != nil {
		u.t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"ca.pem": ca, "broker.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}),
		"broker-key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			u.t.Fatal(err)
		}
	}
	who := []acl.Identity{{Role: acl.Controller}, {Role: acl.Node, Name: node}}
	rules, err := acl.Rules{Unit: unitName}.Mosquitto(who)
	run := site.Mosquitto
	if kind == "NATS" {
		rules, err = acl.Rules{Unit: unitName}.NATS(who, acl.NATSUsers{})
		run = site.NATS
	}
	if err != nil {
		u.t.Fatal(err)
	}
	u.broker = run(u.t, site.Config{Unit: unitName, Dir: dir, Rules: rules, Hands: []string{"cloud/hand"}, Port: port})
	u.t.Cleanup(func() { u.Stop() }) // before its broker
	u.Until("the controller has a broker", func() string {
		s, err := u.App.Unit().Status(u.t.Context())
		if err != nil || !s.Broker.Up {
			return fmt.Sprint(s.Broker.Error, err)
		}
		return ""
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	u.handTLS = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: "127.0.0.1",
		Certificates: []tls.Certificate{hand}}
}

// hand is a session that may say everything at the site's broker.
func (u *unit) hand() *rawmqtt.Client {
	u.t.Helper()
	c, err := rawmqtt.Dial(u.broker.Address, u.handTLS, rawmqtt.Hello{ClientID: "cloud/hand", User: "cloud/hand"})
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(c.Leave)
	return c
}

// submit submits the next version; change has the last word on how.
func (u *unit) submit(priority int, change func(*controller.Submission)) (string, controller.Result) {
	u.t.Helper()
	u.minor++
	v := fmt.Sprintf("1.%d.0", u.minor)
	s := controller.Submission{Kind: wire.KindConfig, Who: "ann", Via: "cli", Document: fmt.Appendf(nil,
		`{"formatVersion":"7","version":%q,"nodes":[{"nodeGroupSubject":{"codename":"mainType"},"priority":%d}]}`, v,
		priority)}
	if change != nil {
		change(&s)
	}
	res, err := u.App.Unit().Submit(u.t.Context(), s)
	if err != nil {
		u.t.Fatal(err)
	}
	return v, res
}

// apply gives the unit a new version.
func (u *unit) apply() string {
	u.t.Helper()
	v, res := u.submit(u.minor%limit, nil)
	if res.State != "accepted" {
		u.t.Fatalf("%s: %+v", v, res)
	}
	return v
}

// fileHas is "" if the node's file has a version.
func (u *unit) fileHas(version string) string {
	file, err := os.ReadFile(filepath.Join(u.dir(), "config.json"))
	if err != nil || !strings.Contains(string(file), `"version":"`+version+`"`) {
		return fmt.Sprintf("config.json: %s %v", file, err)
	}
	return ""
}

// runs waits until the node runs a version, by what it reports and by its file.
func (u *unit) runs(version string) {
	u.t.Helper()
	u.Until("it runs "+version, func() string {
		n := u.View(node)
		d := n.Documents[wire.KindConfig]
		if !n.Online || !n.InSync || d.Running == nil || d.Running.Version != version {
			return fmt.Sprintf("online %v, in step %v, %+v %+v", n.Online, n.InSync, d.Running, d.Last)
		}
		return u.fileHas(version)
	})
}

func of() topic.Node { return topic.ForNode(unitName, node) }
