package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tandem.internal/broker/server"
)

const secret = "a-token-of-the-brokers-own"

func TestWhoMayScrape(t *testing.T) {
	h := newScraped(secret, func() server.Stats { return server.Stats{Clients: 3} }, zap.NewNop())
	ask := func(method, path, authorization, from string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.RemoteAddr = from + ":1000"
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := ask("GET", "/metrics", "Bearer "+secret, "192.0.2.1"); w.Code != 200 ||
		!strings.Contains(w.Body.String(), "\ntandem_broker_clients 3\n") ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, c := range []struct {
		method, path, authorization string
		want                        int
	}{
		{"GET", "/metrics", "", 401}, {"GET", "/metrics", "Bearer " + secret + "x", 401},
		{"GET", "/metrics", "Bearer ", 401}, {"GET", "/metrics", "Basic " + secret, 401},
		{"GET", "/", "", 401}, {"GET", "/", "Bearer " + secret, 404}, {"POST", "/metrics", "bearer " + secret, 405},
	} {
		if w := ask(c.method, c.path, c.authorization, "192.0.2.2"); w.Code != c.want ||
			strings.Contains(w.Body.String(), "tandem_broker_clients") {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
	many := 0
	for range 100 {
		if ask("GET", "/metrics", "Bearer guess", "192.0.2.3").Code == 429 {
			many++
		}
	}
	if many == 0 {
		t.Error("one may guess without end")
	}
	if w := ask("GET", "/metrics", "Bearer "+secret, "192.0.2.3"); w.Code != 200 {
		t.Errorf("the right token beside guesses: %d", w.Code)
	}
}

func TestMetricsSettings(t *testing.T) {
	for _, c := range []struct {
		change func(*config)
		want   string // of the error; "": none
	}{
		{func(c *config) {}, ""},
		{func(c *config) { c.MetricsListen = ":8886" }, "--metrics-listen"},
		{func(c *config) { c.MetricsListen, c.Insecure = ":8886", true }, ""},
		{func(c *config) { c.MetricsListen, c.TLSCert, c.TLSKey = ":8886", "c", "k" }, ""},
		{func(c *config) { c.MetricsListen, c.TLSCert = ":8886", "c" }, "--tls-key"},
		{func(c *config) { c.MetricsListen = "" }, "--metrics-token"},
		{func(c *config) { c.MetricsToken = "short" }, "--metrics-token"},
		{func(c *config) { c.MetricsToken = "" }, "--metrics-token"},
		{func(c *config) { c.MetricsListen, c.MetricsToken = "", "" }, ""},
		{func(c *config) { c.MetricsListen, c.MetricsToken, c.TLSCert = "", "", "c" }, "--tls-cert"},
	} {
		cfg := config{Unit: "u1", Listen: []string{"127.0.0.1:1883"}, MaxClients: 1, MetricsListen: "127.0.0.1:8886",
			MetricsToken: secret}
		c.change(&cfg)
		err := cfg.check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", cfg, err, c.want)
		}
	}
}

// TestMetricsEndWithTheBroker: the listener answers while the broker serves, and is gone with it.
func TestMetricsEndWithTheBroker(t *testing.T) {
	at := make(chan string, 1)
	log := zap.New(tells{zapcore.NewNopCore(), at})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	cfg := &config{Unit: "u1", Listen: []string{"127.0.0.1:0"}, MaxClients: 10, MetricsListen: "127.0.0.1:0",
		MetricsToken: secret}
	go func() { ended <- serve(ctx, cfg, log) }()
	var addr string
	select {
	case addr = <-at:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(10 * time.Second):
		t.Fatal("it does not serve")
	}
	tr := &http.Transport{DisableKeepAlives: true}
	get := func() (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		res, err := (&http.Client{Transport: tr}).Do(r)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	if status, err := get(); status != 200 || err != nil {
		t.Error(status, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if status, err := get(); err == nil {
		t.Error(status)
	}
}

// tells is a log that says where metrics are served.
type tells struct {
	zapcore.Core
	at chan string
}

func (l tells) Enabled(zapcore.Level) bool { return true }

func (l tells) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.AddCore(e, l)
}

func (l tells) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Message == "serving metrics" {
		enc := zapcore.NewMapObjectEncoder()
		for _, f := range fields {
			f.AddTo(enc)
		}
		l.at <- enc.Fields["address"].(string)
	}
	return nil
}
