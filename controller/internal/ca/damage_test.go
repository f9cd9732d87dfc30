package ca

import (
	"bytes"
	"crypto"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/filetest"
)

// Whatever bit of the CA's file is flipped, it is refused by its name, or is the CA that was made.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	path := filepath.Join(dir, KeyFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for bit := range 8 * len(good) {
		bad := filetest.Flipped(good, bit)
		key, cert, err := parse(bad)
		switch {
		case err != nil:
			refused++
		case !bytes.Equal(cert.Raw, c.signs().cert.Raw) || !samePublic(c.signs().key.Public(), key.Public()):
			t.Errorf("bit %d is taken for another CA", bit)
		}
		if bit%500 != 0 || err == nil {
			continue
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Open(Config{Unit: "u1", Dir: dir, Now: at(day)})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
	if refused < 4*len(good) {
		t.Errorf("%d of %d bits were refused", refused, 8*len(good))
	}
}

func samePublic(a, b crypto.PublicKey) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}
