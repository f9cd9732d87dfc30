package ca

import (
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
)

// keyFiles matches the files of the CAs that rotations have made.
const keyFiles = "ca-key-*.pem"

func keyFile(fp jointoken.Fingerprint) string { return "ca-key-" + fp.ID() + ".pem" }

// load reads every CA in the directory, after what a crash left was removed.
func (c *CA) load() error {
	for _, name := range []string{KeyFile, CertificateFile} {
		if err := durable.Clean(filepath.Join(c.dir, name)); err != nil {
			return err
		}
	}
	left, lerr := filepath.Glob(filepath.Join(c.dir, "."+keyFiles+".tmp*"))
	if lerr != nil {
		return lerr
	}
	for _, tmp := range left {
		name, _, _ := strings.Cut(filepath.Base(tmp)[1:], ".tmp")
		if err := durable.Clean(filepath.Join(c.dir, name)); err != nil {
			return err
		}
	}
	return c.look()
}

// Look returns an error if a controller of a unit cannot start with a CA's files that are in a directory. It writes
// nothing.
func Look(unit, dir string) error {
	c := &CA{unit: unit, dir: dir, held: map[jointoken.Fingerprint]*authority{}}
	if err := c.look(); err != nil {
		return fmt.Errorf("unit CA: %w", err)
	}
	return nil
}

// look takes in the files of all CAs.
func (c *CA) look() error {
	paths, err := filepath.Glob(filepath.Join(c.dir, keyFiles))
	if err != nil {
		return err
	}
	for _, path := range append([]string{filepath.Join(c.dir, KeyFile)}, paths...) {
		a, err := c.named(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		c.held[a.fp] = a
		c.raiseFloor(a.cert.NotBefore)
	}
	return nil
}

// named reads the file of an authority, which its name has to say.
func (c *CA) named(path string) (*authority, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a, err := c.read(path, data)
	if err != nil {
		return nil, err
	}
	if name := filepath.Base(path); name != KeyFile && name != keyFile(a.fp) {
		return nil, fmt.Errorf("%s holds another CA than its name says; it belongs into %s", path, keyFile(a.fp))
	}
	return a, nil
}

// CheckFile returns why Open would not take a CA's file; nil: it would. It changes nothing.
func CheckFile(unit, path string) error {
	if _, err := (&CA{unit: unit}).named(path); err != nil {
		return fmt.Errorf("unit CA: %w", err)
	}
	return nil
}

// read makes an authority of the content of its file.
func (c *CA) read(path string, data []byte) (*authority, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is open to others (mode %v); chmod 600 it", path, info.Mode().Perm())
	}
	a, err := authorityOf(c.unit, path, data)
	if errors.Is(err, ErrOther) {
		err = fmt.Errorf("%w; start with --unit and --state-dir of the same unit", err)
	}
	return a, err
}

// ErrOther is why a CA's file is not taken that is another unit's.
var ErrOther = errors.New("not of unit")

// authorityOf is the authority that the content of a file has.
func authorityOf(unit, path string, data []byte) (*authority, error) {
	key, cert, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &authority{fp: jointoken.FingerprintOf(cert.Raw), path: path, key: key, cert: cert}
	if a.reports, err = reportSecret(key); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if cert.Subject.CommonName != commonName(unit) {
		return nil, fmt.Errorf("%s is of %q, %w %q", path, cert.Subject.CommonName, ErrOther, unit)
	}
	return a, nil
}

// create makes a CA, durably, in the file that name gives it.
func (c *CA) create(path func(jointoken.Fingerprint) string) (*authority, error) {
	data, err := generate(c.unit, c.now())
	if err != nil {
		return nil, err
	}
	_, cert, err := parse(data)
	if err != nil {
		return nil, err
	}
	at := path(jointoken.FingerprintOf(cert.Raw))
	if err := durable.WriteFile(at, data, 0o600, c.steps); err != nil {
		return nil, err
	}
	a, err := c.read(at, data)
	if err == nil {
		c.held[a.fp] = a
	}
	return a, err
}

// newest is the CA that was made last, nil if there is none.
func (c *CA) newest() (last *authority) {
	for _, a := range c.held {
		if last == nil || a.cert.NotBefore.After(last.cert.NotBefore) {
			last = a
		}
	}
	return last
}

// Make makes another CA; it is durable when the call returns, and counts when Arrange says so.
func (c *CA) Make() (jointoken.Fingerprint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.create(func(fp jointoken.Fingerprint) string { return filepath.Join(c.dir, keyFile(fp)) })
	if err != nil {
		return jointoken.Fingerprint{}, fmt.Errorf("unit CA: %w", err)
	}
	return a.fp, nil
}

// Held returns the CAs whose files are there, whether they count or not, in the order of their fingerprints.
func (c *CA) Held() (all []jointoken.Fingerprint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for fp := range c.held {
		all = append(all, fp)
	}
	slices.SortFunc(all, func(x, y jointoken.Fingerprint) int { return slices.Compare(x[:], y[:]) })
	return all
}

// Listed returns the CAs that count.
func (c *CA) Listed() List {
	t := c.trust.Load()
	l := List{Signs: t.list[t.signs].fp}
	for _, a := range t.list {
		l.All = append(l.All, a.fp)
	}
	return l
}

// Counts reports whether a CA counts.
func (c *CA) Counts(fp jointoken.Fingerprint) bool { return c.trust.Load().find(fp) != nil }

// Certificates are the certificates of the CAs that count, the oldest first, in DER. They must not be changed.
func (c *CA) Certificates() (all [][]byte) {
	for _, a := range c.trust.Load().list {
		all = append(all, a.cert.Raw)
	}
	return all
}

// Arrange has these CAs count from now on. The error is about a CA whose file is not there, and then nothing has
// changed; or about the copy of the certificates, which the next start writes again.
func (c *CA) Arrange(l List) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &trusted{signs: -1, pool: x509.NewCertPool()}
	for i, fp := range l.All {
		a := c.held[fp]
		if a == nil {
			return fmt.Errorf("unit CA: the file of the CA %s is gone", fp)
		}
		if fp == l.Signs {
			t.signs = i
		}
		t.list = append(t.list, a)
		t.pool.AddCert(a.cert)
	}
	if t.signs < 0 {
		return errors.New("unit CA: none that counts signs")
	}
	c.trust.Store(t)
	public := filepath.Join(c.dir, CertificateFile)
	text := t.pem()
	if old, err := os.ReadFile(public); err == nil && string(old) == string(text) {
		return nil
	}
	if err := durable.WriteFile(public, text, 0o644, c.steps); err != nil {
		return fmt.Errorf("unit CA: %w", err)
	}
	return nil
}

// Forget removes the file of a CA that does not count, for good. That there is none is no error.
func (c *CA) Forget(fp jointoken.Fingerprint) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.held[fp]
	if a == nil || c.trust.Load().find(fp) != nil {
		return nil
	}
	if err := durable.Remove(a.path); err != nil {
		return fmt.Errorf("unit CA: %w", err)
	}
	delete(c.held, fp)
	return nil
}

// find returns a CA that counts, nil if this one does not.
func (t *trusted) find(fp jointoken.Fingerprint) *authority {
	for _, a := range t.list {
		if a.fp == fp {
			return a
		}
	}
	return nil
}

// believed returns the CA that a client believes, as the name says that it asks for in the TLS handshake, see
// jointoken.BelievedName; nil if it does not say, or that one does not count.
func (t *trusted) believed(serverName string) *authority {
	for _, a := range t.list {
		if serverName == jointoken.BelievedName(a.fp) || serverName == jointoken.KeyedName(a.fp) {
			return a
		}
	}
	return nil
}

// keyed reports whether a client asks for a name of jointoken.KeyedName, of a CA that counts.
func (t *trusted) keyed(serverName string) bool {
	a := t.believed(serverName)
	return a != nil && serverName == jointoken.KeyedName(a.fp)
}

// Issuer returns which CA is to certify somebody: the one that he says that he believes, if it signs or has signed;
// else the one that signed his certificate; else the oldest, which vouches for the server on that connection.
func (c *CA) Issuer(serverName string, present *Peer) jointoken.Fingerprint {
	t := c.trust.Load()
	if a := t.believed(serverName); a != nil && slices.Index(t.list, a) <= t.signs {
		return a.fp
	}
	if present != nil && t.find(present.CA) != nil {
		return present.CA
	}
	return t.list[0].fp
}

// ParseFingerprint reads a CA's fingerprint, "sha256:" and 64 hexadecimal digits.
func ParseFingerprint(text string) (fp jointoken.Fingerprint, err error) {
	b, err := hex.DecodeString(strings.TrimPrefix(text, "sha256:"))
	if err != nil || len(b) != len(fp) {
		return fp, fmt.Errorf("%.80q is not the fingerprint of a CA", text)
	}
	copy(fp[:], b)
	return fp, nil
}
