package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"tandem.internal/shared/durable"
)

// schema is a version of the file. An agent refuses a file of a version that it does not know. So while it is on trial
// it leaves the version as it is, and writes what an agent of that version reads: the agent that it replaces may have
// to take over again. The first start after the trial upgrades the file, and keeps a copy of what it was.
type schema struct {
	version uint64
	upgrade func(*bolt.Tx) error // makes a file of the version before one of this; nil: only the number changes
	// trial says that a file is upgraded to this version on trial, too: no agent of the version before can be the
	// one that takes over again.
	trial bool
}

// schemas are the versions of the file that this agent knows, the one that it writes last. History:
//
//	1  trust is keys and epoch
//	2  as the package comment says. Agents of version 1 had no slots, so none is gone back to
var schemas = []schema{{version: 1}, {version: 2, trial: true}}

// readVersion returns the version of a file; 0: it has none.
func readVersion(tx *bolt.Tx) (uint64, error) {
	meta := tx.Bucket(bMeta)
	if meta == nil || meta.Get(kVersion) == nil {
		return 0, nil
	}
	return number(meta.Get(kVersion))
}

// known returns the place of a version among the schemas. The error says what to do with a file of another one.
func known(list []schema, version uint64, path string) (int, error) {
	for i, s := range list {
		if s.version == version {
			return i, nil
		}
	}
	newest := list[len(list)-1].version
	err := fmt.Errorf("state file %s has version %d; this agent knows version %d", path, version, newest)
	if bak := backupPath(path, newest); version > newest {
		if _, serr := os.Stat(bak); serr == nil {
			return 0, fmt.Errorf("%w: to go back to this agent, put %s in its place", err, bak)
		}
		return 0, fmt.Errorf("%w: run the newer one, or move the file away: "+
			"the controller sends the documents again", err)
	}
	return 0, err
}

// plan returns the upgrades that this start makes to a file of the version at place from, none if it may not yet.
func (c Config) plan(list []schema, from int) (upgrades []schema) {
	for _, s := range list[from+1:] {
		if c.Trial && !s.trial {
			break
		}
		upgrades = append(upgrades, s)
	}
	return upgrades
}

// backupPath is where a file of that version is copied to before it is upgraded.
func backupPath(path string, version uint64) string {
	return path + ".v" + strconv.FormatUint(version, 10) + ".bak"
}

// prepare looks at the file before anything is written to it: it refuses one of a version that is not known, or of
// another node, and copies one that is about to be upgraded. It returns the upgrades.
func (s *Store) prepare(list []schema) (upgrades []schema, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		if s.version, err = readVersion(tx); err != nil {
			return err
		}
		if s.version == 0 {
			return &damage{errors.New("it has no version")}
		}
		from, err := known(list, s.version, s.cfg.Path)
		if err != nil {
			return err
		}
		meta := tx.Bucket(bMeta)
		if u, n := string(meta.Get(kUnit)), string(meta.Get(kNode)); u != s.cfg.Unit || n != s.cfg.Node {
			return fmt.Errorf("state file %s belongs to node %q of unit %q, not to node %q of unit %q",
				s.cfg.Path, n, u, s.cfg.Node, s.cfg.Unit)
		}
		if upgrades = s.cfg.plan(list, from); len(upgrades) == 0 {
			return nil
		}
		if err := s.backup(tx); err != nil {
			s.held, upgrades = fmt.Errorf("state file: the copy before the upgrade cannot be made: %w", err), nil
		}
		return nil
	})
	return upgrades, err
}

// backup copies the file as it is, durably. What an interrupted one has left is replaced: the file is still the same.
// The copy is always a new file: a link in its place is removed, never written through.
func (s *Store) backup(tx *bolt.Tx) error {
	path := backupPath(s.cfg.Path, s.version)
	temp := path + ".tmp"
	if err := s.cfg.Faults.at(Copy); err != nil {
		return err
	}
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = tx.WriteTo(f)
	if err == nil {
		err = s.cfg.Faults.at(Sync)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.cfg.Faults.at(Rename)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		if rerr := os.Remove(temp); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return err
	}
	if err := s.cfg.Faults.at(SyncDir); err != nil {
		return err
	}
	return durable.SettleDir(filepath.Dir(path))
}

// Held says why the file keeps its version although this agent would upgrade it; nil: it does not. The next start
// tries again.
func (s *Store) Held() error { return s.held }
