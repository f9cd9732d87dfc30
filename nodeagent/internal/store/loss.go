package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"tandem.internal/shared/durable"
)

// Loss says that what the node had saved is lost, because its file was damaged or gone.
type Loss struct {
	At       time.Time `json:"at"` // wall clock
	Reason   string    `json:"reason"`
	Kept     string    `json:"kept,omitempty"`    // name of the damaged file, beside the new one; "": there was none
	Marks    bool      `json:"marks,omitzero"`    // whom the node believes and what is old is known from its marks
	Reported bool      `json:"reported,omitzero"` // by an event that is on the disk
}

// What follows the name of the file.
const (
	keptMark = ".bad-" // and the time: a damaged one
	newMark  = ".new-" // and digits: one that was never ready
)

// maxKept is how many damaged files are kept, the newest.
const maxKept = 3

// Loss returns the newest loss of this node's state; nil: there was none. It is remembered in the new file.
func (s *Store) Loss() *Loss { return s.loss }

func putLoss(w *writer, l *Loss) error {
	data, err := json.Marshal(l, json.Deterministic(true))
	if err != nil {
		return err
	}
	meta, err := w.bucket(bMeta)
	if err != nil {
		return err
	}
	return meta.Put(kLost, data)
}

func readLoss(tx *bolt.Tx) (*Loss, error) {
	data := tx.Bucket(bMeta).Get(kLost)
	if data == nil {
		return nil, nil
	}
	l := &Loss{}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("the loss before: %w", err)
	}
	return l, nil
}

func (c Config) now() time.Time {
	if c.Now == nil {
		return time.Now().UTC().Round(0)
	}
	return c.Now().UTC().Round(0)
}

// absence is the loss that a missing file is; nil: the node is new.
func (c Config) absence() *Loss {
	had := c.Had
	if _, _, err := c.readMarks(); had == "" && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errForeign) {
		had = MarksFile + " is there"
	}
	if kept, err := c.beside(keptMark); had == "" && err == nil && len(kept) > 0 {
		had = kept[len(kept)-1] + " is there"
	}
	if had == "" {
		return nil
	}
	return &Loss{At: c.now(), Reason: "it is gone, and " + had}
}

// beside returns the names of the files that are named as the state file and then a mark, in their order.
func (c Config) beside(mark string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(c.Path))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(c.Path)+mark) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// freeName is a name for the damaged file that no other has.
func (c Config) freeName() string {
	name := filepath.Base(c.Path) + keptMark + c.now().Format("20060102T150405Z")
	free := name
	for n := 1; n < 100; n++ {
		if _, err := os.Lstat(filepath.Join(filepath.Dir(c.Path), free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		free = fmt.Sprintf("%s.%02d", name, n)
	}
	return free
}

// swap gives the damaged file another name and a new one its own. A crash leaves the damaged one in its place, or the
// new one; on file systems without hard links neither, and then the damaged one that is kept shows that one was lost.
func (c Config) swap(temp, kept string) error {
	dir := filepath.Dir(c.Path)
	names, err := c.beside(keptMark)
	for i := 0; err == nil && i < len(names)-(maxKept-1); i++ {
		err = remove(filepath.Join(dir, names[i]))
	}
	if err != nil {
		return err
	}
	if os.Link(c.Path, filepath.Join(dir, kept)) != nil {
		if err := os.Rename(c.Path, filepath.Join(dir, kept)); err != nil {
			return err
		}
	}
	return os.Rename(temp, c.Path)
}

// place gives a new file its name, if no other has it meanwhile.
func place(temp, path string) error {
	err := os.Link(temp, path)
	switch {
	case err == nil || errors.Is(err, fs.ErrExist):
		return remove(temp)
	default: // a file system without hard links
		return os.Rename(temp, path)
	}
}

// sweep removes what was never ready. The caller holds the lock.
func (c Config) sweep() error {
	if err := durable.Clean(c.marksPath()); err != nil {
		return err
	}
	names, err := c.beside(newMark)
	for _, name := range names {
		err = errors.Join(err, remove(filepath.Join(filepath.Dir(c.Path), name)))
	}
	return err
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
