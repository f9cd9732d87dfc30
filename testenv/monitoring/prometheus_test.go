package monitoring

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
)

// patience is how long anything here may take.
const patience = 90 * time.Second

// certified writes a certificate for 127.0.0.1 that vouches for itself, and its key, into dir.
func certified(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "site"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "tandem-ca.pem"), filepath.Join(dir, "site.key")
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
	return cert, key
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startController runs a controller with its API over TLS and returns its address, and a token with the role metrics.
func startController(t *testing.T, dir, cert, key string) (at, token string) {
	t.Helper()
	socket := filepath.Join(dir, "c.sock")
	a, err := controller.New(controller.Config{Unit: "u1", StateDir: filepath.Join(dir, "state"), Socket: socket,
		HTTP: "https://127.0.0.1:0", HTTPCert: cert, HTTPKey: key, Listen: "127.0.0.1:0"}, controller.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}, DisableKeepAlives: true}
	var grant struct{ Token string }
	until(t, "the controller answers", func() error {
		res, err := (&http.Client{Transport: tr}).Post("http://tandem/v1/tokens", "application/json",
			strings.NewReader(`{"name":"prometheus","role":"metrics"}`))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		return json.NewDecoder(res.Body).Decode(&grant)
	})
	if grant.Token == "" {
		t.Fatal("there is no token")
	}
	return strings.TrimPrefix(a.HTTPURL(), "https://"), grant.Token
}

// start starts a program that ends with the test, or when the result is called.
func start(t *testing.T, env []string, path string, args ...string) (stop func(), printed *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(path, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // it is ended by a signal
	}()
	stop = func() {
		_ = cmd.Process.Kill() // it may have ended
		<-done
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("--- %s:\n%s", filepath.Base(path), out.String())
		}
	})
	return stop, &out
}

// until asks again and again, until there is no error.
func until(t *testing.T, what string, ask func() error) {
	t.Helper()
	again, end := time.NewTicker(50*time.Millisecond), time.NewTimer(patience)
	defer again.Stop()
	defer end.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-end.C:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// free is an address of this machine that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// prometheus is one that runs.
type prometheus struct{ url string }

// sample is a value that a query gave.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

// query returns what an expression gives.
func (p prometheus) query(expr string) ([]sample, error) {
	res, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var v struct {
		Error string
		Data  struct{ Result []sample }
	}
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil {
		return nil, err
	}
	if v.Error != "" {
		return nil, fmt.Errorf("%s: %s", expr, v.Error)
	}
	return v.Data.Result, nil
}

// await waits until an expression gives n samples.
func (p prometheus) await(t *testing.T, expr string, n int) (all []sample) {
	t.Helper()
	until(t, expr, func() (err error) {
		if all, err = p.query(expr); err == nil && len(all) != n {
			err = fmt.Errorf("%d samples, and not %d: %v", len(all), n, all)
		}
		return err
	})
	return all
}

// startPrometheus starts one with the shipped configuration and alerts, but for where the programs are and how long it
// takes.
func startPrometheus(t *testing.T, dir, controllerAt, brokerAt string) prometheus {
	t.Helper()
	conf := read(t, filepath.Join(shipped, "prometheus.yaml"))
	for _, change := range [][2]string{{"gateway:8885", controllerAt}, {"broker:8886", brokerAt},
		{"scrape_interval: 15s", "scrape_interval: 500ms\n  scrape_timeout: 500ms\n  evaluation_interval: 500ms"}} {
		if strings.Count(conf, change[0]) != 1 {
			t.Fatalf("the configuration has %q not once", change[0])
		}
		conf = strings.Replace(conf, change[0], change[1], 1)
	}
	write(t, filepath.Join(dir, "prometheus.yaml"), conf)
	rules := regexp.MustCompile(`for: \w+`).ReplaceAllString(read(t, filepath.Join(shipped, "alerts.yaml")), "for: 0s")
	write(t, filepath.Join(dir, "alerts.yaml"), rules)
	promtool(t, dir, "check", "config", "prometheus.yaml")
	at := free(t)
	start(t, nil, program(t, "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	return prometheus{"http://" + at}
}

// TestPrometheus: a Prometheus scrapes a controller and a broker over TLS with a token each, and fires when one of them
// is away.
func TestPrometheus(t *testing.T) {
	program(t, "prometheus")
	dir := t.TempDir()
	cert, key := certified(t, dir)
	controllerAt, token := startController(t, dir, cert, key)
	write(t, filepath.Join(dir, "tandem-controller.token"), token)
	const secret = "a-token-of-the-brokers-own"
	write(t, filepath.Join(dir, "tandem-broker.token"), secret)

	binary := filepath.Join(dir, "tandem-broker")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "tandem.internal/broker/cmd/tandem-broker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	brokerAt := free(t)
	stopBroker, _ := start(t, []string{"TANDEM_METRICS_TOKEN=" + secret}, binary, "--unit", "u1", "--listen",
		free(t), "--metrics-listen", brokerAt, "--tls-cert", cert, "--tls-key", key)

	p := startPrometheus(t, dir, controllerAt, brokerAt)
	p.await(t, `up == 1`, 2)
	p.await(t, `tandem_build_info`, 2)
	p.await(t, `tandem_broker_up{job="tandem-controller"} == 1`, 1)
	p.await(t, `tandem_journal_records > 0 and tandem_refusing == 0`, 1)
	p.await(t, `tandem_broker_connections`, 2)
	p.await(t, `tandem_http_request_seconds_count{route="GET /metrics", code="200"} > 0`, 1)
	p.await(t, `absent(ALERTS{alertname="TandemDown"})`, 1)

	stopBroker()
	down := p.await(t, `ALERTS{alertname="TandemDown", alertstate="firing"}`, 1)
	if m := down[0].Metric; m["job"] != "tandem-broker" || m["instance"] != brokerAt || m["severity"] != "critical" {
		t.Errorf("%v", m)
	}
	lint(t, cert, "https://"+controllerAt, token)
}

// lint has promtool judge a scrape, and sees that the token opens nothing else.
func lint(t *testing.T, cert, base, token string) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(read(t, cert)))
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.TLSClientConfig, tr.DisableKeepAlives = &tls.Config{RootCAs: pool}, true
	get := func(path, token string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := (&http.Client{Transport: tr}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, text
	}
	status, text := get("/metrics", token)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	check := exec.Command(program(t, "promtool"), "check", "metrics")
	check.Stdin = bytes.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for path, want := range map[string]int{"/v1/nodes": 403, "/v1/unit/status": 403} {
		if status, _ := get(path, token); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _ := get("/metrics", token+"x"); status != 401 {
		t.Errorf("with another token: %d", status)
	}
}
