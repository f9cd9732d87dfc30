package join

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"net/http"
	"net/url"
	"testing"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// keyed is a client that asks by its key.
func (r *rig) keyed(certs ...tls.Certificate) *http.Client {
	c := r.client(certs...)
	conf := c.Transport.(*http.Transport).TLSClientConfig
	conf.ServerName, conf.InsecureSkipVerify = jointoken.KeyedName(r.ca.Fingerprint()), true
	return c
}

// goneCA certifies a key as one that does not count any more, or never did, would.
func goneCA(t *testing.T, subject string, serial *big.Int, key crypto.Signer) tls.Certificate {
	t.Helper()
	own := newKey(t).(*ecdsa.PrivateKey)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tandem CA u1"}, IsCA: true}
	leaf := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: subject},
		URIs:      []*url.URL{{Scheme: jointoken.Scheme, Host: "u1", Path: "/" + subject}},
		NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), own)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Whoever asks is told what a root key has said; in a unit with one, a node renews by its key alone, and by nothing
// else.
func TestRootAtTheDoor(t *testing.T) {
	r := newRig(t, nil)
	key := newKey(t)
	cert, _ := r.admitted(r.client(), jointoken.JoinPath, key, joinBody(t, r.token("n1"), csr(t, key, "n1")))
	serial := cert.Leaf.SerialNumber
	r.core.pass(time.Hour)
	next := newKey(t)
	body := renewBody(t, csr(t, next, ""))
	mine := r.keyed(goneCA(t, "node/n1", serial, key))
	r.refused("no root key", r.client(), jointoken.RootPath, []byte("{}"), 404, wire.CodeNotFound)
	r.refused("by its key, without a root key", mine, jointoken.RenewPath, body, 403, wire.CodeNotAllowed)
	r.core.root = []byte(`{"lists":[]}`)
	if status, _, answer, err := r.post(r.client(), jointoken.RootPath, "application/json", []byte("{}")); err != nil ||
		status != http.StatusOK || string(answer) != `{"lists":[]}` {
		t.Errorf("%d %s %v", status, answer, err)
	}
	r.refused("with a body", r.client(), jointoken.RootPath, []byte(`{"n":1}`), 400, wire.CodeMalformed)

	ann := newKey(t)
	spki, err := x509.MarshalPKIXPublicKey(ann.Public())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(spki)
	if err := r.core.Enrolment(t.Context(), enrol.Certify{Subject: "operator/ann", Key: hex.EncodeToString(sum[:]),
		Serial: "7", Expires: r.core.now.Add(1000 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	r.core.pass(time.Hour)
	thief := newKey(t)
	for what, c := range map[string]*http.Client{
		"another key":      r.keyed(goneCA(t, "node/n1", serial, thief)),
		"another node":     r.keyed(goneCA(t, "node/n2", serial, key)),
		"another number":   r.keyed(goneCA(t, "node/n1", big.NewInt(7), key)),
		"an operator":      r.keyed(goneCA(t, "operator/ann", big.NewInt(7), ann)),
		"the controller":   r.keyed(goneCA(t, "controller", serial, key)),
		"no certificate":   r.keyed(),
		"the usual name":   r.client(),
		"the key to renew": r.keyed(goneCA(t, "node/n1", serial, next)),
	} {
		r.refused(what, c, jointoken.RenewPath, body, 403, wire.CodeNotAllowed)
		r.core.pass(time.Minute) // whoever is refused has to wait
	}
	for _, path := range []string{jointoken.KeysPath, jointoken.CAPath, jointoken.ReportKeyPath} {
		r.refused("its key opens nothing else: "+path, mine, path, []byte("{}"), 403, wire.CodeNotAllowed)
		r.core.pass(time.Minute)
	}
	if _, _, _, err := r.post(r.client(goneCA(t, "node/n1", serial, key)), jointoken.RenewPath, "application/json",
		body); err == nil {
		t.Error("under the usual name a certificate of any CA is taken")
	}
	renewed, _ := r.admitted(mine, jointoken.RenewPath, next, body)
	r.core.pass(time.Hour)
	again := newKey(t)
	r.admitted(r.client(renewed), jointoken.RenewPath, again, renewBody(t, csr(t, again, "n1")))
	if err := r.core.Enrolment(t.Context(), enrol.Revoke{Subject: "node/n1"}); err != nil {
		t.Fatal(err)
	}
	r.refused("revoked", r.keyed(goneCA(t, "node/n1", renewed.Leaf.SerialNumber, next)), jointoken.RenewPath,
		renewBody(t, csr(t, newKey(t), "n1")), 403, wire.CodeNotAllowed)
}
