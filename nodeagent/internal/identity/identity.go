// Package identity is who this node is, and whom it trusts: its key, the certificate that the
// unit's CA made for it, that CA, the unit's signing keys, and where the broker is. It joins the
// unit with a token, renews the certificate by itself, and gives TLS what it needs.
//
// The key is made here and never leaves the node. It is in the file, or a key program has it, which signs for the
// agent (package signer). All else of an identity is one file, mode 0600, that
// is replaced as a whole: a crash at any moment leaves the old identity or the new one. Nobody is
// trusted but the CA whose fingerprint the token named, neither the system's authorities nor
// addresses or names on the way. It must not know what travels on the connections.
package identity

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/signer"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// The files in an identity's directory.
const (
	File        = "identity.json"
	pendingFile = "pending.json" // the key of a join that has not ended
	takenFile   = "taken"        // names the join whose signing keys the agent has pinned
)

// Identity is what a join brought. It does not change; a renewal makes another one.
type Identity struct {
	Unit       string
	Node       string
	Controller string             // URL of the controller's join door
	Brokers    []jointoken.Broker // in order of preference
	UnitKeys   []wire.Key         // that sign what the controller says
	KeysRev    uint64             // number of that list
	Floor      jointoken.Floor    // what was old when the node joined

	join string          // names the join that brought it: its first certificate's fingerprint
	cert tls.Certificate // with Leaf
	ca   *x509.Certificate
}

// Expires is when the certificate ends.
func (id *Identity) Expires() time.Time { return id.cert.Leaf.NotAfter }

// CA is the fingerprint of the CA that the node trusts.
func (id *Identity) CA() jointoken.Fingerprint { return jointoken.FingerprintOf(id.ca.Raw) }

// known is a time that has passed for certain: nobody signs what begins later.
func (id *Identity) known() time.Time {
	if id.cert.Leaf.NotBefore.After(id.ca.NotBefore) {
		return id.cert.Leaf.NotBefore
	}
	return id.ca.NotBefore
}

// saved is an identity as its file has it; bytes are base64.
type saved struct {
	V           int                `json:"v"`
	Unit        string             `json:"unit"`
	Node        string             `json:"node"`
	Controller  string             `json:"controller"`
	Join        string             `json:"join"`
	Key         []byte             `json:"key,omitzero"` // PKCS #8; none: the key program has it
	Certificate []byte             `json:"certificate"`  // DER
	CA          []byte             `json:"ca"`           // DER
	UnitKeys    []wire.Key         `json:"unitKeys"`
	KeysRev     uint64             `json:"keysRev,omitzero"`
	Floor       jointoken.Floor    `json:"floor,omitzero"`
	Brokers     []jointoken.Broker `json:"brokers"`
}

// version of the file. History: 2 has keysRev and floor; 3 has no key.
const (
	version        = 2
	versionOutside = 3 // the key program has the key
)

// ErrNone says that the node has not joined.
var ErrNone = errors.New("this node has not joined a unit")

// Load reads the identity in dir. program is the key program, nil if there is none; it is not asked. The error is
// ErrNone, or one that a person can act on. An expired certificate is no error: renewing it may still help, and
// reporting needs a name.
func Load(dir string, program *signer.Client) (*Identity, error) {
	path := filepath.Join(dir, File)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, ErrNone
	} else if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("identity: %s is open to others (mode %v); chmod 600 it", path, info.Mode().Perm())
	}
	var s saved
	if err := json.Unmarshal(data, &s, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("identity: %s cannot be read (%s); join again with a new token", path,
			wire.AsError(err).Code)
	}
	if s.V < 1 || s.V > versionOutside {
		return nil, fmt.Errorf("identity: %s has format %d, this program knows %d", path, s.V, versionOutside)
	}
	if s.V == versionOutside && program == nil {
		return nil, fmt.Errorf("identity: the key for %s is with a key program: say with --key where it is", path)
	}
	key, err := s.signer(program)
	if err != nil {
		return nil, fmt.Errorf("identity: %s: %w; join again with a new token", path, err)
	}
	a := jointoken.Admission{Unit: s.Unit, Node: s.Node, Certificate: s.Certificate, CA: s.CA, UnitKeys: s.UnitKeys,
		KeysRev: s.KeysRev, Floor: s.Floor, Brokers: s.Brokers}
	id, err := admitted(&a, key, jointoken.FingerprintOf(s.CA))
	if err != nil {
		return nil, fmt.Errorf("identity: %s: %w; join again with a new token", path, err)
	}
	id.Controller, id.join = s.Controller, s.Join
	return id, nil
}

// signer is the key of a saved identity.
func (s *saved) signer(program *signer.Client) (crypto.Signer, error) {
	if s.V != versionOutside {
		return parseKey(s.Key)
	}
	leaf, err := x509.ParseCertificate(s.Certificate)
	if err != nil {
		return nil, errors.New("the node's certificate cannot be read")
	}
	return program.Key(leaf.PublicKey)
}

// outside reports whether a key program has the key.
func (id *Identity) outside() bool {
	_, ok := id.cert.PrivateKey.(*signer.Key)
	return ok
}

// save replaces the identity in dir.
func (id *Identity) save(dir string, steps durable.Steps) error {
	s := saved{V: versionOutside, Unit: id.Unit, Node: id.Node, Controller: id.Controller, Join: id.join,
		Certificate: id.cert.Leaf.Raw, CA: id.ca.Raw, UnitKeys: id.UnitKeys, KeysRev: id.KeysRev, Floor: id.Floor,
		Brokers: id.Brokers}
	if !id.outside() {
		var err error
		if s.Key, err = x509.MarshalPKCS8PrivateKey(id.cert.PrivateKey); err != nil {
			return fmt.Errorf("identity: %w", err)
		}
		s.V = version
	}
	data, err := json.Marshal(&s, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, File), append(data, '\n'), 0o600, steps); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	return nil
}

// admitted checks what a controller admitted this node with, and makes an identity of it.
func admitted(a *jointoken.Admission, key crypto.Signer, fp jointoken.Fingerprint) (*Identity, error) {
	if jointoken.FingerprintOf(a.CA) != fp {
		return nil, errors.New("the CA is not the one that was expected")
	}
	ca, err := x509.ParseCertificate(a.CA)
	if err != nil || !ca.IsCA {
		return nil, errors.New("the CA's certificate is not one of a CA")
	}
	leaf, err := x509.ParseCertificate(a.Certificate)
	if err != nil {
		return nil, errors.New("the node's certificate cannot be read")
	}
	if pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(leaf.PublicKey) {
		return nil, errors.New("the certificate is for another key")
	}
	if want := jointoken.IdentityURI(a.Unit, "node/"+a.Node); len(leaf.URIs) != 1 || leaf.URIs[0].String() != want {
		return nil, fmt.Errorf("the certificate is not for node %q of unit %q", a.Node, a.Unit)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: leaf.NotBefore,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	for _, k := range a.UnitKeys {
		if seal.KeyID(k.Ed25519) != k.ID {
			return nil, errors.New("a signing key of the unit is not what its ID says")
		}
	}
	for _, b := range a.Brokers {
		if !strings.HasPrefix(b.URL, "tls://") {
			return nil, fmt.Errorf("the broker %.200q is not reached over TLS", b.URL)
		}
	}
	return &Identity{Unit: a.Unit, Node: a.Node, Brokers: a.Brokers, UnitKeys: a.UnitKeys, KeysRev: a.KeysRev,
		Floor: a.Floor, ca: ca,
		cert: tls.Certificate{Certificate: [][]byte{a.Certificate}, PrivateKey: key, Leaf: leaf}}, nil
}

// prepare makes the directory and removes what a crash left.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	for _, name := range []string{File, pendingFile, takenFile, casFile, rootFile} {
		if err := durable.Clean(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("identity: %w", err)
		}
	}
	return nil
}
