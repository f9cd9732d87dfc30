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
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// The files of a CA in its directory. CAs that rotations have made are in files of their own, see keyFile.
const (
	KeyFile         = "ca-key.pem" // key and certificate of the first one, mode 0600; to keep a copy of
	CertificateFile = "ca.pem"     // the certificates of all that count, for other programs
)

// Lifetimes of certificates.
const (
	Life       = 3652 * 24 * time.Hour // of the CA: ten years
	NodeLife   = 90 * 24 * time.Hour   // of a node's certificate; the default of those who call Issue
	serverLife = 30 * 24 * time.Hour   // of the controller's own certificates, which live in memory only
	Skew       = time.Hour             // how far certificates are backdated at most, for clocks that are behind
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
	// List is what the journal says: the CAs that count, and which of them signs. Empty: there was no rotation.
	List List
	// Known is the fingerprint of the CA that this unit's nodes trust, while there is no List; nil if none has
	// joined. If the CA that signs is missing or is another one, Open fails unless Renew is set, because every
	// node would have to join again.
	Known *jointoken.Fingerprint
	// Renew allows Open to go on with another CA when one that counts is missing, or is not the Known one.
	Renew bool

	Steps durable.Steps // fault seam; nil in production
}

// List names the CAs that count.
type List struct {
	All   []jointoken.Fingerprint // the oldest first
	Signs jointoken.Fingerprint   // one of All; those behind it are announced, and sign nothing yet
}

// CA is the open certificate authority of a unit. While it is rotated it is more than one: List. It is safe for
// concurrent use.
type CA struct {
	unit  string
	dir   string
	clock func() time.Time
	floor time.Time // the least time that now returns
	steps durable.Steps

	trust atomic.Pointer[trusted]

	mu   sync.Mutex
	held map[jointoken.Fingerprint]*authority // by fingerprint
}

// authority is one CA.
type authority struct {
	fp      jointoken.Fingerprint
	path    string // of its file
	key     crypto.Signer
	cert    *x509.Certificate
	reports []byte // what report keys are derived from
}

// trusted are the CAs that count.
type trusted struct {
	list  []*authority // the oldest first
	signs int          // index of the one that signs
	pool  *x509.CertPool
}

// Open reads the CA, or makes it at the first start. The error's message says what to do. With Config.Renew it may
// go on with another CA than Config.List says: see Listed.
//
// Key and certificate are in one file, so a crash leaves a whole CA or none. Nothing is signed before
// the file is written. The copy of the certificates is written again whenever it differs.
func Open(cfg Config) (*CA, error) {
	if !wire.ValidName(cfg.Unit) || strings.HasSuffix(cfg.Unit, ".") || strings.Contains(cfg.Unit, "..") {
		return nil, fmt.Errorf("unit CA: %q cannot stand in certificates: a unit name with neither a dot at its end "+
			"nor two in a row is needed", cfg.Unit)
	}
	c := &CA{unit: cfg.Unit, dir: cfg.Dir, clock: cfg.Now, floor: earliestTime, steps: cfg.Steps,
		held: map[jointoken.Fingerprint]*authority{}}
	if c.clock == nil {
		c.clock = time.Now
	}
	c.raiseFloor(cfg.Floor)
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("unit CA: %w", err)
	}
	list, err := c.choose(&cfg)
	if err != nil {
		return nil, fmt.Errorf("unit CA: %w", err)
	}
	if err := c.Arrange(list); err != nil {
		return nil, err
	}
	if now := c.now(); now.After(c.signs().cert.NotAfter) {
		return nil, fmt.Errorf("unit CA: %s was valid until %s; move it away, start with --new-ca and let every "+
			"node join again", c.signs().path, c.signs().cert.NotAfter.Format(time.DateOnly))
	}
	return c, nil
}

// choose says which CAs count from the start on. It makes one if there is none.
func (c *CA) choose(cfg *Config) (List, error) {
	first := filepath.Join(cfg.Dir, KeyFile)
	only := func(fp jointoken.Fingerprint) List { return List{All: []jointoken.Fingerprint{fp}, Signs: fp} }
	const again = "restore it from a backup, or start with --new-ca and let every node join again"
	missing := ""
	switch {
	case len(cfg.List.All) > 0:
		for _, fp := range cfg.List.All {
			if c.held[fp] == nil {
				missing = fmt.Sprintf("the file of the CA %s is gone, which counts in this unit; %s", fp, again)
			}
		}
		if missing == "" {
			return cfg.List, nil
		}
		if cfg.Renew && c.held[cfg.List.Signs] != nil {
			return only(cfg.List.Signs), nil
		}
	case cfg.Known != nil:
		if c.held[*cfg.Known] != nil {
			return only(*cfg.Known), nil
		}
		missing = fmt.Sprintf("%s is gone, but nodes of this unit trust the CA that was in it (%s); %s", first,
			cfg.Known, again)
		if other := c.newest(); other != nil {
			missing = fmt.Sprintf("%s holds another CA (%s) than the one that nodes of this unit trust (%s); %s",
				other.path, other.fp, cfg.Known, again)
		}
	}
	if missing != "" && !cfg.Renew {
		return List{}, errors.New(missing)
	}
	for _, fp := range slices.Backward(cfg.List.All) { // nodes may believe it
		if c.held[fp] != nil {
			return only(fp), nil
		}
	}
	for fp, a := range c.held { // another one may be what a crash has left of a rotation
		if a.path == first {
			return only(fp), nil
		}
	}
	if a := c.newest(); a != nil {
		return only(a.fp), nil
	}
	a, err := c.create(func(jointoken.Fingerprint) string { return first })
	if err != nil {
		return List{}, err
	}
	return only(a.fp), nil
}

func commonName(unit string) string { return "tandem CA " + unit }

// generate makes a new CA and returns the content of its file.
func generate(unit string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	from := now.Add(-Skew).Truncate(time.Second)
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

// Inspect reads the content of a CA's file, of this name, and returns the fingerprint of the CA.
func Inspect(unit, name string, data []byte) (fp jointoken.Fingerprint, err error) {
	a, err := authorityOf(unit, name, data)
	if err == nil && name != KeyFile && name != keyFile(a.fp) {
		err = fmt.Errorf("%s holds another CA than its name says; it belongs into %s", name, keyFile(a.fp))
	}
	if err != nil {
		return fp, fmt.Errorf("unit CA: %w", err)
	}
	return a.fp, nil
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
// serial number of one of its certificates, by the CA that signed that one. It is derived each time and kept nowhere.
func (c *CA) ReportKey(by jointoken.Fingerprint, node, serial string) ([]byte, error) {
	a := c.trust.Load().find(by)
	if a == nil {
		return nil, fmt.Errorf("report key: the CA %s does not count any more", by)
	}
	return hkdf.Expand(sha256.New, a.reports, "tandem/1/report-key\n"+c.unit+"\n"+node+"\n"+serial, wire.ReportKeySize)
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

func (c *CA) signs() *authority {
	t := c.trust.Load()
	return t.list[t.signs]
}

// Fingerprint returns the hash of the certificate of the CA that signs, which tokens carry and nodes compare.
func (c *CA) Fingerprint() jointoken.Fingerprint { return c.signs().fp }

// Certificate is the certificate of the CA that signs, in DER. It must not be changed.
func (c *CA) Certificate() []byte { return c.signs().cert.Raw }

// CertificateOf is the certificate of one that counts, in DER; nil if it does not. It must not be changed.
func (c *CA) CertificateOf(fp jointoken.Fingerprint) []byte {
	if a := c.trust.Load().find(fp); a != nil {
		return a.cert.Raw
	}
	return nil
}

// PEM has the certificates of all CAs that count, in PEM, the oldest first.
func (c *CA) PEM() []byte { return c.trust.Load().pem() }

func (t *trusted) pem() (text []byte) {
	for _, a := range t.list {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})...)
	}
	return text
}

// ExpiresOf is the end of the validity of one that counts, zero if it does not.
func (c *CA) ExpiresOf(fp jointoken.Fingerprint) time.Time {
	if a := c.trust.Load().find(fp); a != nil {
		return a.cert.NotAfter
	}
	return time.Time{}
}

// Expires is the end of the validity of the CA that signs. None of its certificates is valid after that.
func (c *CA) Expires() time.Time { return c.signs().cert.NotAfter }
