package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"tandem.internal/shared/durable"
)

// Snapshot is a consistent copy of a journal, which is read while records go on being appended. Whoever opens the copy
// for writing gets a higher epoch, because the original may have used the following sequence numbers meanwhile. While
// it is open the file does not reuse pages, and neither Close nor growth beyond Options.MapSize goes on: who reads it
// slowly is to be ended. One goroutine uses it, and closes it.
type Snapshot struct {
	Epoch uint64
	Seq   uint64 // of the newest record, 0 for an empty journal
	Hash  Hash   // that record's, which stands for the whole chain
	Size  int64  // bytes of the copy

	tx *bbolt.Tx
}

// Snapshot begins a copy. That of a read-only journal has no mark: whoever restores it has to raise its epoch
// (Options.NewEpoch).
func (j *Journal) Snapshot() (*Snapshot, error) {
	if j.closed.Load() {
		return nil, errClosed()
	}
	// The mark is in the file only while the copy's transaction begins. Crash in between: the
	// next Open raises the epoch without need, which only costs the nodes a look.
	mark := func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyCopy, []byte{1}) }
	unmark := func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Delete(keyCopy) }
	if !j.readOnly {
		if err := j.update(mark, nil); err != nil {
			return nil, err
		}
	}
	tx, err := j.db.Begin(false)
	if !j.readOnly {
		err = errors.Join(err, j.update(unmark, nil))
	}
	if err != nil {
		if tx != nil {
			err = errors.Join(err, tx.Rollback())
		}
		return nil, err
	}
	s := &Snapshot{Size: tx.Size(), tx: tx}
	meta := tx.Bucket(bucketMeta)
	epoch := meta.Get(keyEpoch)
	head, ok := parseMark(meta.Get(keyHead))
	if len(epoch) != 8 || !ok {
		return nil, errors.Join(j.Damaged("its head or its epoch is missing"), s.Close())
	}
	s.Epoch, s.Seq, s.Hash = binary.BigEndian.Uint64(epoch), head.seq, head.hash
	return s, nil
}

// WriteTo writes the copy, a file that Open takes, of Size bytes.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	n, err := s.tx.WriteTo(w)
	if err != nil {
		err = fmt.Errorf("backup: %w", err)
	}
	return n, err
}

// Close ends the copy.
func (s *Snapshot) Close() error { return s.tx.Rollback() }

// Backup writes a Snapshot. A read-only journal has no way to mark its copy: ErrReadOnly, use BackupFile.
func (j *Journal) Backup(w io.Writer) error {
	if j.readOnly {
		return j.writable()
	}
	s, err := j.Snapshot()
	if err != nil {
		return err
	}
	_, err = s.WriteTo(w)
	return errors.Join(err, s.Close())
}

// BackupFile is Backup into a file (mode 0600) that appears under its name whole and durable, or
// not at all; a file that is there already is replaced. It writes nothing to the journal, so it
// also works on one that is read-only or broken.
func (j *Journal) BackupFile(path string) (err error) {
	if j.closed.Load() {
		return errClosed()
	}
	return replaceFile(path, ".new-*", func(f *os.File) error {
		// Begun here and not as view: a backup is long, and its size must not move with the log.
		tx, err := j.db.Begin(false)
		if err != nil {
			return err
		}
		_, err = tx.WriteTo(f)
		if err = errors.Join(err, tx.Rollback()); err != nil {
			return err
		}
		db, err := openTemporary(f)
		if err != nil {
			return err
		}
		err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyCopy, []byte{1}) })
		return errors.Join(err, closeTrimmed(db, f))
	})
}

// openTemporary opens a temporary file of replaceFile as a database. It fails if another file has its name by now.
func openTemporary(f *os.File) (*bbolt.DB, error) {
	return bbolt.Open(f.Name(), 0o600, &bbolt.Options{
		Timeout: time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
		NoSync: true, // replaceFile syncs the whole file once
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			again, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
			if err != nil {
				return nil, err
			}
			if err := sameFile(f, again); err != nil {
				return nil, errors.Join(err, again.Close())
			}
			return again, nil
		},
	})
}

// closeTrimmed closes the database of openTemporary, and cuts off what bbolt has reserved behind its pages: up to
// 16 MiB.
func closeTrimmed(db *bbolt.DB, f *os.File) error {
	var size int64
	err := db.View(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return f.Truncate(size)
}

func sameFile(a, b *os.File) error {
	x, err := a.Stat()
	if err != nil {
		return err
	}
	y, err := b.Stat()
	if err == nil && !os.SameFile(x, y) {
		err = fmt.Errorf("%s was replaced while it was written", a.Name())
	}
	return err
}

// CompactFile makes the file as small as its contents, while nobody else has it open, and returns the sizes before and
// after, in bytes. It needs as much free space as the contents. The new file has the owner of the old one. After a
// crash at any point the old file or the new one is in place, and both hold everything.
func CompactFile(path string, opts Options) (before, after int64, err error) {
	file, err := filepath.EvalSymlinks(path) // a link stays, and its file is replaced
	if err != nil {
		return 0, 0, explainOpen(path, err) // Open would make a new one
	}
	path = file
	j, err := Open(path, opts)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, j.Close()) }() // keeps the lock until the new file is in place
	if err := j.writable(); err != nil {
		return 0, 0, err
	}
	err = replaceFile(path, ".compact-*", func(f *os.File) error {
		dst, err := openTemporary(f)
		if err != nil {
			return err
		}
		if err := errors.Join(bbolt.Compact(dst, j.db, 4<<20), closeTrimmed(dst, f)); err != nil {
			return err
		}
		return sameOwner(f, path)
	}, &before, &after)
	return before, after, err
}

// replaceFile lets write fill a temporary file beside path (mode 0600), makes it durable and
// renames it to path. sizes, if given, receive the sizes of the old and of the new file.
func replaceFile(path, pattern string, write func(*os.File) error, sizes ...*int64) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+pattern)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); cerr != nil && !errors.Is(cerr, fs.ErrClosed) {
			err = errors.Join(err, cerr)
		}
		if err != nil {
			if rerr := os.Remove(f.Name()); !errors.Is(rerr, fs.ErrNotExist) { // renamed already
				err = errors.Join(err, rerr)
			}
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if len(sizes) == 2 {
		for i, name := range [...]string{path, f.Name()} {
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			*sizes[i] = info.Size()
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return durable.SettleDir(dir)
}
