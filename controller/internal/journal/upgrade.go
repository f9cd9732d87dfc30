package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/zap"

	"tandem.internal/shared/wire"
)

// Version is the format that this program writes. History:
//
//	0  log of header ++ data without a chain; before the first release
//	1  the chain, gaps, checkpoint; record types up to Note
//	2  record types up to JoinRefused
//	3  record types up to Keys
//	4  record types up to Maintenance
//	5  sets of workloads: Accepted and Refused of the kind workloads
//	6  the kind is data: a record of any kind; an unknown one is refused by name, not with the file (ADR 030)
const Version = 6

// upgrades has at index v the step from format v to v+1. All steps of one opening run in one
// transaction: the file is of the old format or of the new one, never between.
var upgrades = [Version]func(j *Journal, tx *bbolt.Tx) error{
	0: upgradeChain,
	1: func(*Journal, *bbolt.Tx) error { return nil }, // older programs cannot name the new types
	2: func(*Journal, *bbolt.Tx) error { return nil }, // nor these
	3: func(*Journal, *bbolt.Tx) error { return nil },
	4: func(*Journal, *bbolt.Tx) error { return nil }, // which they would take for unit configurations
	5: func(*Journal, *bbolt.Tx) error { return nil }, // as they would records of further kinds
}

// upgrade brings the file to Version, after keepOld. An interrupted upgrade starts over at the next opening.
func (j *Journal) upgrade() error {
	version := 0
	err := j.db.View(func(tx *bbolt.Tx) (err error) {
		meta := tx.Bucket(bucketMeta)
		if meta == nil || tx.Bucket(bucketLog) == nil {
			return errNoMeta
		}
		version, err = parseVersion(meta.Get(keyVersion))
		return err
	})
	switch {
	case err != nil:
		return explainOpen(j.path, err)
	case version == Version:
		return nil
	case version > Version:
		return newer(j.path, version)
	case j.readOnly:
		return fail(ErrOlder, wire.CodeWrongVersion, nil, fmt.Sprintf(
			"the journal %s has the older format %d; start the controller once to upgrade it to %d",
			j.path, version, Version))
	}
	backup, err := j.keepOld(version)
	if err != nil {
		return fmt.Errorf("backup before upgrade: %w", err)
	}
	err = j.update(func(tx *bbolt.Tx) error {
		for _, step := range upgrades[version:] {
			if err := step(j, tx); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(keyVersion, []byte(strconv.Itoa(Version)))
	}, nil)
	if err == nil {
		j.log.Info("journal upgraded; to go back to the older program, put the backup in its place",
			zap.Int("from", version), zap.Int("to", Version), zap.String("backup", backup))
	}
	return err
}

// newer refuses a file of a format above Version.
func newer(path string, version int) error {
	return fail(ErrNewer, wire.CodeWrongVersion, nil, fmt.Sprintf(
		"the journal %s was written by a newer Tandem (format %d, this program knows up to %d); "+
			"upgrade this program, or put back the copy that the upgrade made: %s.vN.bak, N its format, "+
			"or of several the newest",
		path, version, Version, fileOf(path)))
}

// NotUnderstood is the error of a journal of the right format that holds what this program cannot have written, such as
// a record of an unknown type or about an unknown kind of document: cause says what. It is ErrNewer and has the code
// wrong-version.
func (j *Journal) NotUnderstood(cause error) error {
	return fail(ErrNewer, wire.CodeWrongVersion, cause, fmt.Sprintf(
		"the journal %s holds what this program does not know: %v; if a newer Tandem wrote it, "+
			"upgrade this program, or put back the copy that the upgrade made (%s.vN.bak); else restore a backup",
		j.path, cause, j.file()))
}

// file is the path of the file itself, where Path is a link.
func (j *Journal) file() string { return fileOf(j.path) }

func fileOf(path string) string {
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file
	}
	return path
}

// keepOld puts a copy of the file beside it and returns its path: FILE.v5.bak for format 5. It is marked as every
// backup is: nodes may know documents of after the upgrade, so whoever goes on with the copy raises the epoch.
//
// A copy that is there already stays, since it may be the only one of what it has, and the new one gets a number:
// FILE.v5-2.bak. To refuse instead would keep the controller from starting. Only a copy of the very same state is
// replaced, or an upgrade that fails at each start would fill the disk. What is no file is in the way: ErrExist.
func (j *Journal) keepOld(version int) (string, error) {
	backup := fmt.Sprintf("%s.v%d.bak", j.file(), version)
	for n := 2; ; n++ {
		free, err := j.mayReplace(backup)
		if err != nil {
			return "", err
		}
		if free {
			return backup, j.BackupFile(backup)
		}
		backup = fmt.Sprintf("%s.v%d-%d.bak", j.file(), version, n)
	}
}

// mayReplace reports whether nothing is lost when a backup of this journal gets that name.
func (j *Journal) mayReplace(path string) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		return false, &fs.PathError{Op: "replace", Path: path, Err: fs.ErrExist}
	}
	mine, err := stateOf(j.db)
	if err != nil {
		return false, err
	}
	db, _, err := openDB(path, Options{ReadOnly: true, LockTimeout: time.Second})
	if err != nil {
		return false, nil // whatever it is, it is not this journal
	}
	other, err := stateOf(db)
	return err == nil && other == mine, db.Close()
}

// stateOf says what a journal has come to: what is in meta but for the mark of a copy, and the newest record.
func stateOf(db *bbolt.DB) (state string, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		meta, log := tx.Bucket(bucketMeta), tx.Bucket(bucketLog)
		if meta == nil || log == nil {
			return errNoMeta
		}
		k, v := log.Cursor().Last()
		state = fmt.Sprintf("%x %x", k, sha256.Sum256(v))
		return meta.ForEach(func(k, v []byte) error {
			if !bytes.Equal(k, keyCopy) {
				state += fmt.Sprintf("\n%s %x", k, v)
			}
			return nil
		})
	})
	return state, err
}

// upgradeChain gives every record of format 0 its chain hash. Seqs and epoch stay.
func upgradeChain(j *Journal, tx *bbolt.Tx) error {
	for _, name := range [][]byte{bucketGaps, bucketBodies, bucketCheckpoint} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	created := []byte(j.now().UTC().Format(time.RFC3339Nano))
	if err := meta.Put(keyCreated, created); err != nil {
		return err
	}
	head := mark{hash: genesis(created)}
	log := tx.Bucket(bucketLog)
	log.FillPercent = 1
	newest := uint64(0)
	if k, _ := log.Cursor().Last(); len(k) == 8 {
		newest = binary.BigEndian.Uint64(k)
	}
	for seq := uint64(1); seq <= newest; seq++ {
		payload := log.Get(beSeq(seq))
		if payload == nil {
			return j.Damaged("record %d is missing, so it cannot be upgraded", seq)
		}
		if _, err := decodePayload(payload, nil); err != nil {
			return j.Damaged("record %d cannot be read (%v), so it cannot be upgraded", seq, err)
		}
		head = mark{seq: seq, hash: link(head.hash, seq, payload)}
		if err := log.Put(beSeq(seq), slices.Concat(head.hash[:], payload)); err != nil {
			return err
		}
	}
	return meta.Put(keyHead, head.bytes())
}
