package app

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"

	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/revoked"
	"tandem.internal/controller/internal/submitter"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// Trusted is a key or a CA of a backup, to be compared with what is on paper.
type Trusted struct {
	ID    string `json:"id"`    // of a key, or fingerprint of a CA
	State string `json:"state"` // as the journal says; "spare": it names it not; "not in the backup"
}

// notInIt is the state of what the journal names and the backup has not.
const notInIt = "not in the backup"

// Verified is what VerifyBackup has found.
type Verified struct {
	backup.Proof
	Keys     []Trusted // signing keys
	CAs      []Trusted
	Root     []string // IDs of root keys of which one signs the next list; none: no list was signed
	Mistakes []string // why no controller could go on as the unit; none: one could
}

// VerifyBackup reads a whole backup, with all that a controller would read that is started on it. Only what keeps one
// from telling the rest is an error, as of backup.Verify; Mistakes has the others.
func VerifyBackup(ctx context.Context, r io.Reader, ids []age.Identity, dir string) (v Verified, err error) {
	p, err := backup.Verify(ctx, r, ids, dir, v.look)
	p.Bad = append(p.Bad, v.Bad...)
	v.Proof = p
	return v, err
}

// Unheard returns those of some subjects that a restored journal has never heard of: somebody may have misspelt them.
func Unheard(dir, unit string, subjects []string) (all []string, err error) {
	j, err := journal.Open(filepath.Join(dir, "journal.db"), journal.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	named, err := distribute.NamedIn(j, unit, kinds.All())
	if err != nil {
		return nil, err
	}
	for _, s := range subjects {
		if !strings.HasPrefix(s, "token/") && !named.Has(s) { // tokens that are not there are refused
			all = append(all, s)
		}
	}
	return all, nil
}

func (v *Verified) wrong(format string, a ...any) {
	v.Mistakes = append(v.Mistakes, fmt.Sprintf(format, a...))
}

// check puts down what is wrong with a file, if anything.
func (v *Verified) check(name string, err error) {
	if err != nil {
		v.wrong("%s: %v", name, err)
	}
}

func (v *Verified) look(c *backup.Content) error {
	named, err := distribute.NamedIn(c.Journal, c.Manifest.Unit, kinds.All())
	if err != nil {
		v.wrong("journal.db: %v", err)
		return nil
	}
	v.lookAtKeys(c, named)
	v.lookAtCAs(c, named)
	if named.Root != nil {
		v.Root = named.Root.Keys
	}
	if data, ok := c.State(tokens.FileName); ok {
		_, err := tokens.Decode(data)
		v.check(tokens.FileName, err)
	}
	for _, name := range []string{revoked.FileName, revoked.TokensFile} {
		if data, ok := c.State(name); ok {
			v.check(name, revoked.Check(data))
		}
	}
	v.lookAtSettings(c)
	v.lookAtArtefacts(c, named)
	return nil
}

// files returns the files of a pattern of names, sorted: PREFIX.pem and PREFIX-ID.pem.
func files(c *backup.Content, prefix string) (names []string) {
	for _, entry := range slices.Sorted(maps.Keys(c.Files)) {
		name, is := strings.CutPrefix(entry, "state/")
		if is && (name == prefix+".pem" || strings.HasPrefix(name, prefix+"-")) {
			names = append(names, name)
		}
	}
	return names
}

func (v *Verified) lookAtKeys(c *backup.Content, named distribute.Named) {
	held, first := map[string]bool{}, ""
	for _, name := range files(c, "unit-key") {
		data, _ := c.State(name)
		key, _, err := parseKey(name, data)
		if err != nil {
			v.check("signing key", err)
			continue
		}
		id := seal.KeyID(key.Public().(ed25519.PublicKey))
		if name == firstKeyFile {
			first = id
		} else if name != keyFile(id) {
			v.wrong("signing key: %s holds another key than its name says, %s", name, id)
		}
		held[id] = true
	}
	states := map[string]string{}
	for _, k := range named.Keys.List {
		states[k.ID] = k.State
	}
	if len(states) == 0 && first != "" {
		states[first] = record.KeySigning
	} else if len(states) == 0 {
		v.wrong("signing key: the backup has no %s, and the journal names no other key", firstKeyFile)
	}
	v.Keys = v.trusted("signing key", held, states)
}

func (v *Verified) lookAtCAs(c *backup.Content, named distribute.Named) {
	held := map[string]bool{}
	for _, name := range files(c, "ca-key") {
		data, _ := c.State(name)
		fp, err := ca.Inspect(c.Manifest.Unit, name, data)
		if err != nil {
			v.check("CA", err)
			continue
		}
		held[fp.String()] = true
	}
	states := map[string]string{}
	for _, a := range named.CAs.List {
		states[a.CA] = a.State
	}
	if len(states) == 0 && named.KnownCA != "" {
		states[named.KnownCA] = record.KeySigning
	} else if len(states) == 0 && len(held) == 1 {
		for fp := range held { // nobody has joined yet
			states[fp] = record.KeySigning
		}
	}
	v.CAs = v.trusted("CA", held, states)
}

// trusted compares what the backup has with what its journal names, by ID.
func (v *Verified) trusted(what string, held map[string]bool, states map[string]string) (all []Trusted) {
	for _, id := range slices.Sorted(maps.Keys(states)) {
		if held[id] {
			all = append(all, Trusted{id, states[id]})
			continue
		}
		all = append(all, Trusted{id, notInIt})
		has := slices.Sorted(maps.Keys(held))
		v.wrong("%s: the journal names %s (%s), and the backup has not its file; it has %s", what, id, states[id],
			cmp.Or(strings.Join(has, ", "), "none"))
	}
	for _, id := range slices.Sorted(maps.Keys(held)) {
		if states[id] == "" {
			all = append(all, Trusted{id, "spare"})
		}
	}
	return all
}

// lookAtSettings reads the settings, and the files that they name, as a start does.
func (v *Verified) lookAtSettings(c *backup.Content) {
	const name = "settings/controller.yaml"
	var cfg Config
	v.check(name, settings.FromText(&cfg, name, c.Files[name]))
	if cfg.Unit != "" && cfg.Unit != c.Manifest.Unit {
		v.wrong("%s: it is for the unit %.80q, and the backup of %.80q", name, cfg.Unit, c.Manifest.Unit)
	}
	if data, ok := c.Files["settings/submitters"]; ok {
		v.check("settings/submitters", submitter.Check(data))
	}
	if data, ok := c.Files["settings/broker-ca"]; ok && !x509.NewCertPool().AppendCertsFromPEM(data) {
		v.check("settings/broker-ca", errors.New("no certificate in PEM is in it"))
	}
	cert, has := c.Files["settings/http-cert"]
	if key, ok := c.Files["settings/http-key"]; ok && has {
		_, err := tls.X509KeyPair(cert, key)
		v.check("settings/http-cert and http-key", err)
	}
}

// lookAtArtefacts names those that the journal has and the backup does not tell of: they were removed meanwhile.
func (v *Verified) lookAtArtefacts(c *backup.Content, named distribute.Named) {
	listed := map[string]bool{}
	for _, f := range c.Manifest.Files {
		listed[f.Name] = true
	}
	for _, l := range c.Manifest.Left {
		listed[l.Name] = true
	}
	for _, digest := range named.Artefacts {
		if name := "artefacts/" + strings.TrimPrefix(digest, wire.HashPrefix); !listed[name] {
			v.Bad = append(v.Bad, backup.Left{Name: name, Why: "the journal names it, and the store had it no more"})
		}
	}
}
