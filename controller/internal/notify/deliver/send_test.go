package deliver

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/notify"
)

var sentAt = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// send sends a test message to an address once.
func send(t *testing.T, to notify.Receiver) Answer {
	t.Helper()
	s, err := NewSender(to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Send(t.Context(), notify.Test("u1", "0001", sentAt, &to), sentAt)
}

// What arrives is a CloudEvent in structured mode with a signature that its receiver can verify by the published rule.
func TestWhatIsSent(t *testing.T) {
	to := notify.Receiver{Name: "r", Secret: notify.Secret{1, 2, 3}}
	var got *http.Request
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer s.Close()
	to.URL = s.URL + "/hook/secret?token=secret"
	if a := send(t, to); a.Err != "" || a.Status != 202 {
		t.Fatalf("%+v", a)
	}
	h := got.Header
	if got.Method != "POST" || got.RequestURI != "/hook/secret?token=secret" ||
		h.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" || h.Get("webhook-id") != "test-0001" ||
		h.Get("webhook-timestamp") != "1795168800" || h.Get("User-Agent") != "tandem-controller" ||
		h.Get("Accept-Encoding") != "" {
		t.Errorf("%s %s %v", got.Method, got.RequestURI, h)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(to.Secret.Text(), "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("test-0001.1795168800." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); h.Get("webhook-signature") != want {
		t.Errorf("signature %q, want %q", h.Get("webhook-signature"), want)
	}
	var e map[string]any
	if err := json.Unmarshal(body, &e); err != nil || e["specversion"] != "1.0" || e["id"] != "test-0001" ||
		e["source"] != "/tandem/units/u1" || e["type"] != "tandem.notice.test" ||
		e["datacontenttype"] != "application/json" {
		t.Errorf("%s %v", body, err)
	}
}

// What a receiver answers is bounded, and nothing of it or of its address can do harm.
func TestAnswersOfReceivers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	defer elsewhere.Close()
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   Answer
	}{
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, Answer{Status: 204}},
		{"refused", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no \x1b[31mway\nat all", 400) },
			Answer{Status: 400, Text: "no ·[31mway", Err: "it answered 400 Bad Request: no ·[31mway"}},
		{"later", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(503)
		}, Answer{Status: 503, After: 2 * time.Minute, Err: "it answered 503 Service Unavailable"}},
		{"later, by a date", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", sentAt.Add(time.Minute).Format(http.TimeFormat))
			w.WriteHeader(429)
		}, Answer{Status: 429, After: time.Minute, Err: "it answered 429 Too Many Requests"}},
		{"later, by a date that has passed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", sentAt.Add(-time.Minute).Format(http.TimeFormat))
			w.WriteHeader(429)
		}, Answer{Status: 429, Err: "it answered 429 Too Many Requests"}},
		{"later, in ten thousand million years", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "9223372036854775807")
			w.WriteHeader(429)
		}, Answer{Status: 429, Err: "it answered 429 Too Many Requests"}},
		{"gone for good", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) },
			Answer{Status: 410, Err: "it answered 410 Gone"}},
		{"what cannot be seen", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "a\u200bb\u202ec\xffd", 400)
		},
			Answer{Status: 400, Text: "a·b·c·d", Err: "it answered 400 Bad Request: a·b·c·d"}},
		{"cut off in the middle", half(500), Answer{Status: 500, Text: "half", Err: "unexpected EOF"}},
		{"taken, and cut off in the middle", half(200), Answer{Status: 200, Text: "half"}},
		{"later, nonsense", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999999999999999")
			w.WriteHeader(429)
		}, Answer{Status: 429, Err: "it answered 429 Too Many Requests"}},
		{"moved", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
			Answer{Status: 307, Err: "it answered 307 Temporary Redirect, and redirects are not followed"}},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for range 100_000 {
				if _, err := w.Write([]byte(strings.Repeat("x", 1024))); err != nil {
					return
				}
			}
			t.Error("all of an answer of 100 MB was read")
		}, Answer{Status: 200, Text: strings.Repeat("x", shownAnswer)}},
		{"a large header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, Answer{Err: "net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded " +
			"16384 bytes; aborted"}},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, Answer{Err: "EOF"}},
	} {
		s := httptest.NewServer(c.answer)
		got := send(t, notify.Receiver{URL: s.URL + "/secret"})
		s.Close()
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// half answers with a status and half of what it announces.
func half(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "half") // whoever reads it complains
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// TestConnectionsAreGivenBack: long answers take no connection for ever, and who is sent to no more has none.
func TestConnectionsAreGivenBack(t *testing.T) {
	states := make(chan http.ConnState, 1000)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20)) // whoever reads it has enough of it
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	s.Start()
	defer s.Close()
	to := notify.Receiver{URL: s.URL + "/long"}
	long, err := NewSender(to)
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	long.(*sender).client.Timeout = 0 // which would end what nobody closes
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 { // two at once is all there are
		if a := long.Send(ctx, notify.Test("u1", "1", sentAt, &to), sentAt); a.Err != "" {
			t.Fatalf("%+v", a)
		}
	}
	closes := func(n int) {
		t.Helper()
		for n > 0 {
			select {
			case state := <-states:
				if state == http.StateClosed {
					n--
				}
			case <-time.After(30 * time.Second): // idle ones end by themselves in a minute
				t.Fatalf("%d connections stay open", n)
			}
		}
	}
	closes(3) // of the long answers
	if a := send(t, notify.Receiver{URL: s.URL}); a.Err != "" {
		t.Fatalf("%+v", a)
	}
	closes(1)
}

// No error shows more of the address than its host.
func TestErrorsDoNotShowTheAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"http://" + closed + "/secret", "https://" + closed + "/secret?secret",
		"http://localhost:1/secret", "http://169.254.169.254/secret", "https://[fe80::1]/secret",
		"https://0.0.0.0/secret", "https://224.0.0.1/secret", "http://192.0.2.1/secret"} {
		a := send(t, notify.Receiver{URL: url})
		if a.Err == "" || strings.Contains(a.Err, "secret") {
			t.Errorf("%s: %+v", url, a)
		}
		if strings.Contains(url, closed) && a.Err != "nobody listens at "+closed {
			t.Errorf("%s: %+v", url, a)
		}
		host := url[:strings.LastIndex(url, "/")]
		if !strings.Contains(host, closed) && !strings.Contains(host, "localhost") &&
			!strings.Contains(a.Err, "where no receiver is") && !strings.Contains(a.Err, "is another machine") {
			t.Errorf("%s was tried: %+v", url, a)
		}
	}
}

// By HTTPS a receiver is believed if the system's authorities vouch for it, or if its own CA does.
func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	s.Config.ErrorLog = nil
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	if a := send(t, notify.Receiver{URL: s.URL, CA: ca}); a.Err != "" {
		t.Errorf("with its CA: %+v", a)
	}
	if a := send(t, notify.Receiver{URL: s.URL}); !strings.Contains(a.Err, "certificate") {
		t.Errorf("without: %+v", a)
	}
	if a := send(t, notify.Receiver{URL: s.URL, CA: otherCA(t)}); !strings.Contains(a.Err, "certificate") {
		t.Errorf("with another CA: %+v", a)
	}
	if _, err := NewSender(notify.Receiver{URL: s.URL, CA: "none"}); err == nil {
		t.Error("a CA that is none was accepted")
	}
}

// TestOldTLS: what was broken long ago is not spoken.
func TestOldTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	if a := send(t, notify.Receiver{URL: s.URL, CA: ca}); !strings.Contains(a.Err, "version") {
		t.Errorf("%+v", a)
	}
}

// A receiver that never answers is given up.
func TestNoAnswer(t *testing.T) {
	stop := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	defer s.Close()
	defer close(stop)
	to := notify.Receiver{URL: s.URL + "/secret"}
	made, err := NewSender(to)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	own := made.(*sender)
	if own.client.Timeout != sendTimeout {
		t.Errorf("given up after %s", own.client.Timeout)
	}
	if own.client.Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy of the environment is told")
	}
	own.client.Timeout = 50 * time.Millisecond
	if a := made.Send(t.Context(), notify.Test("u1", "1", sentAt, &to), sentAt); a.Err != "no answer in 10s" {
		t.Errorf("%+v", a)
	}
}

// otherCA is the certificate of a CA that vouches for nobody.
func otherCA(t *testing.T) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	c := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
