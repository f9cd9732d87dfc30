package app

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// TestHTTPDoor: which addresses are served, with TLS or without, and what is told about it.
func TestHTTPDoor(t *testing.T) {
	for _, c := range []struct {
		http     string
		cert     bool
		insecure bool
		at       string
		secure   bool
		told     bool   // in the log, unit status and the dashboard
		want     string // in the error; "": none
	}{
		{"", false, false, "", false, false, ""},
		{"127.0.0.1:8885", false, false, "127.0.0.1:8885", false, false, ""},
		{"localhost:8885", false, false, "localhost:8885", false, false, ""},
		{"[::1]:8885", false, true, "[::1]:8885", false, false, ""},
		{"127.0.0.1:8885", true, false, "127.0.0.1:8885", true, false, ""},
		{"https://127.0.0.1:8885", false, false, "127.0.0.1:8885", true, false, ""},
		{"https://127.0.0.1:8885/", false, true, "127.0.0.1:8885", true, false, ""},
		{"http://127.0.0.1:8885", false, false, "127.0.0.1:8885", false, false, ""},
		{":8885", false, false, ":8885", true, false, ""},
		{"0.0.0.0:8885", true, false, "0.0.0.0:8885", true, false, ""},
		{"gateway:8885", false, false, "gateway:8885", true, false, ""},
		{"https://:8885", false, true, ":8885", true, false, ""},
		{":8885", true, true, ":8885", true, false, ""},
		{":8885", false, true, ":8885", false, true, ""},
		{"http://10.0.0.1:8885", false, true, "10.0.0.1:8885", false, true, ""},
		{"http://:8885", false, false, "", false, false, "--insecure-listen"},
		{"http://127.0.0.1:8885", true, false, "", false, false, "without TLS"},
		{"8885", false, false, "", false, false, "missing port"},
		{"https://", false, false, "", false, false, "names no address"},
		{"ftp://:8885", false, false, "", false, false, "neither"},
		{"https://gateway", false, false, "", false, false, "missing port"},
		{"https://:8885/v1", false, false, "", false, false, "port"},
	} {
		cfg := Config{Unit: "u1", StateDir: "x", ListenTLS: "127.0.0.1:8883", HTTP: c.http, Insecure: c.insecure,
			SubscribeQoS: 1}
		if c.cert {
			cfg.HTTPCert, cfg.HTTPKey = "cert.pem", "key.pem"
		}
		at, secure, err := cfg.httpDoor()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if (cfg.check() == nil) != (err == nil) {
			t.Errorf("%+v: check says %v", c, cfg.check())
		}
		if err != nil {
			continue
		}
		if at != c.at || secure != c.secure || cfg.httpOfCA() != (secure && !c.cert) {
			t.Errorf("%+v: %s, TLS %v, of the CA %v", c, at, secure, cfg.httpOfCA())
		}
		if told := strings.Contains(strings.Join(cfg.exposed(), "\n"),
			"HTTP API serves "+at+" WITHOUT TLS"); told != c.told {
			t.Errorf("%+v: told %v", c, cfg.exposed())
		}
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	good := Config{Unit: "u1", StateDir: "x", SubscribeQoS: 1}
	for want, change := range map[string]func(*Config){
		"":                           func(*Config) {},
		"--http-cert and --http-key": func(c *Config) { c.HTTP, c.HTTPCert = ":1", "x" },
		"--http-key":                 func(c *Config) { c.HTTP, c.HTTPKey = ":1", "x" },
		"there is no --http":         func(c *Config) { c.HTTPCert, c.HTTPKey = "x", "y" },
		"--node-report-rate":         func(c *Config) { c.NodeReportRate = -1 },
		"--node-report-burst":        func(c *Config) { c.NodeReportBurst = 0.5 },
		"--node-event-rate":          func(c *Config) { c.NodeEventRate = 0.0001 },
		"--node-event-burst":         func(c *Config) { c.NodeEventBurst = 1 },
		"--keep-records: 0 or more":  func(c *Config) { c.KeepRecords = -1 },
		"--disk-low: at most":        func(c *Config) { c.DiskLow = 1 << 63 },
		`--keep: "logs" is no kind`:  func(c *Config) { c.Keep = map[string]string{"logs": "1d"} },
		`--keep: audit: "1y" is no`:  func(c *Config) { c.Keep = map[string]string{"audit": "1y"} },
		"--check-timeout: from 0":    func(c *Config) { c.CheckTimeout = -5 * time.Second },
		"--check-timeout: ":          func(c *Config) { c.CheckTimeout = 2 * time.Hour },
		"--report-grace":             func(c *Config) { c.ReportGrace = -1 },
		"--report-jitter":            func(c *Config) { c.ReportJitter = -1 },
		`--advertise: "*"`:           func(c *Config) { c.Advertise = []string{"gateway", "fe80::1", "*"} },
		`--advertise: "gateway:88"`:  func(c *Config) { c.Advertise = []string{"gateway:88"} },
		`--advertise: ""`:            func(c *Config) { c.Advertise = []string{""} },
		"--listen-tls":               func(c *Config) { c.ListenTLS = ":65536" },
		"--join-listen":              func(c *Config) { c.JoinListen = "8884" },
		"--listen: ":                 func(c *Config) { c.Listen, c.Insecure = "127.0.0.1:-1", true },
		"--broker: ":                 func(c *Config) { c.Broker = "tls://10.0.0.5:70000" },
		"--broker: the broker URL":   func(c *Config) { c.Broker = "tcp://u:hunter2@h" },
		"--backup-to: it has a secret": func(c *Config) {
			c.BackupTo = []string{"# hunter2\nage-secret-key-1hunter2"}
		},
		"--config-copy": func(c *Config) { c.ConfigFile = os.TempDir() },
	} {
		cfg := good
		change(&cfg)
		err := cfg.check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a password is told: %v", err)
		}
		if _, usage := errors.AsType[*UsageError](err); err != nil && !usage {
			t.Errorf("%q is no mistake of usage: %T", want, err)
		}
	}
}

// TestHTTPOverTLS is a whole controller: a token is made by the socket, used over TLS by its printed
// line alone, named in the journal, and expired on a gateway that wakes in 1970.
func TestHTTPOverTLS(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Unit: "u1", StateDir: filepath.Join(dir, "state"), Listen: "127.0.0.1:0",
		Socket: filepath.Join(dir, "s"), HTTP: "https://127.0.0.1:0", SubscribeQoS: 1}
	now := time.Now()
	run := func(clock func() time.Time, during func(local *client.Client, url string)) {
		t.Helper()
		a, err := New(cfg, Deps{Now: clock, Tune: func(c *distribute.Config) { c.Beacon = time.Hour }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		local, err := client.New(client.Options{Socket: cfg.Socket})
		if err != nil {
			t.Fatal(err)
		}
		during(local, a.HTTPURL())
		local.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	over := func(url string, g view.Grant) error {
		t.Helper()
		trust, err := client.ParsePin(g.CA)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(client.Options{URL: url, Token: g.Secret, Trust: trust})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		in := op.Submit{Document: []byte(`{"formatVersion":"7","version":"1.0.0","nodes":[]}`)}
		in.DryRun = true
		_, err = client.Call(t.Context(), c, op.VerbsOf(op.Subject{Name: "config"}).Apply, in)
		return err
	}
	var short, long view.Grant
	run(func() time.Time { return now }, func(local *client.Client, url string) {
		create := func(in op.NewToken) view.Grant {
			g, err := client.Call(t.Context(), local, op.CreateToken, in)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		short = create(op.NewToken{Name: "short", Role: "operate", TTL: "PT1H"})
		long = create(op.NewToken{Name: "long", Role: "operate"})
		if short.URL != url || !strings.HasPrefix(url, "https://127.0.0.1:") {
			t.Errorf("%s, not %s", short.URL, url)
		}
		for _, g := range []view.Grant{short, long} {
			if err := over(g.URL, g); err != nil {
				t.Error(err)
			}
		}
		s, err := client.Call(t.Context(), local, op.UnitStatus, op.UnitStatusIn{})
		if err != nil || strings.Contains(strings.Join(s.Trouble, "\n"), "TLS") {
			t.Errorf("%v %v", s.Trouble, err)
		}
	})
	now = now.Add(2 * time.Hour)
	run(func() time.Time { return now }, func(_ *client.Client, url string) {
		if err := over(url, short); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("two hours later: %v", err)
		}
	})
	cfg.HTTP, cfg.Insecure = "https://:0", true // still TLS, though something else may be open
	run(func() time.Time { return time.Unix(0, 0) }, func(local *client.Client, url string) {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		url = "https://127.0.0.1:" + port
		if err := over(url, short); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("in 1970: %v", err)
		}
		if err := over(url, long); err != nil {
			t.Errorf("in 1970, without an end: %v", err)
		}
	})
	cfg.HTTP = "0.0.0.0:0"
	run(nil, func(local *client.Client, url string) {
		s, err := client.Call(t.Context(), local, op.UnitStatus, op.UnitStatusIn{})
		if err != nil || !strings.Contains(strings.Join(s.Trouble, "\n"), "HTTP API serves 0.0.0.0:0 WITHOUT TLS") ||
			!strings.HasPrefix(url, "http://") {
			t.Errorf("%s: %v %v", url, s.Trouble, err)
		}
	})
}
