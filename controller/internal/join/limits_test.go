package join

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

func TestGuessingIsSlow(t *testing.T) {
	r := newRig(t, nil)
	tok, key := r.token("n1"), newKey(t)
	guess := tok
	guess.Secret[3] ^= 0xff
	body := joinBody(t, guess, csr(t, key, "n1"))
	c := r.client()
	limited := 0
	for range 30 {
		status, h, _, err := r.post(c, jointoken.JoinPath, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		if status == http.StatusTooManyRequests {
			if limited++; h.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if limited != 20 {
		t.Errorf("%d of 30 guesses were not even looked at, want 20", limited)
	}
	// Even who has the right one has to wait then, and is let in afterwards.
	r.refused("the right one", c, jointoken.JoinPath, joinBody(t, tok, csr(t, key, "n1")), 429, wire.CodeUnavailable)
	r.core.pass(time.Minute)
	r.admitted(c, jointoken.JoinPath, key, joinBody(t, tok, csr(t, key, "n1")))
}

// Who guesses tokens, from one address or from many, delays no renewal from the same address. What is asked with a
// certificate that does not count is a guess like others.
func TestRenewalHasABudgetOfItsOwn(t *testing.T) {
	r := newRig(t, nil)
	tok, key := r.token("n1"), newKey(t)
	cert, _ := r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, tok, csr(t, key, "n1")))
	r.core.pass(time.Hour) // nothing is renewed at once
	guess := r.token("n2")
	guess.Secret[3] ^= 0xff
	body, guesser := joinBody(t, guess, csr(t, newKey(t), "n2")), r.client()
	for range 20 {
		if _, _, _, err := r.post(guesser, jointoken.JoinPath, "application/json", body); err != nil {
			t.Fatal(err)
		}
	}
	r.refused("a guess", guesser, jointoken.JoinPath, body, 429, wire.CodeUnavailable)
	next := newKey(t)
	renewed, _ := r.admitted(r.client(cert), jointoken.RenewPath, next, renewBody(t, csr(t, next, "n1")))
	for range 10 { // and is bounded itself
		r.refused("for another node", r.client(renewed), jointoken.RenewPath, renewBody(t, csr(t, next, "n2")), 403,
			wire.CodeWrongTarget)
	}
	r.refused("once more", r.client(renewed), jointoken.RenewPath, renewBody(t, csr(t, next, "n2")), 429,
		wire.CodeUnavailable)
}

func TestSlowClientsAreCut(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Timeout = 300 * time.Millisecond })
	ended := func(what string, nc net.Conn) {
		t.Helper()
		if err := nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, nc); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Errorf("%s: still there after %v", what, patience)
		}
	}
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ended("no handshake", nc)

	conf := r.client().Transport.(*http.Transport).TLSClientConfig
	for what, text := range map[string]string{
		"half a header": "POST /join HTTP/1.1\r\nHost: x\r\n",
		"half a body": "POST /join HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
			"100\r\n\r\n{",
	} {
		for giveUp := time.Now().Add(patience); ; { // a busy machine may be too slow itself, now and then
			tc, err := tls.Dial("tcp", r.addr, conf)
			if err == nil {
				defer tc.Close()
				if _, err = io.WriteString(tc, text); err == nil {
					ended(what, tc)
					break
				}
			}
			if time.Now().After(giveUp) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
}

// patience bounds waits that only a failing test waits out.
const patience = time.Minute

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxConns, c.MaxPerAddress = 3, 2 })
	var held []net.Conn
	for range 2 {
		nc, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		held = append(held, nc)
	}
	extra, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	if err := extra.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := extra.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the third connection is kept: %v", err)
	}
	held[0].Close()
	tok, key := r.token("n1"), newKey(t)
	body := joinBody(t, tok, csr(t, key, "n1"))
	for deadline := time.Now().Add(patience); ; {
		status, _, _, err := r.post(r.client(), jointoken.JoinPath, "application/json", body)
		if err == nil && status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no room is made: %d %v", status, err)
		}
	}
}
