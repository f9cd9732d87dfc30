package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"slices"
	"sync"
	"time"

	"tandem.internal/shared/jointoken"
)

// Server is the controller's side of TLS. Its key and certificate live in memory only and are
// made anew when a third of the certificate's life is left, and at every start.
type Server struct {
	ca    *CA
	hosts []string

	mu    sync.Mutex
	cert  *tls.Certificate
	renew time.Time
}

// Server makes the controller's side of TLS for servers that are reached under hosts, names or
// addresses. Nodes do not compare hosts but jointoken.ServerName; browsers and curl do.
func (c *CA) Server(hosts []string) (*Server, error) {
	s := &Server{ca: c, hosts: slices.Clone(hosts)}
	_, err := s.certificate() // what cannot be made is better known at the start
	return s, err
}

// certificate returns the current certificate. The lock is held for the making of a key and a
// signature, well below a millisecond.
func (s *Server) certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.ca.now()
	if s.cert != nil && now.Before(s.renew) && !now.Before(s.cert.Leaf.NotBefore) {
		return s.cert, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	_, until := s.ca.Validity(serverLife)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "tandem controller"},
		URIs:     []*url.URL{{Scheme: jointoken.Scheme, Host: s.ca.unit, Path: "/controller"}},
		DNSNames: []string{jointoken.ServerName},
		// A node that starts in 1970 believes nothing before the CA's own beginning; a server
		// certificate that began later would lock it out until somebody sets its clock.
		NotBefore: s.ca.cert.NotBefore, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	named(template, s.hosts)
	der, err := s.ca.sign(template, key.Public())
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// The CA goes along: a node that joins knows nothing of it but the fingerprint.
	s.cert = &tls.Certificate{Certificate: [][]byte{der, s.ca.cert.Raw}, PrivateKey: key, Leaf: leaf}
	s.renew = now.Add(until.Sub(now) * 2 / 3)
	return s.cert, nil
}

// Mutual is the configuration of a door through which only bearers of this CA's certificates
// come. What they may do is not decided by TLS: ask PeerOf, and whether the serial still counts.
func (s *Server) Mutual() *tls.Config {
	c := s.config()
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c
}

// Optional is the configuration of a door through which nodes come before they have a certificate.
// One that is shown is verified.
func (s *Server) Optional() *tls.Config {
	c := s.config()
	c.ClientAuth = tls.VerifyClientCertIfGiven
	c.NextProtos = []string{"http/1.1"}
	return c
}

func (s *Server) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientCAs:  s.ca.pool,
		Time:       s.ca.now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.certificate()
		},
		// Every connection shows its certificate anew: a session that is resumed would show the
		// one of then.
		SessionTicketsDisabled: true,
	}
}

// Client is the controller's side of TLS where it is a client: at a broker of the site. Its key and
// certificate live in memory only, like those of a Server.
type Client struct {
	ca *CA

	mu    sync.Mutex
	cert  *tls.Certificate
	renew time.Time
}

// Client makes the controller's own identity, "controller".
func (c *CA) Client() *Client { return &Client{ca: c} }

// Certificate is for tls.Config.GetClientCertificate.
func (c *Client) Certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.ca.now()
	if c.cert != nil && now.Before(c.renew) && !now.Before(c.cert.Leaf.NotBefore) {
		return c.cert, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	g := Grant{Subject: "controller"}
	if g.Serial, err = NewSerial(); err != nil {
		return nil, err
	}
	g.From, g.Until = c.ca.Validity(serverLife)
	der, err := c.ca.Issue(key.Public(), g)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	c.cert = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	c.renew = now.Add(g.Until.Sub(now) * 2 / 3)
	return c.cert, nil
}

// Trust adds the unit's CA to those that are trusted.
func (c *CA) Trust(pool *x509.CertPool) { pool.AddCert(c.cert) }
