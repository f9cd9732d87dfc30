package identity

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// newKey makes a key that the agent has.
func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// makeKey makes a key, in the key program if there is one. That one keeps those which dir names, since a join and an
// agent that runs may both make keys.
func makeKey(ctx context.Context, dir string, program *signer.Client) (crypto.Signer, error) {
	if program == nil {
		return newKey()
	}
	key, err := program.Make(ctx, named(dir)...)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// named returns the public keys that the files in dir name. A file that cannot be read names none.
func named(dir string) (keys []crypto.PublicKey) {
	var s saved
	if data, err := os.ReadFile(filepath.Join(dir, File)); err == nil && json.Unmarshal(data, &s) == nil {
		if leaf, err := x509.ParseCertificate(s.Certificate); err == nil {
			keys = append(keys, leaf.PublicKey)
		}
	}
	var p pending
	if data, err := os.ReadFile(filepath.Join(dir, pendingFile)); err == nil && json.Unmarshal(data, &p) == nil {
		if pub, err := x509.ParsePKIXPublicKey(p.Public); err == nil {
			keys = append(keys, pub)
		}
	}
	return keys
}

func parseKey(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("the key cannot be read")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	return signer, nil
}

// request is what a key is certified with.
func request(node string, key crypto.Signer) ([]byte, error) {
	csr, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: node}}, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	return csr, nil
}

// pending is a key that a controller may already have certified for a token.
type pending struct {
	Token  string `json:"token"`           // hash of its secret
	Key    []byte `json:"key,omitzero"`    // PKCS #8
	Public []byte `json:"public,omitzero"` // PKIX, of a key that the key program has
}

// signer is the key; nil if this one cannot be used.
func (p *pending) signer(program *signer.Client) crypto.Signer {
	if program == nil {
		if key, err := parseKey(p.Key); err == nil {
			return key
		}
		return nil
	}
	if pub, err := x509.ParsePKIXPublicKey(p.Public); err == nil {
		if key, err := program.Key(pub); err == nil {
			return key
		}
	}
	return nil
}

// pendingKey returns the key to join with, and a request for it: the key of an earlier attempt with the same token, or
// a new one that is durable before anybody hears of it. So an answer that was lost, on the way or by a crash, can be
// asked for again.
func pendingKey(ctx context.Context, cfg *JoinConfig) (key crypto.Signer, csr []byte, err error) {
	path := filepath.Join(cfg.Dir, pendingFile)
	var p pending
	if data, err := os.ReadFile(path); err == nil {
		if json.Unmarshal(bytes.TrimSpace(data), &p) == nil && p.Token == cfg.Token.Secret.Hash() {
			key = p.signer(cfg.Program)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("identity: %w", err)
	}
	if key != nil {
		csr, err = request(cfg.Token.Node, key)
		if !errors.Is(err, &wire.Error{Code: wire.CodeNotFound}) { // which says that the key program lost it
			return key, csr, err
		}
	}
	if key, err = makeKey(ctx, cfg.Dir, cfg.Program); err != nil {
		return nil, nil, err
	}
	p = pending{Token: cfg.Token.Secret.Hash()}
	if cfg.Program != nil {
		p.Public, err = x509.MarshalPKIXPublicKey(key.Public())
	} else {
		p.Key, err = x509.MarshalPKCS8PrivateKey(key)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("identity: %w", err)
	}
	data, err := json.Marshal(&p)
	if err != nil {
		return nil, nil, fmt.Errorf("identity: %w", err)
	}
	if err := durable.WriteFile(path, data, 0o600, cfg.Steps); err != nil {
		return nil, nil, fmt.Errorf("identity: %w", err)
	}
	csr, err = request(cfg.Token.Node, key)
	return key, csr, err
}
