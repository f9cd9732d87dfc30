// Package ca is the certificate authority of one unit: it makes the CA at the first start, and
// certifies the controller's own doors and the keys of nodes, of the cloud side and of operators.
//
// It guarantees that the CA's key is on disk whole or not at all, readable by nobody else; that a
// certificate contains only what the caller decided, and of a request only the key; and that a clock
// that is behind locks nobody out whom a right one would let in: see Config.Floor. Package enrol, not
// this one, decides which certificates are still accepted.
//
// A certificate names its bearer by a URI: tandem://UNIT/node/NODE, tandem://UNIT/cloud/NAME,
// tandem://UNIT/operator/NAME or tandem://UNIT/controller.
package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// The files of a CA in its directory.
const (
	KeyFile         = "ca-key.pem" // key and certificate, mode 0600; the one to keep a copy of
	CertificateFile = "ca.pem"     // the certificate again, for other programs
)

// Lifetimes of certificates.
const (
	Life       = 3652 * 24 * time.Hour // of the CA: ten years
	NodeLife   = 90 * 24 * time.Hour   // of a node's certificate; the default of those who call Issue
	serverLife = 30 * 24 * time.Hour   // of the controller's own certificates, which live in memory only
	skew       = time.Hour             // how far certificates are backdated at most, for clocks that are behind
)

// earliestTime is a time before the first release of this program. A clock below it is wrong.
var earliestTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Config says where the CA is kept.
type Config struct {
	Unit string
	Dir  string

	// Now is the wall clock; nil: time.Now.
	Now func() time.Time
	// Floor is a time that has certainly passed, such as that of the journal's newest record. A
	// gateway without a battery starts in 1970. A clock below Floor, or below the time at which the
	// CA was made, is replaced by the later of the two.
	Floor time.Time
	// Known is the fingerprint of the CA that this unit's nodes trust; nil if none has joined. If it
	// is set and the CA is missing or is another one, Open fails unless Renew is set, because every
	// node would have to join again.
	Known *jointoken.Fingerprint
	// Renew allows Open to make a new CA when the Known one is missing, or to accept another one in
	// its place.
	Renew bool

	Steps durable.Steps // fault seam; nil in production
}

// CA is an open certificate authority. It is safe for concurrent use.
type CA struct {
	unit  string
	clock func() time.Time
	floor time.Time // the least time that now returns
	key   crypto.Signer
	cert  *x509.Certificate
	pool  *x509.CertPool

	reports []byte // what report keys are derived from
}

// Open reads the CA, or makes it at the first start. The error's message says what to do.
//
// Key and certificate are in one file, so a crash leaves a whole CA or none. Nothing is signed before
// the file is written. The copy of the certificate is written again whenever it differs.
func Open(cfg Config) (*CA, error) {
	if !wire.ValidName(cfg.Unit) || strings.HasSuffix(cfg.Unit, ".") || strings.Contains(cfg.Unit, "..") {
		return nil, fmt.Errorf("unit CA: %q cannot stand in certificates: a unit name with neither a dot at its end "+
			"nor two in a row is needed", cfg.Unit)
	}
	path := filepath.Join(cfg.Dir, KeyFile)
	for _, name := range []string{KeyFile, CertificateFile} {
		if err := durable.Clean(filepath.Join(cfg.Dir, name)); err != nil {
			return nil, fmt.Errorf("unit CA: %w", err)
		}
	}
	c := &CA{unit: cfg.Unit, clock: cfg.Now, floor: earliestTime}
	if c.clock == nil {
		c.clock = time.Now
	}
	c.raiseFloor(cfg.Floor)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if cfg.Known != nil && !cfg.Renew {
			return nil, fmt.Errorf("unit CA: %s is gone, but nodes of this unit trust the CA that was in it (%s); "+
				"restore it from a backup, or start with --new-ca and let every node join again", path, cfg.Known)
		}
		if data, err = create(cfg.Unit, c.now()); err == nil {
			err = durable.WriteFile(path, data, 0o600, cfg.Steps)
		}
		if err != nil {
			return nil, fmt.Errorf("unit CA: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("unit CA: %w", err)
	default:
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("unit CA: %s is open to others (mode %v); chmod 600 it", path, info.Mode().Perm())
		}
	}
	if c.key, c.cert, err = parse(data); err != nil {
		return nil, fmt.Errorf("unit CA: %s: %w", path, err)
	}
	if c.reports, err = reportSecret(c.key); err != nil {
		return nil, fmt.Errorf("unit CA: %s: %w", path, err)
	}
	c.raiseFloor(c.cert.NotBefore)
	switch fp := c.Fingerprint(); {
	case c.cert.Subject.CommonName != commonName(cfg.Unit):
		return nil, fmt.Errorf("unit CA: %s is of %q, not of unit %q", path, c.cert.Subject.CommonName, cfg.Unit)
	case cfg.Known != nil && *cfg.Known != fp && !cfg.Renew:
		return nil, fmt.Errorf("unit CA: %s holds another CA (%s) than the one that nodes of this unit trust (%s); "+
			"restore it from a backup, or start with --new-ca and let every node join again", path, fp, cfg.Known)
	case c.now().After(c.cert.NotAfter):
		return nil, fmt.Errorf("unit CA: %s was valid until %s; move it away, start with --new-ca and let every "+
			"node join again", path, c.cert.NotAfter.Format(time.DateOnly))
	}
	c.pool = x509.NewCertPool()
	c.pool.AddCert(c.cert)
	public := filepath.Join(cfg.Dir, CertificateFile)
	text := c.PEM()
	if old, err := os.ReadFile(public); err != nil || string(old) != string(text) {
		if err := durable.WriteFile(public, text, 0o644, cfg.Steps); err != nil {
			return nil, fmt.Errorf("unit CA: %w", err)
		}
	}
	return c, nil
}

func commonName(unit string) string { return "tandem CA " + unit }

// create makes a new CA and returns the content of its file.
func create(unit string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	from := now.Add(-skew).Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName(unit)},
		NotBefore: from, NotAfter: from.Add(Life),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	file := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	return append(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...), nil
}

// parse reads the file of a CA.
func parse(data []byte) (crypto.Signer, *x509.Certificate, error) {
	var signer crypto.Signer
	var cert *x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			var key any
			if key, err = x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				signer, _ = key.(crypto.Signer)
			}
		case "CERTIFICATE":
			cert, err = x509.ParseCertificate(block.Bytes)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w; restore it from a backup", err)
		}
	}
	if signer == nil || cert == nil {
		return nil, nil, errors.New("a private key and a certificate are expected in it; restore it from a backup")
	}
	pub, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !pub.Equal(cert.PublicKey) {
		return nil, nil, errors.New("key and certificate do not belong together; restore it from a backup")
	}
	if !cert.IsCA {
		return nil, nil, errors.New("its certificate is not of a CA")
	}
	if err := cert.CheckSignatureFrom(cert); err != nil { // parsing does not look at it
		return nil, nil, fmt.Errorf("its certificate is not what was signed (%w); restore it from a backup", err)
	}
	return signer, cert, nil
}

// reportSecret derives from the CA's key what report keys are derived from (RFC 5869): so there is no second secret to
// keep, to copy or to lose.
func reportSecret(key crypto.Signer) ([]byte, error) {
	k, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("its key is not an ECDSA key; restore it from a backup")
	}
	secret, err := k.Bytes()
	if err != nil {
		return nil, err
	}
	return hkdf.Extract(sha256.New, secret, []byte("tandem/1/report-keys"))
}

// ReportKey returns the key with which a node proves its messages, wire.ReportKeySize bytes: that of a node and the
// serial number of one of its certificates. It is derived each time and kept nowhere.
func (c *CA) ReportKey(node, serial string) ([]byte, error) {
	return hkdf.Expand(sha256.New, c.reports, "tandem/1/report-key\n"+c.unit+"\n"+node+"\n"+serial, wire.ReportKeySize)
}

// raiseFloor makes t the floor if it is later.
func (c *CA) raiseFloor(t time.Time) {
	if t.After(c.floor) {
		c.floor = t
	}
}

// now returns the wall clock, or the floor if the clock is below it.
func (c *CA) now() time.Time {
	if t := c.clock(); t.After(c.floor) {
		return t
	}
	return c.floor
}

// Now returns the wall clock, but never a time before Config.Floor.
func (c *CA) Now() time.Time { return c.now() }

// Fingerprint returns the hash of the CA's certificate, which tokens carry and nodes compare.
func (c *CA) Fingerprint() jointoken.Fingerprint { return jointoken.FingerprintOf(c.cert.Raw) }

// Certificate is the CA's certificate in DER. It must not be changed.
func (c *CA) Certificate() []byte { return c.cert.Raw }

// PEM is the CA's certificate in PEM.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})
}

// Expires is the end of the CA's validity. None of its certificates is valid after that.
func (c *CA) Expires() time.Time { return c.cert.NotAfter }
