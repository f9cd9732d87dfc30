package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/term"
)

// Finding is one thing that was looked at before this program takes a unit over.
type Finding struct {
	About    string `json:"about"`    // settings, state-dir, journal, space
	Obstacle bool   `json:"obstacle"` // this program would not start, or not go on
	Text     string `json:"text"`     // for people: what is there, and of an obstacle what to do
}

func obstacle(about, text string) Finding { return Finding{About: about, Obstacle: true, Text: text} }

// startRoom is what a start needs of the disk beside a copy of the journal, in bytes: bbolt makes its file larger
// in such steps.
const startRoom = 16 << 20

// Check returns an error that names the first setting that cannot work.
func (c *Config) Check() error { return c.check() }

// TakeOver looks whether this program could go on with a unit in a state directory; without a name, with whichever it
// is. It writes nothing and takes no
// lock: another controller may be running there. Rights are those of the process: it has to be of the service's user.
func TakeOver(unit, dir string) (all []Finding) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return []Finding{{About: "state-dir", Text: dir + " is not there: a new unit begins"}}
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err == nil && info.Mode().Perm()&0o700 != 0o700 {
		err = fmt.Errorf("%s: its owner may not write there (chmod 700)", dir)
	}
	if err != nil {
		return []Finding{obstacle("state-dir", err.Error())}
	}
	for _, check := range []func(string) error{backup.Check, func(dir string) error {
		_, err := backup.Restored(dir)
		return err
	}, rights, func(dir string) error {
		if unit == "" {
			return nil
		}
		return ca.Look(unit, dir)
	}} {
		if err := check(dir); err != nil {
			all = append(all, obstacle("state-dir", err.Error()))
		}
	}
	if all == nil {
		all = append(all, Finding{About: "state-dir", Text: dir + " is the unit's, and can be written"})
	}
	copied, f := lookAtJournal(filepath.Join(dir, "journal.db"))
	return append(all, f, room(dir, copied))
}

// rights fails if a file that a controller needs cannot be read, or the journal not written.
func rights(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if kept, _ := backup.Kept(e.Name()); !kept {
			continue
		}
		path, flag := filepath.Join(dir, e.Name()), os.O_RDONLY
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		if e.Name() == "journal.db" {
			flag = os.O_RDWR
		}
		f, err := os.OpenFile(path, flag, 0)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return fmt.Errorf("the controller's user cannot use a file of its own: %w; give it back: "+
				"chown --reference %s %s", err, dir, path)
		}
	}
	return nil
}

// lookAtJournal also returns how many bytes the copy has that an upgrade of its format keeps.
func lookAtJournal(path string) (copied int64, f Finding) {
	found, err := journal.Look(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, Finding{About: "journal", Text: "there is none yet"}
	case err != nil:
		return 0, obstacle("journal", err.Error())
	case found.Format == journal.Version:
		return 0, Finding{About: "journal", Text: fmt.Sprintf("it has format %d, which this program writes: "+
			"no copy of it is kept", found.Format)}
	}
	return found.Copy, Finding{About: "journal", Text: fmt.Sprintf("it has format %d, and is upgraded to %d; "+
		"a copy stays as %s.v%d.bak, or with a number behind v%d where that is there", found.Format, journal.Version,
		path, found.Format, found.Format)}
}

// room says whether the disk has room for a copy of the journal and a start.
func room(dir string, copied int64) Finding {
	free, err := store.Free(dir)
	if err != nil {
		return obstacle("space", err.Error())
	}
	need := copied + startRoom
	text := fmt.Sprintf("%s are free where %s is, and %s are needed", term.Size(uint64(free)), dir,
		term.Size(uint64(need)))
	if copied > 0 {
		text += ", with the copy of the journal"
	}
	if free >= need {
		return Finding{About: "space", Text: text}
	}
	return obstacle("space", text+": make room; old journal.db.v*.bak and artefacts/quarantine may go")
}
