package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
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
		{"not available", fmt.Errorf("%w: %w", link.ErrRefused, link.ErrUnavailable), now, now, wire.IndicatorNoBroker},
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

// Contact is a word that the controller has signed, and says now: none that the broker has kept, that was said before,
// or that somebody else has signed.
func TestOnlyFreshSignedWordsAreContact(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.start() // with the beacon that the broker has kept
		in := func(want bool, what string) {
			t.Helper()
			if got := p.health().Contact; got.In != want {
				t.Errorf("%s: %+v", what, got)
			}
		}
		in(false, "kept by the broker")
		p.pass(time.Minute)
		p.beacon(1, seal.NewSigner(key(7)))
		in(false, "signed by a stranger")
		q := &wire.Request{V: wire.Version, Unit: "u1", Node: "n1", ID: "forged", Method: wire.MethodReport,
			NotAfter: time.Now().Add(time.Minute)}
		q.Sig = seal.NewSigner(key(7)).Sign(seal.RequestPreimage(q))
		p.publish(p.topics.Request(), wire.Encode(q), false)
		in(false, "a forged request")
		q.ID, q.NotAfter = "late", time.Now().Add(-time.Second)
		p.sign(q)
		p.publish(p.topics.Request(), wire.Encode(q), false)
		in(false, "a request of before")
		old := wire.Beacon{V: wire.Version, Unit: "u1", Epoch: 1, Up: true, Time: time.Now(), Jitter: "PT10S",
			Keys: []wire.Key{p.signer.Key()}}
		old.Sig = p.signer.Sign(seal.BeaconPreimage(&old))
		p.pass(time.Second)
		p.hearBeacon()
		in(true, "a beacon of now")
		p.pass(3 * time.Minute)
		in(false, "silence")
		p.publish(topic.ForController("u1"), wire.Encode(&old), false)
		in(false, "a beacon that is played again")
		p.request(wire.MethodReport, nil)
		in(true, "a request of now")
	})
}

// What goes over the network is a check, and is judged if a limit is set.
func TestNetworkUsage(t *testing.T) {
	healthBubble(t, func(p *patient) {
		at, rate, sum := time.Now(), uint64(1000), uint64(0) // bytes per second, bytes
		p.deps.Sources.Interfaces = func() ([]Counters, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			sum, at = sum+uint64(time.Since(at).Seconds())*rate, time.Now()
			return []Counters{{Name: "eth0", Received: sum, Sent: 7}}, nil
		}
		p.start()
		p.desire(healthDoc(1, `{"formatVersion":"1","checks":{"network":{"max":5000,"for":"PT20S"}}}`))
		p.pass(time.Minute)
		if got := p.check(health.SampleNetwork); got != "ok" {
			t.Errorf("check network is %s", got)
		}
		p.mu.Lock()
		rate = 9000
		p.mu.Unlock()
		p.pass(time.Minute)
		if got := p.check(health.SampleNetwork); got != "bad: 9000 bytes per second, above 5000" {
			t.Errorf("check network is %s", got)
		}
	})
}
