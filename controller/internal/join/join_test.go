package join

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

func TestJoinAndRenew(t *testing.T) {
	r := newRig(t, nil)
	tok, key := r.token("n1"), newKey(t)
	cert, a := r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, tok, csr(t, key, "n1")))
	if a.Unit != "u1" || a.Node != "n1" || !bytes.Equal(a.CA, r.ca.Certificate()) || len(a.UnitKeys) != 1 ||
		a.Brokers[0].URL != "tls://127.0.0.1:8883" {
		t.Errorf("%+v", a)
	}
	if err := r.core.state.Counts("node/n1", cert.Leaf.SerialNumber.Text(16)); err != nil {
		t.Error(err)
	}
	if got := cert.Leaf.NotAfter.Sub(r.core.now); got != ca.NodeLife {
		t.Errorf("valid for %v", got)
	}
	// The answer was lost: the same token and key again.
	cert, _ = r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, tok, csr(t, key, "")))

	r.core.pass(60 * 24 * time.Hour)
	next := newKey(t)
	renewed, _ := r.admitted(r.client(cert), jointoken.RenewPath, next, renewBody(t, csr(t, next, "n1")))
	for _, c := range []tls.Certificate{cert, renewed} {
		if err := r.core.state.Counts("node/n1", c.Leaf.SerialNumber.Text(16)); err != nil {
			t.Error(err)
		}
	}
	third := newKey(t)
	r.core.pass(time.Hour)
	r.admitted(r.client(renewed), jointoken.RenewPath, third, renewBody(t, csr(t, third, "n1")))
}

func TestRefusals(t *testing.T) {
	r := newRig(t, nil)
	good := newKey(t)
	goodCSR := csr(t, good, "n1")
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	open := r.token("n1")
	guess := open
	guess.Secret[0] ^= 1
	plain := r.client()
	type attempt struct {
		name   string
		path   string
		body   []byte
		status int
		code   wire.Code
	}
	attempts := []attempt{
		{"guessed", jointoken.JoinPath, joinBody(t, guess, goodCSR), 403, wire.CodeNotAllowed},
		{"another node's request", jointoken.JoinPath, joinBody(t, open, csr(t, good, "n2")), 403,
			wire.CodeWrongTarget},
		{"weak key", jointoken.JoinPath, joinBody(t, open, csr(t, weak, "n1")), 400, wire.CodeBadValue},
		{"altered request", jointoken.JoinPath,
			joinBody(t, open, append(goodCSR[:len(goodCSR)-1:len(goodCSR)-1], goodCSR[len(goodCSR)-1]^1)), 400,
			wire.CodeBadSignature},
		{"no request", jointoken.JoinPath, joinBody(t, open, []byte("hello")), 400, wire.CodeMalformed},
		{"unknown field", jointoken.JoinPath, []byte(`{"node":"n1","secret":"` + strings.Repeat("0", 32) +
			`","csr":"AA==","admin":true}`), 400, wire.CodeUnknownField},
		{"no JSON", jointoken.JoinPath, []byte("<html>"), 400, wire.CodeMalformed},
		{"huge", jointoken.JoinPath, bytes.Repeat([]byte(" "), 1<<20), 413, wire.CodeTooLarge},
		{"renewing as nobody", jointoken.RenewPath, renewBody(t, goodCSR), 403, wire.CodeNotAllowed},
	}
	other := open
	other.Node = "n2"
	attempts = append(attempts, attempt{"for another node", jointoken.JoinPath, joinBody(t, other, csr(t, good, "n2")),
		403, wire.CodeWrongTarget})
	for _, a := range attempts {
		r.core.pass(time.Minute) // the limits have a test of their own
		answer := r.refused(a.name, plain, a.path, a.body, a.status, a.code)
		if strings.Contains(answer, hex.EncodeToString(open.Secret[:])) {
			t.Errorf("%s: the answer repeats the secret", a.name)
		}
	}
	if len(r.core.state.Lookup("node/n1").Certificates) != 0 {
		t.Fatal("something was issued")
	}

	r.core.pass(time.Minute)
	cert, _ := r.admitted(plain, jointoken.JoinPath, good, joinBody(t, open, goodCSR))
	thief := newKey(t)
	r.refused("used", plain, jointoken.JoinPath, joinBody(t, open, csr(t, thief, "n1")), 409, wire.CodeWrongState)
	r.refused("renewed at once", r.client(cert), jointoken.RenewPath, renewBody(t, csr(t, thief, "n1")), 503,
		wire.CodeUnavailable)
	r.core.pass(time.Hour)
	r.refused("renewed for another node", r.client(cert), jointoken.RenewPath, renewBody(t, csr(t, thief, "n2")), 403,
		wire.CodeWrongTarget)
	late := r.token("n1")
	r.core.pass(25 * time.Hour)
	r.refused("expired", plain, jointoken.JoinPath, joinBody(t, late, csr(t, thief, "n1")), 410, wire.CodeExpired)
	if err := r.core.Enrolment(t.Context(), enrol.Revoke{Subject: "node/n1"}); err != nil {
		t.Fatal(err)
	}
	r.core.pass(time.Hour)
	r.refused("revoked", r.client(cert), jointoken.RenewPath, renewBody(t, csr(t, thief, "n1")), 403,
		wire.CodeNotAllowed)
	r.core.pass(time.Hour)
	withdrawn := r.token("n1")
	if err := r.core.Enrolment(t.Context(), enrol.Revoke{Subject: "node/n1"}); err != nil {
		t.Fatal(err)
	}
	r.refused("withdrawn", plain, jointoken.JoinPath, joinBody(t, withdrawn, csr(t, thief, "n1")), 403,
		wire.CodeNotAllowed)

	// After its time a certificate does not even get through TLS.
	r.core.pass(100 * 24 * time.Hour)
	if status, _, answer, err := r.post(r.client(cert), jointoken.RenewPath, "application/json",
		renewBody(t, csr(t, thief, "n1"))); err == nil {
		t.Errorf("expired certificate: %d %s", status, answer)
	}
	for _, e := range r.logs.All() {
		for _, tok := range []jointoken.Token{open, late, withdrawn} {
			if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line,
				hex.EncodeToString(tok.Secret[:])) || strings.Contains(line, tok.Text()) {
				t.Errorf("a secret is in the log: %s", line)
			}
		}
	}
}

// An answer is given only for what is durable.
func TestNothingIsIssuedWithoutTheCore(t *testing.T) {
	r := newRig(t, nil)
	tok, key := r.token("n1"), newKey(t)
	body := joinBody(t, tok, csr(t, key, "n1"))
	r.core.fail = wire.New(wire.CodeStorage, "", "disk full")
	r.refused("disk full", r.client(), jointoken.JoinPath, body, 503, wire.CodeStorage)
	r.core.fail = errors.New("some internals: " + hex.EncodeToString(tok.Secret[:]))
	if answer := r.refused("broken", r.client(), jointoken.JoinPath, body, 500, wire.CodeInternal); strings.Contains(
		answer, "internals") {
		t.Errorf("internals are told: %s", answer)
	}
	r.core.fail = nil
	r.admitted(r.client(), jointoken.JoinPath, key, body)
}

func TestWhatIsNoRequest(t *testing.T) {
	r := newRig(t, nil)
	c := r.client()
	for _, q := range []struct {
		method, path, contentType string
		want                      int
	}{
		{"GET", "/join", "", 405}, {"PUT", "/join", "application/json", 405}, {"POST", "/", "application/json", 404},
		{"POST", "/join/", "application/json", 404}, {"POST", "//join", "application/json", 404},
		{"POST", "/JOIN", "application/json", 404},
		{"POST", "/join/../renew", "application/json", 404}, {"GET", "/v1/nodes", "", 404},
		{"POST", "/join", "text/plain", 415}, {"POST", "/join", "application/x-www-form-urlencoded", 415},
		{"POST", "/join", "", 415},
	} {
		req, err := http.NewRequest(q.method, "https://"+r.addr+q.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", q.contentType)
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != q.want && !(q.want == 404 && res.StatusCode/100 == 3) {
			t.Errorf("%s %s as %q: %d, want %d", q.method, q.path, q.contentType, res.StatusCode, q.want)
		}
		r.core.pass(time.Minute)
	}
	if res, err := http.Post("http://"+r.addr+"/join", "application/json", strings.NewReader("{}")); err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP: %d", res.StatusCode)
		}
	}
	if len(r.core.seen) != 0 {
		t.Error("something came through")
	}
	old := r.client()
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
	if _, _, _, err := r.post(old, "/join", "application/json", nil); err == nil {
		t.Error("TLS 1.2 was spoken")
	}
}

// The keys are told to whoever shows a certificate that counts, and to nobody else; a join brings what is
// old.
func TestKeys(t *testing.T) {
	r := newRig(t, nil)
	key := newKey(t)
	cert, a := r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, r.token("n1"), csr(t, key, "n1")))
	if a.KeysRev != 7 || len(a.UnitKeys) != 1 || a.Floor.Rev != 9 ||
		a.Floor.Kinds["config"] != (wire.Stamp{Epoch: 3, Rev: 2}) {
		t.Errorf("%+v", a)
	}
	ask := func(body string, certs ...tls.Certificate) (int, []byte) {
		t.Helper()
		status, _, answer, err := r.post(r.client(certs...), jointoken.KeysPath, "application/json", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return status, answer
	}
	status, answer := ask("{}", cert)
	if l, err := jointoken.DecodeKeys(answer); status != http.StatusOK || err != nil || l.Unit != "u1" ||
		l.KeysRev != 7 || len(l.UnitKeys) != 1 {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := ask("{}"); status != http.StatusForbidden {
		t.Errorf("without a certificate: %d %s", status, answer)
	}
	if status, answer := ask(`{"node":"n2"}`, cert); status != http.StatusBadRequest {
		t.Errorf("with a body: %d %s", status, answer)
	}
	if err := r.core.Enrolment(t.Context(), enrol.Revoke{Subject: "node/n1"}); err != nil {
		t.Fatal(err)
	}
	if status, answer := ask("{}", cert); status != http.StatusForbidden ||
		!strings.Contains(string(answer), "revoked") {
		t.Errorf("after it was revoked: %d %s", status, answer)
	}
}
