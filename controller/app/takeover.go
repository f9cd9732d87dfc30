package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/ca"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/revoked"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/door"
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

// TakeOver looks whether this program could go on with the unit in a state directory, and with the files that the
// settings name; of settings that have a mistake, the directory is enough. It writes nothing and takes no lock: another
// controller may be running there. Rights are those of the process: it has to be of the service's user.
func TakeOver(c *Config) (all []Finding) {
	unit, dir := c.Unit, c.StateDir
	for _, err := range c.unusable() {
		all = append(all, obstacle("settings", err.Error()))
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return append(all, Finding{About: "state-dir", Text: dir + " is not there: a new unit begins"})
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err == nil && info.Mode().Perm()&0o700 != 0o700 {
		err = fmt.Errorf("%s: its owner may not write there (chmod 700)", dir)
	}
	if err != nil {
		return append(all, obstacle("state-dir", err.Error()))
	}
	var wrong []Finding
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
			wrong = append(wrong, obstacle("state-dir", err.Error()))
		}
	}
	if wrong == nil { // else it may be the same once more
		for _, err := range c.unsound() {
			wrong = append(wrong, obstacle("state-dir", err.Error()))
		}
	}
	if wrong == nil {
		wrong = append(wrong, Finding{About: "state-dir", Text: dir + " is the unit's, and can be written"})
	}
	all = append(all, wrong...)
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

// unusable says which files and directories that the settings name a start would not take. What this process may
// not read, the service may: it can be in more groups than the owner of its directory.
func (c *Config) unusable() (all []error) {
	if c.HTTPCert != "" {
		_, err := door.OpenKeyPair(c.HTTPCert, c.HTTPKey, "--http-cert, --http-key", zap.NewNop())
		all = append(all, err)
	}
	if c.Broker != "" {
		_, err := c.brokerRoots()
		all = append(all, err)
	}
	all = append(all, c.exportPlace())
	return slices.DeleteFunc(all, func(err error) bool { return err == nil || errors.Is(err, fs.ErrPermission) })
}

// unsound says which small files of the state directory a start would not take, because of what they hold or who may
// use them. It reads them as a start does.
func (c *Config) unsound() (all []error) {
	entries, err := os.ReadDir(c.StateDir)
	if err != nil {
		return []error{err}
	}
	withCA := c.ListenTLS != "" || c.JoinListen != "" || c.httpOfCA()
	for _, e := range entries {
		path := filepath.Join(c.StateDir, e.Name())
		var err error
		switch name := e.Name(); {
		case name == firstKeyFile || strings.HasPrefix(name, "unit-key-"):
			_, err = namedKey(path)
		case name == tokens.FileName:
			_, err = tokens.Read(path)
		case name == revoked.FileName || name == revoked.TokensFile:
			_, err = revoked.Read(path)
		case withCA && (name == ca.KeyFile || strings.HasPrefix(name, "ca-key-")):
			err = ca.CheckFile(c.Unit, path)
		}
		if err != nil {
			all = append(all, err)
		}
	}
	return all
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
