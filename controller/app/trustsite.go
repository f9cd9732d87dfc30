package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/link"
)

// maxPEM is the size of the largest file with certificates, in bytes.
const maxPEM = 4 << 20

// brokerTLS returns the TLS configuration for --broker. The unit's CAs are those that count at each handshake: a
// rotation needs no restart.
func (a *App) brokerTLS() (*tls.Config, error) {
	roots, err := a.cfg.brokerRoots()
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots}
	if c := a.trust.ca; c != nil {
		conf.GetClientCertificate = c.Client().Certificate
		// The usual verification knows the CAs of the start only. What replaces it is VerifyConnection, which runs in
		// every handshake before anything is sent.
		conf.InsecureSkipVerify = true
		conf.VerifyConnection = func(state tls.ConnectionState) error { return a.verifyBroker(state, roots) }
	}
	return conf, nil
}

// brokerRoots are the authorities that may vouch for the broker: those of --broker-ca, or the system's.
func (c *Config) brokerRoots() (*x509.CertPool, error) {
	if c.BrokerCA == "" {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool() // a system without any
		}
		return roots, nil
	}
	text, err := durable.ReadFile(c.BrokerCA, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("--broker-ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--broker-ca: there is no certificate in %s", c.BrokerCA)
	}
	return roots, nil
}

// verifyBroker is the usual verification of a broker's certificate, by roots and, without --broker-ca, the unit's CAs;
// and one of this unit has to count.
func (a *App) verifyBroker(state tls.ConnectionState, roots *x509.CertPool) error {
	if a.cfg.BrokerCA == "" {
		roots = roots.Clone()
		a.trust.ca.Trust(roots)
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	host := link.Host(a.cfg.Broker)
	if host == "" { // which would verify no name
		return fmt.Errorf("the broker %q has no host for its certificate to name", a.cfg.Broker)
	}
	var err error
	if state.VerifiedChains, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots,
		Intermediates: between, DNSName: host, CurrentTime: a.trust.ca.Now()}); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return a.trust.access.broker(&state)
}

// broker returns why a broker with a certificate of this unit is not believed; nil: it is, or TLS has verified it by
// another CA.
func (x *access) broker(state *tls.ConnectionState) error {
	p, err := x.ca.PeerOf(state)
	if err != nil || !strings.HasPrefix(p.Subject, jointoken.BrokerRole+"/") {
		return nil //nolint:nilerr // it names no broker of this unit
	}
	if x.core.Certified(p.Subject, p.Serial) != nil {
		return fmt.Errorf("its certificate, of %s, was revoked or replaced; make one with: "+
			"tandem identity certify %[1]s", p.Subject)
	}
	return nil
}
