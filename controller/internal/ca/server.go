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

// Server provides the TLS configuration of the controller's servers. Its key and certificate live in
// memory only. They are replaced when a third of the certificate's life is left, and at every start.
type Server struct {
	ca    *CA
	hosts []string

	mu    sync.Mutex
	cert  *tls.Certificate
	renew time.Time // when cert is replaced
}

// Server returns the TLS side of servers with these host names and addresses. Browsers and curl
// verify the hosts; nodes verify jointoken.ServerName instead.
func (c *CA) Server(hosts []string) (*Server, error) {
	s := &Server{ca: c, hosts: slices.Clone(hosts)}
	_, err := s.certificate() // fail at the start, not at the first connection
	return s, err
}

// certificate returns the current certificate, a new one if it is due. It holds the lock while it
// makes a key and a signature, well below a millisecond.
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
		// A node whose clock is in 1970 takes the beginning of the CA's validity as its time. A server
		// certificate that began later would lock it out until somebody sets its clock.
		NotBefore: s.ca.cert.NotBefore, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	setHosts(template, s.hosts)
	der, err := s.ca.sign(template, key.Public())
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// The chain includes the CA: a node that joins has only its fingerprint.
	s.cert = &tls.Certificate{Certificate: [][]byte{der, s.ca.cert.Raw}, PrivateKey: key, Leaf: leaf}
	s.renew = now.Add(until.Sub(now) * 2 / 3)
	return s.cert, nil
}

// Mutual is the configuration of a server that accepts only clients with a certificate of this CA. It
// does not decide what they may do: the server asks PeerOf, and whether the serial is still accepted.
func (s *Server) Mutual() *tls.Config {
	c := s.config()
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c
}

// Optional is the configuration of a server that also accepts clients without a certificate, such as
// nodes that join. A certificate that a client sends is verified.
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
		// Every connection presents its current certificate: a resumed session would present the one of
		// its first handshake.
		SessionTicketsDisabled: true,
	}
}

// Client provides the client certificate of the controller, for a broker of the site. Its key and
// certificate live in memory only, like those of a Server.
type Client struct {
	ca *CA

	mu    sync.Mutex
	cert  *tls.Certificate
	renew time.Time // when cert is replaced
}

// Client returns the controller's client side, with the subject "controller".
func (c *CA) Client() *Client { return &Client{ca: c} }

// Certificate returns the current certificate, a new one if it is due. It serves as
// tls.Config.GetClientCertificate.
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

// Trust adds the CA to a pool of trusted ones.
func (c *CA) Trust(pool *x509.CertPool) { pool.AddCert(c.cert) }
