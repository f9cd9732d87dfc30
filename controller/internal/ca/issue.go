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

// Request is a certificate request whose sender has shown that the key is his. All that is taken
// from it is the key, and the name to compare with.
type Request struct {
	Key  crypto.PublicKey
	Hash string // SHA-256 of the key's SubjectPublicKeyInfo, in hexadecimal
	Name string // the subject's common name; may be empty
}

// maxRequest bounds a request in DER; one of ours has under 300 bytes.
const maxRequest = 8 << 10

// ParseRequest reads a PKCS #10 request in DER. Keys are ECDSA on P-256 or P-384, or Ed25519:
// nothing weaker, and nothing that costs the controller dear to check. The error is a *wire.Error.
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
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return &Request{Key: csr.PublicKey, Hash: hex.EncodeToString(sum[:]), Name: csr.Subject.CommonName}, nil
}

// NewSerial draws the serial number of a certificate, in hexadecimal: 127 random bits.
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
	b[0] = b[0]&0x7f | 0x40 // positive, and never short
	return new(big.Int).SetBytes(b[:]), nil
}

// Validity is the time for which a certificate of that life counts if it is issued now. It does not
// outlast the CA.
func (c *CA) Validity(life time.Duration) (from, until time.Time) {
	now := c.now().Truncate(time.Second).UTC()
	from, until = now.Add(-min(skew, life/20)), now.Add(life)
	if from.Before(c.cert.NotBefore) {
		from = c.cert.NotBefore
	}
	if until.After(c.cert.NotAfter) {
		until = c.cert.NotAfter
	}
	return from, until
}

// Grant is what a certificate says.
type Grant struct {
	Subject     string // "node/n1", "cloud/eu", "operator/ann", "controller" or "broker/b1"
	Serial      string // as NewSerial draws it
	From, Until time.Time
	Hosts       []string // names and addresses of a broker
}

// Issue certifies a key and returns the certificate in DER. It is a client's, but for a broker,
// which is a server under its hosts. The common name is the subject, as mosquitto takes it for the
// user name: a bare "controller" would be one name for two.
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
		named(t, g.Hosts)
	}
	return c.sign(t, key)
}

// named puts hosts into a server's certificate.
func named(t *x509.Certificate, hosts []string) {
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
}

func (c *CA) sign(template *x509.Certificate, key crypto.PublicKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, key, c.key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	return der, nil
}

// Peer is who a verified certificate says that its bearer is.
type Peer struct {
	Subject string // "node/n1"
	Serial  string // hexadecimal, as NewSerial draws it
	Expires time.Time
}

// PeerOf returns who is at the other end of a TLS connection to one of this CA's servers.
func (c *CA) PeerOf(state *tls.ConnectionState) (Peer, error) {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return Peer{}, errors.New("no certificate was shown")
	}
	leaf := state.PeerCertificates[0]
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
	return Peer{Subject: subject, Serial: leaf.SerialNumber.Text(16), Expires: leaf.NotAfter}, nil
}
