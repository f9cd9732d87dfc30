package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/event"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/pulse"
	"tandem.internal/shared/wire"
)

// EventType says what became of a certificate.
type EventType string

// The events.
const (
	Renewed    EventType = event.CertificateRenewed
	NotRenewed EventType = event.CertificateNotRenewed // reported at once, for each new reason, and daily
	Expired    EventType = event.CertificateExpired    // and could not be renewed: the node has to join again
)

// Event is something that an operator should know.
type Event struct {
	Type    EventType
	Expires time.Time   // of the certificate in use
	Error   *wire.Error // why; nil with Renewed
}

// Pauses of the renewal.
const (
	lookAgain   = time.Hour      // a clock may be set, a machine sleep: the wall clock is looked at this often
	backoff     = time.Minute    // after the first failure
	maxPause    = 6 * time.Hour  // after many
	reportAgain = 24 * time.Hour // the same failure is reported again
)

// RenewerConfig is what a Renewer needs.
type RenewerConfig struct {
	Dir        string
	Controller string         // URL of the join door, if it is elsewhere than at the join; "": where it was
	Program    *signer.Client // has the keys; nil: they are in Dir

	Now     func() time.Time // wall clock, may jump; nil: time.Now
	Rand    *rand.Rand       // chance in jitter, used by Run only; nil: its own
	Log     *zap.Logger      // nil: silent
	Dial    DialFunc         // nil: the network
	Steps   durable.Steps    // fault seam; nil in production
	OnEvent func(Event)      // called on Run's goroutine; nil: nobody
	OnKeys  func(Keys)       // called on RunKeys' goroutine; nil: nobody
	Watch   pulse.Watch      // watches that Run, RunKeys and RunReportKey go round; nil: nobody does

	OnReportKey func(ReportKey)  // called on RunReportKey's goroutine; nil: nobody
	OnCAs       func(CAsChanged) // called on RunCAs' goroutine; nil: nobody
	OnRootKeys  func(RootKeys)   // called on RunCAs' goroutine; nil: nobody

	Roots []string // public root keys that the node was given, as publisher.Key writes them; none: the door tells

	// Stay has the node keep a certificate of the CA that it has one of: the agent that may come back knows one only.
	Stay bool
	// Follow draws when to renew with a new CA, nil: within ten minutes, so that nodes do not come together.
	Follow func() time.Time
}

// Renewer is the certificate renewer: it holds the identity in use and renews it. All methods but Run may be called by
// many
// goroutines.
type Renewer struct {
	cfg   RenewerConfig
	asked chan struct{} // holds one token while somebody wants the keys

	askedCAs chan struct{} // holds one token while somebody wants the CAs
	follow   chan struct{} // holds one token after they have changed, until Run has noticed

	joinedAnew bool // the agent has not been started since the newest join

	next chan struct{} // holds one token after a renewal, until RunReportKey has noticed

	mu         sync.Mutex
	id         *Identity
	heard      time.Time // newest time that a beacon has told
	reported   EventType // newest one that was reported, until a renewal succeeds
	reason     wire.Code
	reportedAt time.Time
	have       savedReportKey
	known      bool // have is what is kept; false: the key program has not said yet
	believes   believed
	savedCAs   savedCAs
	root       savedRoot
	keyed      string            // serial number of the certificate that the key alone has brought
	rootTaken  uint64            // number of the list whose keys the agent has taken
	followAt   time.Time         // when to renew with a new CA
	shown      map[string]string // key that a server has shown last, by name
}

// NewRenewer loads the identity; the error is Load's.
func NewRenewer(cfg RenewerConfig) (*Renewer, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if cfg.Controller != "" {
		door, err := Controller(cfg.Controller)
		if err != nil {
			return nil, err
		}
		cfg.Controller = door
	}
	id, err := Load(cfg.Dir, cfg.Program)
	if err != nil {
		return nil, err
	}
	cfg.Log = cfg.Log.With(zap.String("unit", id.Unit), zap.String("node", id.Node))
	if err := prepare(cfg.Dir); err != nil {
		return nil, err
	}
	if cfg.Follow == nil {
		cfg.Follow = func() time.Time { return time.Now().Add(rand.N(followSoon)) }
	}
	k := &Renewer{cfg: cfg, id: id, asked: make(chan struct{}, 1), next: make(chan struct{}, 1),
		askedCAs: make(chan struct{}, 1), follow: make(chan struct{}, 1), shown: map[string]string{}}
	k.savedCAs, k.believes = k.loadCAs()
	k.root, k.joinedAnew = k.loadRoot(), k.Fresh()
	k.followAt = cfg.Follow()
	return k, nil
}

// Current is the identity in use.
func (k *Renewer) Current() *Identity {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.id
}

// Fresh reports whether the agent has not pinned the signing keys of the newest join yet. Those that
// a renewal brings do not count: an agent that missed a change of the keys asks for them (Keys).
func (k *Renewer) Fresh() bool {
	data, err := os.ReadFile(filepath.Join(k.cfg.Dir, takenFile))
	return err != nil || string(data) != k.Current().join
}

// Taken notes that they are pinned, durably.
func (k *Renewer) Taken() error {
	if err := durable.WriteFile(filepath.Join(k.cfg.Dir, takenFile), []byte(k.Current().join), 0o600,
		k.cfg.Steps); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	return nil
}

// Heard takes in the newest time that the controller has told, in place of the one before: a node whose clock stands
// in 1970 learns from it that its certificate is to be renewed. It goes back where the node believes the controller
// that it went back (inbox.Trust). One after the CA's end is not believed.
func (k *Renewer) Heard(t time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ca := range k.believes.cas {
		if !t.After(ca.NotAfter) {
			k.heard = t
		}
	}
}

// Now is the wall clock, but never a time that is known to have passed.
func (k *Renewer) Now() time.Time {
	return k.times()[0]
}

// times are what time it may be, the likeliest first: the wall clock, but no time that is known to have passed; the
// same without what was heard, which comes from a clock that may have been wrong; the wall clock alone.
func (k *Renewer) times() [3]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	wall := k.cfg.Now()
	own := later(wall, k.id.known())
	for _, ca := range k.believes.cas {
		own = later(own, ca.NotBefore)
	}
	return [3]time.Time{later(own, k.heard), own, wall}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// TLS is the configuration for connections to a broker: TLS 1.3, nobody trusted but the unit's
// CAs, and on each connection the certificate that is newest then. name is what the broker's
// certificate must bear.
func (k *Renewer) TLS(name string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: k.serverName(name),
		// The usual verification knows one time only. What replaces it is VerifyConnection, which runs in every
		// handshake before anything is sent.
		InsecureSkipVerify: true,
		VerifyConnection:   func(cs tls.ConnectionState) error { return k.verify(cs, name) },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if err := k.fetchReportKey(); err != nil {
				return nil, err
			}
			return &k.Current().cert, nil
		},
	}
}

// verify is the usual verification of a server's certificate. One that has expired, or is not valid yet, by what was
// heard is tried by the node's own clock: a controller whose clock was wrong must not lock the node out.
func (k *Renewer) verify(cs tls.ConnectionState, name string) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	k.mu.Lock()
	for _, ca := range k.believes.cas {
		roots.AddCert(ca)
	}
	k.mu.Unlock()
	for _, c := range cs.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if name == "" {
		return errors.New("identity: no name is known that the other side's certificate must bear")
	}
	var first error
	for i, now := range k.times() {
		_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name,
			CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if err == nil {
			if i > 0 {
				k.cfg.Log.Warn("a certificate holds by this node's own clock only", zap.String("of", name),
					zap.Time("clock", now), zap.Time("heard", k.times()[0]))
			}
			return k.show(name, cs.PeerCertificates[0])
		}
		if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); !ok || invalid.Reason != x509.Expired {
			first = err // no time would help
			break
		}
		if first == nil {
			first = err
		}
	}
	return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: first}
}

// Run renews the certificate when two thirds of its life are over, until ctx ends; at once if there is a key program
// and the key is not with it yet; soon after another CA has begun to certify.
func (k *Renewer) Run(ctx context.Context) {
	beat := k.cfg.Watch.Start("certificate", timeout+signer.Limit)
	defer beat.End()
	early := k.cfg.Rand.Float64()
	failures := 0
	for ctx.Err() == nil {
		now, id := k.Now(), k.Current()
		wait := due(id, early).Sub(now)
		if soon, ok := k.toFollow(id); ok {
			wait = min(wait, soon)
		}
		if wait > 0 && !k.toMove(id) {
			beat.Wait(ctx, min(wait, lookAgain), k.follow)
			continue
		}
		if err := k.renew(ctx, id); err == nil {
			failures, early = 0, k.cfg.Rand.Float64()
			beat.Sleep(ctx, backoff) // however short the new one's life is
			continue
		} else if ctx.Err() == nil {
			k.failed(id, err)
		}
		failures++
		beat.Sleep(ctx, k.pause(id, failures))
	}
}

// toMove reports whether the key is still in the directory and belongs into the key program.
func (k *Renewer) toMove(id *Identity) bool { return k.cfg.Program != nil && !id.outside() }

// due is when to renew: after two thirds of the life, and up to a twentieth earlier by chance, so
// that nodes that joined together do not come together.
func due(id *Identity, early float64) time.Time {
	leaf := id.cert.Leaf
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotBefore.Add(life*2/3 - time.Duration(early*float64(life)/20))
}

// pause grows from a minute to some hours, or to a fiftieth of a certificate that lives less, and is
// drawn from its upper half.
func (k *Renewer) pause(id *Identity, failures int) time.Duration {
	leaf := id.cert.Leaf
	most := max(backoff, min(maxPause, leaf.NotAfter.Sub(leaf.NotBefore)/50))
	p := min(backoff<<min(failures-1, 16), most)
	return p/2 + time.Duration(k.cfg.Rand.Int64N(int64(p/2)+1))
}

// renew trades the certificate for the next one, with a new key. Until the new identity is whole
// on the disk the old one is in use, and it counts until the one after next was issued: a crash
// or a lost answer costs a repetition.
func (k *Renewer) renew(ctx context.Context, id *Identity) error {
	key, err := makeKey(ctx, k.cfg.Dir, k.cfg.Program)
	if err != nil {
		return err
	}
	csr, err := request(id.Node, key)
	if err != nil {
		return err
	}
	body, err := jointoken.Encode(&jointoken.RenewRequest{CSR: csr})
	if err != nil {
		return err
	}
	door := k.door(id)
	a, keyed, err := k.askToRenew(ctx, id, door, body)
	if err != nil {
		return err
	}
	if a.Unit != id.Unit || a.Node != id.Node {
		return fmt.Errorf("the controller renewed node %q of unit %q; this is %q of %q", a.Node, a.Unit, id.Node,
			id.Unit)
	}
	by := jointoken.FingerprintOf(a.CA)
	if !k.knowsCA(by) {
		return errors.New("the controller's answer: the CA is not one that was expected")
	}
	next, err := admitted(a, key, by)
	if err != nil {
		return fmt.Errorf("the controller's answer: %w", err)
	}
	next.Controller, next.join, next.Floor = door, id.join, id.Floor
	if err := next.save(k.cfg.Dir, k.cfg.Steps); err != nil {
		return err
	}
	k.mu.Lock()
	k.id, k.reported, k.reason = next, "", ""
	if keyed {
		k.keyed = next.cert.Leaf.SerialNumber.Text(16)
	}
	k.mu.Unlock()
	signal(k.next)
	k.cfg.Log.Info("certificate renewed", zap.Time("until", next.Expires()))
	k.report(Event{Type: Renewed, Expires: next.Expires()})
	return nil
}

// knowsCA reports whether the node believes a CA.
func (k *Renewer) knowsCA(fp jointoken.Fingerprint) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.believes.cas, func(ca *x509.Certificate) bool {
		return jointoken.FingerprintOf(ca.Raw) == fp
	})
}

// failed reports a failure, unless the same was reported today.
func (k *Renewer) failed(id *Identity, err error) {
	now := k.Now()
	ev := Event{Type: NotRenewed, Expires: id.Expires(), Error: refused(err)}
	if now.After(ev.Expires) {
		ev.Type = Expired
	}
	k.mu.Lock()
	again := ev.Type == k.reported && ev.Error.Code == k.reason && now.Sub(k.reportedAt).Abs() < reportAgain
	if !again {
		k.reported, k.reason, k.reportedAt = ev.Type, ev.Error.Code, now
	}
	k.mu.Unlock()
	if again {
		k.cfg.Log.Debug("certificate still not renewed", zap.Error(err))
		return
	}
	k.cfg.Log.Warn("certificate not renewed", zap.Time("expires", ev.Expires), zap.Error(err))
	k.report(ev)
}

func (k *Renewer) report(ev Event) {
	if k.cfg.OnEvent != nil {
		k.cfg.OnEvent(ev)
	}
}
