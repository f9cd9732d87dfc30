package client

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Trust is who may vouch for a controller that is reached by https://.
type Trust struct {
	roots *x509.CertPool          // nil: whoever has one of pins
	pins  []jointoken.Fingerprint // of CAs' certificates, or of the controller's own
}

// maxPins is how many fingerprints may be given.
const maxPins = 8

// ParsePin reads a fingerprint as people copy it, "sha256:" and 64 hexadecimal digits, or several with commas between:
// while a unit's CA is rotated, the controller is vouched for by one and then by the other.
func ParsePin(text string) (*Trust, error) {
	t := &Trust{}
	for one := range strings.SplitSeq(text, ",") {
		var fp jointoken.Fingerprint
		digits, ok := strings.CutPrefix(strings.TrimSpace(one), wire.HashPrefix)
		b, err := hex.DecodeString(digits)
		if !ok || err != nil || len(b) != len(fp) || len(t.pins) == maxPins {
			return nil, fmt.Errorf("%.80q is not a fingerprint: %s and 64 hexadecimal digits", text, wire.HashPrefix)
		}
		copy(fp[:], b)
		t.pins = append(t.pins, fp)
	}
	return t, nil
}

// pinned reports whether a certificate is one of the pins.
func (t *Trust) pinned(c *x509.Certificate) bool {
	return slices.Contains(t.pins, jointoken.FingerprintOf(c.Raw))
}

// names are the pins as people read them.
func (t *Trust) names() string {
	all := make([]string, 0, len(t.pins))
	for _, fp := range t.pins {
		all = append(all, fp.String())
	}
	return strings.Join(all, " or ")
}

// ParseCA reads the certificates of authorities in PEM.
func ParseCA(text []byte) (*Trust, error) {
	t := &Trust{roots: x509.NewCertPool()}
	if !t.roots.AppendCertsFromPEM(text) {
		return nil, errors.New("there is no certificate in PEM in it")
	}
	return t, nil
}

// errForeign says that somebody else answers than the controller that is trusted.
var errForeign = errors.New("who answers there is not the controller that you trust")

// config is the client's side of TLS. Without a Trust the system's authorities decide.
func (t *Trust) config(u *url.URL) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS13}
	if t == nil {
		return c
	}
	// The usual verification knows neither fingerprints nor the name that a unit's CA gives a
	// controller. What replaces it runs in every handshake, before a token is sent.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(cs tls.ConnectionState) error { return t.verify(cs.PeerCertificates, u.Hostname()) }
	return c
}

// verify returns nil if the chain, the server's certificate first, is trusted under host.
func (t *Trust) verify(chain []*x509.Certificate, host string) error {
	if len(chain) == 0 {
		return fmt.Errorf("%w: it shows no certificate", errForeign)
	}
	roots := t.roots
	if len(t.pins) > 0 {
		roots = x509.NewCertPool()
		found := false
		for i, c := range chain {
			if !t.pinned(c) {
				continue
			}
			if i == 0 {
				return nil // its key has just signed the handshake, and there is no other key like it
			}
			roots.AddCert(c)
			found = true
		}
		if !found {
			return fmt.Errorf("%w: %s vouches for it, not %s", errForeign,
				jointoken.FingerprintOf(chain[len(chain)-1].Raw), t.names())
		}
	}
	name := host
	for _, u := range chain[0].URIs {
		if u.Scheme == jointoken.Scheme {
			// A unit's CA also certifies nodes and brokers, some of them for hosts. Of those the
			// controller alone has this name; where it is reached does not matter.
			name = jointoken.ServerName
		}
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	return nil
}
