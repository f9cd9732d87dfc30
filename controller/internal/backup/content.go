package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"tandem.internal/controller/internal/journal"
)

// maxHeld bounds the files that a Content holds, all together, in bytes.
const maxHeld = 256 << 20

// Content is what a backup has, but for the content of its artefacts.
type Content struct {
	Manifest Manifest
	Files    map[string][]byte // all but the journal and artefacts, by the name of the entry: state/tokens.json
	Journal  *journal.Journal  // whose chain is whole; open during the call, for reading
}

// State returns a file of the state directory, false if it is not in the backup.
func (c *Content) State(name string) ([]byte, bool) {
	data, ok := c.Files[stateDir+name]
	return data, ok
}

// Verify reads a whole backup and checks all that can be checked without knowing what the files mean: each entry
// against the manifest, artefacts against their names, and the journal's chain. Then it calls look, if it is not nil,
// with what the backup has. The journal is put into a temporary directory for that, mode 0700, in dir, or
// where the system has
// them; other files are held in memory. The error is ErrDamaged or ErrKey, or one of the disk or of look.
func Verify(ctx context.Context, r io.Reader, ids []age.Identity, dir string, look func(*Content) error) (p Proof,
	err error) {
	plain, err := open(ctx, r, ids)
	if err != nil {
		return p, err
	}
	dir, err = os.MkdirTemp(dir, "tandem-backup-")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, journalFile)
	c, held := Content{Files: map[string][]byte{}}, int64(0)
	p.Manifest, err = read(plain, func(name string, size int64, content io.Reader) error {
		switch {
		case name == stateDir+journalFile:
			return put(path, content)
		case strings.HasPrefix(name, artefactsDir):
			return nil
		}
		if held += size; held > maxHeld {
			return damaged("its files have more than %d bytes, without journal and artefacts", maxHeld)
		}
		data, err := io.ReadAll(content)
		c.Files[name] = data
		return err
	})
	if err != nil {
		return p, err
	}
	p.Bad = bad(p.Manifest)
	c.Manifest = p.Manifest
	p.Journal, err = checkJournal(ctx, path, p.Manifest, never, func(j *journal.Journal) error {
		if look == nil {
			return nil
		}
		c.Journal = j
		return look(&c)
	})
	return p, err
}
