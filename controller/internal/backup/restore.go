package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/revoked"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Restore says how a backup is restored.
type Restore struct {
	Dir     string   // the state directory: not there, empty, or with a restore that has not ended
	Revoked []string // who was revoked since the backup: see ParseRevoked
	Now     func() time.Time
	Step    func(what string) error // fault seam: called before each change of the disk; nil in production
}

// tokenRole begins the name of an operators' token in Restore.Revoked.
const tokenRole = "token/"

// ParseRevoked returns the identity that somebody has named: NODE, or an identity such as node/n1, operator/ann,
// cloud/eu, or token/NAME for a token of operators.
func ParseRevoked(name string) (string, error) {
	if !strings.Contains(name, "/") {
		name = "node/" + name
	}
	token, is := strings.CutPrefix(name, tokenRole)
	if is && wire.ValidName(token) || !is && jointoken.ValidSubject(name) {
		return name, nil
	}
	return "", fmt.Errorf("%.80q is neither a node nor node/NODE, operator/NAME, cloud/NAME, broker/NAME or token/NAME",
		name)
}

// Run restores a backup. A controller that starts on the directory has the unit as it was when the backup was made, in
// a higher epoch; open join tokens and links to the dashboard, which may have been used since, do not count any more,
// nor does who is named in Revoked. Until Run has returned nil, no controller starts there (Check), and another Run
// begins anew.
func (r Restore) Run(ctx context.Context, from io.Reader, ids []age.Identity) (p Proof, err error) {
	plain, err := open(ctx, from, ids) // before anything is touched: it may be another file, or another key
	if err != nil {
		return p, err
	}
	unlock, err := r.prepare()
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	p.Manifest, err = read(plain, r.take)
	if err != nil {
		return p, err
	}
	p.Bad = bad(p.Manifest)
	if err := r.step("journal"); err != nil {
		return p, err
	}
	p.Journal, err = checkJournal(ctx, r.path(journalFile), p.Manifest, r.Now,
		func(*journal.Journal) error { return nil })
	if err != nil {
		return p, err
	}
	now := r.Now().UTC().Round(0)
	if p.Behind = now.Before(p.Manifest.At); p.Behind {
		now = p.Manifest.At.Add(1) // what happens now is after the backup, whatever the clock says
	}
	for _, step := range []func() error{
		func() error { return r.revoke(p.Manifest, now) },
		func() error { return r.withdraw(now) },
		func() error {
			m := p.Manifest
			text, err := json.Marshal(&Origin{Unit: m.Unit, At: m.At, Seq: m.Seq, Restored: now,
				Revoked: r.identities()})
			if err != nil {
				return err
			}
			return r.write(restoredFile, text)
		},
		r.settle,
		func() error {
			if err := r.step("end"); err != nil {
				return err
			}
			return durable.Remove(r.path(restoring)) // from here on it counts
		},
	} {
		if err := step(); err != nil {
			return p, fmt.Errorf("restore: %w", err)
		}
	}
	return p, nil
}

func (r Restore) path(name string) string { return filepath.Join(r.Dir, filepath.FromSlash(name)) }

func (r Restore) step(what string) error {
	if r.Step == nil {
		return nil
	}
	return r.Step(what)
}

func (r Restore) write(name string, data []byte) error {
	if err := r.step(name); err != nil {
		return err
	}
	return durable.WriteFile(r.path(name), data, 0o600, nil)
}

// prepare leaves the directory with the mark of a restore alone, and keeps other restores out.
func (r Restore) prepare() (unlock func() error, err error) {
	if _, err := os.Stat(r.Dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(r.Dir, 0o700); err != nil {
			return nil, err
		}
		if err := durable.SettleDir(filepath.Dir(r.Dir)); err != nil {
			return nil, err
		}
	}
	free, err := lock(r.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if unlock == nil {
			err = errors.Join(err, free())
		}
	}()
	if err := durable.Clean(r.path(restoring)); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return nil, err
	}
	begun := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == restoring })
	if _, err := os.Lstat(r.path(journalFile)); err == nil && !begun {
		return nil, fmt.Errorf("%s is not empty: a unit is there already, with its %s. A unit is restored into an "+
			"empty directory; stop the controller that may be running there, and move this one away, as a whole", r.Dir,
			journalFile)
	}
	for _, e := range entries {
		_, known := Kept(e.Name())
		known = known || strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), journalFile)
		if begun && known && e.Name() != movedFile {
			continue
		}
		return nil, fmt.Errorf("%s is not empty: it has %s. A unit is restored into an empty directory; move this one "+
			"away, as a whole", r.Dir, e.Name())
	}
	if !begun {
		if err := r.write(restoring, []byte("A backup is being restored here.\n")); err != nil {
			return nil, err
		}
		return free, nil
	}
	for _, e := range entries {
		if e.Name() == restoring {
			continue
		}
		if err := r.step("remove " + e.Name()); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(r.path(e.Name())); err != nil {
			return nil, err
		}
	}
	return free, nil
}

// take puts an entry in its place. It counts when the mark is gone.
func (r Restore) take(name string, _ int64, content io.Reader) error {
	if err := r.step(name); err != nil {
		return err
	}
	if file, is := strings.CutPrefix(name, stateDir); is {
		return put(r.path(file), content)
	}
	if file, is := strings.CutPrefix(name, settingsDir); is {
		if err := os.MkdirAll(r.path(SettingsDir), 0o700); err != nil {
			return err
		}
		return put(r.path(SettingsDir+"/"+file), content)
	}
	digest := wire.HashPrefix + strings.TrimPrefix(name, artefactsDir)
	err := store.Put(r.path("artefacts"), digest, content)
	if errors.Is(err, store.ErrOther) { // as it was on the machine: the unit's operators are told, see bad
		return nil
	}
	return err
}

// put writes a file and flushes it.
func put(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// identities are those of Revoked that are no operators' tokens.
func (r Restore) identities() (all []string) {
	for _, name := range r.Revoked {
		if !strings.HasPrefix(name, tokenRole) {
			all = append(all, name)
		}
	}
	return all
}

// revoke puts down who was revoked since, and that the journal has been further: the controller withdraws the open join
// tokens of an older journal.
func (r Restore) revoke(m Manifest, now time.Time) error {
	if err := r.step(revoked.FileName); err != nil {
		return err
	}
	list, err := revoked.Open(r.path(revoked.FileName), nil)
	if err != nil {
		return err
	}
	since := map[string]time.Time{}
	for _, name := range r.identities() {
		since[name] = now
	}
	if err := list.Note(since); err != nil {
		return err
	}
	return list.Reached(m.Seq+1, nil)
}

// withdraw takes the operators' tokens away that were revoked since, and those of links, which log in once.
func (r Restore) withdraw(now time.Time) error {
	data, err := durable.ReadFile(r.path(tokens.FileName), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return r.unknownTokens(nil)
	} else if err != nil {
		return err
	}
	set, err := tokens.Decode(data)
	if err != nil {
		return damaged("%s: %w", tokens.FileName, err)
	}
	if err := r.unknownTokens(set); err != nil {
		return err
	}
	gone, rest := map[string]time.Time{}, tokens.Set(nil)
	for _, t := range set {
		if t.Once || slices.Contains(r.Revoked, tokenRole+t.Name) {
			gone[revoked.OfToken(t.Hash)] = now
		} else {
			rest = append(rest, t)
		}
	}
	if err := r.write(tokens.FileName, rest.Encode()); err != nil {
		return err
	}
	if err := r.step(revoked.TokensFile); err != nil {
		return err
	}
	list, err := revoked.Open(r.path(revoked.TokensFile), nil)
	if err != nil {
		return err
	}
	return list.Note(gone)
}

// unknownTokens refuses a token to be revoked that the backup does not have: it may be a slip, and the token meant
// would count.
func (r Restore) unknownTokens(set tokens.Set) error {
	for _, name := range r.Revoked {
		token, is := strings.CutPrefix(name, tokenRole)
		if is && !slices.ContainsFunc(set, func(t tokens.Token) bool { return t.Name == token }) {
			return fmt.Errorf("the backup has no operators' token %q; leave it out, or correct its name, and restore "+
				"again", token)
		}
	}
	return nil
}

// settle flushes every directory.
func (r Restore) settle() error {
	if err := r.step("directories"); err != nil {
		return err
	}
	return filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return durable.SettleDir(path)
	})
}
