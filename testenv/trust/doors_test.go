package trust

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/link"
)

// On a plain port beside it, who has a certificate has to show it.
func TestPlainPortBesideTLS(t *testing.T) {
	r := NewRig(t)
	r.Joined("n1")
	r.Stop()
	r.Start(func(c *controller.Config) { c.Listen = "127.0.0.1:0" })
	plain := func(name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var result error = context.DeadlineExceeded
		l, err := link.Dial(link.Config{Broker: "tcp://" + r.App.Addr().String(), Username: name, ClientID: name,
			Backoff: link.Backoff{Min: time.Hour, Max: time.Hour}}, verdict(func(err error) { result = err; cancel() }))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Run(ctx); err != nil {
			t.Fatal(err)
		}
		return result
	}
	if err := plain("node/n1"); err == nil {
		t.Error("a node that has joined was believed without its certificate")
	}
	if err := plain("node/n2"); err != nil {
		t.Errorf("a node that has not joined, on this machine: %v", err)
	}
	if _, err := r.App.Unit().Revoke(controller.As(t.Context(), "ann"), controller.RevokeIn{
		NodeIn: controller.NodeIn{Node: "n1"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := plain("node/n1"); err == nil {
		t.Error("a revoked node was let in")
	}
}

// A CA that is lost or replaced does not go unnoticed.
func TestLostCA(t *testing.T) {
	r := NewRig(t)
	r.Joined("n1")
	r.Stop()
	key := filepath.Join(r.Dir, "controller", "ca-key.pem")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.New(r.Config(), controller.Deps{NoAPI: true, Now: r.Now}); err == nil ||
		!strings.Contains(err.Error(), "--new-ca") {
		t.Errorf("%v", err)
	}
	r.Start(func(c *controller.Config) { c.NewCA = true })
	mine, ca := r.Credentials("n1")
	if err := r.session("node/n1", "node/n1", "tls",
		&tls.Config{RootCAs: ca, ServerName: jointoken.ServerName, Certificates: []tls.Certificate{mine}}); err == nil {
		t.Error("the old CA's certificate counts")
	}
	r.Joined("n1")
	r.Stop()
	r.Start(nil) // from now on the new one is the known one
	r.Agent("n1")
	r.Online("n1", true)
}

// A gateway and a node that both wake in 1970 find each other.
func TestDeadClocks(t *testing.T) {
	r := NewRig(t)
	r.Joined("n1")
	r.Stop()
	r.Pass(-time.Since(time.Unix(0, 0)))
	r.Start(nil)
	r.Agent("n1")
	r.Online("n1", true)
}

func TestConfiguration(t *testing.T) {
	for _, c := range []struct {
		change func(*controller.Config)
		want   string
	}{
		{func(c *controller.Config) { c.ListenTLS = "nonsense" }, "--listen-tls"},
		{func(c *controller.Config) { c.ListenTLS = "127.0.0.1:65535" }, "--join-listen"},
		{func(c *controller.Config) { c.ListenTLS, c.Listen = "", "0.0.0.0:0" }, "--insecure-listen"},
		{func(c *controller.Config) { c.Broker = "tcp://127.0.0.1:1" }, "--listen-tls"},
		{func(c *controller.Config) { c.ListenTLS, c.JoinListen, c.Listen = "", "127.0.0.1:0", "127.0.0.1:0" },
			"--join-listen: nodes that join need a broker"},
		{func(c *controller.Config) { c.CertificateLife = time.Second }, "--certificate-life"},
		{func(c *controller.Config) { c.Unit = "a..b" }, "cannot stand in certificates"},
	} {
		cfg := controller.Config{Unit: "u1", StateDir: t.TempDir(), ListenTLS: "127.0.0.1:0", SubscribeQoS: 1}
		c.change(&cfg)
		if _, err := controller.New(cfg, controller.Deps{NoAPI: true}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// A controller without TLS that others can reach says so, in the log and in the unit's status.
func TestExposureIsTold(t *testing.T) {
	r := NewRig(t)
	if s, err := r.App.Unit().Status(t.Context()); err != nil ||
		strings.Contains(strings.Join(s.Trouble, "\n"), "TLS") {
		t.Errorf("%v %v", s.Trouble, err)
	}
	r.Stop()
	r.Start(func(c *controller.Config) { c.ListenTLS, c.Listen, c.Insecure = "", "0.0.0.0:0", true })
	r.Until("told", func() string {
		s, err := r.App.Unit().Status(t.Context())
		if err != nil || !strings.Contains(strings.Join(s.Trouble, "\n"), "WITHOUT TLS") {
			return strings.Join(s.Trouble, "\n")
		}
		if r.Logs.FilterMessageSnippet("INSECURE").Len() == 0 {
			return "nothing in the log"
		}
		return ""
	})
	if _, err := r.App.Unit().Enroll(controller.As(t.Context(), "ann"), controller.EnrollIn{
		NodeIn: controller.NodeIn{Node: "n1"},
	}); err == nil || !strings.Contains(err.Error(), "--listen-tls") {
		t.Errorf("enrolled without a door: %v", err)
	}
}
