package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/jointoken"
)

// rotateCA does the next step of a rotation of the CA.
func (r *Rig) rotateCA(force bool) (ids []string) {
	r.t.Helper()
	v, err := r.App.Unit().RotateCA(controller.As(r.t.Context(), "ann"), controller.RotateCA{Force: force})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, ca := range v.CAs {
		ids = append(ids, ca.ID)
	}
	return ids
}

func (r *Rig) retireCA(id string, force bool) error {
	_, err := r.App.Unit().RetireCA(controller.As(r.t.Context(), "ann"), controller.RetireCA{ID: id, Force: force})
	return err
}

// unready waits until these, and no others, are in the way of the next step for a CA.
func (r *Rig) unready(id string, names ...string) {
	r.t.Helper()
	r.Until("CA "+id, func() string {
		v, err := r.App.Unit().ShowCAs(r.t.Context())
		if err != nil {
			return err.Error()
		}
		for _, ca := range v.CAs {
			if ca.ID == id && slices.Equal(ca.Missing, names) {
				return ""
			}
		}
		return fmt.Sprintf("%+v", v)
	})
}

// certifiedBy waits until a machine's certificate is of a CA.
func (r *Rig) certifiedBy(machine, id string) {
	r.t.Helper()
	r.Until(machine+" renews", func() string {
		data, err := os.ReadFile(filepath.Join(r.Dir, machine, node.IdentityDir, "identity.json"))
		if err != nil {
			return err.Error()
		}
		var f struct{ CA []byte }
		if err := json.Unmarshal(data, &f); err != nil {
			return err.Error()
		}
		if got := jointoken.FingerprintOf(f.CA).ID(); got != id {
			return "it has a certificate of " + got
		}
		return ""
	})
}

// stolenCA is a CA's key and certificate.
type stolenCA struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func (r *Rig) stolenCA(file string) (s stolenCA) {
	r.t.Helper()
	rest, err := os.ReadFile(filepath.Join(r.Dir, "controller", file))
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return s
		}
		if block.Type == "CERTIFICATE" {
			s.cert, err = x509.ParseCertificate(block.Bytes)
		} else {
			var key any
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
			s.key, _ = key.(*ecdsa.PrivateKey)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// certify makes a certificate that names a subject, as a server with a name or as a client.
func (s stolenCA) certify(t *testing.T, subject, host string, serial *big.Int) tls.Certificate {
	t.Helper()
	key := newKey(t)
	c := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: subject},
		URIs:      []*url.URL{{Scheme: jointoken.Scheme, Host: "u1", Path: "/" + subject}},
		NotBefore: s.cert.NotBefore, NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true}
	if host != "" {
		c.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, s.cert, key.Public(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der, s.cert.Raw}, PrivateKey: key}
}

// certificates counts those of ca.pem.
func (r *Rig) certificates() (n int) {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.Dir, "controller", "ca.pem"))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Count(string(data), "BEGIN CERTIFICATE")
}

// A unit at work goes from one CA to the next, and nobody has anything to do at a node.
func TestCARotation(t *testing.T) {
	r := NewRig(t)
	stop := map[string]func(){}
	for _, n := range []string{"n1", "n2", "n3"} {
		r.Joined(n)
		stop[n] = r.Agent(n)
		r.Online(n, true)
	}
	r.apply("1.0.0")
	r.runs("1.0.0", "n1", "n2", "n3")
	before := r.Enroll("n4")
	thief := r.stolenCA("ca-key.pem")
	stop["n3"]()
	r.Online("n3", false)
	r.Pass(2 * time.Minute) // who has just joined does not renew at once

	// Announced: both count.
	ids := r.rotateCA(false)
	if len(ids) != 2 || r.certificates() != 2 {
		t.Fatalf("%v, %d in ca.pem", ids, r.certificates())
	}
	one, two := ids[0], ids[1]
	r.unready(two, "n3")
	_, err := r.App.Unit().RotateCA(controller.As(t.Context(), "ann"), controller.RotateCA{})
	refusedAs(t, err, "n3 is not known to believe it")
	refusedAs(t, r.retireCA(one, true), "signs")
	stop["n3"] = r.Agent("n3")
	r.unready(two)

	// The new one certifies: nodes renew by themselves, and what they say is still proved.
	r.rotateCA(false)
	for _, n := range []string{"n1", "n2", "n3"} {
		r.certifiedBy(n, two)
	}
	r.apply("2.0.0")
	r.runs("2.0.0", "n1", "n2", "n3")
	refusedAs(t, r.retireCA(one, false), "a token for n4")
	if err := r.Join("n4", before); err != nil {
		t.Errorf("a token of before: %v", err)
	}
	r.certifiedBy("n4", one)
	refusedAs(t, r.retireCA(one, false), "n4 is")
	r.Pass(2 * time.Minute)
	stop["n4"] = r.Agent("n4")
	r.certifiedBy("n4", two)
	r.Joined("n5")
	stop["n5"] = r.Agent("n5")
	r.certifiedBy("n5", two)
	r.apply("3.0.0")
	r.runs("3.0.0", "n1", "n2", "n3", "n4", "n5")
	r.allProved("n1", "n2", "n3", "n4", "n5")

	// Retired, and everybody goes on, after a restart as well.
	r.unready(one)
	stranded := r.Enroll("n6")
	if err := r.retireCA(one, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "controller", "ca-key.pem")); err == nil || r.certificates() != 1 {
		t.Errorf("the retired CA is still there; %d in ca.pem", r.certificates())
	}
	if err := r.Join("n6", stranded); err != nil {
		t.Errorf("a token of the new CA: %v", err)
	}
	for n := range stop {
		stop[n]()
	}
	r.Stop()
	r.Start(nil)
	for n := range stop {
		r.Agent(n)
		r.Online(n, true)
	}
	r.oldThief(thief)
}

// allProved makes sure that nodes prove what they say, and that no proof was refused.
func (r *Rig) allProved(nodes ...string) {
	r.t.Helper()
	for _, n := range nodes {
		if r.View(n).Identity.Proves.IsZero() {
			r.t.Errorf("%s proves nothing", n)
		}
	}
	for _, e := range r.Entries("trouble") {
		if strings.Contains(string(e.Data), "/proof") {
			r.t.Errorf("a proof was refused: %s", e.Data)
		}
	}
}

// oldThief has whoever stole a retired CA try what he can.
func (r *Rig) oldThief(thief stolenCA) {
	t := r.t
	t.Helper()
	// As a node, under a serial number that counts.
	own, pool := r.Credentials("n1")
	leaf, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{jointoken.RenewPath, jointoken.KeysPath, jointoken.CAPath, jointoken.ReportKeyPath} {
		for who, cert := range map[string]tls.Certificate{"n1": own, "the thief": thief.certify(t, "node/n1", "",
			leaf.SerialNumber)} {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
				RootCAs: pool, ServerName: jointoken.ServerName, Certificates: []tls.Certificate{cert}, Time: r.Now}}}
			res, err := c.Post(r.App.JoinURL()+path, "application/json", strings.NewReader("{}"))
			if err == nil {
				if cerr := res.Body.Close(); cerr != nil {
					t.Error(cerr)
				}
			}
			if (err == nil) != (who == "n1") {
				t.Errorf("%s at %s: %v", who, path, err)
			}
		}
	}
	// As the controller: a node that asks him believes nothing.
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{thief.certify(t, "controller", jointoken.ServerName, big.NewInt(7))}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).Handshake() // in TLS 1.3 the client judges after it
			_ = c.Close()
		}
	}()
	defer func() { _ = l.Close(); <-ended }()
	stop := r.Agent("n6", func(c *node.Config) {
		c.Broker, c.Controller = "tls://"+l.Addr().String(), "https://"+l.Addr().String()
	})
	r.Until("n6 refuses the thief", func() string {
		for _, e := range r.Logs.FilterMessageSnippet("no session with the broker").All() {
			if strings.Contains(fmt.Sprint(e.ContextMap()), "certificate signed by unknown authority") {
				return ""
			}
		}
		return "it has not said so"
	})
	stop()
}

// The controller starts anew at each step of a rotation, and a switch is forced while a node is away: when it is back
// it goes on under the old CA, learns of the new one, and follows. One that is away until the end has to join anew.
func TestCARotationIsForced(t *testing.T) {
	r := NewRig(t)
	stop := map[string]func(){}
	for _, n := range []string{"n1", "n2", "n3"} {
		r.Joined(n)
		stop[n] = r.Agent(n)
		r.Online(n, true)
	}
	restart := func(names ...string) {
		t.Helper()
		for _, n := range []string{"n1", "n2", "n3"} {
			stop[n]()
		}
		r.Stop()
		r.Start(nil)
		for _, n := range names {
			stop[n] = r.Agent(n)
			r.Online(n, true)
		}
	}
	r.Pass(2 * time.Minute)
	restart("n1")
	ids := r.rotateCA(false)
	r.unready(ids[1], "n2", "n3")
	restart("n1")
	r.rotateCA(true)
	r.certifiedBy("n1", ids[1])
	restart("n1", "n2")
	r.certifiedBy("n2", ids[1])
	r.follow = func() time.Time { return time.Now().Add(time.Hour) }
	stop["n3"] = r.Agent("n3") // which does not get round to it
	r.Online("n3", true)
	refusedAs(t, r.retireCA(ids[0], false), "n3 is in need of it")
	if err := r.retireCA(ids[0], true); err != nil {
		t.Fatal(err)
	}
	r.Online("n3", false) // its session ends
	restart("n1", "n2")
	stop["n3"] = r.Agent("n3")
	r.Until("n3 refuses the controller", func() string {
		if r.Logs.FilterMessageSnippet("no session with the broker").Len() == 0 {
			return "it has not said so"
		}
		return ""
	})
	if r.View("n3").Online {
		t.Error("n3 is online with a certificate of a retired CA")
	}
	stop["n3"]()
	r.Joined("n3")
	r.Agent("n3")
	r.Online("n3", true)
	r.certifiedBy("n3", ids[1])
	v, err := r.App.Unit().ShowCAs(t.Context())
	if err != nil || len(v.CAs) != 1 || v.CAs[0].ID != ids[1] {
		t.Errorf("%+v %v", v, err)
	}
}

// An agent from before rotations says nothing of CAs and asks for no name but the controller's: it works, and renews,
// under the old CA until that is retired, and stands in the way by its name.
func TestOlderAgentInARotation(t *testing.T) {
	r := NewRig(t)
	r.Joined("n1")
	own, pool := r.Credentials("n1")
	r.Pass(2 * time.Minute)
	ids := r.rotateCA(false)
	_, err := r.App.Unit().RotateCA(controller.As(t.Context(), "ann"), controller.RotateCA{})
	refusedAs(t, err, "n1 is not known to believe it")
	r.rotateCA(true)
	key := newKey(t)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	body, err := jointoken.Encode(&jointoken.RenewRequest{CSR: csr})
	if err != nil {
		t.Fatal(err)
	}
	renew := func() (*jointoken.Admission, error) {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			RootCAs: pool, ServerName: jointoken.ServerName, Certificates: []tls.Certificate{own}, Time: r.Now}}}
		res, err := c.Post(r.App.JoinURL()+jointoken.RenewPath, "application/json", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		answer, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return nil, err
		}
		return jointoken.DecodeAdmission(answer)
	}
	a, err := renew()
	if err != nil || jointoken.FingerprintOf(a.CA).ID() != ids[0] {
		t.Fatalf("it does not renew with its CA: %+v, %v", a, err)
	}
	leaf, err := x509.ParseCertificate(a.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: r.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	refusedAs(t, r.retireCA(ids[0], false), "n1 is in need of it")
	if err := r.retireCA(ids[0], true); err != nil {
		t.Fatal(err)
	}
	if _, err := renew(); err == nil {
		t.Error("it works on after that was retired")
	}
}
