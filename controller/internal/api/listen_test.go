package api_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
)

func TestListenUnix(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	first, err := api.ListenUnix(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	if first.Addr().String() != path {
		t.Errorf("address %s", first.Addr())
	}
	if _, err := api.ListenUnix(path, 0o660); err == nil || !strings.Contains(err.Error(), "another controller") {
		t.Errorf("two on one socket: %v", err)
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}

	// A socket that a dead process left.
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := api.ListenUnix(path, 0o600)
	if err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}

	// Another program that answers, without our lock.
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.ListenUnix(path, 0o600); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("took a socket that is in use: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}

	// A file that is no socket.
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ListenUnix(path, 0o600); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("took a file: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("%s %v", b, err)
	}

	long := filepath.Join(dir, strings.Repeat("x", 120))
	if _, err := api.ListenUnix(long, 0o600); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%v", err)
	}
	if _, err := api.ListenUnix(filepath.Join(dir, "none", "s"), 0o600); err == nil {
		t.Error("listens in a directory that does not exist")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".t*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestListenTCP(t *testing.T) {
	tokens := []string{token}
	for _, c := range []struct {
		addr     string
		tokens   []string
		insecure bool
		want     string // "": listens
	}{
		{"127.0.0.1:0", tokens, false, ""},
		{"localhost:0", tokens, false, ""},
		{"127.0.0.1:0", nil, true, "a token is needed"},
		{"127.0.0.1:0", []string{"short"}, true, "at least"},
		{"0.0.0.0:0", tokens, false, "not loopback"},
		{":0", tokens, false, "not loopback"},
		{"0.0.0.0:0", tokens, true, ""},
		{"nonsense", tokens, true, "missing port"},
	} {
		l, err := api.ListenTCP(c.addr, c.tokens, c.insecure)
		if err == nil {
			err = l.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.addr, err)
		}
	}
}

func TestReadTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"# for the dashboard\n\n  " + token + "\nanother-token-of-good-length\n", 0o600, ""},
		{token, 0o604, "everybody"},
		{"short\n", 0o600, "at least"},
		{"# none\n", 0o600, "no token"},
	} {
		if err := errors.Join(os.WriteFile(path, []byte(c.text), c.mode), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		got, err := api.ReadTokens(path)
		if c.want == "" && (err != nil || len(got) != 2 || got[0] != token) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v %v", c.text, got, err)
		}
	}
	if _, err := api.ReadTokens(path + "x"); err == nil {
		t.Error("read a file that is not there")
	}
}
