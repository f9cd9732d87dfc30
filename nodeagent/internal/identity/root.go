package identity

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/wire"
)

// rootFile has what a root key has said: a file of its own, which an older agent leaves alone.
const rootFile = "root.json"

// savedRoot is what the node knows of the unit's root keys, as its file has it.
type savedRoot struct {
	Join   string   `json:"join"`            // that it belongs to
	Given  []string `json:"given,omitempty"` // root keys of the agent's settings that it began with; none: of the door
	Roots  []string `json:"roots"`           // that count now
	Number uint64   `json:"number,omitzero"` // of the newest list

	// Of a list that is followed: its CAs, until they count; its signing keys, until the agent has taken them.
	CAs      *savedCAs  `json:"cas,omitempty"`
	UnitKeys []wire.Key `json:"unitKeys,omitempty"`
	KeysRev  uint64     `json:"keysRev,omitzero"`
}

func (s *savedRoot) known() rootlist.Known { return rootlist.Known{Roots: s.Roots, Number: s.Number} }

// loadRoot reads what the node knows of root keys. What it was given stands over what it has learned, until a list
// leads on from there.
func (k *Renewer) loadRoot() savedRoot {
	begin := savedRoot{Join: k.Current().join, Given: k.cfg.Roots, Roots: k.cfg.Roots}
	data, err := os.ReadFile(filepath.Join(k.cfg.Dir, rootFile))
	if errors.Is(err, fs.ErrNotExist) {
		return begin
	}
	var s savedRoot
	if err == nil {
		err = json.Unmarshal(data, &s, json.RejectUnknownMembers(true))
	}
	if err != nil {
		k.cfg.Log.Warn("what the node knows of root keys cannot be read, and is learned anew", zap.Error(err))
		return begin
	}
	if s.Join != begin.Join || !slices.Equal(s.Given, begin.Given) {
		return begin
	}
	return s
}

// saveRoot keeps it, durably, before it counts.
func (k *Renewer) saveRoot(s savedRoot) error {
	data, err := json.Marshal(&s, json.Deterministic(true))
	if err == nil {
		err = durable.WriteFile(filepath.Join(k.cfg.Dir, rootFile), data, 0o600, k.cfg.Steps)
	}
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	k.mu.Lock()
	k.root = s
	k.mu.Unlock()
	return nil
}

func (k *Renewer) currentRoot() savedRoot {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.root
}

// Root is the number of the newest list of a root key that the node has taken; 0: none.
func (k *Renewer) Root() uint64 { return k.currentRoot().Number }

// Rooted reports whether the node knows a root key.
func (k *Renewer) Rooted() bool { return len(k.currentRoot().Roots) > 0 }

// RootKeys are signing keys that a root key has vouched for in the list with that number, and that the agent has not
// taken yet; none: ok is false.
func (k *Renewer) RootKeys() (keys Keys, number uint64, ok bool) {
	s := k.currentRoot()
	return Keys{List: s.UnitKeys, Rev: s.KeysRev}, s.Number, len(s.UnitKeys) > 0
}

// RootKeysTaken says that the agent has saved what RootKeys returned, of the list with that number. It returns at once;
// RunCAs notes it.
func (k *Renewer) RootKeysTaken(number uint64) {
	k.mu.Lock()
	k.rootTaken = number
	k.mu.Unlock()
	k.AskCAs()
}

// finishRoot does what is left to do of a list that was taken.
func (k *Renewer) finishRoot() error {
	k.mu.Lock()
	s, taken := k.root, k.rootTaken
	k.mu.Unlock()
	if s.CAs != nil {
		b, err := s.CAs.believe()
		if err != nil {
			return fmt.Errorf("the list of CAs %d: %w", s.Number, err)
		}
		if err := k.keepCAs(*s.CAs, b); err != nil {
			return err
		}
		s.CAs = nil
		if err := k.saveRoot(s); err != nil {
			return err
		}
	}
	if len(s.UnitKeys) == 0 {
		return nil
	}
	if taken == s.Number {
		s.UnitKeys, s.KeysRev = nil, 0
		return k.saveRoot(s)
	}
	if k.cfg.OnRootKeys != nil {
		k.cfg.OnRootKeys(RootKeys{})
	}
	return nil
}

// errNoRoot says that the controller has answered, and knows of no root key.
var errNoRoot = errors.New("the controller has no list of a root key")

// askRoot asks the controller what a root key has said: first over a connection for which a CA vouches that the node
// believes, so that it learns of root keys, and of their lists in time. If there is none, whoever answers is asked, and
// nothing of the answer is believed but what a known root key has signed.
func (k *Renewer) askRoot(ctx context.Context) (changed bool, err error) {
	id := k.Current()
	where := k.door(id) + jointoken.RootPath
	c, err := post(ctx, k.cfg.Dial, k.TLS(jointoken.ServerName), where, []byte("{}"), rootlist.DecodeChain)
	if _, answered := errors.AsType[*wire.Error](err); answered {
		return false, errNoRoot
	}
	if err == nil {
		return k.takeRoot(c.Lists, true)
	}
	if len(k.currentRoot().Roots) == 0 {
		return false, err
	}
	anybody := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: k.serverName(jointoken.ServerName),
		InsecureSkipVerify: true} // the signature is what counts
	c, anyErr := post(ctx, k.cfg.Dial, anybody, where, []byte("{}"), rootlist.DecodeChain)
	if anyErr != nil {
		return false, err
	}
	return k.takeRoot(c.Lists, false)
}

// takeRoot takes the newest list of a chain, if a root key that is known has signed it. vouched: a CA that the node
// believes vouches for who has told it. Then the list of that CA, if it is newer, stays; else the root key's stands
// over whatever a CA has said. What is new is on the disk before it counts, and what a crash leaves undone is done at
// the next start.
func (k *Renewer) takeRoot(chain []rootlist.Signed, vouched bool) (changed bool, err error) {
	id, s := k.Current(), k.currentRoot()
	var known rootlist.Known
	var l *rootlist.List
	if len(s.Roots) == 0 && vouched {
		known, l, err = rootlist.Begin(id.Unit, chain)
	} else {
		known, l, err = s.known().Follow(id.Unit, chain)
	}
	if errors.Is(err, rootlist.ErrOld) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("a list of CAs was refused: %w", err)
	}
	k.mu.Lock()
	rev, refused := k.believes.rev, k.savedCAs.Refused
	k.mu.Unlock()
	s = savedRoot{Join: id.join, Given: k.cfg.Roots, Roots: known.Roots, Number: known.Number,
		UnitKeys: s.UnitKeys, KeysRev: s.KeysRev}
	if !vouched || l.CAsRev > rev {
		s.CAs = &savedCAs{Join: id.join, Rev: l.CAsRev, CAs: l.CAs, Signs: l.Signs, Refused: refused}
		if _, err := s.CAs.believe(); err != nil {
			return false, fmt.Errorf("a list of CAs was refused: %w", err)
		}
	}
	if !vouched {
		s.UnitKeys, s.KeysRev = l.UnitKeys, l.KeysRev
	}
	if err := k.saveRoot(s); err != nil {
		return false, err
	}
	k.cfg.Log.Info("a list of CAs of the root key was taken", zap.Uint64("number", l.Number),
		zap.Bool("vouched", vouched))
	return true, k.finishRoot()
}

// RootKeys is told when Renewer.RootKeys has something.
type RootKeys struct{}

// askToRenew asks the door for the next certificate. Where the CA of the present one may not count any more, the key is
// shown instead, which keyed says: the controller looks whether it has certified that one, if the unit has a root key.
func (k *Renewer) askToRenew(ctx context.Context, id *Identity, door string, body []byte) (
	a *jointoken.Admission, keyed bool, err error) {
	conf := k.TLS(jointoken.ServerName)
	if k.knowsCA(id.CA()) {
		a, err = post(ctx, k.cfg.Dial, conf, door+jointoken.RenewPath, body, jointoken.DecodeAdmission)
		if _, answered := errors.AsType[*wire.Error](err); err == nil || answered || !k.Rooted() {
			return a, false, err
		}
	}
	k.mu.Lock()
	conf.ServerName = jointoken.KeyedName(k.believes.signs)
	k.mu.Unlock()
	a, kerr := post(ctx, k.cfg.Dial, conf, door+jointoken.RenewPath, body, jointoken.DecodeAdmission)
	if kerr == nil {
		return a, true, nil
	}
	return nil, false, cmp.Or(err, kerr)
}

// BrokerTLS is TLS for sessions with a broker. Proofs under a CA that is gone count for nothing: there is no session
// before the node has the report key of a certificate that its key alone has brought.
func (k *Renewer) BrokerTLS(name string) *tls.Config {
	conf := k.TLS(name)
	shown := conf.GetClientCertificate
	conf.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		k.mu.Lock()
		serial := k.id.cert.Leaf.SerialNumber.Text(16)
		early := k.keyed == serial && k.have.Key != nil && k.have.Serial != serial
		k.mu.Unlock()
		if early {
			return nil, errors.New("the report key of the new certificate is not there yet")
		}
		return shown(info)
	}
	return conf
}
