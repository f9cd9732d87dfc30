package app

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/seal"
)

// The files of the unit's Ed25519 keys in the state directory, both halves in PEM, mode 0600: that of the
// first key, and those that rotations have made, which are named by their ID. Which one signs is in the
// journal.
const (
	firstKeyFile = "unit-key.pem"
	keyFiles     = "unit-key-*.pem"

	privateBlock = "PRIVATE KEY" // PKCS #8
)

func keyFile(kid string) string { return "unit-key-" + kid + ".pem" }

// keyring is the private halves of the unit's signing keys.
type keyring struct {
	dir   string
	steps durable.Steps // fault seam; nil in production
	first *seal.Signer  // of the first key; nil: it is gone

	mu   sync.Mutex
	keys map[string]*seal.Signer // by ID
	path map[string]string       // by ID
}

// openKeyring reads the keys, and makes the first one at the first start.
//
// One that is missing beside a journal is not made anew in silence: it was lost, or retired, and every
// node would refuse what a new one signs.
func openKeyring(dir, journal string, steps durable.Steps) (*keyring, error) {
	r := &keyring{dir: dir, steps: steps, keys: map[string]*seal.Signer{}, path: map[string]string{}}
	path := filepath.Join(dir, firstKeyFile)
	left, lerr := filepath.Glob(filepath.Join(dir, "."+keyFiles+".tmp*"))
	paths, err := filepath.Glob(filepath.Join(dir, keyFiles))
	if err = errors.Join(lerr, err, durable.Clean(path)); err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	for _, tmp := range left { // a crash in Make
		name, _, _ := strings.Cut(filepath.Base(tmp)[1:], ".tmp")
		if err := durable.Clean(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("signing keys: %w", err)
		}
	}
	for _, path := range paths {
		key, err := namedKey(path)
		if err != nil {
			return nil, err
		}
		r.add(key, path)
	}
	key, proved, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, jerr := os.Stat(journal); jerr == nil || len(paths) > 0 {
			return r, nil
		}
		if key, err = makeKey(); err == nil {
			err = writeKey(path, key, nil)
		}
	} else if err == nil && !proved {
		// Of an older program. If there is no room for the public half, the next start tries again: the key is good.
		_ = writeKey(path, key, nil)
	}
	if err != nil {
		return nil, err
	}
	r.first = r.add(key, path)
	return r, nil
}

func (r *keyring) add(key ed25519.PrivateKey, path string) *seal.Signer {
	s := seal.NewSigner(key)
	r.keys[s.Key().ID], r.path[s.Key().ID] = s, path
	return s
}

// Signer returns the signer of a key, nil if its file is not there.
func (r *keyring) Signer(kid string) *seal.Signer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[kid]
}

// IDs names the keys, in order.
func (r *keyring) IDs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.keys))
}

// Make makes a key, durably.
func (r *keyring) Make() (*seal.Signer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, err := makeKey()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.dir, keyFile(seal.KeyID(key.Public().(ed25519.PublicKey))))
	if err := writeKey(path, key, r.steps); err != nil {
		return nil, err
	}
	return r.add(key, path), nil
}

// Forget removes a key's file for good.
func (r *keyring) Forget(kid string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	path, ok := r.path[kid]
	if !ok {
		return nil
	}
	if err := durable.Remove(path); err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	delete(r.keys, kid)
	delete(r.path, kid)
	return nil
}

// namedKey reads a key whose file is named by its ID, which proves it, or firstKeyFile.
func namedKey(path string) (ed25519.PrivateKey, error) {
	key, _, err := readKey(path)
	if err != nil {
		return nil, err
	}
	want := keyFile(seal.KeyID(key.Public().(ed25519.PublicKey)))
	if name := filepath.Base(path); name != firstKeyFile && name != want {
		return nil, fmt.Errorf("signing key: %s holds another key than its name says; it belongs into %s", path, want)
	}
	return key, nil
}

// readKey reads one key; the error is fs.ErrNotExist if there is no such file. It is proved by its public half, which
// is in the file as well: of 32 random bytes nothing else shows that one is not what was written.
func readKey(path string) (key ed25519.PrivateKey, proved bool, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		key, proved, err = parseKey(path, data)
	}
	if err != nil {
		return nil, false, fmt.Errorf("signing key: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, false, fmt.Errorf("signing key: %s is open to others (mode %v); chmod 600 it", path,
			info.Mode().Perm())
	}
	return key, proved, nil
}

// parseKey reads the content of the file of a key.
func parseKey(path string, data []byte) (_ ed25519.PrivateKey, proved bool, err error) {
	fail := func(format string, args ...any) (ed25519.PrivateKey, bool, error) {
		return nil, false, fmt.Errorf("%s "+format, append([]any{path}, args...)...)
	}
	const restore = "restore it from a backup: nodes refuse any other key"
	block, rest := pem.Decode(data)
	if block == nil || block.Type != privateBlock {
		return fail("is not a private key in PEM; %s", restore)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return fail("is damaged: %w; %s", err, restore)
	}
	ed, ok := key.(ed25519.PrivateKey)
	if !ok {
		return fail("holds a %T, not an Ed25519 key", key)
	}
	if block, _ := pem.Decode(rest); block != nil {
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil || !ed.Public().(ed25519.PublicKey).Equal(public) {
			return fail("is damaged: its two halves do not belong together; %s", restore)
		}
		proved = true
	}
	return ed, proved, nil
}

func makeKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return key, nil
}

func writeKey(path string, key ed25519.PrivateKey, steps durable.Steps) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})...)
	if err := durable.WriteFile(path, text, 0o600, steps); err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	return nil
}
