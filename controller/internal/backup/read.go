package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/journal"
)

// ErrDamaged says that a file is no whole backup.
var ErrDamaged = errors.New("the backup is damaged")

// ErrKey says that a file is encrypted for others, or with another passphrase.
var ErrKey = errors.New("the backup is encrypted for another key, or with another passphrase")

func damaged(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, a...)...)
}

// read calls take for every entry but the manifest, which is to read or to leave the content. What take got counts only
// if the error is nil. Errors of take are returned as they are.
func read(ctx context.Context, r io.Reader, ids []age.Identity,
	take func(name string, size int64, content io.Reader) error) (Manifest, error) {
	plain, err := age.Decrypt(within{ctx, r}, ids...)
	if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
		return Manifest{}, ErrKey
	} else if err != nil {
		return Manifest{}, damaged("%w", err)
	}
	t := tar.NewReader(plain)
	var got []File
	names := map[string]bool{}
	for {
		h, err := t.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("it has no manifest")
			}
			return Manifest{}, damaged("%w", err)
		}
		if h.Typeflag != tar.TypeReg || !validName(h.Name) || names[h.Name] || !plainEntry(h) {
			return Manifest{}, damaged("it has an entry %.80q", h.Name)
		}
		if len(names) == maxEntries {
			return Manifest{}, damaged("it has more than %d entries", maxEntries)
		}
		names[h.Name] = true
		if h.Name == manifestName {
			return readManifest(t, plain, got)
		}
		sum := sha256.New()
		content := &proving{r: io.TeeReader(t, sum)}
		if err := take(h.Name, h.Size, content); err != nil && content.err == nil {
			return Manifest{}, err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return Manifest{}, damaged("%w", err)
		}
		got = append(got, File{h.Name, h.Size, hex.EncodeToString(sum.Sum(nil))})
	}
}

// plainEntry reports whether an entry is one as Draft writes it: only a size that the header has no room for is beside
// that. The content of a sparse one would not be in the file, and its size without a bound.
func plainEntry(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if key != "size" {
			return false
		}
	}
	return true
}

// proving remembers an error of the file, to tell it from one of who takes its content.
type proving struct {
	r   io.Reader
	err error
}

func (p *proving) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

// readManifest reads the manifest, and the file to its end, which age proves there.
func readManifest(t *tar.Reader, plain io.Reader, got []File) (m Manifest, err error) {
	text, err := io.ReadAll(io.LimitReader(t, maxManifest))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, plain)
	}
	switch {
	case err != nil:
		return Manifest{}, damaged("%w", err)
	case m.Format != Format:
		return Manifest{}, fmt.Errorf("the backup has the format %d, and this program knows %d: use the program that "+
			"wrote it, %s", m.Format, Format, m.Program)
	case !slices.Equal(m.Files, got):
		return Manifest{}, damaged("its entries are not those of its manifest")
	case !slices.ContainsFunc(got, func(f File) bool { return f.Name == stateDir+journalFile }):
		return Manifest{}, damaged("it has no journal")
	}
	return m, nil
}

// Proof is the outcome of Verify.
type Proof struct {
	Manifest Manifest
	Journal  string // what was looked at of the journal
	Behind   bool   // of a restore: this machine's clock stands before the backup
	Bad      []Left // artefacts that were damaged already when the backup was made: they are not restored
}

// Verify reads a whole backup and checks all that can be checked: each entry against the manifest, artefacts against
// their names, and the journal's chain. The journal is put into a temporary directory for that, mode 0700, in dir, or
// where the system has them. The error is ErrDamaged or ErrKey, or one of the disk.
func Verify(ctx context.Context, r io.Reader, ids []age.Identity, dir string) (p Proof, err error) {
	dir, err = os.MkdirTemp(dir, "tandem-backup-")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, journalFile)
	p.Manifest, err = read(ctx, r, ids, func(name string, _ int64, content io.Reader) error {
		if name != stateDir+journalFile {
			return nil
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		return p, err
	}
	p.Bad = bad(p.Manifest)
	p.Journal, err = checkJournal(ctx, path, p.Manifest, never)
	return p, err
}

// never is the clock of a journal that nobody goes on with.
func never() time.Time { return time.Time{} }

// bad are the artefacts whose content is not what their name says.
func bad(m Manifest) (all []Left) {
	for _, f := range m.Files {
		if digest, is := strings.CutPrefix(f.Name, artefactsDir); is && digest != f.SHA256 {
			all = append(all, Left{f.Name, "it was damaged when the backup was made"})
		}
	}
	return all
}

// checkJournal verifies the journal of a backup, and raises its epoch: whatever opens it from then on issues everything
// anew.
func checkJournal(ctx context.Context, path string, m Manifest, now func() time.Time) (report string, err error) {
	j, err := journal.Open(path, journal.Options{NewEpoch: true, Now: now})
	if errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrNotJournal) {
		return "", damaged("%w", err)
	} else if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	proof, err := j.Verify(ctx)
	if err != nil {
		return "", err
	}
	if !proof.OK() {
		return "", damaged("its journal: %s", proof.String())
	}
	s, err := j.Snapshot()
	if err != nil {
		return "", err
	}
	if err := s.Close(); err != nil {
		return "", err
	}
	if s.Seq != m.Seq || hex.EncodeToString(s.Hash[:]) != m.Hash || s.Epoch <= m.Epoch {
		return "", damaged("its journal is not the one that its manifest names")
	}
	return proof.String(), nil
}

// within reads until a context ends.
type within struct {
	ctx context.Context
	r   io.Reader
}

func (w within) Read(b []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.r.Read(b)
}
