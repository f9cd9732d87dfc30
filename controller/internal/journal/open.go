package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"tandem.internal/shared/boltfile"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Options say how to open a journal. The zero value opens for writing with the defaults.
type Options struct {
	ReadOnly    bool             // offline reading beside other readers; never makes or changes the file
	LockTimeout time.Duration    // how long to wait for another process to let go; 0: one second
	NewEpoch    bool             // raise the epoch, as after restoring a copy of the file by hand
	MapSize     int              // address space reserved for the file, bytes; 0: 1 GiB (128 MiB on 32 bits)
	Now         func() time.Time // wall clock; nil: time.Now
	Log         *zap.Logger      // nil: silent
	Faults      Faults           // for tests; production leaves it zero
}

// Open opens the journal in path, making a new one if there is none and opts allow it, and
// upgrading an older format after putting a backup of the old file beside it. The directory must
// exist. It fails with ErrLocked, ErrNotJournal, ErrNewer, ErrOlder, ErrDamaged, or an error that
// matches fs.ErrPermission or fs.ErrNotExist; each has a message for people.
func Open(path string, opts Options) (*Journal, error) {
	if opts.LockTimeout <= 0 {
		opts.LockTimeout = time.Second
	}
	if opts.MapSize <= 0 {
		opts.MapSize = 1 << 30
		if strconv.IntSize == 32 {
			opts.MapSize = 128 << 20
		}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if !opts.ReadOnly {
		if err := create(path, opts); err != nil {
			return nil, explainOpen(path, err)
		}
	}
	db, whole, err := openDB(path, opts)
	for range 3 { // CompactFile put another file in place while we waited for the lock
		if !errors.Is(err, errMoved) {
			break
		}
		db, whole, err = openDB(path, opts)
	}
	if err != nil {
		return nil, explainOpen(path, err)
	}
	j := &Journal{
		db: db, path: path, readOnly: opts.ReadOnly, log: opts.Log, now: opts.Now, faults: opts.Faults,
		maintenance: make(chan struct{}, 1), index: newIndex(),
	}
	if err := j.load(opts, whole); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return j, nil
}

// openDB opens and locks the file, and makes sure that the locked file is still the one in path. It is not whole if
// it is that of the commit before the newest one.
func openDB(path string, opts Options) (_ *bbolt.DB, whole bool, err error) {
	if err := precheck(path); err != nil {
		return nil, false, err
	}
	var file *os.File
	bopts := bbolt.Options{
		Timeout: opts.LockTimeout, ReadOnly: true,
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
		InitialMmapSize: opts.MapSize,
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			file, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
			return file, err
		},
	}
	// Read-only first: it touches no page but the first two, and its lock keeps writers out.
	db, err := bbolt.Open(path, 0o600, &bopts)
	if err != nil {
		return nil, false, err
	}
	if whole, err = checkPages(path, file); err != nil {
		return nil, false, errors.Join(err, db.Close())
	}
	if !opts.ReadOnly {
		if err := db.Close(); err != nil {
			return nil, false, err
		}
		bopts.ReadOnly = false
		if db, err = bbolt.Open(path, 0o600, &bopts); err != nil {
			return nil, false, err
		}
	}
	locked, err := file.Stat()
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Stat(path); err == nil && !os.SameFile(locked, named) {
			err = errMoved
		}
	}
	if err == nil && !opts.ReadOnly && locked.Mode().Perm()&0o077 != 0 {
		opts.Log.Warn("the journal was readable by others; now it is not",
			zap.String("path", path), zap.Stringer("mode", locked.Mode()))
		err = file.Chmod(0o600)
	}
	if err != nil {
		return nil, false, errors.Join(err, db.Close())
	}
	return db, whole, nil
}

// openRegular opens a file for reading that bbolt would not start to write into: it is regular, and not empty.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path) // before it is opened: a FIFO would wait for a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fail(ErrNotJournal, wire.CodeMalformed, nil, path+" is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && info.Size() == 0 {
		err = fail(ErrNotJournal, wire.CodeMalformed, nil,
			path+" is empty, so it is not a journal; move it away to start a new one")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// precheck refuses a file that bbolt would start to write into or fall over: an empty one, and
// one that ends before its newest meta page says.
func precheck(path string) error {
	f, err := openRegular(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return err
	}
	switch _, err := boltfile.ReadMeta(f, info.Size()); {
	case errors.Is(err, boltfile.ErrForeign):
		return berrors.ErrInvalid
	case errors.Is(err, boltfile.ErrCut):
		return truncated(path)
	default:
		return err
	}
}

// checkPages fails with ErrDamaged if the page tree of the newest transaction is not one. It runs before bbolt follows
// that tree, because bbolt answers a broken page with a panic in a goroutine of its own.
func checkPages(path string, file *os.File) (whole bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	meta, err := boltfile.Check(file, info.Size(), nil)
	if errors.Is(err, boltfile.ErrDamaged) || errors.Is(err, boltfile.ErrCut) {
		err = damagedPages(path, err)
	}
	return meta.Whole, err
}

func damagedPages(path string, err error) error {
	return fail(ErrDamaged, wire.CodeStorage, err, fmt.Sprintf("%s is damaged: %v; restore a backup", path, err))
}

func truncated(path string) error {
	return fail(ErrDamaged, wire.CodeStorage, nil, path+" is damaged: the file is cut off; restore a backup")
}

// explainOpen turns what bbolt and the system say into something a person can act on.
func explainOpen(path string, err error) error {
	var known *failure
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, berrors.ErrTimeout):
		return fail(ErrLocked, wire.CodeUnavailable, err, "the journal "+path+" is in use by "+lockHolder(path)+
			"; stop it first, or ask the running controller instead")
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch),
		errors.Is(err, berrors.ErrChecksum), errors.Is(err, errNoMeta):
		return fail(ErrNotJournal, wire.CodeMalformed, err,
			path+" is not a Tandem journal; move it away to start a new one, or restore a backup")
	case errors.Is(err, fs.ErrPermission):
		return fail(fs.ErrPermission, wire.CodeNotAllowed, err,
			"no permission to open the journal "+path+"; run as the user that owns it")
	case errors.Is(err, fs.ErrNotExist):
		return fail(fs.ErrNotExist, wire.CodeNotFound, err,
			"there is no journal "+path+" (or its directory is missing)")
	}
	return fail(err, wire.CodeStorage, nil, "cannot open the journal "+path+": "+reason(err))
}

// create makes a new journal if path does not exist: whole under a temporary name, then linked
// to its own, so that no crash leaves half a journal and no other process is overwritten.
func create(path string, opts Options) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return err
	}
	name := tmp.Name()
	defer func() {
		if rerr := os.Remove(name); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) && err == nil {
			err = rerr
		}
	}()
	if err := tmp.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{
		Timeout: opts.LockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return err
	}
	now := opts.Now()
	err = db.Update(func(tx *bbolt.Tx) error { return format(tx, now) })
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Link(name, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // another process was faster
		}
		if err := os.Rename(name, path); err != nil { // a file system without hard links
			return err
		}
	}
	return durable.SettleDir(filepath.Dir(path))
}

// format writes the bucket tree of an empty journal.
func format(tx *bbolt.Tx, now time.Time) error {
	for _, name := range [][]byte{bucketMeta, bucketLog, bucketGaps, bucketBodies, bucketCheckpoint} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	created := []byte(now.UTC().Format(time.RFC3339Nano))
	for _, kv := range [...]struct{ k, v []byte }{
		{keyVersion, []byte(strconv.Itoa(Version))},
		{keyEpoch, beSeq(clockEpoch(now))},
		{keyCreated, created},
		{keyHead, mark{hash: genesis(created)}.bytes()},
	} {
		if err := tx.Bucket(bucketMeta).Put(kv.k, kv.v); err != nil {
			return err
		}
	}
	return nil
}

// load checks the version, upgrades, and reads what the journal keeps in memory.
func (j *Journal) load(opts Options, whole bool) error {
	if err := j.upgrade(); err != nil {
		return err
	}
	copied := false
	err := j.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		epoch := meta.Get(keyEpoch)
		if len(epoch) != 8 {
			return j.Damaged("its epoch is missing")
		}
		j.epoch.Store(binary.BigEndian.Uint64(epoch))
		for _, name := range [][]byte{bucketLog, bucketGaps, bucketBodies, bucketCheckpoint} {
			if tx.Bucket(name) == nil {
				return j.Damaged("its %s is missing", name)
			}
		}
		var ok bool
		if j.head, ok = parseMark(meta.Get(keyHead)); !ok && !j.readOnly {
			return j.Damaged("its head is missing")
		}
		j.last.Store(j.head.seq)
		j.index.tail.next = j.head.seq + 1
		copied = meta.Get(keyCopy) != nil
		if j.readOnly {
			return nil // Verify wants to look at damaged journals too
		}
		return j.checkHead(tx)
	})
	if err != nil || j.readOnly {
		return err
	}
	if copied {
		j.log.Warn("the journal is a restored backup: its epoch is raised, so that nodes take its documents",
			zap.String("path", j.path))
	}
	if !whole {
		j.log.Warn("the newest commit of the journal was cut off, or is damaged: it begins at the one before, in a "+
			"higher epoch, so that no document has the number of another", zap.String("path", j.path))
	}
	if copied || opts.NewEpoch || !whole {
		if _, err := j.BumpEpoch(0); err != nil {
			return err
		}
	}
	return sweep(j.file())
}

// checkHead makes sure that appending would continue the chain where it ended.
func (j *Journal) checkHead(tx *bbolt.Tx) error {
	k, v := tx.Bucket(bucketLog).Cursor().Last()
	var lastKey, gapEnd uint64
	if k != nil {
		if len(k) != 8 || len(v) < hashSize {
			return j.Damaged("its newest record is malformed")
		}
		lastKey = binary.BigEndian.Uint64(k)
	}
	gk, gv := tx.Bucket(bucketGaps).Cursor().Last()
	gap, ok := parseMark(gv)
	if gk != nil && !ok {
		return j.Damaged("its list of gaps is malformed")
	}
	if gk != nil {
		gapEnd = gap.seq
	}
	switch {
	case max(lastKey, gapEnd) != j.head.seq:
		return j.Damaged("its newest record is %d but should be %d", max(lastKey, gapEnd), j.head.seq)
	case lastKey == j.head.seq && k != nil && Hash(v[:hashSize]) != j.head.hash,
		lastKey < gapEnd && gap.hash != j.head.hash:
		return j.Damaged("its newest record %d is not the one that was written", j.head.seq)
	}
	return nil
}

// sweep removes what crashes of create, upgrade and CompactFile may have left beside path.
// The caller holds the journal's lock.
func sweep(path string) error {
	for _, kind := range [...]string{".new-*", ".compact-*", ".v*.bak.new-*"} {
		left, err := filepath.Glob(escapeGlob(path) + kind)
		if err != nil {
			return fmt.Errorf("look for leftovers: %w", err)
		}
		for _, name := range left {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove a leftover: %w", err)
			}
		}
	}
	return nil
}

// escapeGlob makes path match itself in filepath.Glob.
func escapeGlob(path string) string {
	out := make([]byte, 0, len(path))
	for i := range len(path) {
		switch path[i] {
		case '*', '?', '[', '\\':
			out = append(out, '\\')
		}
		out = append(out, path[i])
	}
	return string(out)
}
