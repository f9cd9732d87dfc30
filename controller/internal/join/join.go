// Package join is the door through which nodes become part of the unit, renew their
// certificates and fetch artefacts: a small HTTPS server of its own, beside the operators' API, because it faces
// whoever can reach the gateway.
//
// It guarantees that a certificate is signed only for a key whose holder signed the request, and only
// after the core has made the decision durable; that strangers cost little (bounds on connections,
// bytes, time and attempts); and that its answers to strangers reveal nothing. It decides nothing
// itself and has no lasting state. Secrets and requests appear in no log and no error.
package join

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/shared/door"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Core makes the decisions. Many goroutines call it.
type Core interface {
	// Enrolment decides an event and returns when the decision is durable: nil, or a *wire.Error.
	Enrolment(ctx context.Context, ev enrol.Event) error
	// Certified reports whether a certificate that TLS has verified is still accepted; nil: it is.
	Certified(subject, serial string) error
	// Admit is Certified for who begins, and may take over a certificate of before this controller was restored.
	Admit(ctx context.Context, p ca.Peer, from string) error
	// Keys returns the controller's public signing keys, the oldest first, and the revision of the list.
	Keys() (list []wire.Key, rev uint64)
	// DoorCAs is what nodes are told of the unit's CAs.
	DoorCAs() jointoken.CAList
	// DoorRoot is the chain of lists that a root key has signed, encoded; nil: there is none.
	DoorRoot() []byte
	// Floor returns the newest stamps and the time that a node that joins now must treat as already seen.
	Floor(ctx context.Context, node string) (jointoken.Floor, error)
}

// Config is what a Door needs. Zero limits mean their default.
type Config struct {
	Unit    string
	CA      *ca.CA
	Core    Core
	Hosts   []string           // host names and addresses of the door, for its certificate
	Brokers []jointoken.Broker // the unit's brokers, as admissions list them
	Life    time.Duration      // lifetime of certificates; default ca.NodeLife
	Log     *zap.Logger        // nil: silent
	// Artefact answers a node's GET of an artefact. An error is answered by the door; it comes before anything is
	// written but headers. Nil: there are none.
	Artefact func(w http.ResponseWriter, r *http.Request, node, digest string) error

	Timeout       time.Duration // of the handshake and of reading a request; writing has twice as long; default 5 s
	MaxConns      int           // open connections; default 256
	MaxPerAddress int           // open connections from one address; default 16
}

// Door is the HTTP handler of the join door: join, renew, the lists of signing keys and of CAs, a node's report key,
// and artefacts.
type Door struct {
	cfg    Config
	log    *zap.Logger
	server *ca.Server
	mux    *http.ServeMux

	mu        sync.Mutex
	strangers door.Limiter           // by address
	known     door.LimiterOf[string] // by the subject of a certificate that counts
}

// New makes a door; Serve opens it.
func New(cfg Config) (*Door, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Life == 0 {
		cfg.Life = ca.NodeLife
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 256
	}
	if cfg.MaxPerAddress == 0 {
		cfg.MaxPerAddress = 16
	}
	s, err := cfg.CA.Server(cfg.Hosts)
	if err != nil {
		return nil, fmt.Errorf("join door: %w", err)
	}
	d := &Door{cfg: cfg, log: cfg.Log, server: s, mux: http.NewServeMux()}
	d.mux.HandleFunc("POST "+jointoken.JoinPath, d.guarded(encoded(d.join)))
	d.mux.HandleFunc("POST "+jointoken.RenewPath, d.guarded(encoded(d.renew)))
	d.mux.HandleFunc("POST "+jointoken.KeysPath, d.guarded(encoded(d.keys)))
	d.mux.HandleFunc("POST "+jointoken.CAPath, d.guarded(encoded(d.cas)))
	d.mux.HandleFunc("POST "+jointoken.RootPath, d.guarded(d.root))
	d.mux.HandleFunc("POST "+jointoken.ReportKeyPath, d.guarded(encoded(d.reportKey)))
	if cfg.Artefact != nil {
		d.mux.HandleFunc("GET "+jointoken.ArtefactPath+"{digest}", d.artefact)
	}
	return d, nil
}

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.ServeHTTP(w, r) }

// errBusy is the answer to an address that made too many attempts.
var errBusy = wire.New(wire.CodeUnavailable, "", "too many attempts; try again later")

// answerer makes the body of an answer to a request from an address.
type answerer func(r *http.Request, body []byte, from string) ([]byte, error)

// encoded returns an answerer that encodes the message that answer returns.
func encoded[M jointoken.Admission | jointoken.KeyList | jointoken.CAList | jointoken.ReportKey](
	answer func(r *http.Request, body []byte, from string) (*M, error)) answerer {
	return func(r *http.Request, body []byte, from string) ([]byte, error) {
		m, err := answer(r, body, from)
		if err != nil {
			return nil, err
		}
		return jointoken.Encode(m)
	}
}

// attempt asks to make an attempt for a request: one with a certificate that counts has a budget of its own, so that
// nobody who guesses tokens can delay a renewal, from the same address or from many. again gives it back.
func (d *Door) attempt(r *http.Request) (wait time.Duration, again func(), ok bool) {
	peer, err := d.cfg.CA.PeerOf(r.TLS)
	if err == nil {
		err = d.cfg.Core.Admit(r.Context(), peer, r.RemoteAddr)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.CA.Now()
	if err == nil {
		wait, ok = d.known.Take(now, peer.Subject)
		return wait, func() { d.known.Return(peer.Subject) }, ok
	}
	from := door.Address(r.RemoteAddr)
	wait, ok = d.strangers.Take(now, from)
	return wait, func() { d.strangers.Return(from) }, ok
}

// guarded returns a handler that bounds the attempts of somebody, reads the body, and answers.
func (d *Door) guarded(answer answerer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				d.log.Error("join door panicked", zap.String("path", r.URL.Path), zap.Any("panic", p),
					zap.ByteString("stack", debug.Stack()))
				panic(http.ErrAbortHandler)
			}
		}()
		wait, again, ok := d.attempt(r)
		if !ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			d.write(w, http.StatusTooManyRequests, refusal(errBusy))
			return
		}
		body, err := d.read(w, r, door.Address(r.RemoteAddr).String(), answer)
		if err == nil || waits(r, err) {
			d.mu.Lock()
			again()
			d.mu.Unlock()
		}
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		d.write(w, http.StatusOK, body)
	}
}

func (d *Door) read(w http.ResponseWriter, r *http.Request, from string, answer answerer) ([]byte, error) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, wire.New(wire.CodeNotSupported, "", "the body has to be application/json")
	}
	body, err := door.Body(w, r, jointoken.MaxRequest)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("a request has at most %d bytes", jointoken.MaxRequest))
	}
	if err != nil {
		return nil, wire.New(wire.CodeMalformed, "", "the request did not arrive whole")
	}
	return answer(r, body, from)
}

// artefact sends an artefact to a node whose certificate counts. To others it is an attempt like that to join.
func (d *Door) artefact(w http.ResponseWriter, r *http.Request) {
	peer, err := d.cfg.CA.PeerOf(r.TLS)
	if err == nil {
		err = d.cfg.Core.Certified(peer.Subject, peer.Serial)
	}
	node, isNode := strings.CutPrefix(peer.Subject, "node/")
	if err != nil || !isNode {
		d.mu.Lock()
		wait, ok := d.strangers.Take(d.cfg.CA.Now(), door.Address(r.RemoteAddr))
		d.mu.Unlock()
		if !ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			d.write(w, http.StatusTooManyRequests, refusal(errBusy))
			return
		}
		d.refuse(w, r, wire.New(wire.CodeNotAllowed, "", "artefacts are sent to nodes whose certificate counts"))
		return
	}
	still := &counted{w, func() error { return d.cfg.Core.Certified(peer.Subject, peer.Serial) }}
	if err := d.cfg.Artefact(still, r, node, r.PathValue("digest")); err != nil {
		d.refuse(w, r, err)
	}
}

// counted sends only while the certificate of whoever receives counts: a transfer may last for hours.
type counted struct {
	http.ResponseWriter
	counts func() error
}

// Unwrap is for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *counted) Write(b []byte) (int, error) {
	if err := c.counts(); err != nil {
		return 0, err
	}
	return c.ResponseWriter.Write(b)
}

// join issues a certificate in exchange for a token's secret.
func (d *Door) join(r *http.Request, body []byte, from string) (*jointoken.Admission, error) {
	req, err := jointoken.DecodeJoin(body)
	if err != nil {
		return nil, err
	}
	secret, err := req.SecretBytes()
	if err != nil {
		return nil, err
	}
	by := d.cfg.CA.Issuer(r.TLS.ServerName, nil)
	a, err := d.certify(r.Context(), by, "node/"+req.Node, req.CSR,
		func(key, serial string, until time.Time) enrol.Event {
			return enrol.Join{Subject: "node/" + req.Node, Hash: secret.Hash(), Key: key, Serial: serial,
				Expires: until, CA: by.String(), From: from}
		})
	if err == nil {
		// The join is durable now. If this fails, the node repeats its request and gets the floor then.
		a.Floor, err = d.cfg.Core.Floor(r.Context(), req.Node)
	}
	return a, err
}

// renew issues the next certificate in exchange for the present one.
func (d *Door) renew(r *http.Request, body []byte, from string) (*jointoken.Admission, error) {
	peer, err := d.renewing(r)
	if err != nil {
		return nil, wire.New(wire.CodeNotAllowed, "", "a certificate is renewed on a connection that shows it")
	}
	req, err := jointoken.DecodeRenew(body)
	if err != nil {
		return nil, err
	}
	by := d.cfg.CA.Issuer(r.TLS.ServerName, &peer)
	return d.certify(r.Context(), by, peer.Subject, req.CSR, func(key, serial string, until time.Time) enrol.Event {
		return enrol.Renew{Subject: peer.Subject, Serial: peer.Serial, Shown: peer.Key, Key: key, Next: serial,
			Expires: until, CA: by.String(), From: from}
	})
}

// keys sends the current signing keys to a node that missed a change of them. TLS authenticates this
// connection; every other message of the controller is authenticated by these keys only.
func (d *Door) keys(r *http.Request, body []byte, _ string) (*jointoken.KeyList, error) {
	if _, err := d.certified(r, body); err != nil {
		return nil, err
	}
	list, rev := d.cfg.Core.Keys()
	return &jointoken.KeyList{Unit: d.cfg.Unit, UnitKeys: list, KeysRev: rev}, nil
}

// cas tells somebody which CAs count. The CA that vouches for this connection vouches for them.
func (d *Door) cas(r *http.Request, body []byte, _ string) (*jointoken.CAList, error) {
	if _, err := d.certified(r, body); err != nil {
		return nil, err
	}
	l := d.cfg.Core.DoorCAs()
	return &l, nil
}

// reportKey sends a node the key with which it proves what it says: here both ends meet without a broker between.
func (d *Door) reportKey(r *http.Request, body []byte, _ string) (*jointoken.ReportKey, error) {
	peer, err := d.certified(r, body)
	if err != nil {
		return nil, err
	}
	node, isNode := strings.CutPrefix(peer.Subject, "node/")
	if !isNode {
		return nil, wire.New(wire.CodeNotAllowed, "", "only nodes prove what they say")
	}
	key, err := d.cfg.CA.ReportKey(peer.CA, node, peer.Serial)
	if err != nil {
		return nil, err
	}
	return &jointoken.ReportKey{Unit: d.cfg.Unit, Node: node, Serial: peer.Serial, Key: key}, nil
}

// certified returns who asks: somebody with a certificate that counts, whose request is an empty object.
func (d *Door) certified(r *http.Request, body []byte) (ca.Peer, error) {
	peer, err := d.cfg.CA.PeerOf(r.TLS)
	if err != nil {
		return peer, wire.New(wire.CodeNotAllowed, "", "keys are told on a connection that shows a certificate")
	}
	if err := d.cfg.Core.Certified(peer.Subject, peer.Serial); err != nil {
		return peer, err
	}
	return peer, empty(body)
}

// certify checks the request, has the core decide, and only then signs. After a crash before the
// decision is durable, nothing has happened. After a crash behind it, a serial is accepted that no
// certificate has, and the node asks again with the same token and key, or with its old certificate.
func (d *Door) certify(ctx context.Context, by jointoken.Fingerprint, subject string, csr []byte,
	event func(key, serial string, until time.Time) enrol.Event) (*jointoken.Admission, error) {
	req, err := ca.ParseRequest(csr)
	if err != nil {
		return nil, err
	}
	name := path.Base(subject)
	if req.Name != "" && req.Name != name && req.Name != subject {
		return nil, wire.New(wire.CodeWrongTarget, "/csr", "the certificate request is for another node")
	}
	serial, err := ca.NewSerial()
	if err != nil {
		return nil, err
	}
	from, until, err := d.cfg.CA.ValidityBy(by, d.cfg.Life)
	if err != nil {
		return nil, err
	}
	if err := d.cfg.Core.Enrolment(ctx, event(req.Hash, serial, until)); err != nil {
		return nil, err
	}
	der, err := d.cfg.CA.Issue(req.Key, ca.Grant{Subject: subject, Serial: serial, From: from, Until: until, CA: by})
	if err != nil {
		return nil, err
	}
	list, rev := d.cfg.Core.Keys()
	return &jointoken.Admission{Unit: d.cfg.Unit, Node: name, Certificate: der, CA: d.cfg.CA.CertificateOf(by),
		UnitKeys: list, KeysRev: rev, Brokers: d.cfg.Brokers}, nil
}
