package proc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/broker/acl"
	wish "tandem.internal/shared/cloud"
	"tandem.internal/shared/seal"
	"tandem.internal/testenv/cloud"
	"tandem.internal/testenv/proc"
	"tandem.internal/testenv/rawmqtt"
	"tandem.internal/testenv/site"
)

// clouded is a unit of real programs at mosquitto, whose node n1 has joined, and which a cloud side steers.
type clouded struct {
	*proc.Unit
	t      *testing.T
	side   *cloud.Side
	port   int // of mosquitto
	client *cloud.Client
	tls    *tls.Config // of the cloud side
}

// must runs tandem and returns what it prints.
func (u *clouded) must(args ...string) string {
	u.t.Helper()
	o := u.Tandem(args...)
	if o.Status != 0 {
		u.t.Fatalf("tandem %s: %+v", strings.Join(args, " "), o)
	}
	return o.Out
}

func (u *clouded) file(name, text string) string {
	u.t.Helper()
	path := filepath.Join(u.Dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	return path
}

// startController starts the controller, which the cloud side steers.
func (u *clouded) startController() {
	u.t.Helper()
	u.Controller = proc.Start(u.t, "controller", nil, proc.Binary(u.t, "tandem-controller"), "--unit", "u1",
		"--state-dir", u.StateDir("controller"), "--socket", u.Socket, "--join-listen", fmt.Sprintf("127.0.0.1:%d",
			u.Port), "--advertise", "127.0.0.1", "--broker", fmt.Sprintf("tls://127.0.0.1:%d", u.port), "--inbox",
		"--submitters", u.side.File, "--steering", "cloud", "--report-jitter", "100ms")
}

// certify has the unit's CA certify somebody; the files are NAME.pem and NAME-key.pem.
func (u *clouded) certify(identity, name string, hosts ...string) (cert, key string) {
	u.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		u.t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		u.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		u.t.Fatal(err)
	}
	block := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	cert = filepath.Join(u.Dir, "broker", name+".pem")
	key = u.file("broker/"+name+"-key.pem", block("PRIVATE KEY", der))
	args := []string{"identity", "certify", identity, "--csr", u.file("csr", block("CERTIFICATE REQUEST", request)),
		"--out", cert}
	for _, h := range hosts {
		args = append(args, "--host", h)
	}
	u.must(args...)
	return cert, key
}

func newClouded(t *testing.T) *clouded {
	t.Helper()
	site.FindMosquitto(t)
	u := &clouded{Unit: proc.NewUnit(t), t: t, side: cloud.New(t), port: proc.Port(t)}
	u.startController()
	proc.Until(t, "the controller answers", func() string { return u.Tandem("key", "show").Errors })
	u.certify("broker/b1", "broker", "127.0.0.1")
	cert, key := u.certify("cloud/eu", "eu")
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(u.StateDir("controller"), "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	u.file("broker/ca.pem", string(ca))
	rules, err := acl.Rules{Unit: "u1"}.Mosquitto([]acl.Identity{{Role: acl.Controller}, {Role: acl.Node, Name: "n1"},
		{Role: acl.Cloud, Name: "eu"}})
	if err != nil {
		t.Fatal(err)
	}
	site.Mosquitto(t, site.Config{Unit: "u1", Dir: filepath.Join(u.Dir, "broker"), Rules: rules, Port: u.port})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	u.tls = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: "127.0.0.1",
		Certificates: []tls.Certificate{own}}
	u.AwaitReady()
	var keys struct{ Keys []struct{ Ed25519 []byte } }
	if err := json.Unmarshal([]byte(u.must("key", "show", "--json")), &keys,
		json.MatchCaseInsensitiveNames(true)); err != nil || len(keys.Keys) != 1 {
		t.Fatalf("%+v %v", keys, err)
	}
	u.client = &cloud.Client{Unit: "u1", Side: u.side, Trust: seal.Trust{
		seal.KeyID(keys.Keys[0].Ed25519): keys.Keys[0].Ed25519}}
	return u
}

// joins has the node n1 join, and starts it.
func (u *clouded) joins() {
	u.t.Helper()
	var e struct{ Token, Controller string }
	if err := json.Unmarshal([]byte(u.must("node", "enroll", "n1", "--json")), &e,
		json.MatchCaseInsensitiveNames(true)); err != nil {
		u.t.Fatal(err)
	}
	token := u.file("token", e.Token+"\n")
	if o := proc.Run(u.t, u.Dir, nil, "sh", "-c", proc.Binary(u.t, "tandem-node")+
		` join --controller "$0" --token - --state-dir "$1" <"$2"`, e.Controller, u.StateDir("n1"),
		token); o.Status != 0 {
		u.t.Fatalf("%+v", o)
	}
	u.Nodes["n1"] = proc.Start(u.t, "n1", nil, proc.Binary(u.t, "tandem-node"), "--type", "press", "--state-dir",
		u.StateDir("n1"), "--sample-period", "2s", "--dmips", "1000")
	u.t.Cleanup(func() {
		proc.Run(u.t, u.Dir, nil, proc.Binary(u.t, "tandem-node"), "keep", "--dir",
			filepath.Join(u.StateDir("n1"), "keeper"), "--quit")
	})
}

// release has a version of a service in the unit.
func (u *clouded) release(name, version string) {
	u.t.Helper()
	meta := u.file("meta/"+name+version, fmt.Sprintf(
		`{"codename":%q,"type":"service","version":%q,"runtimes":["process"]}`, name, version))
	if u.Tandem("item", "show", name).Status != 0 {
		u.must("item", "create", meta)
	}
	u.must("item", "release", meta, u.file("program-"+name+version, "#!/bin/sh\nexec sleep 1000 # "+name+version+"\n"),
		"--ready")
}

// desires is a desired status of services "web 1.0.0".
func desires(services ...string) []byte {
	d := wish.DesiredStatus{MessageType: wish.TypeDesiredStatus, CorrelationID: strconv.Itoa(len(services)),
		Subjects: []wish.DesiredSubject{{Identity: wish.Identity{Codename: "hall"}, Type: "group"}}}
	for _, s := range services {
		name, version, _ := strings.Cut(s, " ")
		id := wish.Identity{Codename: name, Type: "service"}
		d.Items = append(d.Items, wish.DesiredItem{Item: id, Version: version})
		d.Instances = append(d.Instances, wish.DesiredInstance{Item: id, NumInstances: 1,
			Subject: wish.Identity{Codename: "hall"}})
	}
	text, err := json.Marshal(&d)
	if err != nil {
		panic(err)
	}
	return text
}

// sends sends a desired status, which is accepted.
func (u *clouded) sends(services ...string) {
	u.t.Helper()
	a, err := u.client.Desire(desires(services...))
	if err != nil || a.State != "accepted" {
		u.t.Fatalf("%+v %v", a, err)
	}
}

// says waits until the unit says of its items and their instances: "web 1.0.0 installed active".
func (u *clouded) says(want ...string) {
	u.t.Helper()
	slices.Sort(want)
	text := strings.Join(want, ", ")
	if err := u.client.Follow(text, func(s *wish.UnitStatus) bool {
		var all []string
		for _, i := range s.Items {
			line := i.Item.Codename + " " + i.Version + " " + string(i.State)
			for _, g := range s.Instances {
				if g.Item == i.Item && g.Version == i.Version {
					line += " " + string(g.Instances[0].State)
				}
			}
			all = append(all, line)
		}
		slices.Sort(all) // the order of a status to which deltas were applied says nothing
		return strings.Join(all, ", ") == text
	}); err != nil {
		u.t.Fatal(err)
	}
}

// TestCloudSteers: a cloud side at mosquitto says what should run, is answered, and follows it until it does; one item
// that the unit does not have holds up no other; the controller is killed while a newer desired status is on its
// way, and goes on by itself; the same once more is nothing new, and another one supersedes.
func TestCloudSteers(t *testing.T) {
	t.Parallel()
	u := newClouded(t)
	u.release("web", "1.0.0")
	session, err := rawmqtt.Dial(fmt.Sprintf("127.0.0.1:%d", u.port), u.tls, rawmqtt.Hello{ClientID: "cloud/eu",
		User: "cloud/eu"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Leave()
	if err := u.client.Begin(session); err != nil {
		t.Fatal(err)
	}
	u.sends("web 1.0.0", "api 1.0.0")
	u.says("api 1.0.0 failed", "web 1.0.0 failed failed") // there is no node yet
	u.joins()
	u.says("web 1.0.0 installed active", "api 1.0.0 failed")
	if u.client.Deltas == 0 || u.client.Status.CorrelationID != "2" || len(u.client.Status.Nodes) != 1 {
		t.Errorf("%d deltas: %s", u.client.Deltas, u.client.Status.Encode())
	}

	u.release("web", "2.0.0")
	u.release("api", "1.0.0")
	u.sends("web 2.0.0", "api 1.0.0")
	u.Controller.Kill() // as soon as it has said that it knows
	u.startController()
	u.AwaitReady()
	u.says("api 1.0.0 installed active", "web 2.0.0 installed active")

	before := u.must("desired", "show")
	u.sends("api 1.0.0", "web 2.0.0")
	u.sends("api 1.0.0")
	u.says("api 1.0.0 installed active")
	if after := u.must("desired", "show"); strings.Contains(after, "web") || !strings.Contains(before, "web") {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if o := u.Tandem("desired", "apply"); o.Status != 1 || !strings.Contains(o.Errors, "--steering cloud") {
		t.Errorf("%+v", o)
	}
	if out := u.must("unit", "status"); !strings.Contains(out, "service api") || !strings.Contains(out, "1 of 1") {
		t.Errorf("%s", out)
	}
}
