package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"tandem.internal/shared/jointoken"
)

// A server's certificate counts by what the controller has told of the time, or by the node's own clock.
func TestServersCertificate(t *testing.T) {
	c, cfg := start(t)
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	from, until := day.AddDate(0, 0, 3), day.AddDate(0, 0, 30)
	server := func(by *authority, name string, usage x509.ExtKeyUsage) *x509.Certificate {
		key, err := newKey()
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(by.sign(t, key.Public(), &x509.Certificate{DNSNames: []string{name},
			NotBefore: from, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{usage}}))
		if err != nil {
			t.Fatal(err)
		}
		return leaf
	}
	good := server(c.ca, jointoken.ServerName, x509.ExtKeyUsageServerAuth)
	during, before, after := day.AddDate(0, 0, 10), day, day.AddDate(0, 0, 40)
	for _, tc := range []struct {
		name        string
		own, heard  time.Time
		shown       *x509.Certificate
		called      string
		good, clock bool // clock: the error is about the time
	}{
		{"both clocks agree", during, during, good, jointoken.ServerName, true, false},
		{"nothing heard", during, time.Time{}, good, jointoken.ServerName, true, false},
		{"an own clock that is dead", time.Unix(0, 0), during, good, jointoken.ServerName, true, false},
		{"heard from a clock that was wrong", during, after, good, jointoken.ServerName, true, false},
		{"expired by both", after, after, good, jointoken.ServerName, false, true},
		{"expired by what was heard, not valid yet by the own clock", before, after, good, jointoken.ServerName, false,
			true},
		{"not valid yet", before, before, good, jointoken.ServerName, false, true},
		{"another's name", during, after, good, "gateway", false, false},
		{"no name", during, during, good, "", false, false},
		{"another CA", during, after, server(newAuthority(t, day), jointoken.ServerName, x509.ExtKeyUsageServerAuth),
			jointoken.ServerName, false, false},
		{"a node's", during, after, server(c.ca, jointoken.ServerName, x509.ExtKeyUsageClientAuth),
			jointoken.ServerName, false, false},
	} {
		k, err := NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: func() time.Time { return tc.own }})
		if err != nil {
			t.Fatal(err)
		}
		k.Heard(tc.heard)
		err = k.TLS(tc.called).VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{tc.shown}})
		invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
		if (err == nil) != tc.good || tc.clock != (invalid.Cert != nil && invalid.Reason == x509.Expired) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// What was heard goes back, and has bounds.
func TestHeardGoesBack(t *testing.T) {
	c, cfg := start(t)
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	k, err := NewRenewer(RenewerConfig{Dir: cfg.Dir, Now: func() time.Time { return time.Unix(0, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ heard, now time.Time }{
		{day.AddDate(0, 0, 40), day.AddDate(0, 0, 40)},
		{day.AddDate(0, 0, 1), day.AddDate(0, 0, 1)},
		{c.ca.cert.NotAfter.Add(time.Second), day.AddDate(0, 0, 1)},
		{day.AddDate(-1, 0, 0), k.Current().known()},
	} {
		if k.Heard(c.heard); !k.Now().Equal(c.now) {
			t.Errorf("heard %v: it is %v, want %v", c.heard, k.Now(), c.now)
		}
	}
}
