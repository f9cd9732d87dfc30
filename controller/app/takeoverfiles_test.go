package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTakeOverReadsWhatAStartReads: a file that a start would not take stands in the way, by the words of the start;
// and nothing is written.
func TestTakeOverReadsWhatAStartReads(t *testing.T) {
	key, err := makeKey()
	if err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		file string
		mode os.FileMode
		cfg  Config
		want string // of the obstacle; "": there is none
	}{
		{"other", 0o600, Config{}, ""},
		{"unit-key.pem", 0o600, Config{}, "signing key: DIR/unit-key.pem is not a private key in PEM"},
		{"unit-key-0123456789abcdef.pem", 0o600, Config{}, "signing key: DIR/unit-key-0123456789abcdef.pem is not"},
		{"tokens.json", 0o600, Config{}, "tokens: DIR/tokens.json: malformed"},
		{"tokens.json", 0o644, Config{}, "tokens: DIR/tokens.json: others may use it (mode 0644)"},
		{"revoked.txt", 0o600, Config{}, "revocations: DIR/revoked.txt: it does not begin"},
		{"revoked-tokens.txt", 0o600, Config{}, "revocations: DIR/revoked-tokens.txt: it does not begin"},
		{"ca-key.pem", 0o600, Config{}, ""}, // which nobody needs without TLS
		{"ca-key.pem", 0o600, Config{Unit: "u", ListenTLS: ":0"}, "unit CA: DIR/ca-key.pem: a private key"},
		{"other", 0o600, Config{HTTPCert: none, HTTPKey: none}, "--http-cert, --http-key: stat " + none},
		{"other", 0o600, Config{Broker: "tls://h:1", BrokerCA: none}, "--broker-ca: "},
		{"other", 0o600, Config{BrokerCA: none}, ""},
		{"other", 0o600, Config{KeepExport: none}, "--keep-export: " + none + " is not there; it has to be"},
		{"other", 0o600, Config{KeepExport: "takeover.go"}, "--keep-export: takeover.go is not a directory; it has"},
		{"other", 0o600, Config{KeepExport: "."}, ""},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, c.file)
		if err := errors.Join(os.Chmod(dir, 0o700), writeKey(filepath.Join(dir, firstKeyFile), key, nil),
			os.WriteFile(path, []byte("junk"), 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		c.cfg.StateDir = dir
		got := ""
		for _, f := range TakeOver(&c.cfg) {
			if f.Obstacle {
				got += f.Text
			}
		}
		want := strings.ReplaceAll(c.want, "DIR", dir)
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s, mode %o: %q, want %q", c.file, c.mode, got, want)
		}
		if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
			t.Errorf("%s: %v, was %v: %v", c.file, after, before, err)
		}
	}
}
