package tpm

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/key/tpmtest"
)

func open(t *testing.T, setting string) *Chip {
	t.Helper()
	c, err := Open(setting)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var digest = sha256.Sum256([]byte("message"))

// works fails if a chip cannot use what it, or another one, has made.
func works(t *testing.T, c *Chip, pub *ecdsa.PublicKey, key, sealed []byte) {
	t.Helper()
	sig, err := c.Sign(key, digest[:])
	if err != nil || !ecdsa.VerifyASN1(pub, digest[:], sig) {
		t.Errorf("sign: %x %v", sig, err)
	}
	if secret, err := c.Unseal(sealed); err != nil || string(secret) != "secret" {
		t.Errorf("unseal: %q %v", secret, err)
	}
}

// TestTPM: what a TPM made is good after a restart of the program or of the machine, and for no other TPM. Nothing
// stays in the TPM, however often it is used.
func TestTPM(t *testing.T) {
	m := tpmtest.Start(t)
	c := open(t, m.Setting)
	pub, key, err := c.Make()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := c.Seal([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("secret")) {
		t.Error("the secret is not sealed")
	}
	for range 10 { // a TPM has room for three objects
		works(t, c, pub, key, sealed)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	c = open(t, m.Setting)
	works(t, c, pub, key, sealed)
	m.Again() // which has forgotten what was loaded
	works(t, c, pub, key, sealed)

	other := open(t, tpmtest.Start(t).Setting)
	if sig, err := other.Sign(key, digest[:]); err == nil {
		t.Errorf("another TPM signs: %x", sig)
	}
	if secret, err := other.Unseal(sealed); err == nil {
		t.Errorf("another TPM unseals: %q", secret)
	}
	otherPub, otherKey, err := other.Make()
	if err != nil || otherPub.Equal(pub) {
		t.Fatal(err)
	}
	if sig, err := other.Sign(otherKey, digest[:]); err != nil || !ecdsa.VerifyASN1(otherPub, digest[:], sig) {
		t.Errorf("after that it does not work: %v", err)
	}
}

// TestDamaged: what was kept and is damaged is refused.
func TestDamaged(t *testing.T) {
	c := open(t, tpmtest.Start(t).Setting)
	_, key, err := c.Make()
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(key) {
		if n%7 != 0 { // a sample of the places
			continue
		}
		bad := bytes.Clone(key)
		bad[n] ^= 1
		if sig, err := c.Sign(bad, digest[:]); err == nil {
			t.Errorf("with byte %d changed it signs: %x", n, sig)
		}
		if sig, err := c.Sign(key[:n], digest[:]); err == nil {
			t.Errorf("with %d bytes it signs: %x", n, sig)
		}
	}
}

// TestNoTPM: what is none, or talks nonsense, is an error that names it.
func TestNoTPM(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, setting := range []string{none, "unix:" + none, "/dev/null"} {
		if c, err := Open(setting); err == nil || !strings.Contains(err.Error(), "TPM") {
			t.Errorf("%s: %+v %v", setting, c, err)
		}
	}
	for name, answer := range map[string]string{"nothing": "", "half": "\x80\x01\x00\x00\x00\x0a\x00",
		"too long": "\x80\x01\x7f\xff\xff\xff", "too short": "\x80\x01\x00\x00\x00\x01"} {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = theirs.Read(make([]byte, 4096))
			_, _ = io.WriteString(theirs, answer)
			_ = theirs.Close()
		}()
		if a, err := (&emulator{ours}).Send([]byte("command")); err == nil {
			t.Errorf("%s: %x", name, a)
		}
		_ = ours.Close()
		<-done
	}
}
