package key

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

func anybody(*net.UnixConn) error { return nil }

// shortDir is a directory with a path that is short enough for sockets in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "key-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// serve runs the program until the test ends, or stop is called.
func serve(t *testing.T, cfg Config) (c *signer.Client, stop func()) {
	t.Helper()
	if cfg.Guard == nil {
		cfg.Guard = anybody
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- Serve(ctx, cfg, ready) }()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	c, err := signer.Open("unix:" + cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	return c, stop
}

func config(t *testing.T) Config {
	dir := shortDir(t)
	return Config{Socket: filepath.Join(dir, "socket"), Dir: filepath.Join(dir, "keys")}
}

func isCode(err error, code wire.Code) bool { return errors.Is(err, &wire.Error{Code: code}) }

// csr has a request for a certificate signed.
func csr(t *testing.T, k crypto.Signer) error {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1"}}, k)
	if err != nil {
		return err
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return err
	}
	return r.CheckSignature()
}

// handshake is what a client signs in a handshake.
func handshake(context string, hash int) []byte {
	return []byte(strings.Repeat(" ", 64) + context + "\x00" + strings.Repeat("h", hash))
}

const clientContext = "TLS 1.3, client CertificateVerify"

// TestKeys: the program makes keys, signs with them, keeps those that it is told to, and has them after a restart.
func TestKeys(t *testing.T) {
	defer goleak.VerifyNone(t)
	chips(t, testKeys)
}

func testKeys(t *testing.T, cfg Config) {
	c, stop := serve(t, cfg)
	first, err := c.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Make(t.Context(), first.Public())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	c, stop = serve(t, cfg)
	defer stop()
	for _, k := range []crypto.Signer{first, second} {
		if err := csr(t, k); err != nil {
			t.Error(err)
		}
		for _, hash := range []int{32, 48} {
			if _, err := crypto.SignMessage(k, nil, handshake(clientContext, hash), crypto.SHA256); err != nil {
				t.Error(err)
			}
		}
	}
	third, err := c.Make(t.Context(), second.Public())
	if err != nil {
		t.Fatal(err)
	}
	if err := csr(t, first); !isCode(err, wire.CodeNotFound) {
		t.Errorf("a key that nobody wanted to keep: %v", err)
	}
	if err := errors.Join(csr(t, second), csr(t, third)); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(cfg.Dir, storeFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// TestSignsNothingElse: what no node signs is not signed.
func TestSignsNothingElse(t *testing.T) {
	c, stop := serve(t, config(t))
	defer stop()
	k, err := c.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Make(t.Context(), k.Public())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, other)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificateRequest(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for name, msg := range map[string][]byte{
		"empty":                          nil,
		"a server's handshake":           handshake("TLS 1.3, server CertificateVerify", 32),
		"a handshake with another hash":  handshake(clientContext, 64),
		"a request of another key":       parsed.RawTBSCertificateRequest,
		"a request with something after": append(parsed.RawTBSCertificateRequest, 0),
		"text":                           []byte("pay ann 100"),
	} {
		if _, err := crypto.SignMessage(k, nil, msg, crypto.SHA256); !isCode(err, wire.CodeNotAllowed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSecret: the program keeps one secret across restarts.
func TestSecret(t *testing.T) { chips(t, testSecret) }

func testSecret(t *testing.T, cfg Config) {
	c, stop := serve(t, cfg)
	if _, _, err := c.Read(t.Context()); !isCode(err, wire.CodeNotFound) {
		t.Errorf("%v", err)
	}
	for _, label := range []string{"first", "second"} {
		if err := c.Store(t.Context(), label, []byte("secret of "+label)); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range [][]byte{nil, make([]byte, signer.MaxSecret+1)} {
		if err := c.Store(t.Context(), "x", secret); !isCode(err, wire.CodeInvalidArgument) {
			t.Errorf("%d bytes: %v", len(secret), err)
		}
	}
	stop()
	c, stop = serve(t, cfg)
	defer stop()
	label, secret, err := c.Read(t.Context())
	if err != nil || label != "second" || string(secret) != "secret of second" {
		t.Errorf("%q %q %v", label, secret, err)
	}
}

// TestUnknownOperation: an agent that is newer is told so.
func TestUnknownOperation(t *testing.T) {
	cfg := config(t)
	_, stop := serve(t, cfg)
	defer stop()
	conn, err := net.Dial("unix", cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var a signer.Answer
	err = errors.Join(signer.Write(conn, signer.Question{Op: "export"}), signer.Read(conn, &a))
	if err != nil || a.Error == nil || a.Error.Code != wire.CodeNotSupported {
		t.Errorf("%+v %v", a, err)
	}
}

type crash struct{}

// TestCrash: whatever step of writing a crash hits, the keys of before are there, and what was answered stays.
func TestCrash(t *testing.T) {
	for at := 1; ; at++ {
		cfg := Config{Dir: t.TempDir(), Chip: Files{}}
		open := func() *store {
			s, err := openStore(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		before, err := open().make(nil)
		if err != nil {
			t.Fatal(err)
		}
		id := func(public []byte) string {
			pub, err := x509.ParsePKIXPublicKey(public)
			if err != nil {
				t.Fatal(err)
			}
			id, err := signer.ID(pub)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		steps := 0
		cfg.Steps = func(durable.Step) error {
			if steps++; steps == at {
				panic(crash{})
			}
			return nil
		}
		var after []byte
		func() {
			defer func() {
				if r := recover(); r != nil && r != (crash{}) {
					panic(r)
				}
			}()
			if after, err = open().make([]string{id(before)}); err != nil {
				t.Error(err)
			}
		}()
		cfg.Steps = nil
		s := open()
		for _, public := range [][]byte{before, after} {
			if public == nil {
				continue
			}
			if _, err := s.sign(id(public), handshake(clientContext, sha256.Size)); err != nil {
				t.Errorf("crash at step %d: %v", at, err)
			}
		}
		if left, err := os.ReadDir(cfg.Dir); err != nil || len(left) != 1 {
			t.Errorf("crash at step %d: left %v %v", at, left, err)
		}
		if steps < at {
			return
		}
	}
}

// TestDiskRefuses: a key that is not on the disk is not given out.
func TestDiskRefuses(t *testing.T) {
	cfg := config(t)
	var full atomic.Bool
	full.Store(true)
	cfg.Steps = func(durable.Step) error {
		if full.Load() {
			return errors.New("no space left")
		}
		return nil
	}
	c, stop := serve(t, cfg)
	defer stop()
	if k, err := c.Make(t.Context()); !isCode(err, wire.CodeStorage) {
		t.Errorf("%+v %v", k, err)
	}
	full.Store(false)
	if k, err := c.Make(t.Context()); err != nil || csr(t, k) != nil {
		t.Errorf("%+v %v", k, err)
	}
}

// TestRefusesToStart: keys that others may read, that cannot be read, or that are another program's.
func TestRefusesToStart(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		spoil      func(t *testing.T, cfg Config) error
	}{
		{"an open directory", "chmod 700", func(_ *testing.T, cfg Config) error { return os.Chmod(cfg.Dir, 0o750) }},
		{"an open file", "chmod 600", func(_ *testing.T, cfg Config) error {
			return os.Chmod(filepath.Join(cfg.Dir, storeFile), 0o640)
		}},
		{"half a file", "cannot be read", func(_ *testing.T, cfg Config) error {
			return os.Truncate(filepath.Join(cfg.Dir, storeFile), 30)
		}},
		{"a newer file", "format 2", func(_ *testing.T, cfg Config) error {
			return os.WriteFile(filepath.Join(cfg.Dir, storeFile), []byte(`{"v":2,"chip":"file","keys":[]}`), 0o600)
		}},
		{"keys of a TPM", "another place", func(_ *testing.T, cfg Config) error {
			return os.WriteFile(filepath.Join(cfg.Dir, storeFile), []byte(`{"v":1,"chip":"tpm","keys":[]}`), 0o600)
		}},
		{"a program that runs", "another tandem-key", func(t *testing.T, cfg Config) error {
			cfg.Socket += "2"
			serve(t, cfg)
			return nil
		}},
		{"a file in the socket's place", "socket", func(_ *testing.T, cfg Config) error {
			return os.WriteFile(cfg.Socket, nil, 0o600)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := config(t)
			c, stop := serve(t, cfg)
			if _, err := c.Make(t.Context()); err != nil {
				t.Fatal(err)
			}
			stop()
			if err := tc.spoil(t, cfg); err != nil {
				t.Fatal(err)
			}
			cfg.Guard = anybody
			if err := Serve(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
