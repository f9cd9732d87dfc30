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
	certs map[jointoken.Fingerprint]*current // by CA
}

// current is a certificate in use.
type current struct {
	*tls.Certificate
	renew time.Time // when it is replaced
}

// usable reports whether the certificate need not be replaced yet.
func (c *current) usable(now time.Time) bool {
	return c != nil && now.Before(c.renew) && !now.Before(c.Leaf.NotBefore)
}

// Server returns the TLS side of servers with these host names and addresses. Browsers and curl
// verify the hosts; nodes verify jointoken.ServerName instead.
func (c *CA) Server(hosts []string) (*Server, error) {
	s := &Server{ca: c, hosts: slices.Clone(hosts), certs: map[jointoken.Fingerprint]*current{}}
	_, err := s.certificate("") // fail at the start, not at the first connection
	return s, err
}

// certificate returns the current certificate by the CA that a client believes, a new one if it is due. Who does not
// say which one he believes is shown the oldest that counts: whoever has joined, or knows a fingerprint, since before a
// rotation goes on as before until that one is retired. It holds the lock while it makes a key and a signature, well
// below a millisecond.
func (s *Server) certificate(serverName string) (*tls.Certificate, error) {
	t := s.ca.trust.Load()
	by := t.believed(serverName)
	if by == nil {
		by = t.list[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.ca.now()
	if c := s.certs[by.fp]; c.usable(now) {
		return c.Certificate, nil
	}
	for fp := range s.certs {
		if t.find(fp) == nil {
			delete(s.certs, fp)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	_, until := s.ca.validity(by, serverLife)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "tandem controller"},
		URIs:     []*url.URL{{Scheme: jointoken.Scheme, Host: s.ca.unit, Path: "/controller"}},
		DNSNames: []string{jointoken.ServerName},
		// A node whose clock is in 1970 takes the beginning of the CA's validity as its time. A server
		// certificate that began later would lock it out until somebody sets its clock.
		NotBefore: by.cert.NotBefore, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	setHosts(template, s.hosts)
	der, err := by.sign(template, key.Public())
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// The chain includes the CA: a node that joins has only its fingerprint.
	next := &current{&tls.Certificate{Certificate: [][]byte{der, by.cert.Raw}, PrivateKey: key, Leaf: leaf},
		now.Add(until.Sub(now) * 2 / 3)}
	s.certs[by.fp] = next
	return next.Certificate, nil
}

// Mutual is the configuration of a server that accepts only clients with a certificate of this CA. It
// does not decide what they may do: the server asks PeerOf, and whether the serial is still accepted.
func (s *Server) Mutual() *tls.Config {
	c := s.config()
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return s.upToDate(c)
}

// Optional is the configuration of a server that also accepts clients without a certificate, such as
// nodes that join. A certificate that a client sends is verified.
func (s *Server) Optional() *tls.Config {
	c := s.config()
	c.ClientAuth = tls.VerifyClientCertIfGiven
	c.NextProtos = []string{"http/1.1"}
	return s.upToDate(c)
}

// Keyed is Optional for the join door: of a client that asks for a jointoken.KeyedName the certificate is not verified,
// see KeyedPeer.
func (s *Server) Keyed() *tls.Config {
	c := s.Optional()
	optional := c.GetConfigForClient
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := optional(hello)
		if err == nil && s.ca.trust.Load().keyed(hello.ServerName) {
			now.ClientAuth = tls.RequestClientCert
		}
		return now, err
	}
	return c
}

// upToDate has every connection judged by the CAs that count at its beginning.
func (s *Server) upToDate(c *tls.Config) *tls.Config {
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.Clone()
		now.GetConfigForClient, now.ClientCAs = nil, s.ca.trust.Load().pool
		return now, nil
	}
	return c
}

func (s *Server) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       s.ca.now,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.certificate(hello.ServerName)
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

	mu   sync.Mutex
	cert *current
	by   jointoken.Fingerprint // that certified it
}

// Client returns the controller's client side, with the subject "controller".
func (c *CA) Client() *Client { return &Client{ca: c} }

// Certificate returns the current certificate, a new one if it is due: by the oldest CA that counts, which brokers know
// the longest. It serves as tls.Config.GetClientCertificate.
func (c *Client) Certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.ca.now()
	by := c.ca.trust.Load().list[0]
	if c.by == by.fp && c.cert.usable(now) {
		return c.cert.Certificate, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	g := Grant{Subject: "controller", CA: by.fp}
	if g.Serial, err = NewSerial(); err != nil {
		return nil, err
	}
	g.From, g.Until = c.ca.validity(by, serverLife)
	der, err := c.ca.Issue(key.Public(), g)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	c.cert = &current{&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		now.Add(g.Until.Sub(now) * 2 / 3)}
	c.by = by.fp
	return c.cert.Certificate, nil
}

// Trust adds the CAs that count to a pool of trusted ones.
func (c *CA) Trust(pool *x509.CertPool) {
	for _, a := range c.trust.Load().list {
		pool.AddCert(a.cert)
	}
}
