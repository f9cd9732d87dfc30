// Package backup owns the file that a unit is brought back from: what of a controller's state directory is in it, how
// it is written while the controller runs, read, verified, and restored into an empty directory.
//
// The file is a tar in age's format, which proves each piece and shows a missing end; only age's own public keys and
// passphrases open it:
//
//	state/NAME       a file of the state directory; the journal is a consistent copy
//	settings/NAME    controller.yaml, the settings in force, secrets included, and the files that they name
//	artefacts/HEX    an artefact, named after the SHA-256 of its content
//	manifest.json    the last: Manifest
//
// It guarantees that
//   - what is written is of one moment: keys and revocations are never older than the journal, see Begin;
//   - nothing counts before the whole file was read and each entry is what the manifest says;
//   - a directory in which a restore has not ended is told (Check), and a restore there begins anew;
//   - memory is bounded, however large the journal and the artefacts are.
//
// Whoever knows a public key can make such a file: it proves nothing about who made it. A forged one has not the
// unit's keys, though, so no node obeys what is restored from it.
package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Format is the number of the file's format.
const Format = 1

// The names of entries.
const (
	stateDir     = "state/"
	settingsDir  = "settings/"
	artefactsDir = "artefacts/"
	manifestName = "manifest.json"

	journalFile = "journal.db"
)

// The names of what this package puts into a state directory.
const (
	SettingsDir  = "restored-settings" // directory of the settings of a restored backup
	restoredFile = "restored.json"     // Origin
	restoring    = "restoring.txt"     // a restore has begun, and has not ended
	movedFile    = "moved.txt"         // see Fence
)

// Bounds of what is read, in bytes.
const (
	maxSmall    = 64 << 20 // a file that is held in memory
	maxManifest = 64 << 20
	maxEntries  = 1 << 18 // entries of a file
)

// Manifest says what a backup has. Its entries are in the order in which they were written.
type Manifest struct {
	Format  int       `json:"format"`
	Unit    string    `json:"unit"`
	Program string    `json:"program"` // version of the controller that wrote it
	At      time.Time `json:"at"`      // by the controller's clock
	Epoch   uint64    `json:"epoch"`   // of the journal
	Seq     uint64    `json:"seq"`     // of the journal's newest record, 0 for none
	Hash    string    `json:"hash"`    // of that record, hexadecimal, which stands for the whole chain
	Final   bool      `json:"final,omitempty"`
	Files   []File    `json:"files"`
	Left    []Left    `json:"left,omitempty"` // what belongs to it and is not in it
}

// File is one entry.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // hexadecimal
}

// Left is what was left out.
type Left struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Origin is what a restored state directory was restored from.
type Origin struct {
	Unit     string    `json:"unit"`
	At       time.Time `json:"at"` // of the backup
	Seq      uint64    `json:"seq"`
	Restored time.Time `json:"restored"` // not before At
	// identities that were named as revoked since the backup
	Revoked []string `json:"revoked,omitempty"`
}

// fates say of each file of a state directory whether a backup has it. Patterns are those of path.Match, * within a
// part of the path.
var fates = []struct {
	pattern string
	kept    bool
	why     string
}{
	{journalFile, true, "the unit's state and history"},
	{"unit-key.pem", true, "signing key"},
	{"unit-key-*.pem", true, "signing key that a rotation has made"},
	{"ca-key.pem", true, "CA"},
	{"ca-key-*.pem", true, "CA that a rotation has made"},
	{"tokens.json", true, "operators' tokens"},
	{"revoked.txt", true, "who was revoked"},
	{"revoked-tokens.txt", true, "which operators' tokens were revoked"},
	{"notices.json", true, "who is told what the journal has, with the secrets"},
	{"notice-*.json", true, "how far a receiver was told"},
	{"ca.pem", false, "written again from the CAs' own files"},
	{"unit-config.json", false, "written again from the journal"},
	{"clock.json", false, "of this machine and its run"},
	{journalFile + ".v*.bak", false, "of an older program"},
	{"artefacts", false, "its content is"},
	{"artefacts/sha256", false, "its content is"},
	{"artefacts/sha256/*", false, "its content is"},
	{"artefacts/sha256/*/*.chunks", false, "made again from the artefact"},
	{"artefacts/sha256/*/*", true, "an artefact"},
	{"artefacts/parts", false, "uploads that have not ended"},
	{"artefacts/parts/*", false, "an upload that has not ended"},
	{"artefacts/quarantine", false, "what is damaged"},
	{"artefacts/quarantine/*", false, "what is left of a damaged artefact"},
	{SettingsDir, false, "for people, who put it where it belongs"},
	{SettingsDir + "/*", false, "for people, who put it where it belongs"},
	{restoredFile, false, "of this directory"},
	{restoring, false, "of this directory"},
	{movedFile, false, "of this directory"},
}

// Kept reports whether a backup has the file at a path within the state directory, with slashes. known is false for a
// path of which nobody has decided that: there is no such file.
func Kept(name string) (kept, known bool) {
	for _, f := range fates {
		if ok, err := path.Match(f.pattern, name); err == nil && ok {
			return f.kept, true
		}
	}
	return false, false
}

var settingsName = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,62}$`)

// validName reports whether an entry can have a name.
func validName(name string) bool {
	if rest, ok := strings.CutPrefix(name, stateDir); ok {
		kept, _ := Kept(rest)
		return kept && !strings.Contains(rest, "/")
	}
	if rest, ok := strings.CutPrefix(name, settingsDir); ok {
		return settingsName.MatchString(rest)
	}
	if rest, ok := strings.CutPrefix(name, artefactsDir); ok {
		return wire.ValidHash(wire.HashPrefix + rest)
	}
	return name == manifestName
}

// Check says why a controller must not start on a state directory: a restore has not ended there, or the unit was moved
// away. A directory that is not there is good.
func Check(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, restoring)); err == nil {
		return fmt.Errorf("a restore into %s has begun and has not ended: run tandem-controller backup restore again",
			dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	moved := filepath.Join(dir, movedFile)
	if _, err := os.Lstat(moved); err == nil {
		return fmt.Errorf("this unit was moved to another machine: tandem-controller backup create --final has put %s "+
			"there, and two controllers would overrule each other. If the other one is stopped for good, or there "+
			"never was one, remove that file", moved)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Fence has no controller start on a state directory any more, also after a crash: the unit goes on elsewhere.
func Fence(dir string, now time.Time, file string) error {
	text := fmt.Sprintf("The unit was moved at %s with the backup %s. No controller starts on this directory while "+
		"this file is here.\n", now.UTC().Format(time.RFC3339), file)
	return durable.WriteFile(filepath.Join(dir, movedFile), []byte(text), 0o644, nil)
}

// Restored returns what a state directory was restored from; nil: it was not.
func Restored(dir string) (*Origin, error) {
	data, err := durable.ReadFile(filepath.Join(dir, restoredFile), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var o Origin
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it: certificates issued between the backup and its restore do not "+
			"count then", filepath.Join(dir, restoredFile), err)
	}
	return &o, nil
}
