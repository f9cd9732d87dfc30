package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"tandem.internal/shared/boltfile"
	"tandem.internal/shared/durable"
)

// damage is what is wrong with a file that the node cannot go by. It is kept aside, and a new one takes its place.
type damage struct{ err error }

func (d *damage) Error() string { return d.err.Error() }
func (d *damage) Unwrap() error { return d.err }

// lockWait is how long Open waits for another process to let go of the file, looking every lockPause.
const (
	lockWait  = 2 * time.Second
	lockPause = 20 * time.Millisecond
)

// errMoved says that another file has got the name of the one that was locked.
var errMoved = errors.New("it was replaced")

// Open opens the state file, makes it if it is not there, and counts one more start. A file that is damaged is kept
// aside, and one that should be there and is not is made; Loss says so in both cases.
func Open(cfg Config) (*Store, error) { return openSchema(cfg, schemas) }

func openSchema(cfg Config, list []schema) (*Store, error) {
	newest := list[len(list)-1].version
	replaced := false
	for {
		s, err := openOnce(cfg, list)
		if err == nil {
			return s, nil
		}
		d, damaged := errors.AsType[*damage](err)
		switch {
		case errors.Is(err, errMoved): // another agent was faster
		case damaged && replaced:
			return nil, fmt.Errorf("state file %s is damaged again (%w): the disk does not keep what is written",
				cfg.Path, d)
		case damaged:
			replaced = true
		case errors.Is(err, fs.ErrNotExist):
			if err := cfg.create(newest, cfg.absence(), false); err != nil {
				return nil, cfg.explain(err)
			}
		default:
			return nil, cfg.explain(err)
		}
	}
}

// openOnce opens the file. One that is damaged is replaced, and the error is its damage.
func openOnce(cfg Config, list []schema) (*Store, error) {
	f, err := lock(cfg.Path)
	if err != nil {
		return nil, err
	}
	s, err := openLocked(cfg, list, f)
	if err == nil {
		return s, nil
	}
	if d, damaged := errors.AsType[*damage](err); damaged {
		// The lock is still held: nobody else replaces the file.
		loss := &Loss{At: cfg.now(), Reason: strings.ToValidUTF8(fmt.Sprintf("%.300s", d), "?")}
		if cerr := cfg.create(list[len(list)-1].version, loss, true); cerr != nil {
			err = fmt.Errorf("it is damaged (%v), and no other can take its place: %w", d, cerr)
		}
	}
	if s != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return nil, errors.Join(err, closeFile(f))
}

// closeFile closes a file that bbolt may have closed.
func closeFile(f *os.File) error {
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// openLocked makes a Store of a locked file. After an error, a Store is one that has the file.
func openLocked(cfg Config, list []schema, f *os.File) (*Store, error) {
	verified, err := inspect(f)
	if err != nil {
		return nil, err
	}
	db, err := mapFile(f)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, db: db}
	upgrades, err := s.prepare(list)
	if err == nil && !verified {
		err = s.readable()
	}
	if err == nil {
		err = s.begin(upgrades)
	}
	if err == nil {
		err = cfg.sweep()
	}
	if err == nil {
		s.warn(s.loadMarks())
	}
	return s, err
}

// lock opens and locks the file. The error matches fs.ErrNotExist, ErrTimeout of bbolt, or errMoved.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(lockPause) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			break
		}
		if err = berrors.ErrTimeout; time.Since(began) >= lockWait {
			break
		}
	}
	if err == nil {
		err = named(f, path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// named returns errMoved if path is another file than f.
func named(f *os.File, path string) error {
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(locked, now) {
		return errMoved
	} else if err != nil {
		return err
	}
	return nil
}

// inspect reads the whole file, before anything of it is mapped. Without an error and verified, its values are those
// that the newest transaction has left; else the file is as one of an agent that kept no sum.
func inspect(f *os.File) (verified bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() == 0 {
		return false, &damage{errors.New("it is empty")}
	}
	var t tally
	m, err := boltfile.Check(f, info.Size(), t.add)
	for _, known := range []error{boltfile.ErrForeign, boltfile.ErrCut, boltfile.ErrDamaged, syscall.EIO} {
		if errors.Is(err, known) {
			return false, &damage{err}
		}
	}
	if err == nil && !m.Whole { // a write of so few bytes is never cut: it was there
		err = &damage{errors.New("a meta page is not valid")}
	}
	if err != nil {
		return false, err
	}
	return t.compare(m.Txid)
}

// mapFile lets bbolt have a locked file that was inspected, and that it closes.
func mapFile(f *os.File) (*bolt.DB, error) {
	return bolt.Open(f.Name(), 0o600, &bolt.Options{
		Timeout: lockWait, NoFreelistSync: true, FreelistType: bolt.FreelistMapType, NoStatistics: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f, nil },
	})
}

// openFile opens the file of an agent that does not run. One that is damaged stays as it is.
func openFile(path string) (*bolt.DB, error) {
	f, err := lock(path)
	if err == nil {
		if _, err = inspect(f); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	var db *bolt.DB
	if err == nil {
		db, err = mapFile(f)
	}
	if err != nil {
		return nil, Config{Path: path}.explain(err)
	}
	return db, nil
}

// explain says what to do about a file that cannot be opened.
func (c Config) explain(err error) error {
	if d, damaged := errors.AsType[*damage](err); damaged {
		return fmt.Errorf("state file %s is damaged (%w): the next start of the agent keeps it aside and begins anew, "+
			"and the controller sends the documents again", c.Path, d)
	}
	if errors.Is(err, berrors.ErrTimeout) {
		return fmt.Errorf("state file %s is in use: another tandem-node runs with this state directory", c.Path)
	}
	return fmt.Errorf("open state file: %w", err)
}

// readable reads everything in a file of an agent that kept no sum. What it has written is what this one reads.
func (s *Store) readable() error {
	err := s.db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bEvent)
		if b == nil || tx.Bucket(bKind) == nil || tx.Bucket(bWorkload) == nil && s.version > 1 {
			return errors.New("a bucket is missing")
		}
		return b.ForEach(func(key, data []byte) error {
			_, err := decodeEvent(key, data)
			return err
		})
	})
	if err != nil {
		return &damage{err}
	}
	_, kerr := s.Kinds()
	_, terr := s.Trust()
	_, nerr := s.Node()
	var werr error
	if s.version > 1 {
		_, werr = s.Workloads()
	}
	if err := cmp.Or(kerr, terr, nerr, werr); err != nil {
		return &damage{errors.Unwrap(err)} // without the name of the file
	}
	return nil
}

// create makes a new file, whole before it has its name. damaged says that it takes the place of one, whose lock is
// held; without one, the file of another process that is faster stays.
func (c Config) create(version uint64, loss *Loss, damaged bool) error {
	if err := c.Faults.at(Copy); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(c.Path), filepath.Base(c.Path)+newMark+"*") // mode 0600
	if err != nil {
		return err
	}
	temp := f.Name()
	if damaged {
		loss.Kept = c.freeName()
	}
	db, err := mapFile(f)
	if err == nil {
		err = errors.Join(change(db, func(w *writer) error { return c.format(w, version, loss) }), db.Close())
	}
	if err == nil {
		err = c.Faults.at(Rename)
	}
	switch {
	case err != nil:
	case damaged:
		err = c.swap(temp, loss.Kept)
	default:
		err = place(temp, c.Path)
	}
	if err != nil {
		return errors.Join(err, closeFile(f), remove(temp))
	}
	if err := c.Faults.at(SyncDir); err != nil {
		return err
	}
	return durable.SettleDir(filepath.Dir(c.Path))
}

// format writes what a file has that nothing was saved to yet.
func (c Config) format(w *writer, version uint64, loss *Loss) error {
	if err := w.makeBuckets(); err != nil {
		return err
	}
	meta, err := w.bucket(bMeta)
	if err == nil {
		err = errors.Join(meta.Put(kUnit, []byte(c.Unit)), meta.Put(kNode, []byte(c.Node)),
			meta.Put(kVersion, decimal(version)))
	}
	if err != nil || loss == nil {
		return err
	}
	m, _, err := c.readMarks()
	switch {
	case err == nil:
		loss.Marks = true
		err = errors.Join(putTrust(w, m.start()), w.tx.Bucket(bEvent).SetSequence(m.Events))
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	default:
		loss.Reason, err = fmt.Sprintf("%s; %s cannot be used: %v", loss.Reason, MarksFile, err), nil
	}
	return errors.Join(err, putLoss(w, loss))
}
