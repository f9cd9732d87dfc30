package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
)

const (
	reserve  = 256 << 20 // bytes that a backup leaves free for the journal, which may be on the same disk
	staleAge = time.Hour // nothing is written for so long to the temporary file of a run that goes on
)

// temporary are the files of runs that have not ended, see command.App.Save.
var temporary = regexp.MustCompile(`^\.backup-\d{8}T\d{6}Z\.age\.\d+$`)

// makeRoom removes what runs have left that were killed. If the disk has no room for one more backup, which is as large
// as the newest one and an eighth more, it removes the oldest ones until keep-1 are there, and at least one; if that is
// not enough, it is an error.
func (w *wanted) makeRoom(now time.Time) error {
	left, err := matching(w.dir, temporary)
	if err != nil {
		return err
	}
	for _, name := range left {
		path := filepath.Join(w.dir, name)
		info, err := os.Lstat(path)
		if err == nil && now.Sub(info.ModTime()) > staleAge {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return command.Unreadable(path, err)
		}
	}
	all, err := matching(w.dir, named)
	if err != nil {
		return err
	}
	needed := int64(reserve)
	if len(all) > 0 {
		path := filepath.Join(w.dir, all[len(all)-1])
		info, err := os.Lstat(path)
		if err != nil {
			return command.Unreadable(path, err)
		}
		needed += info.Size() + info.Size()/8
	}
	for {
		free, err := w.free(w.dir)
		switch {
		case err != nil:
			return command.Unreadable(w.dir, err)
		case free >= needed:
			return nil
		case w.keep == 0 || len(all) <= max(1, w.keep-1):
			return command.Refuse(command.ExitRefused, wire.CodeStorage, "%s has %s left, and a backup needs about "+
				"%s, with a reserve for the journal: free some, keep fewer backups, or write them elsewhere",
				w.dir, term.Size(uint64(free)), term.Size(uint64(needed)))
		}
		path := filepath.Join(w.dir, all[0])
		if err := os.Remove(path); err != nil {
			return command.Unreadable(path, err)
		}
		all = all[1:]
	}
}

// matching returns the regular files of a directory with such names, sorted, which is by time.
func matching(dir string, names *regexp.Regexp) (all []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, command.Unreadable(dir, err)
	}
	for _, e := range entries {
		if names.MatchString(e.Name()) && e.Type().IsRegular() {
			all = append(all, e.Name())
		}
	}
	return all, nil
}
