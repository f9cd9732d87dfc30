package door

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// certified writes a certificate of that serial number and its key.
func certified(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "x"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), serial)
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), serial)
	return cert, key
}

// write writes a file with a time of its own, for clocks of file systems are coarse.
func write(t *testing.T, path string, data []byte, age int64) {
	t.Helper()
	at := time.Unix(1_700_000_000+age, 0)
	if err := errors.Join(os.WriteFile(path, data, 0o600), os.Chtimes(path, at, at)); err != nil {
		t.Fatal(err)
	}
}

// TestCertificateIsReadAgain: when it has changed and is whole, and not before.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	core, logs := observer.New(zap.WarnLevel)
	cert, key := certified(t, dir, 1)
	k, err := OpenKeyPair(cert, key, "--cert", zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	later := func() { // the next handshake looks at the files
		p := *k.current.Load()
		p.checked = time.Time{}
		k.current.Store(&p)
	}
	serial := func() int64 {
		c, err := k.Get(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("%d", got)
	}
	certified(t, dir, 2)
	if got := serial(); got != 1 {
		t.Errorf("looked again at once: %d", got)
	}
	later()
	if got := serial(); got != 2 {
		t.Errorf("not read again: %d", got)
	}
	old, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	certified(t, dir, 3)
	write(t, key, old, 4) // half of the new pair
	later()
	if got := serial(); got != 2 || logs.Len() != 1 {
		t.Errorf("half a pair: %d, %v", got, logs.All())
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	later()
	if got := serial(); got != 2 {
		t.Errorf("no file: %d", got)
	}
	certified(t, dir, 5)
	later()
	if got := serial(); got != 5 {
		t.Errorf("whole again: %d", got)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := k.read(); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a key that everybody may use: %v", err)
	}
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, key, bytes.Repeat([]byte("planted"), 9), 6)
	if _, err := k.read(); err == nil || strings.Contains(err.Error(), "planted") ||
		!strings.Contains(err.Error(), key) {
		t.Errorf("a key that is none: %v", err)
	}
}
