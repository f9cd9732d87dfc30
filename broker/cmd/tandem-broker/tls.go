package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"tandem.internal/broker/server"
	"tandem.internal/shared/door"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
)

// maxCA is the size of the largest file of --tls-ca, in bytes.
const maxCA = 1 << 20

// tls returns the configuration of --listen-tls; nil without it.
func (c *config) tls(log *zap.Logger) (*tls.Config, error) {
	if len(c.ListenTLS) == 0 {
		return nil, nil
	}
	pair, err := door.OpenKeyPair(c.TLSCert, c.TLSKey, "--tls-cert, --tls-key", log)
	if err != nil {
		return nil, err
	}
	text, err := durable.ReadFile(c.TLSCA, maxCA)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--tls-ca: there is no certificate in %s", c.TLSCA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: pair.Get, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true}, nil
}

// verify returns whom the certificate of a client names. A client without TLS proves nothing.
func (c *config) verify(info server.ConnectInfo) (string, error) {
	if info.TLS == nil {
		return "", nil
	}
	if len(info.TLS.VerifiedChains) == 0 || len(info.TLS.PeerCertificates[0].URIs) != 1 {
		return "", errors.New("the certificate does not name one identity")
	}
	unit, subject, err := jointoken.ParseIdentity(info.TLS.PeerCertificates[0].URIs[0].String())
	switch {
	case err != nil:
		return "", fmt.Errorf("the certificate: %w", err)
	case unit != c.Unit:
		return "", fmt.Errorf("the certificate is of unit %q", unit)
	}
	return subject, nil
}
