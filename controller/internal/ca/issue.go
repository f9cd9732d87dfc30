package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Request is a certificate request that is signed with the key that it is for. Only its key and its
// name are used, the name only to compare.
type Request struct {
	Key  crypto.PublicKey
	Hash string // SHA-256 of the key's SubjectPublicKeyInfo, in hexadecimal
	Name string // the subject's common name; may be empty
}

// maxRequest bounds a request in DER, in bytes. A node's request has less than 300.
const maxRequest = 8 << 10

// ParseRequest reads a PKCS #10 request in DER. Its key must be ECDSA on P-256 or P-384, or Ed25519:
// weaker keys, and keys that are expensive to verify, are refused. The error is a *wire.Error.
func ParseRequest(der []byte) (*Request, error) {
	if len(der) > maxRequest {
		return nil, wire.New(wire.CodeTooLarge, "/csr", fmt.Sprintf("a certificate request of more "+
			"than %d bytes", maxRequest))
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, wire.New(wire.CodeMalformed, "/csr", "not a PKCS #10 certificate request")
	}
	switch k := csr.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() {
			return nil, wire.New(wire.CodeBadValue, "/csr", "an ECDSA key on P-256 or P-384, or an Ed25519 key, "+
				"is expected")
		}
	default:
		return nil, wire.New(wire.CodeBadValue, "/csr", "an ECDSA key on P-256 or P-384, or an Ed25519 key, "+
			"is expected")
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, wire.New(wire.CodeBadSignature, "/csr", "the request is not signed with the key that it is for")
	}
	return &Request{Key: csr.PublicKey, Hash: keyHash(csr.RawSubjectPublicKeyInfo), Name: csr.Subject.CommonName}, nil
}

func keyHash(spki []byte) string {
	sum := sha256.Sum256(spki)
	return hex.EncodeToString(sum[:])
}

// NewSerial returns a random serial number for a certificate, in hexadecimal: a positive number of
// 127 bits, 126 of them random.
func NewSerial() (string, error) {
	n, err := newSerial()
	if err != nil {
		return "", err
	}
	return n.Text(16), nil
}

func newSerial() (*big.Int, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	b[0] = b[0]&0x7f | 0x40 // positive, and always of the same length
	return new(big.Int).SetBytes(b[:]), nil
}

// Validity returns the validity of a certificate with that lifetime if the CA that signs issues it now. It stays
// within the validity of that CA.
func (c *CA) Validity(life time.Duration) (from, until time.Time) { return c.validity(c.signs(), life) }

// ValidityBy is Validity for a certificate of a certain CA. One that does not count is an error.
func (c *CA) ValidityBy(by jointoken.Fingerprint, life time.Duration) (from, until time.Time, err error) {
	a := c.trust.Load().find(by)
	if a == nil {
		return from, until, fmt.Errorf("issue a certificate: the CA %s does not count any more", by)
	}
	from, until = c.validity(a, life)
	return from, until, nil
}

func (c *CA) validity(by *authority, life time.Duration) (from, until time.Time) {
	now := c.now().Truncate(time.Second).UTC()
	from, until = now.Add(-min(Skew, life/20)), now.Add(life)
	if from.Before(by.cert.NotBefore) {
		from = by.cert.NotBefore
	}
	if until.After(by.cert.NotAfter) {
		until = by.cert.NotAfter
	}
	return from, until
}

// Grant is the content of a certificate.
type Grant struct {
	Subject     string // "node/n1", "cloud/eu", "operator/ann", "controller" or "broker/b1"
	Serial      string // as NewSerial returns it
	From, Until time.Time
	Hosts       []string // host names and addresses, for a broker only

	CA jointoken.Fingerprint // that certifies; zero: the one that signs
}

// Issue certifies a key and returns the certificate in DER: a server certificate for its hosts if the
// subject is a broker, else a client certificate. The common name is the whole subject with its role,
// because mosquitto takes it as the user name: a name alone could belong to a node and to an operator.
func (c *CA) Issue(key crypto.PublicKey, g Grant) ([]byte, error) {
	n, ok := new(big.Int).SetString(g.Serial, 16)
	if !ok || n.Sign() <= 0 {
		return nil, fmt.Errorf("issue a certificate: %q is not a serial number", g.Serial)
	}
	if !jointoken.ValidSubject(g.Subject) {
		return nil, fmt.Errorf("issue a certificate: %.80q is not an identity", g.Subject)
	}
	t := &x509.Certificate{
		SerialNumber: n, Subject: pkix.Name{CommonName: g.Subject},
		URIs:      []*url.URL{{Scheme: jointoken.Scheme, Host: c.unit, Path: "/" + g.Subject}},
		NotBefore: g.From, NotAfter: g.Until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if strings.HasPrefix(g.Subject, jointoken.BrokerRole+"/") {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		setHosts(t, g.Hosts)
	}
	by := c.signs()
	if g.CA != (jointoken.Fingerprint{}) {
		if by = c.trust.Load().find(g.CA); by == nil {
			return nil, fmt.Errorf("issue a certificate: the CA %s does not count any more", g.CA)
		}
	}
	return by.sign(t, key)
}

// setHosts adds host names and addresses to a server's certificate.
func setHosts(t *x509.Certificate, hosts []string) {
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
}

func (a *authority) sign(template *x509.Certificate, key crypto.PublicKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	return der, nil
}

// Peer is the identity in a verified certificate.
type Peer struct {
	Subject string    // "node/n1"
	Serial  string    // hexadecimal, as NewSerial returns it
	From    time.Time // the certificate was issued then, or up to an hour later
	Expires time.Time
	CA      jointoken.Fingerprint // that certified it; zero: see KeyedPeer
	Key     string                // SHA-256 of the key's SubjectPublicKeyInfo, in hexadecimal
}

// PeerOf returns the identity at the other end of a TLS connection to one of this CA's servers.
func (c *CA) PeerOf(state *tls.ConnectionState) (Peer, error) {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return Peer{}, errors.New("no certificate was shown")
	}
	chain := state.VerifiedChains[0]
	p, err := c.peer(state.PeerCertificates[0])
	if err == nil {
		p.CA = jointoken.FingerprintOf(chain[len(chain)-1].Raw)
	}
	return p, err
}

// KeyedPeer returns the identity that the other end of a connection to Server.Keyed claims to have: its certificate is
// of a CA that may not count, and shows nothing but that the other end has its key. What the unit has certified says
// whose key that is.
func (c *CA) KeyedPeer(state *tls.ConnectionState) (Peer, error) {
	if state == nil || !c.trust.Load().keyed(state.ServerName) || len(state.PeerCertificates) == 0 {
		return Peer{}, errors.New("no certificate was shown")
	}
	return c.peer(state.PeerCertificates[0])
}

// peer returns the identity that a certificate names.
func (c *CA) peer(leaf *x509.Certificate) (Peer, error) {
	if len(leaf.URIs) != 1 {
		return Peer{}, errors.New("the certificate does not name one identity")
	}
	unit, subject, err := jointoken.ParseIdentity(leaf.URIs[0].String())
	if err != nil {
		return Peer{}, fmt.Errorf("the certificate: %w", err)
	}
	if unit != c.unit {
		return Peer{}, fmt.Errorf("the certificate is of unit %q", unit)
	}
	return Peer{Subject: subject, Serial: leaf.SerialNumber.Text(16), From: leaf.NotBefore, Expires: leaf.NotAfter,
		Key: keyHash(leaf.RawSubjectPublicKeyInfo)}, nil
}
