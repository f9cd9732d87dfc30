package api_test

import (
	"crypto/tls"
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
	for _, c := range []struct {
		addr     string
		tls      *tls.Config
		insecure bool
		want     string // "": listens
	}{
		{"127.0.0.1:0", nil, false, ""},
		{"localhost:0", nil, false, ""},
		{"0.0.0.0:0", nil, false, "not loopback"},
		{":0", nil, false, "not loopback"},
		{"0.0.0.0:0", nil, true, ""},
		{":0", &tls.Config{}, false, ""},
		{"nonsense", nil, true, "missing port"},
	} {
		l, err := api.ListenTCP(c.addr, c.tls, c.insecure)
		if err == nil {
			err = l.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.addr, err)
		}
	}
}
