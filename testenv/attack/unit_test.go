package attack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/cloud"
	"tandem.internal/testenv/proc"
	"tandem.internal/testenv/rawmqtt"
	"tandem.internal/testenv/site"
	"tandem.internal/testenv/trust"
)

// kind is a kind of broker.
type kind string

const (
	embedded  kind = "embedded"
	mosquitto kind = "mosquitto"
	nats      kind = "NATS"
)

var kinds = []kind{embedded, mosquitto, nats}

const unitName = "u1"

// bystanders are the nodes whose agents run all the time; mallory, gone and old have no agents.
var bystanders = []string{"n1", "n2", "n3"}

// unit is a unit at work, and everything that attackers have.
type unit struct {
	*trust.Rig
	t      *testing.T
	kind   kind
	at     string            // address of the broker
	broker *site.Broker      // nil: embedded
	http   string            // address of the HTTP door
	tokens map[string]string // of operators at that door, by role
	ca     *x509.CertPool
	certs  map[string]tls.Certificate // by identity
	stop   map[string]func()          // of agents
	others *trust.Rig                 // another unit, u2
	sieges []*siege
	cloud  *cloud.Side // may submit

	ahead     atomic.Int64 // by which the clock of the controller's machine is ahead of the unit's, in nanoseconds
	booted    time.Time    // of that machine
	unguarded bool         // the controller is one from before it looked for jumps

	// witnesses hear everything: an operator, and at a broker of the site the broker itself.
	witnesses []*rawmqtt.Client
	hand      *rawmqtt.Client // may do everything, as the broker may; nil: embedded

	mu      sync.Mutex
	version int
}

// newUnit starts a unit, with a node whose certificate has expired, at a broker.
func newUnit(t *testing.T, k kind, change ...func(*unit)) *unit {
	u := &unit{Rig: trust.Idle(t), t: t, kind: k, certs: map[string]tls.Certificate{}, stop: map[string]func(){},
		others: trust.Idle(t), cloud: cloud.New(t)}
	for _, f := range change {
		f(u)
	}
	if k == mosquitto {
		site.FindMosquitto(t)
	}
	u.Deps = func(d *controller.Deps) { // a hundred configurations a minute are not what is tried here
		d.Fleet.Limits.StateRate, d.Fleet.Limits.StateBurst = 1e6, 1e6
		u.keepTime(d)
	}
	u.others.Start(func(c *controller.Config) { c.Unit = "u2" })
	u.others.Joined("n1")
	u.certs["another unit's node/n1"], _ = u.others.Credentials("n1")

	const long = 100 * 24 * time.Hour
	u.Pass(-long)
	u.Start(nil)
	u.Joined("old")
	u.certs["node/old"], u.ca = u.Credentials("old")
	u.Stop()
	u.Pass(long)

	port, brokerPort := proc.Port(t), proc.Port(t)
	u.http = fmt.Sprintf("127.0.0.1:%d", port)
	u.Start(func(c *controller.Config) {
		c.HTTP, c.Socket = "https://"+u.http, filepath.Join(u.Dir, "s")
		c.CheckTimeout = 30 * time.Second // nobody is silent: the machine is slow
		c.Inbox = true                    // some attempts submit there
		c.Submitters = u.cloud.File
		if k != embedded {
			c.ListenTLS, c.JoinListen = "", "127.0.0.1:0"
			c.Broker, c.BrokerUser = fmt.Sprintf("tls://127.0.0.1:%d", brokerPort), "controller"
		}
		if k == nats {
			c.SubscribeQoS = 0
		}
	})
	u.tokens = map[string]string{"admin": u.token("admin"), "operate": u.token("operate"), "view": u.token("view")}
	for _, id := range []string{"cloud/eu", "operator/witness", "operator/spy", "cloud/hand", "broker/b1"} {
		u.certify(id)
	}
	if k == embedded {
		u.at = u.App.TLSAddr().String()
	} else {
		u.startBroker(brokerPort)
	}
	for _, name := range []string{"mallory", "gone", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "strict"} {
		u.Joined(name)
		u.certs["node/"+name], _ = u.Credentials(name)
	}
	for _, name := range bystanders {
		u.Joined(name)
		u.certs["node/"+name], _ = u.Credentials(name)
		u.startAgent(name)
	}
	u.witnesses = []*rawmqtt.Client{u.client(t, "operator/witness")}
	subscribe(t, u.witnesses[0], "tandem/1/"+unitName+"/#")
	if k != embedded {
		u.hand = u.client(t, "cloud/hand")
		subscribe(t, u.hand, "#")
		u.witnesses = append(u.witnesses, u.hand)
	}
	u.installed(t, u.submit(t))
	u.root()
	return u
}

// names are all nodes that the rules of a broker of the site name.
func (u *unit) names() []string {
	return append([]string{"mallory", "gone", "old", "late", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "strict"},
		bystanders...)
}

// rules are what "tandem-broker acl" prints for all nodes but some.
func (u *unit) rules(t *testing.T, without ...string) []byte {
	format := map[kind]string{mosquitto: "mosquitto", nats: "nats"}[u.kind]
	args := []string{"--unit", unitName, "--cloud", "eu", "--operator", "witness", "--operator", "spy"}
	for _, name := range u.names() {
		if len(without) == 0 || name != without[0] {
			args = append(args, "--node", name)
		}
	}
	return site.Rules(t, format, args...)
}

// startBroker starts the site's broker with a certificate of the unit's CA.
func (u *unit) startBroker(port int) {
	dir := filepath.Join(u.Dir, "broker")
	cert := u.certs["broker/b1"]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
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
		"ca.pem": ca, "broker.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		"broker-key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			u.t.Fatal(err)
		}
	}
	run := map[kind]func(testing.TB, site.Config) *site.Broker{mosquitto: site.Mosquitto, nats: site.NATS}[u.kind]
	u.broker = run(u.t, site.Config{Unit: unitName, Dir: dir, Rules: u.rules(u.t), Hands: []string{"cloud/hand"},
		Port: port})
	u.at = u.broker.Address
	u.Until("the controller has a broker", func() string {
		s, err := u.App.Unit().Status(u.t.Context())
		if err != nil || !s.Broker.Up {
			return fmt.Sprint(s.Broker.Error, err)
		}
		return ""
	})
}

func (u *unit) startAgent(name string) {
	u.stop[name] = u.Agent(name, func(c *node.Config) {
		if u.kind == nats {
			c.SubscribeQoS = 0
		}
	})
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func request(t testing.TB, key *ecdsa.PrivateKey, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// token has the controller make one, as "tandem token create" does on its machine.
func (u *unit) token(role string) string {
	client := http.Client{Timeout: rawmqtt.Patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(u.Dir, "s"))
		}}}
	var res *http.Response
	u.Until("the API answers", func() string {
		var err error
		if res, err = client.Post("http://unit/v1/tokens", "application/json",
			strings.NewReader(fmt.Sprintf(`{"name":%q,"role":%q}`, role, role))); err != nil {
			return err.Error()
		}
		return ""
	})
	defer res.Body.Close()
	var made struct{ Token string }
	if err := json.NewDecoder(res.Body).Decode(&made); err != nil || made.Token == "" {
		u.t.Fatalf("no token: %s %v", res.Status, err)
	}
	return made.Token
}

// certify has the unit's CA certify somebody who is not a node.
func (u *unit) certify(id string) {
	key := newKey(u.t)
	req := controller.Request{Identity: id,
		CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST",
			Bytes: request(u.t, key, &x509.CertificateRequest{})}))}
	if strings.HasPrefix(id, "broker/") {
		req.Hosts = []string{"127.0.0.1"}
	}
	c, err := u.App.Unit().Certify(controller.As(u.t.Context(), "ann"), controller.CertifyIn{Certification: req})
	if err != nil {
		u.t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(c.Certificate))
	if block == nil {
		u.t.Fatalf("%s: %q", id, c.Certificate)
	}
	u.certs[id] = tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
}

// with is a client's side of TLS that shows certificates.
func (u *unit) with(certs ...tls.Certificate) *tls.Config {
	name := jointoken.ServerName
	if u.kind != embedded {
		name = "127.0.0.1"
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: u.ca, ServerName: name}
	if len(certs) > 0 { // whatever the other side says that it would like to see
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &certs[0],
				nil
		}
	}
	return conf
}

// as is a client's side of TLS that shows somebody's certificate.
func (u *unit) as(id string) *tls.Config {
	c, ok := u.certs[id]
	if !ok {
		u.t.Fatalf("nobody has a certificate of %s", id)
	}
	return u.with(c)
}

// client is somebody's honest session.
func (u *unit) client(t *testing.T, id string) *rawmqtt.Client {
	t.Helper()
	c, err := rawmqtt.Dial(u.at, u.as(id), rawmqtt.Hello{ClientID: id, User: id})
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	t.Cleanup(c.Leave)
	return c
}

func subscribe(t *testing.T, c *rawmqtt.Client, filter string) {
	t.Helper()
	if code, err := c.Subscribe(0, filter); err != nil || code == rawmqtt.Failure {
		t.Fatalf("subscribing to %s: %v %v", filter, code, err)
	}
}

// submit submits the next version and does not wait for it.
func (u *unit) submit(t *testing.T) string {
	t.Helper()
	u.mu.Lock()
	u.version++
	v := fmt.Sprintf("1.%d.0", u.version)
	u.mu.Unlock()
	doc := fmt.Appendf(nil,
		`{"formatVersion":"7","version":%q,"nodes":[{"nodeGroupSubject":{"codename":"mainType"},"labels":[%q]}]}`,
		v, "for "+v)
	sub := controller.Submission{Kind: "config", Document: doc, Who: "ann", Via: "cli"}
	r, err := u.App.Unit().Submit(t.Context(), sub)
	if err != nil || r.State != "accepted" {
		t.Fatalf("%s is %s: %v %v", v, r.State, r.Error, err)
	}
	return v
}

// installed waits until every bystander runs a version, by its own word and by what is on its disk.
func (u *unit) installed(t *testing.T, v string) {
	t.Helper()
	for _, name := range bystanders {
		why := ""
		ok := eventually(func() bool {
			n, err := u.App.Unit().Node(t.Context(), controller.NodeIn{Node: name})
			d := n.Documents[wire.KindConfig]
			file, _ := os.ReadFile(filepath.Join(u.Dir, name, node.ConfigFile))
			why = fmt.Sprintf("online %v, in sync %v, runs %+v, last %+v, on disk %.80s (%v)", n.Online, n.InSync,
				d.Running, d.Last, file, err)
			return err == nil && n.Online && n.InSync && d.Running != nil && d.Running.Version == v &&
				strings.Contains(string(file), `"for `+v+`"`)
		})
		if !ok {
			t.Fatalf("the unit is harmed: %s does not run %s: %s", name, v, why)
		}
	}
}

// eventually waits until ok; only failing tests wait to the end.
func eventually(ok func() bool) bool {
	for end := time.Now().Add(rawmqtt.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

func of(name string) topic.Node { return topic.ForNode(unitName, name) }
