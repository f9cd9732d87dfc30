package trust

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/proc"
)

func TestMain(m *testing.M) {
	proc.NotAKeeper()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"))
}

func wantCode(t *testing.T, what string, err error, code wire.Code) {
	t.Helper()
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// The road that every node takes: enrolled, joined, at work, revoked, enrolled again.
func TestLifeOfANode(t *testing.T) {
	r := NewRig(t)
	token := r.Enroll("n1")
	if id := r.View("n1").Identity; id == nil || id.State != "enrolled" {
		t.Errorf("%+v", id)
	}
	if err := r.Join("n1", token); err != nil {
		t.Fatal(err)
	}
	stop := r.Agent("n1")
	r.Online("n1", true)
	if id := r.View("n1").Identity; id == nil || id.State != "joined" || id.Expires.Sub(r.Now()) > 90*24*time.Hour {
		t.Errorf("%+v", id)
	}
	wantCode(t, "the token again, on another machine", r.Join("thief", token), wire.CodeWrongState)

	// Cut at once, and kept out, also by a controller that has been killed and started again.
	if _, err := r.App.Unit().Revoke(controller.As(t.Context(), "ann"), controller.RevokeIn{
		NodeIn: controller.NodeIn{Node: "n1"}, Revoke: controller.Revoke{Reason: "stolen"},
	}); err != nil {
		t.Fatal(err)
	}
	r.Online("n1", false)
	r.Stop()
	stop()
	r.Start(nil)
	stop = r.Agent("n1")
	r.Until("it is refused", func() string {
		for _, e := range r.Entries("trouble") {
			if strings.Contains(string(e.Data), "revoked") {
				return ""
			}
		}
		return "nothing is in the journal"
	})
	if n := r.View("n1"); n.Online || n.Identity == nil || n.Identity.State != "revoked" ||
		n.Identity.RevokedBy != "ann" {
		t.Errorf("%+v", n)
	}
	stop()

	again := r.Enroll("n1")
	if err := r.Join("n1", again); err != nil {
		t.Fatal(err)
	}
	r.Agent("n1")
	r.Online("n1", true)
	for typ, want := range map[string]int{"enrol": 2, "joined": 2, "revoked": 1, "join-refused": 1} {
		if got := len(r.Entries(typ)); got != want {
			t.Errorf("%d entries of type %s, want %d", got, typ, want)
		}
	}
	r.SecretFree(token, again)
	if err := r.App.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTokensThatDoNotHelp(t *testing.T) {
	r := NewRig(t)
	token := r.Enroll("n1")
	parsed, err := jointoken.Parse(token)
	if err != nil {
		t.Fatal(err)
	}
	guess := parsed
	guess.Secret[7] ^= 1
	wantCode(t, "guessed", r.Join("n1", guess.Text()), wire.CodeNotAllowed)
	other := parsed
	other.Node = "n2"
	wantCode(t, "for another node", r.Join("n2", other.Text()), wire.CodeWrongTarget)
	foreign := parsed
	foreign.CA[0] ^= 1
	if err := r.Join("n1", foreign.Text()); err == nil || !strings.Contains(err.Error(), "not the controller") {
		t.Errorf("of another unit's controller: %v", err)
	}
	r.Pass(25 * time.Hour)
	wantCode(t, "expired", r.Join("n1", token), wire.CodeExpired)
	second := r.Enroll("n1")
	third := r.Enroll("n1")
	wantCode(t, "withdrawn by a newer one", r.Join("n1", second), wire.CodeNotAllowed)
	if err := r.Join("n1", third); err != nil {
		t.Error(err)
	}
	for range 30 {
		err = r.Join("n1", guess.Text())
	}
	wantCode(t, "guessed too often", err, wire.CodeUnavailable)
	if n := len(r.Entries("join-refused")); n == 0 || n > 32 {
		t.Errorf("%d refusals are in the journal", n)
	}
}

// The agent renews by itself, and the old certificate still counts until the one after next.
func TestRenewal(t *testing.T) {
	r := NewRig(t)
	r.Joined("n1")
	first := r.View("n1").Identity.Expires
	stop := r.Agent("n1")
	r.Online("n1", true)
	stop()
	for i := range 3 {
		before := r.View("n1").Identity.Expires
		r.Pass(61 * 24 * time.Hour)
		stop = r.Agent("n1")
		r.Until("renewed", func() string {
			if id := r.View("n1").Identity; !id.Expires.After(before) {
				return "until " + id.Expires.String()
			}
			if r.Logs.FilterMessage("certificate renewed").Len() == i { // a node that is stopped now has the old one
				return "the node does not have it yet"
			}
			return ""
		})
		r.Online("n1", true)
		stop()
	}
	if got := r.View("n1").Identity.Expires; got.Sub(first) < 180*24*time.Hour {
		t.Errorf("from %v to %v", first, got)
	}
	// Away for longer than its certificate counts: it says so, and needs hands.
	r.Pass(100 * 24 * time.Hour)
	r.Agent("n1")
	r.Until("it is told", func() string {
		for _, e := range r.Logs.FilterMessage("event").All() {
			if e.ContextMap()["type"] == "certificate-expired" {
				return ""
			}
		}
		return "no event"
	})
	if r.View("n1").Online {
		t.Error("an expired certificate lets it in")
	}
}

// session tries to get a session at the broker, and says why there was none.
func (r *Rig) session(user, clientID, scheme string, conf *tls.Config) error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	var result error = context.DeadlineExceeded
	l, err := link.Dial(link.Config{Broker: scheme + "://" + r.App.TLSAddr().String(), Username: user,
		ClientID: clientID, TLS: conf,
		Backoff: link.Backoff{Min: time.Hour, Max: time.Hour}}, verdict(func(err error) { result = err; cancel() }))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := l.Run(ctx); err != nil {
		r.t.Fatal(err)
	}
	return result
}

// verdict hears of the first attempt; what comes after it is the end.
type verdict func(error)

func (v verdict) Up(uint64)          { v(nil) }
func (verdict) Message(link.Message) {}
func (v verdict) Down(s uint64, e error) {
	if s == 0 {
		v(e)
	}
}

// Whoever is not the bearer of a certificate of this unit, or says to be another, gets no session.
func TestNobodyElseGetsASession(t *testing.T) {
	r := NewRig(t)
	for _, name := range []string{"n1", "n2", "n3"} {
		r.Joined(name)
	}
	mine, ca := r.Credentials("n1")
	if _, err := r.App.Unit().Revoke(controller.As(t.Context(), "ann"), controller.RevokeIn{
		NodeIn: controller.NodeIn{Node: "n3"},
	}); err != nil {
		t.Fatal(err)
	}
	revoked, _ := r.Credentials("n3")
	old, _ := r.Credentials("n2")
	r.Joined("n2") // on new hardware: what it had does not count any more
	forged := mine
	forged.PrivateKey = newKey(t)
	with := func(change func(*tls.Config), certs ...tls.Certificate) *tls.Config {
		conf := &tls.Config{RootCAs: ca, ServerName: jointoken.ServerName, Certificates: certs}
		if change != nil {
			change(conf)
		}
		return conf
	}
	for _, c := range []struct {
		name           string
		user, clientID string
		scheme         string
		conf           *tls.Config
		ok             bool
	}{
		{"itself", "node/n1", "node/n1", "tls", with(nil, mine), true},
		{"another node", "node/n2", "node/n2", "tls", with(nil, mine), false},
		{"another user name", "node/n2", "node/n1", "tls", with(nil, mine), false},
		{"another client ID", "node/n1", "node/n2", "tls", with(nil, mine), false},
		{"the controller", "controller", "controller", "tls", with(nil, mine), false},
		{"an operator", "operator/n1", "operator/n1", "tls", with(nil, mine), false},
		{"the cloud", "cloud/n1", "cloud/n1", "tls", with(nil, mine), false},
		{"nobody", "", "x", "tls", with(nil, mine), false},
		{"no certificate", "node/n1", "node/n1", "tls", with(nil), false},
		{"no TLS", "node/n1", "node/n1", "tcp", nil, false},
		{"no TLS, a node that never joined", "node/n9", "node/n9", "tcp", nil, false},
		{"TLS 1.2", "node/n1", "node/n1", "tls", with(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, mine),
			false},
		{"without the key", "node/n1", "node/n1", "tls", with(nil, forged), false},
		{"certified by itself", "node/n1", "node/n1", "tls", with(nil, selfMade(t)), false},
		{"revoked", "node/n3", "node/n3", "tls", with(nil, revoked), false},
		{"from before it joined anew", "node/n2", "node/n2", "tls", with(nil, old), false},
	} {
		err := r.session(c.user, c.clientID, c.scheme, c.conf)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, want success %v", c.name, err, c.ok)
		}
	}
	r.Pass(91 * 24 * time.Hour)
	if err := r.session("node/n1", "node/n1", "tls", with(nil, mine)); err == nil {
		t.Error("an expired certificate gets a session")
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// selfMade is a certificate with the right words and no authority.
func selfMade(t *testing.T) tls.Certificate {
	t.Helper()
	key := newKey(t)
	uri, err := url.Parse("tandem://u1/node/n1")
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "n1"}, URIs: []*url.URL{uri},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
