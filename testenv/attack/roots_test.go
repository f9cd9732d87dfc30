package attack

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"net"
	"strings"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/wire"
)

// rootKey signs the unit's list of CAs; the unit never has it.
var rootKey = publishertest.New(7)

// rootList is the unit's list, signed by somebody, naming the root key of somebody.
func (u *unit) rootList(by, names publishertest.Signer) controller.SignedList {
	u.t.Helper()
	draft, err := u.App.Unit().ExportCAs(controller.As(u.t.Context(), "ann"),
		controller.ExportCAs{Roots: []string{names.Public()}})
	if err != nil {
		u.t.Fatal(err)
	}
	l, err := rootlist.Parse([]byte(draft.List))
	if err != nil {
		u.t.Fatal(err)
	}
	return controller.SignedList{List: draft.List, Signature: by.SignAs([]byte(draft.List), l.Comment())}
}

// root has the unit know a root key.
func (u *unit) root() {
	u.t.Helper()
	_, err := u.App.Unit().ImportCAs(controller.As(u.t.Context(), "ann"),
		controller.ImportCAs{Lists: []controller.SignedList{u.rootList(rootKey, rootKey)}})
	if err != nil {
		u.t.Fatal(err)
	}
}

// byKey asks at the join door as who has a key, whatever CA has certified it.
func byKey(path, who string, body func(a *try) string) func(*try) string {
	return func(a *try) string {
		at, conf := a.doorstep(a.certs[who])
		v, err := a.App.Unit().ShowCAs(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		var fp jointoken.Fingerprint
		b, err := hex.DecodeString(strings.TrimPrefix(v.CAs[0].Fingerprint, "sha256:"))
		if copy(fp[:], b); err != nil {
			a.t.Fatal(err)
		}
		conf.ServerName, conf.InsecureSkipVerify, conf.MinVersion = jointoken.KeyedName(fp), true, tls.VersionTLS13
		return exchange(func() (net.Conn, error) { return a.from(conf).Dial("tcp", at) },
			lines(knock(path, asJSON, body(a))))
	}
}

// renews is a request for a certificate.
func renews(a *try) string {
	return string(must(jointoken.Encode(&jointoken.RenewRequest{
		CSR: request(a.t, newKey(a.t), &x509.CertificateRequest{})})))
}

func nothing(*try) string { return "{}" }

// imports has the controller given a list, by an administrator who was had.
func imports(list func(a *try) controller.SignedList) func(*try) string {
	return func(a *try) string {
		_, err := a.App.Unit().ImportCAs(controller.As(a.t.Context(), "ann"),
			controller.ImportCAs{Lists: []controller.SignedList{list(a)}})
		if err == nil {
			return "it is taken"
		}
		return string(wire.AsError(err).Code)
	}
}

// roots are attempts on nodes that follow a root key, and by the way that is open to them.
var roots = []attempt{
	{"renewing by the key of an expired certificate", anExpired, byKey(jointoken.RenewPath, "node/old", renews),
		doors("410 expired")},
	{"renewing by the key of a node of another unit", nobody,
		byKey(jointoken.RenewPath, "another unit's node/n1", renews), doors("403 not-allowed")},
	{"renewing by the key of an operator", anOperator, byKey(jointoken.RenewPath, "operator/spy", renews),
		doors("403 not-allowed")},
	{"renewing by the key of a broker", theBroker, byKey(jointoken.RenewPath, "broker/b1", renews),
		doors("403 not-allowed")},
	{"a report key by the key of a certificate", aNode, byKey(jointoken.ReportKeyPath, "node/mallory", nothing),
		doors("403 not-allowed")},
	{"the CAs by the key of a certificate", aNode, byKey(jointoken.CAPath, "node/mallory", nothing),
		doors("403 not-allowed")},
	{"a request for the root's lists of 1 MiB", nobody,
		knocks(jointoken.RootPath, asJSON, strings.Repeat(" ", 1<<20)), doors("413 too-large")},
	{"a list of CAs by the thief's own root key", aThief, imports(func(a *try) controller.SignedList {
		return a.rootList(publishertest.New(8), publishertest.New(8))
	}), doors("unknown-key")},
	{"a list of CAs by the thief in the root key's name", aThief, imports(func(a *try) controller.SignedList {
		return a.rootList(publishertest.New(8).As(rootKey), rootKey)
	}), doors("bad-signature")},
	{"a list of CAs that names the thief's root key only", aThief, imports(func(a *try) controller.SignedList {
		return a.rootList(rootKey, publishertest.New(8))
	}), doors("bad-signature")},
}
