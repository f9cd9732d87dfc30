package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// timeout bounds one conversation with the controller.
const timeout = 30 * time.Second

// DialFunc opens a connection; see net.Dialer.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// JoinConfig is what a join needs.
type JoinConfig struct {
	Dir        string // of the identity; made if missing
	Controller string // URL of the join door, https://HOST:PORT
	Token      jointoken.Token
	Unit       string         // the unit to join; "": the one that answers
	Program    *signer.Client // has the key; nil: it is in the identity

	Now   func() time.Time // nil: time.Now
	Dial  DialFunc         // nil: the network
	Steps durable.Steps    // fault seam; nil in production
}

// Join trades a token for an identity, which takes the place of the one in the directory. Until
// it is whole on the disk the old one stays. After a failure, or a crash at any moment, it may be
// repeated with the same token.
func Join(ctx context.Context, cfg JoinConfig) (*Identity, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	door, err := Controller(cfg.Controller)
	if err != nil {
		return nil, err
	}
	if err := prepare(cfg.Dir); err != nil {
		return nil, err
	}
	key, csr, err := pendingKey(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	req := jointoken.NewJoinRequest(cfg.Token, csr)
	body, err := jointoken.Encode(&req)
	if err != nil {
		return nil, err
	}
	a, err := post(ctx, cfg.Dial, joinTLS(cfg.Token.CA, cfg.Now), door+jointoken.JoinPath, body,
		jointoken.DecodeAdmission)
	if err != nil {
		return nil, err
	}
	if a.Node != cfg.Token.Node {
		return nil, fmt.Errorf("the controller admitted node %q; the token is for %q", a.Node, cfg.Token.Node)
	}
	if cfg.Unit != "" && a.Unit != cfg.Unit {
		return nil, fmt.Errorf("the controller keeps unit %q, not %q", a.Unit, cfg.Unit)
	}
	id, err := admitted(a, key, cfg.Token.CA)
	if err != nil {
		return nil, fmt.Errorf("the controller's answer: %w", err)
	}
	id.Controller, id.join = door, jointoken.FingerprintOf(id.cert.Leaf.Raw).String()
	if err := id.save(cfg.Dir, cfg.Steps); err != nil {
		return nil, err
	}
	if err := durable.Remove(filepath.Join(cfg.Dir, pendingFile)); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return id, nil
}

// Controller reads the URL of a join door: https://HOST:PORT, or HOST:PORT.
func Controller(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" ||
		u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("the controller is given as https://HOST:PORT, as tandem node enroll prints it")
	}
	return "https://" + u.Host, nil
}

// ErrForeign says that somebody else answered than the controller of the token or identity.
var ErrForeign = errors.New("who answers is not the controller of this unit")

// joinTLS trusts whoever the CA with this fingerprint vouches for, and nobody else.
func joinTLS(fp jointoken.Fingerprint, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: jointoken.BelievedName(fp),
		// The usual verification needs the CA, and only its fingerprint is known: what replaces it
		// is VerifyConnection, which runs in every handshake before anything is sent.
		InsecureSkipVerify: true,
		VerifyConnection:   func(cs tls.ConnectionState) error { return pinned(cs, fp, now()) },
	}
}

// pinned verifies the chain up to the one CA that is trusted.
func pinned(cs tls.ConnectionState, fp jointoken.Fingerprint, now time.Time) error {
	for _, c := range cs.PeerCertificates {
		if jointoken.FingerprintOf(c.Raw) != fp {
			continue
		}
		if !c.IsCA {
			break
		}
		if now.Before(c.NotBefore) { // the clock is wrong: the CA was there before this moment
			now = c.NotBefore
		}
		roots := x509.NewCertPool()
		roots.AddCert(c)
		_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: jointoken.ServerName,
			CurrentTime: now,
			KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrForeign, err)
		}
		return nil
	}
	return fmt.Errorf("%w: the token is of the CA %s, which does not vouch for it. If the unit has retired that CA "+
		"since, make a new token: tandem node enroll", ErrForeign, fp)
}

// post sends one request to the join door and reads the answer. The error is a *wire.Error when the
// controller refused.
func post[A any](ctx context.Context, dial DialFunc, conf *tls.Config, where string, body []byte,
	decode func([]byte) (*A, error)) (*A, error) {
	answer, err := exchange(ctx, dial, conf, where, body)
	if err != nil {
		return nil, err
	}
	a, err := decode(answer)
	if err != nil {
		return nil, fmt.Errorf("the controller's answer: %w", err)
	}
	return a, nil
}

// exchange is post without the decoding.
func exchange(ctx context.Context, dial DialFunc, conf *tls.Config, where string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// Nothing of the environment counts here: no proxy, no redirect, no second protocol. A handshake does
	// not end with ctx, so it has a bound of its own.
	c := &http.Client{
		Transport: &http.Transport{TLSClientConfig: conf, TLSHandshakeTimeout: timeout, DialContext: dial,
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, where, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the controller: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if wantsCertificate(err) {
		return nil, fmt.Errorf("what is at %s lets in only who has joined, as a broker does; the join door is most "+
			"often at the port after it", where)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot reach the controller: %w; does it run, and is this the address that tandem "+
			"node enroll printed?", err)
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, jointoken.MaxAnswer+1))
	if cerr := res.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("the controller's answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		if res.StatusCode == http.StatusUnauthorized { // which a join door never says
			return nil, fmt.Errorf("what is at %s is a door for operators, not the join door", where)
		}
		if e := jointoken.DecodeRefusal(answer); e != nil {
			return nil, e
		}
		return nil, fmt.Errorf("what is at %s is not the join door of a controller (HTTP status %d)", where,
			res.StatusCode)
	}
	return answer, nil
}

// wantsCertificate recognizes the alert of RFC 8446, section 6.2, by which a server refuses who shows no
// certificate. crypto/tls has no type for it.
func wantsCertificate(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && strings.HasSuffix(op.Err.Error(), "certificate required")
}

// refused finds the controller's refusal in an error; other failures become "unavailable".
func refused(err error) *wire.Error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	return wire.New(wire.CodeUnavailable, "", err.Error())
}
