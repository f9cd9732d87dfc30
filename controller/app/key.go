package app

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"tandem.internal/shared/durable"
)

// signingKey reads the unit's Ed25519 key, PKCS #8 in PEM, and makes it at the first start. Nodes pin
// its public half: without it no document of this unit is believed any more.
//
// A key that is missing beside a journal is not made anew in silence: it was lost, and every node
// would refuse what a new one signs.
func signingKey(path, journal string) (ed25519.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(journal); err == nil {
			return nil, fmt.Errorf("signing key: %s is gone but the journal %s is there; restore the key from a backup. Nodes refuse documents signed with any other key until their pinned key is removed by hand", path, journal)
		}
		return makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("signing key: %s is not PEM; restore it from a backup: nodes refuse any other key", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("signing key: %s: %w", path, err)
	}
	ed, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("signing key: %s holds a %T, not an Ed25519 key", path, key)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("signing key: %s is open to others (mode %v); chmod 600 it", path, info.Mode().Perm())
	}
	return ed, nil
}

func makeKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	if err := durable.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600, nil); err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return key, nil
}
