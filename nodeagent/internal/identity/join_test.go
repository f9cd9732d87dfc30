package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var day = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func atDay() time.Time { return day }

// start makes a controller and a join configuration for it.
func start(t *testing.T) (*controller, JoinConfig) {
	t.Helper()
	c := newController(t, atDay)
	dial, stop := c.serve(t, c.serverTLS())
	t.Cleanup(stop)
	return c, JoinConfig{Dir: filepath.Join(t.TempDir(), "identity"), Controller: "https://gateway:8843", Token: c.tok,
		Now: atDay, Dial: dial}
}

func TestJoin(t *testing.T) {
	c, cfg := start(t)
	if _, err := Load(cfg.Dir, nil); !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	id, err := Join(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load(cfg.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []*Identity{id, again} {
		if id.Unit != "u1" || id.Node != "n1" || id.Controller != "https://gateway:8843" || id.CA() != c.tok.CA ||
			!id.Expires().Equal(day.Add(life)) ||
			len(id.Brokers) != 1 || len(id.UnitKeys) != 1 || id.cert.Leaf == nil {
			t.Errorf("%+v", id)
		}
	}
	for name, want := range map[string]os.FileMode{"": 0o700, File: 0o600} {
		if info, err := os.Stat(filepath.Join(cfg.Dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	if left, err := os.ReadDir(cfg.Dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v %v", left, err)
	}
	if data, err := os.ReadFile(filepath.Join(cfg.Dir, File)); err != nil ||
		strings.Contains(string(data), hex.EncodeToString(cfg.Token.Secret[:])) {
		t.Errorf("the token's secret is kept: %v", err)
	}
}

// The node talks to nobody but the controller that the token names.
func TestJoinTrustsNobodyElse(t *testing.T) {
	c := newController(t, atDay)
	foreign := newController(t, atDay) // everything the same but the key
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*tls.Config)) *tls.Config {
		conf := c.serverTLS()
		change(conf)
		return conf
	}
	sign := func(a *authority, template x509.Certificate) func(*tls.Config) {
		return func(conf *tls.Config) {
			conf.Certificates = []tls.Certificate{{Certificate: [][]byte{a.sign(t, key.Public(), &template),
				c.ca.cert.Raw}, PrivateKey: key}}
		}
	}
	good := x509.Certificate{DNSNames: []string{jointoken.ServerName}, NotBefore: day.Add(-time.Hour),
		NotAfter:    day.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	expired, otherName, client := good, good, good
	expired.NotAfter = day.Add(-time.Minute)
	otherName.DNSNames = []string{"gateway"}
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, tt := range []struct {
		name string
		conf *tls.Config
		ok   bool
	}{
		{"the controller", with(sign(c.ca, good)), true},
		{"another CA", foreign.serverTLS(), false},
		{"another CA, with the right one beside it", with(sign(foreign.ca, good)), false},
		{"a certificate that has expired", with(sign(c.ca, expired)), false},
		{"a certificate for something else", with(sign(c.ca, otherName)), false},
		{"a node of the same unit", with(sign(c.ca, client)), false},
		{"no CA in the chain", with(
			func(conf *tls.Config) { conf.Certificates[0].Certificate = conf.Certificates[0].Certificate[:1] }), false},
		{"TLS 1.2", with(func(conf *tls.Config) {
			conf.MinVersion, conf.MaxVersion = tls.VersionTLS12,
				tls.VersionTLS12
		}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reached := false
			door := newController(t, atDay)
			door.ca, door.tok = c.ca, c.tok
			door.raw = func(w http.ResponseWriter, r *http.Request) {
				reached = true
				door.raw = nil
				http.Error(w, "x", http.StatusTeapot)
			}
			dial, stop := door.serve(t, tt.conf)
			defer stop()
			dir := t.TempDir()
			_, err := Join(t.Context(), JoinConfig{Dir: dir, Controller: "gateway:1", Token: c.tok, Now: atDay,
				Dial: dial})
			if reached != tt.ok {
				t.Errorf("the secret was sent: %v, want %v (%v)", reached, tt.ok, err)
			}
			if strings.Contains(tt.name, "CA") && !errors.Is(err, ErrForeign) {
				t.Errorf("%v is no ErrForeign", err)
			}
			if _, err := Load(dir, nil); !errors.Is(err, ErrNone) {
				t.Errorf("an identity was made: %v", err)
			}
		})
	}
}

// What a controller, or somebody who has taken it over, may answer.
func TestJoinChecksTheAnswer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*controller, *jointoken.Admission)
		want  string
	}{
		{"another CA", func(c *controller, a *jointoken.Admission) { a.CA = newAuthority(c.t, day).cert.Raw },
			"not the one that was expected"},
		{"no certificate", func(_ *controller, a *jointoken.Admission) { a.Certificate = []byte{1} }, "cannot be read"},
		{"another node", func(_ *controller, a *jointoken.Admission) { a.Node = "n2" }, `admitted node "n2"`},
		{"another unit", func(_ *controller, a *jointoken.Admission) { a.Unit = "u2" }, `keeps unit "u2"`},
		{"the CA's own certificate", func(_ *controller, a *jointoken.Admission) { a.Certificate = a.CA },
			"for another key"},
		{"a key under a false name", func(_ *controller, a *jointoken.Admission) { a.UnitKeys[0].ID = "other" },
			"not what its ID says"},
		{"a plain broker", func(_ *controller, a *jointoken.Admission) { a.Brokers[0].URL = "tcp://gateway:1883" },
			"not reached over TLS"},
	} {
		c, cfg := start(t)
		cfg.Unit = "u1"
		c.spoil = func(a *jointoken.Admission) { tt.spoil(c, a) }
		if _, err := Join(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if _, err := Load(cfg.Dir, nil); !errors.Is(err, ErrNone) {
			t.Errorf("%s: an identity was made: %v", tt.name, err)
		}
		c.mu.Lock()
		c.spoil = nil
		c.mu.Unlock()
		if _, err := Join(t.Context(), cfg); err != nil {
			t.Errorf("%s: and then: %v", tt.name, err)
		}
	}
}

func TestJoinIsRefused(t *testing.T) {
	c, cfg := start(t)
	c.refuse = wire.New(wire.CodeExpired, "", "the token was valid until yesterday")
	_, err := Join(t.Context(), cfg)
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != wire.CodeExpired {
		t.Errorf("%v", err)
	}
	c.raw = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere/join", http.StatusTemporaryRedirect)
	}
	if _, err := Join(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "not the join door") {
		t.Errorf("redirected: %v", err)
	}
	c.raw = func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, jointoken.MaxAnswer+100))
	}
	if e, ok := errors.AsType[*wire.Error](func() error { _, err := Join(t.Context(), cfg); return err }()); !ok ||
		e.Code != wire.CodeTooLarge {
		t.Errorf("huge answer: %v", e)
	}
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }
	if _, err := Join(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "cannot reach the controller") ||
		strings.Contains(err.Error(), hex.EncodeToString(cfg.Token.Secret[:])) {
		t.Errorf("unreachable: %v", err)
	}
}

// Who knocks at another of the controller's doors is told so.
func TestJoinAtAnotherDoor(t *testing.T) {
	c := newController(t, atDay)
	c.raw = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"code":"not-allowed","message":"this door needs a token"}}`))
	}
	dial, stop := c.serve(t, c.serverTLS())
	defer stop()
	if _, err := Join(t.Context(), JoinConfig{Dir: t.TempDir(), Controller: "gateway:1", Token: c.tok, Now: atDay,
		Dial: dial}); err == nil || !strings.Contains(err.Error(), "not the join door") {
		t.Errorf("at the door of operators: %v", err)
	}
	// The alert of a broker may come after the connection has broken: what is asked of is the error.
	server, client := net.Pipe()
	conf := c.serverTLS()
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	ended := make(chan error, 1)
	go func() { ended <- tls.Server(server, conf).Handshake() }()
	conn := tls.Client(client, joinTLS(c.tok.CA, atDay))
	_, err := conn.Read(make([]byte, 1)) // the handshake succeeds on this side
	if !wantsCertificate(err) || wantsCertificate(errors.New("x")) || wantsCertificate(nil) {
		t.Errorf("the alert is not known: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the server let in who showed no certificate")
	}
	if err := errors.Join(client.Close(), server.Close()); err != nil {
		t.Error(err)
	}
}

func TestControllerURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://gateway:8843": "https://gateway:8843", "https://gateway:8843/": "https://gateway:8843",
		"gateway:8843": "https://gateway:8843",
		"10.0.0.1":     "https://10.0.0.1", "[::1]:8843": "https://[::1]:8843",
		"http://gateway:8843": "", "": "", "https://": "", "https://u:p@gateway": "", "https://gateway/x": "",
		"https://gateway?x": "", "tcp://g:1": "",
	} {
		if got, err := Controller(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v, want %q", in, got, err, want)
		}
	}
}

// A node whose clock stands in 1970 joins and stays.
func TestJoinWithADeadClock(t *testing.T) {
	_, cfg := start(t)
	cfg.Now = func() time.Time { return time.Unix(0, 0) }
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	k, err := NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: cfg.Now, Dial: cfg.Dial})
	if err != nil {
		t.Fatal(err)
	}
	if now := k.Now(); now.Before(day) {
		t.Errorf("the keeper believes that it is %v", now)
	}
	if err := k.renew(t.Context(), k.Current()); err != nil {
		t.Error(err)
	}
	k.Heard(day.AddDate(0, 2, 0))
	if now := k.Now(); !now.Equal(day.AddDate(0, 2, 0)) {
		t.Errorf("the keeper believes that it is %v", now)
	}
}
