package identity

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/jointoken"
)

func TestLoadRefuses(t *testing.T) {
	_, cfg := start(t)
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.Dir, File)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	for _, tt := range []struct {
		name, data string
		mode       os.FileMode
		want       string
	}{
		{"good", text, 0o600, ""},
		{"of before keys had numbers", strings.Replace(text, `"v":2`, `"v":1`, 1), 0o600, ""},
		{"open to others", text, 0o644, "chmod 600"},
		{"cut", text[:len(text)/2], 0o600, "join again"},
		{"empty", "", 0o600, "join again"},
		{"with a key program", strings.Replace(text, `"v":2`, `"v":3`, 1), 0o600, "--key"},
		{"newer", strings.Replace(text, `"v":2`, `"v":4`, 1), 0o600, "format 4"},
		{"unknown field", strings.Replace(text, `"v":2`, `"v":2,"x":1`, 1), 0o600, "join again"},
		{"no key", strings.Replace(text, `"key":"`, `"key":"AAAA`, 1), 0o600, "the key cannot be read"},
		{"another node", strings.Replace(text, `"node":"n1"`, `"node":"n2"`, 1), 0o600, "not for node"},
	} {
		if err := os.WriteFile(path, []byte(tt.data), tt.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tt.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(cfg.Dir, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	c := newController(f, atDay)
	key, err := newKey()
	if err != nil {
		f.Fatal(err)
	}
	der := c.ca.sign(f, key.Public(), &x509.Certificate{URIs: identityURI(f, "tandem://u1/node/n1"), NotBefore: day,
		NotAfter:    day.Add(life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	id, err := admitted(&jointoken.Admission{Unit: "u1", Node: "n1", Certificate: der, CA: c.ca.cert.Raw}, key,
		c.tok.CA)
	if err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	if err := id.save(dir, nil); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := Load(dir, nil); err == nil && (id.cert.PrivateKey == nil || id.cert.Leaf == nil || id.ca == nil) {
			t.Fatalf("%+v", id)
		}
	})
}
