package distribute

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// gate is what a door and a broker would be to the core.
type gate struct {
	cut []string
}

// withGate runs f with a Core that nodes can join.
func withGate(t *testing.T, f func(t *testing.T, r *faulty, g *gate)) {
	t.Helper()
	g := &gate{}
	withFaults(t, func(c *Config) {
		c.Cut = func(subject, why string) { g.cut = append(g.cut, subject+": "+why) } // on the loop's goroutine
		c.ReopenEvery = time.Second
	}, func(t *testing.T, r *faulty) {
		authority, err := ca.Open(ca.Config{Unit: faultyUnit, Dir: r.dir})
		if err != nil {
			t.Fatal(err)
		}
		r.core.SetAuthority(Authority{CA: authority, Life: ca.NodeLife, URL: "https://gateway:8884"})
		f(t, r, g)
	})
}

// hash makes a token for n1 and returns what a join shows of it.
func (r *faulty) hash() string {
	r.Helper()
	e, err := r.core.Enroll(as(r.Context(), "ann"), op.EnrollIn{NodeIn: op.NodeIn{Node: "n1"}})
	if err != nil {
		r.Fatal(err)
	}
	tok, err := jointoken.Parse(e.Token)
	if err != nil {
		r.Fatal(err)
	}
	return tok.Secret.Hash()
}

func joinOf(hash, key, serial string) enrol.Join {
	return enrol.Join{Subject: "node/n1", Hash: hash, Key: key, Serial: serial, Expires: time.Now().Add(24 * time.Hour),
		CA: "sha256:ca"}
}

func (r *faulty) certified(serial string, want bool) {
	r.Helper()
	if err := r.core.Certified("node/n1", serial); (err == nil) != want {
		r.Errorf("%s counts: %v, want %v", serial, err, want)
	}
}

func storageTrouble(err error) bool { return errors.Is(err, &wire.Error{Code: wire.CodeStorage}) }

// A node that has joined is listed before it has connected: rules for a broker of the site are made
// from the list, and without them it never could.
func TestNodesThatHaveNotConnectedAreListed(t *testing.T) {
	withGate(t, func(t *testing.T, r *faulty, _ *gate) {
		states := func() (all []string) {
			nodes, err := r.core.Nodes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range nodes.Nodes {
				all = append(all, n.Node+" "+n.Identity.State)
			}
			return all
		}
		hash := r.hash()
		if got := states(); !slices.Equal(got, []string{"n1 enrolled"}) {
			t.Errorf("with a token: %q", got)
		}
		if err := r.core.Enrolment(t.Context(), joinOf(hash, "k1", "s1")); err != nil {
			t.Fatal(err)
		}
		if got := states(); !slices.Equal(got, []string{"n1 joined"}) {
			t.Errorf("joined: %q", got)
		}
		if _, err := r.core.Revoke(as(t.Context(), "ann"), op.RevokeIn{NodeIn: op.NodeIn{Node: "n1"}}); err != nil {
			t.Fatal(err)
		}
		if got := states(); len(got) != 0 {
			t.Errorf("revoked: %q", got)
		}
	})
}

// A join and a revocation happen when they are durable, and not before.
func TestEnrolmentOnABadDisk(t *testing.T) {
	for _, late := range []bool{false, true} {
		fail := func(r *faulty) {
			if late {
				r.disk.fail(0, 1)
			} else {
				r.disk.fail(1, 0)
			}
		}
		back := func(r *faulty) {
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := r.core.Refusing(); err != nil {
				r.Fatal(err)
			}
		}
		withGate(t, func(t *testing.T, r *faulty, g *gate) {
			hash := r.hash()
			fail(r)
			if err := r.core.Enrolment(t.Context(), joinOf(hash, "k1", "s1")); !storageTrouble(err) {
				t.Errorf("join on a bad disk: %v", err)
			}
			r.certified("s1", false)
			back(r)
			r.certified("s1", late) // it is on the disk, though nobody was told
			if err := r.core.Enrolment(t.Context(), joinOf(hash, "k1", "s2")); err != nil {
				t.Errorf("the same join again: %v", err)
			}
			r.certified("s2", true)
			r.certified("s1", false)
			if err := r.core.Claimable("node/n1"); err == nil {
				t.Error("who has a certificate is believed without it")
			}

			g.cut = nil
			fail(r)
			if _, err := r.core.Revoke(as(t.Context(), "ann"), op.RevokeIn{
				NodeIn: op.NodeIn{Node: "n1"},
			}); !storageTrouble(err) {
				t.Errorf("revoke on a bad disk: %v", err)
			}
			if len(g.cut) != 0 {
				t.Errorf("cut although nobody knows whether it is revoked: %q", g.cut)
			}
			back(r)
			r.certified("s2", !late)
			if n, err := r.core.Revoke(as(t.Context(), "ann"), op.RevokeIn{
				NodeIn: op.NodeIn{Node: "n1"},
			}); err != nil || n.Identity == nil || n.Identity.State != "revoked" {
				t.Errorf("%+v %v", n, err)
			}
			if !late && !slices.Equal(g.cut, []string{"node/n1: it was revoked"}) {
				t.Errorf("cut: %q", g.cut)
			}
			r.certified("s2", false)

			for range 2 { // the second start has a checkpoint and nothing after it
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				r.start()
				r.certified("s2", false)
				if r.core.Claimable("node/n1") == nil || r.core.KnownCA() != "sha256:ca" {
					t.Error("a restart forgets")
				}
				if err := r.core.Audit(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestEnrollNeedsADoor(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		if _, err := r.core.Enroll(as(t.Context(), "ann"), op.EnrollIn{
			NodeIn: op.NodeIn{Node: "n1"},
		}); !errors.Is(err, &wire.Error{Code: wire.CodeNotSupported}) {
			t.Error(err)
		}
		if _, err := r.core.Revoke(as(t.Context(), "ann"), op.RevokeIn{
			NodeIn: op.NodeIn{Node: "n1"},
		}); !errors.Is(err, &wire.Error{Code: wire.CodeNotFound}) {
			t.Error(err)
		}
		r.join("n1") // it is known, and was never enrolled
		if n, err := r.core.Revoke(as(t.Context(), "ann"), op.RevokeIn{
			NodeIn: op.NodeIn{Node: "n1"},
		}); err != nil || n.Identity == nil || n.Identity.State != "revoked" {
			t.Errorf("%+v %v", n, err)
		}
		if r.core.Claimable("node/n1") == nil {
			t.Error("it may still come in")
		}
	})
}

func TestEnrollArguments(t *testing.T) {
	withGate(t, func(t *testing.T, r *faulty, _ *gate) {
		for _, name := range []string{"", "a/b", "+"} {
			if _, err := r.core.Enroll(as(t.Context(), "ann"), op.EnrollIn{
				NodeIn: op.NodeIn{Node: name},
			}); !errors.Is(err, &wire.Error{Code: wire.CodeInvalidArgument}) {
				t.Errorf("%q: %v", name, err)
			}
			if _, err := r.core.Revoke(as(t.Context(), "ann"), op.RevokeIn{
				NodeIn: op.NodeIn{Node: name},
			}); !errors.Is(err, &wire.Error{Code: wire.CodeInvalidArgument}) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if _, err := r.core.Enroll(as(t.Context(), "ann"), op.EnrollIn{
			NodeIn: op.NodeIn{Node: "n1"}, Enroll: op.Enroll{TTL: duration.Format(365 * 24 * time.Hour)},
		}); !errors.Is(err, &wire.Error{Code: wire.CodeInvalidArgument}) {
			t.Error(err)
		}
	})
}

func TestCertify(t *testing.T) {
	withGate(t, func(t *testing.T, r *faulty, g *gate) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{DNSNames: []string{"elsewhere"}}, key)
		if err != nil {
			t.Fatal(err)
		}
		csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		read := func(c view.Certificate) *x509.Certificate {
			t.Helper()
			block, _ := pem.Decode([]byte(c.Certificate))
			if block == nil {
				t.Fatalf("%+v", c)
			}
			leaf, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			return leaf
		}
		c, err := r.core.Certify(as(t.Context(), "ann"), op.CertifyIn{
			Certification: view.Certification{Identity: "cloud/eu", CSR: csr},
		})
		if err != nil {
			t.Fatal(err)
		}
		leaf := read(c)
		if err := r.core.Certified("cloud/eu", leaf.SerialNumber.Text(16)); err != nil || len(leaf.DNSNames) != 0 ||
			leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
			t.Errorf("%v %v", leaf.DNSNames, err)
		}
		if _, err := r.core.Disown(as(t.Context(), "ann"), op.Disown{Identity: "cloud/eu"}); err != nil {
			t.Error(err)
		}
		if err := r.core.Certified("cloud/eu", leaf.SerialNumber.Text(16)); err == nil ||
			!slices.Contains(g.cut, "cloud/eu: it was revoked") {
			t.Errorf("%v %q", err, g.cut)
		}
		for _, bad := range []view.Certification{
			{Identity: "cloud/eu", CSR: csr}, // the key was revoked
			{Identity: "node/n1", CSR: csr}, {Identity: "controller", CSR: csr}, {Identity: "cloud/", CSR: csr},
			{Identity: "root", CSR: csr},
			{Identity: "broker/b1", CSR: csr}, {Identity: "broker/b1", CSR: csr, Hosts: []string{jointoken.ServerName}},
			{Identity: "operator/ann", CSR: csr, Hosts: []string{"x"}},
			{Identity: "operator/ann", CSR: "x"}, {Identity: "operator/ann", CSR: csr + csr},
			{Identity: "operator/ann", CSR: c.Certificate},
		} {
			if _, err := r.core.Certify(as(t.Context(), "ann"), op.CertifyIn{Certification: bad}); err == nil {
				t.Errorf("%s %v was certified", bad.Identity, bad.Hosts)
			}
		}
		c, err = r.core.Certify(as(t.Context(), "ann"), op.CertifyIn{
			Certification: view.Certification{
				Identity: "broker/b1", CSR: csr, Hosts: []string{"broker.local", "10.0.0.5"},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		leaf = read(c)
		if leaf.VerifyHostname("broker.local") != nil || leaf.VerifyHostname("10.0.0.5") != nil ||
			leaf.VerifyHostname("elsewhere") == nil ||
			leaf.VerifyHostname(jointoken.ServerName) == nil || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
			t.Errorf("%v %v", leaf.DNSNames, leaf.IPAddresses)
		}
		for _, who := range []string{"node/n1", "", "nobody/x"} {
			if _, err := r.core.Disown(as(t.Context(), "ann"), op.Disown{Identity: who}); err == nil {
				t.Errorf("%q was revoked", who)
			}
		}
	})
}
