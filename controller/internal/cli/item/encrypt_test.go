package item

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"tandem.internal/shared/wire"
)

// TestEncrypt: FILE.age opens for each of those that it is for, is what is said of it, and does not come to be when
// FILE cannot be read to its end.
func TestEncrypt(t *testing.T) {
	var to []age.Recipient
	var keys []age.Identity
	for range 2 {
		k, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		to, keys = append(to, k.Recipient()), append(keys, k)
	}
	file, data := filepath.Join(t.TempDir(), "sensor"), bytes.Repeat([]byte("sensor"), 50_000)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := encrypt(t.Context(), file, to)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file + ".age")
	if err != nil || e.Digest != wire.Hash(got) || e.Size != int64(len(got)) || bytes.Contains(got, []byte("sensor")) {
		t.Errorf("%d bytes, %v, said to be %+v", len(got), err, e)
	}
	if found, err := encrypted(t.Context(), file); err != nil || *found != *e {
		t.Errorf("found %+v, %v", found, err)
	}
	if err := current(file); err != nil {
		t.Error(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(file, later, later); err != nil {
		t.Fatal(err)
	}
	if err := current(file); err == nil || !strings.Contains(err.Error(), "is newer than "+file+".age") {
		t.Errorf("of a file that is newer: %v", err)
	}
	for _, k := range keys {
		r, err := age.Decrypt(bytes.NewReader(got), k)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := io.ReadAll(r); err != nil || !bytes.Equal(plain, data) {
			t.Errorf("%d bytes of %d, %v", len(plain), len(data), err)
		}
	}
	if _, err := encrypt(t.Context(), file, to); err == nil {
		t.Error("it is written over")
	}
	_, err = encrypt(t.Context(), filepath.Dir(file), to)
	if err == nil || !strings.Contains(err.Error(), "item pack") {
		t.Errorf("of a directory: %v", err)
	}
	if _, err := encrypted(t.Context(), file+".age"); err == nil || !strings.Contains(err.Error(), "say "+file+",") {
		t.Errorf("of what is encrypted: %v", err)
	}
	if _, err := os.Lstat(filepath.Dir(file) + ".age"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a directory there is a file: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(file)), ".tandem-item-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
