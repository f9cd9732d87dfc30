// Package disk keeps what an update has to remember over restarts: its record, and the file that is to be installed.
// Package update decides what is in the record.
//
// It guarantees that a record changes as a whole and for good, by one process at a time, and that a damaged one is put
// aside and takes back what was under way, but for the agent's own: its slots know what there is.
package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/topic"
)

// Dir is the name of the components' directory in the agent's state directory. In it each has one:
//
//	record        what its update is at; the newest write counts, atomically and for good
//	record.bad    a record that was no good any more
//	file-N        the file of update number N, until it is kept or given up
//	data/         the program's own
//	lock stage.lock
const Dir = "components"

const (
	recordFile = "record"
	badFile    = "record.bad"
	filePrefix = "file-"
	dataDir    = "data"
	stepLock   = "lock"
	stageLock  = "stage.lock"
)

// Most is how many components a node may have.
const Most = 32

// lockWait is how long a step waits for another one, which takes far less.
const lockWait = 20 * time.Second

// Store keeps one component's record and file. Its methods may be called at the same time, by several
// processes: every step reads the record from the disk under a lock.
type Store struct {
	Name string
	// Publishers have signed what is staged and installed; none: nobody has to.
	Publishers publisher.Keys

	dir   string
	disk  slot.Disk
	names names
}

// names are those of a Store's files.
type names struct{ record, bad, lock string }

// own are those of the agent's update, in the directory of its slots. Older agents know none of them: under
// "components" they would see a component on trial, and never try another version.
var own = names{"update", "update.bad", "update.lock"}

// Own is the Store of the agent's own update.
func Own(stateDir string, steps durable.Steps) *Store {
	dir := filepath.Join(stateDir, slot.Dir)
	return &Store{Name: update.Name, dir: dir, disk: slot.OpenDisk(dir, steps), names: own}
}

// OpenStore takes the directory of a component. Nothing is read or made. steps is a fault seam around the
// writing of the record; nil: none.
func OpenStore(stateDir, name string, steps durable.Steps) *Store {
	dir := filepath.Join(stateDir, Dir, name)
	return &Store{Name: name, dir: dir, disk: slot.OpenDisk(dir, steps), names: names{recordFile, badFile, stepLock}}
}

// Make makes the directories, unless they are there, and removes what an interrupted step has left.
func (s *Store) Make() (err error) {
	err = s.disk.Mkdir(".")
	if err == nil && s.names != own {
		err = s.disk.Mkdir(dataDir)
	}
	if err != nil {
		return fmt.Errorf("component %s: %w", s.Name, err)
	}
	unlock, err := s.disk.Lock(s.names.lock, lockWait)
	if err != nil {
		return fmt.Errorf("component %s: %w", s.Name, err)
	}
	return errors.Join(s.disk.Clean(s.names.record), unlock())
}

// DataDir is the directory for the program's own.
func (s *Store) DataDir() string { return filepath.Join(s.dir, dataDir) }

// File is the path of the file of an update.
func (s *Store) File(number uint64) string { return filepath.Join(s.dir, s.file(number)) }

func (s *Store) file(number uint64) string { return fmt.Sprintf("%s%d", filePrefix, number) }

// Stat tells one record from the next without reading it; nil if there is none, or it cannot be seen.
func (s *Store) Stat() fs.FileInfo {
	info, err := os.Stat(filepath.Join(s.dir, s.names.record))
	if err != nil {
		return nil
	}
	return info
}

// Slots tells one state of the agent's slots from the next without reading it; nil if there is none.
func (s *Store) Slots() fs.FileInfo {
	info, err := os.Stat(filepath.Join(s.dir, slot.RecordFile))
	if err != nil {
		return nil
	}
	return info
}

// Read returns the record. It takes no lock and changes nothing; where there is none it is the zero one.
func (s *Store) Read() (update.Record, error) {
	data, err := s.disk.Read(s.names.record, update.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return update.Record{}, nil
	}
	var r update.Record
	if err == nil {
		r, err = update.Decode(data)
	}
	if err != nil {
		return update.Record{}, fmt.Errorf("component %s: its record: %w", s.Name, err)
	}
	return r, nil
}

// Update takes the record over one step. If it has no effect, nothing is written. After an error either
// record may be in force. A record that is no good is kept under another name, and f gets one that gives
// up whatever was under way.
func (s *Store) Update(now time.Time, f func(update.Record) (update.Record, error)) (err error) {
	unlock, err := s.disk.Lock(s.names.lock, lockWait)
	if err != nil {
		return fmt.Errorf("component %s: %w", s.Name, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	data, err := s.disk.Read(s.names.record, update.MaxSize)
	var old update.Record
	if err == nil {
		old, err = update.Decode(data)
	}
	sound := err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, berr := s.disk.Read(s.names.bad, update.MaxSize); !errors.Is(berr, fs.ErrNotExist) {
			old = s.lost("it was damaged", now) // and put aside just before a crash
		}
	case err != nil && ioError(err):
		return fmt.Errorf("component %s: its record: %w", s.Name, err)
	case err != nil:
		if rerr := s.disk.Rename(s.names.record, s.names.bad); rerr != nil {
			return fmt.Errorf("component %s: its record is no good: %w", s.Name, errors.Join(err, rerr))
		}
		old = s.lost(err.Error(), now)
	}
	next, err := f(old)
	if err != nil {
		return err
	}
	if sound && bytes.Equal(old.Encode(), next.Encode()) {
		return nil
	}
	next.Seq = old.Seq + 1
	if err := s.disk.Replace(s.names.record, next.Encode()); err != nil {
		return fmt.Errorf("component %s: %w", s.Name, err)
	}
	return nil
}

// lost is the record in the place of one that is no good.
func (s *Store) lost(why string, now time.Time) update.Record {
	r := update.Lost(why, now)
	if s.names == own { // whose slots say what is staged and on trial
		return update.Record{Number: r.Number}
	}
	return r
}

// ioError says whether a record could not be read, rather than that it is no good.
func ioError(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

// Stage copies a file to where the agent installs it from, verifies it, and has order do the rest. version
// is what it holds; hash, sha256:…, what it has to have; empty: any. The error is slot.ErrRefused if the
// source is to blame, and slot.ErrLocked if another staging is under way.
func (s *Store) Stage(ctx context.Context, file, version, hash string, now time.Time,
	order func(update.Record, update.Order) (update.Record, error)) (o update.Order, err error) {
	from, err := slot.OpenSource(file)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	return s.StageFrom(ctx, from, slot.Source{Version: version, Hash: hash}, now, order)
}

// StageFrom is Stage with the file from a reader, and with its signature.
func (s *Store) StageFrom(ctx context.Context, from io.Reader, src slot.Source, now time.Time,
	order func(update.Record, update.Order) (update.Record, error)) (o update.Order, err error) {
	err = update.CheckVersion(src.Version)
	if err == nil && src.Signature != "" {
		_, err = publisher.Parse(src.Signature)
	}
	if err == nil {
		err = s.Signed(src.Version, src.Signature, nil)
	}
	if err != nil {
		return o, fmt.Errorf("%w: %w", slot.ErrRefused, err)
	}
	unlock, err := s.disk.Lock(stageLock, 0)
	if err != nil {
		return o, fmt.Errorf("stage: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	// Whether it would be taken, before a long copy; and which number it gets: only a staging changes it.
	var number uint64
	o = update.Order{What: update.OrderStage, Version: src.Version, Signature: src.Signature}
	if err := s.Update(now, func(r update.Record) (update.Record, error) {
		number = r.Number + 1
		_, err := order(r, o)
		return r, err
	}); err != nil {
		return o, err
	}
	if err := s.Sweep(number, number-1); err != nil {
		return o, err
	}
	o.Size, o.Hash, err = slot.Copy(ctx, s.disk, s.file(number), from, nil)
	if err == nil && src.Hash != "" && src.Hash != o.Hash {
		err = fmt.Errorf("%w: its hash is %s, and it should be %s", slot.ErrRefused, o.Hash, src.Hash)
	}
	if err == nil {
		err = s.Verify(ctx, update.Record{Number: number, Version: o.Version, Size: o.Size, Hash: o.Hash,
			Signature: o.Signature})
	}
	if err == nil {
		err = s.Update(now, func(r update.Record) (update.Record, error) {
			if r.Number+1 != number { // the record was lost meanwhile
				return r, errors.New("its record was lost meanwhile: try again")
			}
			return order(r, o)
		})
	}
	if err != nil {
		return o, fmt.Errorf("stage: %w", errors.Join(err, s.discard(number)))
	}
	return o, nil
}

// discard removes a file, unless the record has come to name it after all.
func (s *Store) discard(number uint64) error {
	if r, err := s.Read(); err != nil || r.Number == number {
		return err
	}
	return s.disk.Remove(s.file(number))
}

// Signed says whether a signature is one of a version of the component by a publisher, and of the content with this
// digest; nil: any. The error is a *wire.Error.
func (s *Store) Signed(version, signature string, digest hash.Hash) error {
	if len(s.Publishers) == 0 {
		return nil
	}
	var sum []byte
	if digest != nil {
		sum = digest.Sum(nil)
	}
	r := publisher.Release{Name: s.Name, Version: version}
	if err := s.Publishers.JudgeRelease(r, signature, sum); err != nil {
		return err
	}
	return nil
}

// Verify reads the file of an update and compares it with what it should be, and with what a publisher has signed:
// update.ErrFailed if it is not.
func (s *Store) Verify(ctx context.Context, r update.Record) error {
	var digest hash.Hash
	if len(s.Publishers) > 0 {
		digest = publisher.NewHash()
	}
	n, has, err := slot.Measure(ctx, s.disk, s.file(r.Number), digest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the file to install is missing", update.ErrFailed)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: the file to install: %w", update.ErrLater, err)
	case n != r.Size || has != r.Hash:
		return fmt.Errorf("%w: the file to install is not what was staged", update.ErrFailed)
	}
	if err := s.Signed(r.Version, r.Signature, digest); err != nil {
		return fmt.Errorf("%w: %w", update.ErrFailed, err)
	}
	return nil
}

// Sweep removes the files of all updates up to the newest but one; 0: of all. What is being staged has a
// higher number.
func (s *Store) Sweep(newest, keep uint64) error {
	names, err := s.disk.List(".")
	if err != nil {
		return fmt.Errorf("component %s: %w", s.Name, err)
	}
	for _, name := range names {
		digits, is := strings.CutPrefix(name, filePrefix)
		if n, err := strconv.ParseUint(digits, 10, 64); is && (err != nil || n <= newest && n != keep) {
			if err := s.disk.Remove(name); err != nil {
				return fmt.Errorf("component %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// Names lists the components that have a directory, sorted.
func Names(stateDir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(stateDir, Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("components: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && topic.ValidName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Busy says which component but one is on trial: record.ErrTrial, and its name. A record that cannot be
// read is one that may be. Whether the agent itself is, its slots say.
func Busy(stateDir, but string) error {
	names, err := Names(stateDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == but {
			continue
		}
		r, err := OpenStore(stateDir, name, nil).Read()
		if err != nil {
			return err
		}
		if r.Phase.OnTrial() && !r.Off {
			return fmt.Errorf("component %s, version %s: %w", name, r.Version, record.ErrTrial)
		}
	}
	return nil
}
