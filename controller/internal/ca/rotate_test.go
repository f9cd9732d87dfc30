package ca

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
)

// two has a second CA count beside the first; signs says which one signs.
func two(t testing.TB, c *CA, signs int) List {
	t.Helper()
	next, err := c.Make()
	if err != nil {
		t.Fatal(err)
	}
	l := List{All: append(c.Listed().All, next)}
	l.Signs = l.All[signs]
	if err := c.Arrange(l); err != nil {
		t.Fatal(err)
	}
	return l
}

// While two count, each client is shown a certificate of the one that it believes, one that does not say so of the
// oldest; certificates of both are taken, and nobody is certified by one that is only announced.
func TestTwoInOverlap(t *testing.T) {
	for signs := range 2 {
		c := open(t, Config{})
		from, until := c.Validity(NodeLife)
		before := bearer(t, c, "node/n1", from, until)
		l := two(t, c, signs)
		s, err := c.Server([]string{"127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		after := bearer(t, c, "node/n2", from, until)
		other := open(t, Config{}).Fingerprint()
		for _, tt := range []struct {
			name  string
			shown jointoken.Fingerprint
			can   jointoken.Fingerprint // certifies
		}{
			{jointoken.ServerName, l.All[0], l.All[0]},
			{"", l.All[0], l.All[0]},
			{jointoken.BelievedName(l.All[0]), l.All[0], l.All[0]},
			{jointoken.BelievedName(l.All[1]), l.All[1], l.All[signs]},
			{jointoken.BelievedName(other), l.All[0], l.All[0]},
		} {
			got, err := s.certificate(tt.name)
			if err != nil || jointoken.FingerprintOf(got.Certificate[1]) != tt.shown {
				t.Errorf("%d signs: %q is shown one of %s", signs, tt.name, jointoken.FingerprintOf(got.Certificate[1]))
			}
			if by := c.Issuer(tt.name, nil); by != tt.can {
				t.Errorf("%d signs: %q is certified by %s", signs, tt.name, by)
			}
		}
		if by := c.Issuer("", &Peer{CA: l.All[1]}); by != l.All[1] {
			t.Errorf("who does not say is certified by %s, not by the CA of his certificate", by)
		}
		for who, want := range map[string]jointoken.Fingerprint{"before": l.All[0], "after": l.All[signs]} {
			cert := map[string]tls.Certificate{"before": before, "after": after}[who]
			state, serverErr, clientErr := handshake(t, s.Mutual(), clientConfig(c, cert))
			if serverErr != nil || clientErr != nil {
				t.Fatal(serverErr, clientErr)
			}
			if p, err := c.PeerOf(&state); err != nil || p.CA != want {
				t.Errorf("%d signs: the certificate of %s is of %s, %v", signs, who, p.CA, err)
			}
		}
		// Report keys are each by the CA of the certificate.
		a, err := c.ReportKey(l.All[0], "n1", "a1")
		b, err2 := c.ReportKey(l.All[1], "n1", "a1")
		if err != nil || err2 != nil || bytes.Equal(a, b) {
			t.Errorf("%v %v", err, err2)
		}
		if signs == 0 {
			continue
		}
		door := s.Mutual()
		if err := c.Arrange(List{All: l.All[1:], Signs: l.Signs}); err != nil {
			t.Fatal(err)
		}
		_, serverErr, clientErr := handshake(t, door, clientConfig(c, before))
		if serverErr == nil && clientErr == nil {
			t.Error("a certificate of a retired CA is taken by a server of before")
		}
		_, serverErr, clientErr = handshake(t, s.Mutual(), clientConfig(c, after))
		if serverErr != nil || clientErr != nil {
			t.Error(serverErr, clientErr)
		}
		if _, err := c.ReportKey(l.All[0], "n1", "a1"); err == nil {
			t.Error("a report key of a retired CA")
		}
		if got, err := c.Client().Certificate(nil); err != nil || got.Leaf.CheckSignatureFrom(c.signs().cert) != nil {
			t.Errorf("the controller's own certificate is not of the one that is left: %v", err)
		}
	}
}

// What a crash has left of a rotation is not taken for the unit's CA, whatever else is known.
func TestSpareIsNotTheCA(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	first := c.Fingerprint()
	later := open(t, Config{Dir: dir, Now: at(day.AddDate(1, 0, 0))})
	if _, err := later.Make(); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{"nobody has joined": {}, "nodes know it": {Known: &first},
		"with --new-ca": {Renew: true}} {
		cfg.Dir = dir
		if again := open(t, cfg); again.Fingerprint() != first || len(again.Held()) != 2 {
			t.Errorf("%s: %s of %v", name, again.Fingerprint(), again.Held())
		}
	}
}

// A crash at any step of making, announcing or retiring a CA leaves CAs that count as before or as ordered.
func TestCrashWhileRotating(t *testing.T) {
	type crash struct{}
	for _, what := range []string{"make", "arrange", "forget"} {
		for n := 1; ; n++ {
			dir := t.TempDir()
			c := open(t, Config{Dir: dir})
			list := List{All: c.Listed().All, Signs: c.Fingerprint()}
			if what != "make" {
				list = two(t, c, 1)
			}
			if what == "forget" {
				list = List{All: list.All[1:], Signs: list.Signs}
				if err := c.Arrange(list); err != nil {
					t.Fatal(err)
				}
			}
			first, steps, crashed := c.trust.Load().list[0], 0, false
			c.steps = func(durable.Step) error {
				if steps++; steps == n {
					panic(crash{})
				}
				return nil
			}
			func() {
				defer func() {
					if r := recover(); r != nil {
						if _, ok := r.(crash); !ok {
							panic(r)
						}
						crashed = true
					}
				}()
				switch what {
				case "make":
					two(t, c, 1)
				case "arrange":
					if err := c.Arrange(List{All: list.All[1:], Signs: list.Signs}); err != nil {
						t.Error(err)
					}
				case "forget":
					if err := c.Forget(first.fp); err != nil {
						t.Error(err)
					}
				}
			}()
			again := open(t, Config{Dir: dir, List: list}) // as the journal says, which has no record of it yet
			if !slices.Equal(again.Listed().All, list.All) || again.Fingerprint() != list.Signs {
				t.Fatalf("%s, crash at step %d: %v count", what, n, again.Listed())
			}
			if text, err := os.ReadFile(filepath.Join(dir, CertificateFile)); err != nil ||
				strings.Count(string(text), "BEGIN") != len(list.All) {
				t.Fatalf("%s, crash at step %d: ca.pem is %s", what, n, text)
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
				t.Fatalf("%s, crash at step %d left %v", what, n, left)
			}
			if !crashed {
				break
			}
		}
	}
}

// A CA that does not count is forgotten, one that does is not.
func TestForget(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	l := two(t, c, 1)
	if err := c.Forget(l.All[0]); err != nil || len(c.Held()) != 2 {
		t.Errorf("one that counts was forgotten: %v %v", c.Held(), err)
	}
	if err := c.Arrange(List{All: l.All[1:], Signs: l.Signs}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Forget(l.All[0]); err != nil || len(c.Held()) != 1 {
			t.Errorf("%v %v", c.Held(), err)
		}
	}
	if err := c.Arrange(l); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("one that was forgotten counts again: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, KeyFile)); err == nil {
		t.Error("its file is still there")
	}
	// A later journal-less start finds the one that is left.
	if again := open(t, Config{Dir: dir}); again.Fingerprint() != l.All[1] {
		t.Error("the one that is left was not found")
	}
	if err := os.Rename(filepath.Join(dir, keyFile(l.All[1])), filepath.Join(dir, keyFile(l.All[0]))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Unit: "u1", Dir: dir, Now: at(day)}); err == nil ||
		!strings.Contains(err.Error(), "another CA than its name says") {
		t.Errorf("%v", err)
	}
}
