package api_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/view"
)

// csr is a certificate request as a JSON string.
func csr(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// served is an API on a real unix socket.
type served struct {
	t      *testing.T
	unit   *apitest.Rig
	path   string
	client *http.Client
	stop   func() error // stops serving and returns what Serve did
}

func serve(t *testing.T, cfg api.Config) *served {
	t.Helper()
	u := apitest.StartSample(t)
	return serveCore(t, u, u, cfg)
}

// serveCore serves a core that is, or stands before, a rig.
func serveCore(t *testing.T, u *apitest.Rig, core api.Core, cfg api.Config) *served {
	t.Helper()
	s := &served{t: t, unit: u, path: filepath.Join(t.TempDir(), "c.sock")}
	l, err := api.ListenUnix(s.path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	a := api.New(core, cfg)
	go func() { result <- a.Serve(ctx, l) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.path)
	}}
	s.client = &http.Client{Transport: tr}
	s.stop = sync.OnceValue(func() error {
		cancel()
		err := <-result
		tr.CloseIdleConnections()
		return err
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *served) get(path string) *http.Response {
	s.t.Helper()
	res, err := s.client.Get("http://tandem" + path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := res.Body.Close(); err != nil {
			s.t.Error(err)
		}
	})
	if res.StatusCode != 200 {
		body, err := io.ReadAll(res.Body)
		s.t.Fatalf("%s: %s %s %v", path, res.Status, body, err)
	}
	return res
}

// next reads the next line of a stream that is not blank.
func next[T any](t *testing.T, r *bufio.Reader) (v T) {
	t.Helper()
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			t.Fatalf("stream ended: %v", err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &v, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		return v
	}
}

// newest is the newest entry of the journal, of these types if there are some.
func newest(t *testing.T, u *apitest.Rig, types ...string) view.Entry {
	t.Helper()
	all, err := u.Entries(t.Context(), view.EntryFilter{Reverse: true, Limit: 1, Types: types})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0]
}

// remark adds an entry to the journal.
func remark(t *testing.T, u *apitest.Rig) {
	t.Helper()
	if err := u.Remark(t.Context(), view.Remark{Text: "nothing"}); err != nil {
		t.Fatal(err)
	}
}
