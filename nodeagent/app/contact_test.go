package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
)

// The light shows a clock that is too far off only where the certificate itself holds.
func TestIndicatorOf(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	year := 365 * 24 * time.Hour
	cert := &x509.Certificate{NotBefore: now.Add(-year), NotAfter: now.Add(year)}
	wrap := func(err error) error {
		return fmt.Errorf("connect: %w", &tls.CertificateVerificationError{Err: err})
	}
	expired := wrap(x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired})
	for _, c := range []struct {
		name            string
		err             error
		now, controller time.Time
		want            wire.Indicator
	}{
		{"not there", errors.New("no route"), now, now, 0},
		{"refused", fmt.Errorf("connect: %w", link.ErrRefused), now, now, wire.IndicatorRefused},
		{"authority", wrap(x509.UnknownAuthorityError{}), now, now, wire.IndicatorCertificate},
		{"usage", wrap(x509.CertificateInvalidError{Cert: cert, Reason: x509.IncompatibleUsage}), now, now,
			wire.IndicatorCertificate},
		{"expired", expired, now.Add(2 * year), now.Add(2 * year), wire.IndicatorCertificate},
		{"clock behind", expired, now.Add(-2 * year), now.Add(-2 * year), wire.IndicatorClock},
		{"clock ahead", expired, now.Add(2 * year), now, wire.IndicatorClock},
	} {
		if got := indicatorOf(c.err, c.now, c.controller); got != c.want {
			t.Errorf("%s: indicator %d, want %d", c.name, got, c.want)
		}
	}
}
