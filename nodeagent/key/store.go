package key

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// storeFile holds all keys, mode 0600, and is replaced as a whole.
const storeFile = "keys.json"

// maxStore bounds the file that is read, in bytes.
const maxStore = 64 << 10

// saved is the store as its file has it; bytes are base64.
type saved struct {
	V      int        `json:"v"`
	Chip   string     `json:"chip"`
	Keys   []savedKey `json:"keys"`
	Label  string     `json:"label,omitzero"`
	Secret []byte     `json:"secret,omitzero"` // as the chip sealed it
}

type savedKey struct {
	ID     string `json:"id"`
	Public []byte `json:"public"` // PKIX
	Kept   []byte `json:"kept"`   // as the chip gave it
}

const version = 1

// store has the keys. It belongs to one goroutine.
type store struct {
	cfg  Config
	path string
	data saved
}

func openStore(cfg Config) (*store, error) {
	s := &store{cfg: cfg, path: filepath.Join(cfg.Dir, storeFile), data: saved{V: version, Chip: cfg.Chip.Name()}}
	if err := durable.Clean(s.path); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	data, err := durable.ReadFile(s.path, maxStore)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	} else if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if info, err := os.Stat(s.path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("keys: %s is open to others (mode %v); chmod 600 it", s.path, info.Mode().Perm())
	}
	if err := json.Unmarshal(data, &s.data, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("keys: %s cannot be read (%s); move it away, and have the node join again", s.path,
			wire.AsError(err).Code)
	}
	if s.data.V != version {
		return nil, fmt.Errorf("keys: %s has format %d, this program knows %d", s.path, s.data.V, version)
	}
	if s.data.Chip != cfg.Chip.Name() {
		return nil, fmt.Errorf("keys: those in %s are of another place (%s) than they are to be in (%s); move the "+
			"file away, and have the node join again", s.path, s.data.Chip, cfg.Chip.Name())
	}
	return s, nil
}

// change replaces what is on the disk, and then what is in memory.
func (s *store) change(next saved) error {
	data, err := json.Marshal(&next, json.Deterministic(true))
	if err == nil {
		err = durable.WriteFile(s.path, append(data, '\n'), 0o600, s.cfg.Steps)
	}
	if err != nil {
		return wire.New(wire.CodeStorage, "", "the keys cannot be written: "+err.Error())
	}
	s.data = next
	return nil
}

// make makes a key; of those before, the ones that keep names stay.
func (s *store) make(keep []string) (public []byte, err error) {
	if len(keep) > signer.MaxKeep {
		return nil, wire.New(wire.CodeTooLarge, "/keep", fmt.Sprintf("more than %d keys to keep", signer.MaxKeep))
	}
	pub, kept, err := s.cfg.Chip.Make()
	if err != nil {
		return nil, err
	}
	id, err := signer.ID(pub)
	if err != nil {
		return nil, err
	}
	if public, err = x509.MarshalPKIXPublicKey(pub); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	next := s.data
	next.Keys = slices.DeleteFunc(slices.Clone(next.Keys), func(k savedKey) bool {
		return !slices.Contains(keep, k.ID)
	})
	next.Keys = append(next.Keys, savedKey{ID: id, Public: public, Kept: kept})
	return public, s.change(next)
}

// sign signs a message with a key.
func (s *store) sign(id string, msg []byte) ([]byte, error) {
	i := slices.IndexFunc(s.data.Keys, func(k savedKey) bool { return k.ID == id })
	if i < 0 {
		return nil, wire.New(wire.CodeNotFound, "", "there is no such key")
	}
	k := s.data.Keys[i]
	if !isHandshake(msg) && !isRequest(msg, k.Public) {
		return nil, wire.New(wire.CodeNotAllowed, "", "neither a TLS handshake of a client nor a request for a "+
			"certificate of this key")
	}
	digest := sha256.Sum256(msg)
	return s.cfg.Chip.Sign(k.Kept, digest[:])
}

// isHandshake reports whether a client proves itself by this message (RFC 8446, section 4.4.3): 64 spaces, the
// context, a zero byte, and a hash.
func isHandshake(msg []byte) bool {
	hash, ok := bytes.CutPrefix(msg, append(bytes.Repeat([]byte{' '}, 64), "TLS 1.3, client CertificateVerify\x00"...))
	return ok && (len(hash) == 32 || len(hash) == 48)
}

// isRequest reports whether a message is a CertificationRequestInfo (RFC 2986, section 4.1) for a key.
func isRequest(msg, public []byte) bool {
	var info struct {
		Version    int
		Subject    asn1.RawValue
		Public     asn1.RawValue
		Attributes asn1.RawValue `asn1:"tag:0"`
	}
	if len(msg) > signer.MaxMessage {
		return false
	}
	rest, err := asn1.Unmarshal(msg, &info)
	return err == nil && len(rest) == 0 && info.Version == 0 && bytes.Equal(info.Public.FullBytes, public)
}

// keep keeps a secret, in the place of the one before.
func (s *store) keep(label string, secret []byte) error {
	if len(label) > signer.MaxLabel || len(secret) == 0 || len(secret) > signer.MaxSecret {
		return wire.New(wire.CodeInvalidArgument, "/secret", fmt.Sprintf("a secret has 1 to %d bytes, its label "+
			"at most %d", signer.MaxSecret, signer.MaxLabel))
	}
	sealed, err := s.cfg.Chip.Seal(secret)
	if err != nil {
		return err
	}
	next := s.data
	next.Label, next.Secret = label, sealed
	return s.change(next)
}

// read returns the secret.
func (s *store) read() (label string, secret []byte, err error) {
	if s.data.Secret == nil {
		return "", nil, wire.New(wire.CodeNotFound, "", "nothing was stored")
	}
	secret, err = s.cfg.Chip.Unseal(s.data.Secret)
	return s.data.Label, secret, err
}
