package signer

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpen(t *testing.T) {
	for _, setting := range []string{"", "/run/x", "unix:", "unix:run/x", "tcp://127.0.0.1:1"} {
		if c, err := Open(setting); err == nil {
			t.Errorf("%q: %+v", setting, c)
		}
	}
	if _, err := Open("unix:/run/x"); err != nil {
		t.Error(err)
	}
}

// program plays a key program, badly if that is wanted, until the test ends.
func program(t *testing.T, serve func(net.Conn)) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "key-") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	c, err := Open("unix:" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answers answers every question with a.
func answers(a func(Question) Answer) func(net.Conn) {
	return func(conn net.Conn) {
		var q Question
		if Read(conn, &q) == nil {
			_ = Write(conn, a(q))
		}
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestProgramsThatFail: what a program that is dead, hangs or talks nonsense leads to is an error that says so.
func TestProgramsThatFail(t *testing.T) {
	key, other := newKey(t), newKey(t)
	for _, tc := range []struct {
		name, want string
		serve      func(net.Conn)
	}{
		{"hangs up", "its log says why", func(net.Conn) {}},
		{"nonsense", "not JSON", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "hello\n")
			_, _ = io.Copy(io.Discard, conn)
		}},
		{"without end", "more than", func(conn net.Conn) {
			_, _ = io.WriteString(conn, strings.Repeat("x", MaxLine))
			_, _ = io.Copy(io.Discard, conn)
		}},
		{"refuses", "join again", answers(func(Question) Answer {
			return Answer{Error: wire.New(wire.CodeNotFound, "", "no")}
		})},
		{"another key's signature", "not one of this key", answers(func(q Question) Answer {
			sum := crypto.SHA256.New()
			_, _ = sum.Write(q.Message)
			sig, _ := ecdsa.SignASN1(rand.Reader, other, sum.Sum(nil))
			return Answer{Signature: sig}
		})},
	} {
		signs(t, program(t, tc.serve), key, tc.name, tc.want)
	}
	c := program(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	c.limit = 50 * time.Millisecond
	signs(t, c, key, "hangs", "not answered within 50ms")
	c = program(t, func(net.Conn) {})
	c.path += "-none"
	signs(t, c, key, "dead", "does not run")
}

func signs(t *testing.T, c *Client, key *ecdsa.PrivateKey, name, want string) {
	t.Helper()
	k, err := c.Key(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	_, err = crypto.SignMessage(k, nil, []byte("x"), crypto.SHA256)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), c.path) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// TestCancelled: a call ends with its context.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := program(t, func(conn net.Conn) {
		cancel()
		_, _ = io.Copy(io.Discard, conn)
	})
	if _, err := c.Make(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestKey: keys are ECDSA keys, and sign messages with SHA-256.
func TestKey(t *testing.T) {
	key := newKey(t)
	c := program(t, answers(func(q Question) Answer {
		der, _ := x509.MarshalPKIXPublicKey(key.Public())
		if q.Op == OpSign {
			sum := crypto.SHA256.New()
			_, _ = sum.Write(q.Message)
			sig, _ := ecdsa.SignASN1(rand.Reader, key, sum.Sum(nil))
			return Answer{Signature: sig}
		}
		return Answer{Public: der}
	}))
	k, err := c.Make(t.Context(), key.Public())
	if err != nil || !key.PublicKey.Equal(k.Public()) {
		t.Fatalf("%+v %v", k, err)
	}
	if _, err := crypto.SignMessage(k, nil, []byte("x"), crypto.SHA256); err != nil {
		t.Error(err)
	}
	if _, err := crypto.SignMessage(k, nil, []byte("x"), crypto.SHA384); err == nil {
		t.Error("it signs with SHA-384")
	}
	if _, err := k.Sign(nil, make([]byte, 32), crypto.SHA256); err == nil {
		t.Error("it signs a digest")
	}
	if _, err := c.Key(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize))); err == nil {
		t.Error("an Ed25519 key is taken")
	}
}
