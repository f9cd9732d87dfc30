// Package tpm has a TPM 2.0 make keys and use them. What it gives to be kept is encrypted by the TPM, below the storage
// key of its owner hierarchy: on another machine it is worth nothing. Nothing is stored in the TPM.
package tpm

import (
	"crypto/ecdsa"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
)

// Chip is a TPM. It belongs to one goroutine.
type Chip struct {
	path string
	tpm  transport.TPMCloser // nil: not open
	srk  tpm2.NamedHandle    // the storage key, loaded while it is open
}

// Open opens the TPM: a device such as /dev/tpmrm0, or unix:/PATH, the socket of an emulator. Use the device with rm,
// where the kernel clears away what a program has left in the TPM.
func Open(path string) (*Chip, error) {
	c := &Chip{path: path}
	if err := c.open(); err != nil {
		return nil, err
	}
	return c, nil
}

// Name is "tpm".
func (*Chip) Name() string { return "tpm" }

// Close closes the TPM.
func (c *Chip) Close() error {
	if c.tpm == nil {
		return nil
	}
	err := errors.Join(c.flush(c.srk.Handle), c.tpm.Close())
	c.tpm = nil
	return err
}

func (c *Chip) open() (err error) {
	if path, ok := strings.CutPrefix(c.path, "unix:"); ok {
		c.tpm, err = dial(path)
	} else {
		c.tpm, err = linuxtpm.Open(c.path)
	}
	if err != nil {
		c.tpm = nil
		return fmt.Errorf("TPM: %w", err)
	}
	srk, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHOwner,
		InPublic: tpm2.New2B(tpm2.ECCSRKTemplate)}.Execute(c.tpm)
	if err != nil {
		err = errors.Join(fmt.Errorf("TPM %s: its storage key: %w", c.path, err), c.tpm.Close())
		c.tpm = nil
		return err
	}
	c.srk = tpm2.NamedHandle{Handle: srk.ObjectHandle, Name: srk.Name}
	return nil
}

// flush has the TPM forget what was loaded.
func (c *Chip) flush(h tpm2.TPMHandle) error {
	_, err := tpm2.FlushContext{FlushHandle: h}.Execute(c.tpm)
	return err
}

// with runs f with the TPM open. If that fails and the TPM was open before, it may have been reset meanwhile: then it
// is opened anew, once.
func (c *Chip) with(what string, f func() error) error {
	for again := c.tpm != nil; ; again = false {
		var err error
		if c.tpm == nil {
			err = c.open()
		}
		if err == nil {
			err = f()
		}
		if err == nil {
			return nil
		}
		if c.tpm != nil {
			_ = c.Close() // the first error counts
		}
		if !again {
			return fmt.Errorf("TPM %s: %s: %w", c.path, what, err)
		}
	}
}

// parent is the storage key, which has no password.
func (c *Chip) parent() tpm2.AuthHandle {
	return tpm2.AuthHandle{Handle: c.srk.Handle, Name: c.srk.Name, Auth: tpm2.PasswordAuth(nil)}
}

// own is what holds for all that is made here: no other TPM can have it.
var own = tpm2.TPMAObject{FixedTPM: true, FixedParent: true, UserWithAuth: true, NoDA: true}

// ecdsaSHA256 is how keys sign.
var ecdsaSHA256 = tpm2.TPMTECCScheme{Scheme: tpm2.TPMAlgECDSA,
	Details: tpm2.NewTPMUAsymScheme(tpm2.TPMAlgECDSA, &tpm2.TPMSSigSchemeECDSA{HashAlg: tpm2.TPMAlgSHA256})}

// Make makes a key.
func (c *Chip) Make() (pub *ecdsa.PublicKey, kept []byte, err error) {
	what := own
	what.SensitiveDataOrigin, what.SignEncrypt = true, true
	err = c.with("make a key", func() error {
		created, err := tpm2.Create{ParentHandle: c.parent(), InPublic: tpm2.New2B(tpm2.TPMTPublic{
			Type: tpm2.TPMAlgECC, NameAlg: tpm2.TPMAlgSHA256, ObjectAttributes: what,
			Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgECC,
				&tpm2.TPMSECCParms{CurveID: tpm2.TPMECCNistP256, Scheme: ecdsaSHA256}),
		})}.Execute(c.tpm)
		if err != nil {
			return err
		}
		if pub, err = public(created.OutPublic); err != nil {
			return err
		}
		kept = join(tpm2.Marshal(created.OutPublic), tpm2.Marshal(created.OutPrivate))
		return nil
	})
	return pub, kept, err
}

// public is the public key of an object.
func public(object tpm2.TPM2BPublic) (*ecdsa.PublicKey, error) {
	contents, err := object.Contents()
	if err != nil {
		return nil, err
	}
	key, err := tpm2.Pub(*contents)
	if err != nil {
		return nil, err
	}
	pub, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("it made a %T", key)
	}
	return pub, nil
}

// loaded runs f with an object loaded.
func (c *Chip) loaded(kept []byte, f func(tpm2.AuthHandle) error) error {
	first, second, ok := split(kept)
	if !ok {
		return errors.New("what was kept cannot be read")
	}
	pub, err := tpm2.Unmarshal[tpm2.TPM2BPublic](first)
	if err != nil {
		return err
	}
	private, err := tpm2.Unmarshal[tpm2.TPM2BPrivate](second)
	if err != nil {
		return err
	}
	object, err := tpm2.Load{ParentHandle: c.parent(), InPublic: *pub, InPrivate: *private}.Execute(c.tpm)
	if err != nil {
		return err
	}
	err = f(tpm2.AuthHandle{Handle: object.ObjectHandle, Name: object.Name, Auth: tpm2.PasswordAuth(nil)})
	return errors.Join(err, c.flush(object.ObjectHandle))
}

// Sign signs a SHA-256 digest.
func (c *Chip) Sign(kept, digest []byte) (signature []byte, err error) {
	err = c.with("sign", func() error {
		return c.loaded(kept, func(key tpm2.AuthHandle) error {
			signed, err := tpm2.Sign{KeyHandle: key, Digest: tpm2.TPM2BDigest{Buffer: digest},
				InScheme: tpm2.TPMTSigScheme{Scheme: tpm2.TPMAlgECDSA, Details: tpm2.NewTPMUSigScheme(tpm2.TPMAlgECDSA,
					&tpm2.TPMSSchemeHash{HashAlg: tpm2.TPMAlgSHA256})},
				Validation: tpm2.TPMTTKHashCheck{Tag: tpm2.TPMSTHashCheck}}.Execute(c.tpm)
			if err != nil {
				return err
			}
			ec, err := signed.Signature.Signature.ECDSA()
			if err != nil {
				return err
			}
			signature, err = asn1.Marshal(struct{ R, S *big.Int }{
				new(big.Int).SetBytes(ec.SignatureR.Buffer), new(big.Int).SetBytes(ec.SignatureS.Buffer)})
			return err
		})
	})
	return signature, err
}

// Seal encrypts a secret of at most 128 bytes.
func (c *Chip) Seal(secret []byte) (kept []byte, err error) {
	err = c.with("seal a secret", func() error {
		sealed, err := tpm2.Create{ParentHandle: c.parent(),
			InSensitive: tpm2.TPM2BSensitiveCreate{Sensitive: &tpm2.TPMSSensitiveCreate{
				Data: tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: secret})}},
			InPublic: tpm2.New2B(tpm2.TPMTPublic{Type: tpm2.TPMAlgKeyedHash, NameAlg: tpm2.TPMAlgSHA256,
				ObjectAttributes: own}),
		}.Execute(c.tpm)
		if err != nil {
			return err
		}
		kept = join(tpm2.Marshal(sealed.OutPublic), tpm2.Marshal(sealed.OutPrivate))
		return nil
	})
	return kept, err
}

// Unseal decrypts it.
func (c *Chip) Unseal(kept []byte) (secret []byte, err error) {
	err = c.with("unseal a secret", func() error {
		return c.loaded(kept, func(object tpm2.AuthHandle) error {
			out, err := tpm2.Unseal{ItemHandle: object}.Execute(c.tpm)
			if err == nil {
				secret = out.OutData.Buffer
			}
			return err
		})
	})
	return secret, err
}

// join writes two parts, the first after its length.
func join(first, second []byte) []byte {
	return append(append(binary.BigEndian.AppendUint16(nil, uint16(len(first))), first...), second...)
}

func split(data []byte) (first, second []byte, ok bool) {
	if len(data) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(data))
	if data = data[2:]; n > len(data) {
		return nil, nil, false
	}
	return data[:n], data[n:], true
}
