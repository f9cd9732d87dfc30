package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"syscall"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// MarksFile is the name of the file beside the state file that has what protects the node against what is old, once
// more: whom it believes, and the newest stamp that it has accepted of each kind; and how far its events have come. It
// is written after the state file, and read only when that is lost.
//
// It has two halves, which are written in turn and in place: a crash leaves one of them as it was.
const MarksFile = "state.marks"

// marks is the content of a half, after the hexadecimal SHA-256 of its JSON and a space. Spaces fill the rest.
type marks struct {
	V     int                      `json:"v"`
	N     uint64                   `json:"n"` // of the write: the half with the greater one counts
	Unit  string                   `json:"unit"`
	Node  string                   `json:"node"`
	Trust trust                    `json:"trust"`
	Kinds map[wire.Kind]wire.Stamp `json:"kinds"`
	// Events is a number that no event has reached. A node that began to count at 1 again would not be listened to: the
	// controller has events of these numbers.
	Events uint64 `json:"events"`
}

const marksVersion = 1

// ahead is how far marks.Events is put ahead of the newest event, and half of it how close that may come.
const ahead = 1000

func (c Config) marksPath() string { return filepath.Join(filepath.Dir(c.Path), MarksFile) }

// start is what a node begins with that has nothing but its marks: documents older than they are old.
func (m *marks) start() *inbox.Trust {
	t := m.Trust.value()
	kinds := maps.Clone(t.Floor.Kinds)
	if kinds == nil {
		kinds = map[wire.Kind]wire.Stamp{}
	}
	for kind, stamp := range m.Kinds {
		if stamp.Compare(kinds[kind]) > 0 {
			kinds[kind] = stamp
		}
	}
	t.Floor.Kinds = kinds
	return &t
}

// errForeign says that the marks are of another node.
var errForeign = errors.New("it is of another node")

// readMarks reads the marks of this node, and says how long a half is. The error matches fs.ErrNotExist if there are
// none.
func (c Config) readMarks() (m *marks, half int, err error) {
	data, err := os.ReadFile(c.marksPath())
	if err != nil {
		return nil, 0, err
	}
	half = len(data) / 2
	m, err = c.decodeMarks(data[:half])
	if other, oerr := c.decodeMarks(data[half:]); oerr == nil && (err != nil || other.N > m.N) {
		m, err = other, nil
	}
	return m, half, err
}

// decodeMarks reads one half.
func (c Config) decodeMarks(half []byte) (*marks, error) {
	sum, text, _ := bytes.Cut(bytes.TrimRight(half, " "), []byte(" "))
	if want := sha256.Sum256(text); string(sum) != hex.EncodeToString(want[:]) {
		return nil, errors.New("it does not have its hash")
	}
	m := &marks{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	if m.V != marksVersion {
		return nil, fmt.Errorf("it has version %d", m.V)
	}
	if m.Unit != c.Unit || m.Node != c.Node {
		return nil, errForeign
	}
	return m, nil
}

// eventsNear says that the events come near the number in the marks.
func (s *Store) eventsNear() bool { return s.newest+ahead/2 > s.marked.Events }

// loadMarks learns which marks are written, and writes those that are not.
func (s *Store) loadMarks() error {
	if m, half, err := s.cfg.readMarks(); err == nil {
		s.marked, s.half = *m, half
	}
	s.marks = marks{V: marksVersion, Unit: s.cfg.Unit, Node: s.cfg.Node, Kinds: map[wire.Kind]wire.Stamp{}}
	err := s.db.View(func(tx *bolt.Tx) error {
		if data := tx.Bucket(bMeta).Get(kTrust); data != nil {
			if err := json.Unmarshal(data, &s.marks.Trust); err != nil {
				return err
			}
		}
		return tx.Bucket(bKind).ForEachBucket(func(name []byte) error {
			d, err := readState(tx.Bucket(bKind).Bucket(name))
			if !d.High.IsZero() {
				s.marks.Kinds[wire.Kind(name)] = d.High
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	return s.saveMarks()
}

// mark takes over what a commit has saved.
func (s *Store) mark(b *Batch) {
	if b.Trust != nil {
		s.marks.Trust = savedTrust(b.Trust)
	}
	if len(b.Kinds) > 0 {
		s.marks.Kinds = maps.Clone(s.marks.Kinds)
	}
	for i := range b.Kinds {
		if high := b.Kinds[i].State.High; !high.IsZero() {
			s.marks.Kinds[b.Kinds[i].Name] = high
		}
	}
}

// saveMarks writes the marks, if they are not what is written: a newer time of a beacon alone is no reason.
func (s *Store) saveMarks() error {
	m := s.marks
	if m.Events = s.marked.Events; s.eventsNear() {
		m.Events = s.newest + ahead
	}
	same := m
	same.N, same.Trust.Newest = s.marked.N, s.marked.Trust.Newest
	nothing := len(m.Kinds) == 0 && len(m.Trust.Keys) == 0 && s.marked.V == 0
	if nothing || reflect.DeepEqual(same, s.marked) {
		return nil
	}
	m.N = s.marked.N + 1
	text, err := json.Marshal(&m, json.Deterministic(true))
	if err != nil {
		return err
	}
	text = fmt.Appendf(nil, "%x %s", sha256.Sum256(text), text)
	if err := s.cfg.Faults.at(Mark); err != nil {
		return err
	}
	// No half is left that believes what the node does not believe any more.
	if !reflect.DeepEqual(same.Trust, s.marked.Trust) || s.overwrite(m.N, text) != nil {
		half := (len(text) + leastHalf) / leastHalf * leastHalf
		if err := durable.WriteFile(s.cfg.marksPath(), bytes.Repeat(fill(text, half), 2), 0o600, nil); err != nil {
			return err
		}
		s.half = half
	}
	s.marked = m
	return nil
}

// leastHalf is the length of a half that has no more to say, in bytes.
const leastHalf = 4 << 10

// errNoRoom says that the text is longer than a half.
var errNoRoom = errors.New("no room")

// overwrite writes one half of the file. After an error that half may be neither the old text nor the new one.
func (s *Store) overwrite(n uint64, text []byte) error {
	if len(text) > s.half {
		return errNoRoom
	}
	f, err := os.OpenFile(s.cfg.marksPath(), os.O_WRONLY|syscall.O_DSYNC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fill(text, s.half), int64(n%2)*int64(s.half))
	return errors.Join(err, f.Close())
}

// fill makes a text longer, with spaces.
func fill(text []byte, n int) []byte {
	long := bytes.Repeat([]byte(" "), n)
	copy(long, text)
	return long
}
