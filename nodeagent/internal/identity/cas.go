package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
)

// casFile has the CAs that the node believes once the controller has told them: a file of its own, which an older agent
// leaves alone.
const casFile = "cas.json"

// savedCAs are the CAs as their file has them; without the file the node believes the CA of its certificate.
type savedCAs struct {
	Join    string   `json:"join"` // that they belong to
	Rev     uint64   `json:"rev"`
	CAs     [][]byte `json:"cas"`   // DER, the oldest first
	Signs   string   `json:"signs"` // fingerprint of the one that certifies
	Refused []string `json:"refused,omitempty"`
}

// believed are the CAs that count for the node, and the brokers that do not.
type believed struct {
	rev     uint64
	cas     []*x509.Certificate   // the oldest first
	signs   jointoken.Fingerprint // that certifies now
	refused map[string]bool       // keys, as jointoken.RefusedKey names them
}

// parseCAs checks certificates of CAs: each has signed itself, and is there once.
func parseCAs(ders [][]byte) (cas []*x509.Certificate, err error) {
	for i, der := range ders {
		ca, err := x509.ParseCertificate(der)
		if err != nil || !ca.IsCA || ca.CheckSignatureFrom(ca) != nil {
			return nil, errors.New("a CA's certificate is not one of a CA")
		}
		if slices.ContainsFunc(ders[:i], func(other []byte) bool { return slices.Equal(other, der) }) {
			return nil, errors.New("a CA is there twice")
		}
		cas = append(cas, ca)
	}
	return cas, nil
}

// believe makes of saved CAs what counts.
func (s *savedCAs) believe() (b believed, err error) {
	b = believed{rev: s.Rev, refused: make(map[string]bool, len(s.Refused))}
	if b.cas, err = parseCAs(s.CAs); err != nil {
		return b, err
	}
	for _, ca := range b.cas {
		if fp := jointoken.FingerprintOf(ca.Raw); fp.String() == s.Signs {
			b.signs = fp
		}
	}
	if b.signs == (jointoken.Fingerprint{}) {
		return b, errors.New("no CA of the list signs")
	}
	for _, key := range s.Refused {
		b.refused[key] = true
	}
	return b, nil
}

// loadCAs reads what the node believes. A file that cannot be read counts for nothing: the controller tells it again.
func (k *Renewer) loadCAs() (savedCAs, believed) {
	id := k.Current()
	own := believed{cas: []*x509.Certificate{id.ca}, signs: id.CA()}
	var s savedCAs
	data, err := os.ReadFile(filepath.Join(k.cfg.Dir, casFile))
	if errors.Is(err, fs.ErrNotExist) {
		return savedCAs{}, own
	}
	if err == nil {
		err = json.Unmarshal(data, &s, json.RejectUnknownMembers(true))
	}
	if err == nil && s.Join != id.join {
		return savedCAs{}, own
	}
	if err == nil {
		var b believed
		if b, err = s.believe(); err == nil {
			return s, b
		}
	}
	k.cfg.Log.Warn("the list of CAs cannot be read, and is asked for again", zap.Error(err))
	return savedCAs{}, own
}

// CAs returns the IDs of the CAs that the node believes, the oldest first.
func (k *Renewer) CAs() (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ca := range k.believes.cas {
		ids = append(ids, jointoken.FingerprintOf(ca.Raw).ID())
	}
	return ids
}

// CAsChanged is told when other CAs, or other brokers, count.
type CAsChanged struct{}

// Pauses of RunCAs. Who joins a unit together does not ask together.
const (
	lookSoon   = 10 * time.Minute // the first question comes within
	lookCAs    = time.Hour        // and then one in each
	promptly   = time.Second      // between two questions that the controller asked for
	followSoon = 10 * time.Minute // within which nodes renew with a new CA
)

// AskCAs has RunCAs ask the controller which CAs and brokers count: it said that there is something new, or something
// is wrong with what the broker says. It returns at once.
func (k *Renewer) AskCAs() { signal(k.askedCAs) }

// RunCAs asks the controller from time to time, and whenever AskCAs was called, which CAs and brokers count; keeps
// that; and tells OnCAs. It goes on until ctx ends.
func (k *Renewer) RunCAs(ctx context.Context) {
	beat := k.cfg.Watch.Start("ca", 3*timeout)
	defer beat.End()
	next, vain := rand.N(lookSoon), 0
	if k.joinedAnew { // it was not given the root key yet
		next = 0
	}
	if err := k.finishRoot(); err != nil {
		k.cfg.Log.Warn("a list of the root key cannot be followed", zap.Error(err)) // at the first look again
	}
	for ctx.Err() == nil {
		beat.Wait(ctx, next, k.askedCAs)
		if ctx.Err() != nil {
			return
		}
		changed, err := k.look(ctx)
		if changed && k.cfg.OnCAs != nil {
			k.cfg.OnCAs(CAsChanged{})
		}
		if err != nil {
			if ctx.Err() == nil {
				k.cfg.Log.Debug("the controller was asked in vain which CAs count", zap.Error(err))
			}
			p := min(keysPause<<min(vain, 16), maxKeysPause)
			vain++
			next = p/2 + rand.N(p/2)
			beat.Sleep(ctx, min(next, keysPause/2)) // however often it is called for
			continue
		}
		vain = 0
		beat.Sleep(ctx, promptly)
		next = lookCAs/2 + rand.N(lookCAs/2)
	}
}

// look asks once: what a root key has said first, since what a CA says may be newer than that.
func (k *Renewer) look(ctx context.Context) (changed bool, err error) {
	rerr := k.finishRoot()
	rooted := false
	if rerr == nil {
		rooted, rerr = k.askRoot(ctx)
	}
	if changed, err = k.askCAs(ctx); err != nil && !errors.Is(rerr, errNoRoot) {
		err = errors.Join(err, rerr)
	} else if rerr != nil {
		k.cfg.Log.Debug("no list of a root key was taken", zap.Error(rerr))
	}
	return changed || rooted, err
}

// askCAs asks once. What is new is on the disk before it counts.
func (k *Renewer) askCAs(ctx context.Context) (changed bool, err error) {
	id := k.Current()
	l, err := post(ctx, k.cfg.Dial, k.TLS(jointoken.ServerName), k.door(id)+jointoken.CAPath, []byte("{}"),
		jointoken.DecodeCAs)
	if err != nil {
		return false, err
	}
	if l.Unit != id.Unit {
		return false, fmt.Errorf("the controller keeps unit %q, not %q", l.Unit, id.Unit)
	}
	return k.takeCAs(savedCAs{Join: id.join, Rev: l.Rev, CAs: l.CAs, Signs: l.Signs, Refused: l.Refused})
}

// takeCAs takes a list that a CA vouches for which the node believes. One with a lower number is an older one: its CAs
// do not count.
func (k *Renewer) takeCAs(s savedCAs) (changed bool, err error) {
	b, err := s.believe()
	if err != nil {
		return false, fmt.Errorf("the controller's answer: %w", err)
	}
	k.mu.Lock()
	have, saved := k.believes, k.savedCAs
	k.mu.Unlock()
	if b.rev <= have.rev {
		s.Rev, s.CAs, s.Signs = saved.Rev, saved.CAs, saved.Signs
		if saved.CAs == nil { // nothing is kept but that the node believes its own
			s.CAs, s.Signs = [][]byte{have.cas[0].Raw}, have.signs.String()
		}
		b.rev, b.cas, b.signs = have.rev, have.cas, have.signs
		if slices.Equal(s.Refused, saved.Refused) {
			return false, nil
		}
	}
	return true, k.keepCAs(s, b)
}

// keepCAs has saved CAs, which are b, count: on the disk first.
func (k *Renewer) keepCAs(s savedCAs, b believed) error {
	data, err := json.Marshal(&s, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(k.cfg.Dir, casFile), data, 0o600, k.cfg.Steps); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	k.mu.Lock()
	before := k.believes
	k.believes, k.savedCAs = b, s
	if b.signs != before.signs {
		k.followAt = k.cfg.Follow()
	}
	ids := make([]string, 0, len(b.cas))
	for _, ca := range b.cas {
		ids = append(ids, jointoken.FingerprintOf(ca.Raw).ID())
	}
	k.mu.Unlock()
	k.cfg.Log.Info("other CAs or brokers count from now on", zap.Uint64("rev", b.rev),
		zap.String("cas", strings.Join(ids, " ")), zap.Int("refused", len(b.refused)))
	signal(k.follow)
	return nil
}

// toFollow reports whether another CA certifies than the one that signed the node's certificate, and how long to wait.
func (k *Renewer) toFollow(id *Identity) (wait time.Duration, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(0, time.Until(k.followAt)), !k.cfg.Stay && k.believes.signs != id.CA()
}

// serverName is the name that the node asks for: of a controller, it says which CA the node believes.
func (k *Renewer) serverName(name string) string {
	if name != jointoken.ServerName {
		return name
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cfg.Stay {
		return jointoken.BelievedName(k.id.CA())
	}
	return jointoken.BelievedName(k.believes.signs)
}

// Refuses reports whether the server that was shown last under a name does not count any more.
func (k *Renewer) Refuses(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.believes.refused[k.shown[name]]
}

// errRevoked says that a broker's certificate does not count any more.
var errRevoked = errors.New("its certificate was revoked or replaced; make one with: tandem identity certify")

// show keeps in mind which key a server has shown, and refuses one that does not count any more.
func (k *Renewer) show(name string, leaf *x509.Certificate) error {
	key := jointoken.RefusedKey(leaf.RawSubjectPublicKeyInfo)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shown[name] = key
	if k.believes.refused[key] {
		return errRevoked
	}
	return nil
}
