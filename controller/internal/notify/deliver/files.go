package deliver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/notify"
	"tandem.internal/shared/durable"
)

// The files in the controller's state directory: the receivers with their secrets, and of each how far it has come.
const (
	FileName     = "notices.json"
	cursorPrefix = "notice-"
	cursorSuffix = ".json"
)

// maxFile is the size of the largest file that is read, in bytes.
const maxFile = 2 << 20

// cursorFormat is the version of a cursor's file. Every other version is read as a lost one.
const cursorFormat = 1

// cursor is the file of how far a receiver has come.
type cursor struct {
	Format   int             `json:"format"`
	ID       string          `json:"id"`  // of the registration
	Sum      string          `json:"sum"` // SHA-256 of what follows, hexadecimal
	Progress notify.Progress `json:"progress"`
}

func (c *cursor) sum() (string, error) {
	data, err := json.Marshal(&c.Progress, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(append([]byte(c.ID+"\n"), data...))
	return hex.EncodeToString(h[:]), nil
}

func (m *Manager) path(name string) string {
	return filepath.Join(m.cfg.Dir, cursorPrefix+name+cursorSuffix)
}

// save writes how far a receiver has come.
func (m *Manager) save(r *notify.Receiver, p notify.Progress) error {
	c := cursor{Format: cursorFormat, ID: r.ID, Progress: p}
	var err error
	if c.Sum, err = c.sum(); err != nil {
		return err
	}
	data, err := json.Marshal(&c, json.Deterministic(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(m.path(r.Name), append(data, '\n'), 0o600, m.cfg.Steps)
}

// load reads how far a receiver has come; false: that is not known any more.
func (m *Manager) load(r *notify.Receiver) (p notify.Progress, known bool, err error) {
	if err := durable.Clean(m.path(r.Name)); err != nil {
		return p, false, err
	}
	data, err := durable.ReadFile(m.path(r.Name), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	} else if err != nil {
		return p, false, err
	}
	var c cursor
	if json.Unmarshal(data, &c) != nil || c.Format != cursorFormat || c.ID != r.ID {
		return p, false, nil
	}
	if sum, err := c.sum(); err != nil || sum != c.Sum {
		return p, false, err
	}
	return c.Progress, true, nil
}

// readSet reads the file of the receivers. There are none with an error.
func (m *Manager) readSet() (notify.Set, error) {
	path := filepath.Join(m.cfg.Dir, FileName)
	if err := durable.Clean(path); err != nil {
		return nil, err
	}
	data, err := durable.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others may read its secrets (mode %04o); chmod 600 it", path, info.Mode().Perm())
	}
	set, err := notify.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; restore it from a backup, or remove it and add the receivers again", path, err)
	}
	return set, nil
}

// tidy removes the cursors of those who are no receivers, which a crash may have left, whole or in part.
func (m *Manager) tidy(set notify.Set) error {
	entries, err := os.ReadDir(m.cfg.Dir)
	for _, e := range entries {
		name, is := strings.CutPrefix(strings.TrimPrefix(e.Name(), "."), cursorPrefix)
		name, _, end := strings.Cut(name, cursorSuffix)
		if !is || !end || set.Find(name) != nil {
			continue
		}
		err = errors.Join(err, durable.Clean(m.path(name)), durable.Remove(m.path(name)))
	}
	return err
}
