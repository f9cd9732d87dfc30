package api_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/tokens"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// remote is an API on TCP, with TLS by a CA or plain.
type remote struct {
	t     *testing.T
	unit  *apitest.Rig
	keys  *tokens.Store
	by    map[tokens.Role]string
	addr  string
	roots *x509.CertPool // nil: plain
	http  *http.Client
}

func serveTCP(t *testing.T, secure bool, cfg api.Config) *remote {
	t.Helper()
	r := &remote{t: t, unit: apitest.StartSample(t)}
	r.keys, r.by = ownKeys(t, nil)
	var conf *tls.Config
	if secure {
		authority, err := ca.Open(ca.Config{Unit: "u1", Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		s, err := authority.Server([]string{"127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		conf, r.roots = s.Optional(), x509.NewCertPool()
		authority.Trust(r.roots)
	}
	l, err := api.ListenTCP("127.0.0.1:0", conf, false)
	if err != nil {
		t.Fatal(err)
	}
	r.addr, cfg.Tokens = l.Addr().String(), r.keys
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- api.New(r.unit, cfg).Serve(ctx, l) }()
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.roots}}
	r.http = &http.Client{Transport: tr, Timeout: patience}
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		tr.CloseIdleConnections()
	})
	return r
}

// ask makes a request with a token, "" for none; the caller closes the body.
func (r *remote) ask(method, path, token string, change func(*http.Request)) *http.Response {
	r.t.Helper()
	scheme := "http://"
	if r.roots != nil {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, scheme+r.addr+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if change != nil {
		change(req)
	}
	res, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// status makes a request and reads its answer to the end.
func (r *remote) status(method, path, token string, change func(*http.Request)) (int, http.Header) {
	r.t.Helper()
	res := r.ask(method, path, token, change)
	_, err := io.Copy(io.Discard, res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, res.Header
}

// raw sends bytes as they are and returns everything that comes back until the other side closes.
func (r *remote) raw(text string) string {
	r.t.Helper()
	c := r.dial()
	defer func() { _ = c.Close() }() // the other side has, too
	if _, err := io.WriteString(c, text); err != nil {
		return ""
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, c); err != nil && b.Len() == 0 && !errors.Is(err, net.ErrClosed) {
		return "nothing: " + err.Error()
	}
	return b.String()
}

func (r *remote) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	if r.roots == nil {
		return c
	}
	return tls.Client(c, &tls.Config{RootCAs: r.roots, ServerName: "127.0.0.1"})
}

func TestTLSOnly(t *testing.T) {
	r := serveTCP(t, true, api.Config{})
	if got, _ := r.status("GET", "/v1/nodes", r.by[tokens.View], nil); got != 200 {
		t.Errorf("%d", got)
	}
	for name, conf := range map[string]*tls.Config{
		"TLS 1.2":      {RootCAs: r.roots, MaxVersion: tls.VersionTLS12},
		"HTTP/2":       {RootCAs: r.roots, NextProtos: []string{"h2"}},
		"another CA":   {RootCAs: x509.NewCertPool()},
		"another name": {RootCAs: r.roots, ServerName: "elsewhere"},
	} {
		if c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", r.addr, conf); err == nil {
			t.Errorf("%s: connected", name)
			_ = c.Close()
		}
	}
	// Plain HTTP gets no further than a hint, and no token counts.
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
		r.by[tokens.Admin]); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || bytes.Contains(answer, []byte("node-1")) || !bytes.Contains(answer, []byte("400")) {
		t.Errorf("%q %v", answer, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestHeaders(t *testing.T) {
	for _, secure := range []bool{false, true} {
		r := serveTCP(t, secure, api.Config{})
		for _, c := range []struct {
			path, token string
			status      int
		}{
			{"/v1/nodes", r.by[tokens.View], 200}, {"/v1/events", r.by[tokens.View], 200},
			{"/v1/tokens", r.by[tokens.View], 403}, {"/v1/nodes", "", 401},
			{"/v1/nodes", "wrong", 401}, {"/v1/nothing", r.by[tokens.View], 404}, {"/", "", 200},
			{"/app/main.mjs", "", 200}, {"/app/style.css", "", 200}, {"/healthz", "", 200},
		} {
			got, h := r.status("GET", c.path, c.token, nil)
			if got != c.status {
				t.Errorf("%s: %d", c.path, got)
			}
			keep := "no-store"
			if c.path == "/" || strings.HasPrefix(c.path, "/app/") {
				keep = "no-cache" // the page's files are no secret; a browser asks whether they have changed
			}
			for name, want := range map[string]string{"Cache-Control": keep, "X-Content-Type-Options": "nosniff",
				"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"} {
				if h.Get(name) != want {
					t.Errorf("%s: %s is %q", c.path, name, h.Get(name))
				}
			}
			if p := h.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none';") ||
				!strings.Contains(p, "frame-ancestors 'none'") || strings.Contains(p, "unsafe") {
				t.Errorf("%s: %s", c.path, p)
			}
			if sts := h.Get("Strict-Transport-Security"); (sts != "") != secure {
				t.Errorf("%s: with TLS %v, %q", c.path, secure, sts)
			}
			if len(h.Values("Set-Cookie")) > 0 || h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %v", c.path, h)
			}
		}
	}
}

// TestCrossOrigin: no page of another site changes anything, not even with a token.
func TestCrossOrigin(t *testing.T) {
	r := serveTCP(t, true, api.Config{})
	for _, c := range []struct {
		method, header, value string
		status                int
	}{
		{"POST", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "Sec-Fetch-Site", "same-site", 403},
		{"POST", "Sec-Fetch-Site", "anything", 403},
		{"POST", "Origin", "https://evil.example", 403},
		{"POST", "Origin", "null", 403},
		{"POST", "Sec-Fetch-Site", "same-origin", 200},
		{"POST", "Sec-Fetch-Site", "none", 200},
		{"POST", "Origin", "https://" + r.addr, 200},
		{"POST", "X-Nothing", "1", 200},
		{"GET", "Sec-Fetch-Site", "cross-site", 405}, // it would be read only, and no other site can read the answer
	} {
		r.unit.Damage()
		got, _ := r.status(c.method, "/v1/config/restore", r.by[tokens.Admin],
			func(q *http.Request) { q.Header.Set(c.header, c.value) })
		if got != c.status {
			t.Errorf("%s with %s: %s: %d, want %d", c.method, c.header, c.value, got, c.status)
		}
	}
	if got, h := r.status("OPTIONS", "/v1/config/restore", "", func(q *http.Request) {
		q.Header.Set("Origin", "https://evil.example")
		q.Header.Set("Access-Control-Request-Method", "POST")
		q.Header.Set("Access-Control-Request-Headers", "authorization")
	}); got != 401 || h.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("a preflight got %d %v", got, h)
	}
}

// TestSmuggling: what a proxy before us and we might take for different requests is refused, and
// nothing after it on the connection is taken for a request.
func TestSmuggling(t *testing.T) {
	for _, secure := range []bool{false, true} {
		r := serveTCP(t, secure, api.Config{})
		before := newest(t, r.unit)
		head := "Host: x\r\nAuthorization: Bearer " + r.by[tokens.Admin] + "\r\n"
		hidden := "POST /v1/config/restore HTTP/1.1\r\n" + head + "Content-Length: 0\r\n\r\n"
		for name, text := range map[string]string{
			"both lengths": "POST /v1/config/confirm HTTP/1.1\r\n" + head +
				"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
			"both lengths, reversed": "POST /v1/config/confirm HTTP/1.1\r\n" + head +
				"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + hidden,
			"chunks": "POST /v1/config/confirm HTTP/1.1\r\n" + head +
				"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
			"two lengths": "POST /v1/config/confirm HTTP/1.1\r\n" + head +
				"Content-Length: 0\r\nContent-Length: 9\r\n\r\n" + hidden,
			"a list of lengths": "POST /v1/config/confirm HTTP/1.1\r\n" + head + "Content-Length: 0, 9\r\n\r\n" +
				hidden,
			"a signed length": "POST /v1/config/confirm HTTP/1.1\r\n" + head + "Content-Length: +0\r\n\r\n" +
				hidden,
			"an encoding in disguise": "POST /v1/config/confirm HTTP/1.1\r\n" + head +
				"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
			"two encodings": "POST /v1/config/confirm HTTP/1.1\r\n" + head +
				"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
			"a space before a colon": "POST /v1/config/confirm HTTP/1.1\r\n" + head +
				"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
			"a folded header": "POST /v1/config/confirm HTTP/1.1\r\n" + head +
				"Content-Length: 0\r\n chunked: 1\r\n\r\n" + strings.Replace(hidden, "POST", "x", 1),
			"no host":                "POST /v1/config/confirm HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + hidden,
			"two hosts":              "POST /v1/config/confirm HTTP/1.1\r\nHost: a\r\n" + head + "\r\n" + hidden,
			"a bare carriage return": "POST /v1/config/confirm HTTP/1.1\r\n" + head + "X: a\rb\r\n\r\n" + hidden,
			"HTTP/2 in the clear":    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden,
			"another protocol":       "SSH-2.0-x\r\n" + hidden,
		} {
			answer := r.raw(text)
			status, _, _ := strings.Cut(strings.TrimPrefix(answer, "HTTP/1.1 "), " ")
			if answer != "" && (len(status) != 3 || status[0] != '4' && status[0] != '5') {
				t.Errorf("%s (TLS %v): %q", name, secure, answer)
			}
			if n := strings.Count(answer, "HTTP/1.1 "); n > 1 {
				t.Errorf("%s (TLS %v): %d answers: %q", name, secure, n, answer)
			}
		}
		if e := newest(t, r.unit); e.Seq != before.Seq {
			t.Errorf("something was done, by %s (TLS %v)", e.Who, secure)
		}
	}
}

// TestStreamsOfOneToken: who has a token cannot take all places for streams; what ends makes room.
func TestStreamsOfOneToken(t *testing.T) {
	r := serveTCP(t, false, api.Config{MaxStreams: 8}) // two with one token
	ctx, leave := context.WithCancel(t.Context())
	open := func(role tokens.Role) int {
		res := r.ask("GET", "/v1/nodes?watch=1", r.by[role], func(q *http.Request) { *q = *q.WithContext(ctx) })
		t.Cleanup(func() { _ = res.Body.Close() })
		return res.StatusCode
	}
	for i, want := range []int{200, 200, 503, 503} {
		if got := open(tokens.Admin); got != want {
			t.Errorf("stream %d: %d, want %d", i+1, got, want)
		}
	}
	if got := open(tokens.View); got != 200 {
		t.Errorf("somebody else: %d", got)
	}
	leave()
	ctx = t.Context()
	for late := time.Now().Add(patience); open(tokens.Admin) != 200; { // as soon as the server has noticed
		if time.Now().After(late) {
			t.Fatal("the places are not free again")
		}
	}
}
