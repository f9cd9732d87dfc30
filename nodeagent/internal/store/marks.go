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

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// MarksFile is the name of the file beside the state file that has what protects the node against what is old, once
// more: whom it believes, and the newest stamp that it has accepted of each kind; and how far its events have come. It
// is written after the state file,
// and read only when that is lost.
const MarksFile = "state.marks"

// marks is the content of the file, after the hexadecimal SHA-256 of its JSON and a space.
type marks struct {
	V     int                      `json:"v"`
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

// readMarks reads the marks of this node. The error matches fs.ErrNotExist if there are none.
func (c Config) readMarks() (*marks, error) {
	data, err := os.ReadFile(c.marksPath())
	if err != nil {
		return nil, err
	}
	sum, text, _ := bytes.Cut(bytes.TrimSuffix(data, []byte("\n")), []byte(" "))
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
	if m, err := s.cfg.readMarks(); err == nil {
		s.marked = *m
	}
	return s.saveMarks()
}

// saveMarks writes the marks, if they are not what is written: a newer time of a beacon alone is no reason.
func (s *Store) saveMarks() error {
	m := marks{V: marksVersion, Unit: s.cfg.Unit, Node: s.cfg.Node, Kinds: map[wire.Kind]wire.Stamp{}}
	err := s.db.View(func(tx *bolt.Tx) error {
		if data := tx.Bucket(bMeta).Get(kTrust); data != nil {
			if err := json.Unmarshal(data, &m.Trust); err != nil {
				return err
			}
		}
		return tx.Bucket(bKind).ForEachBucket(func(name []byte) error {
			d, err := readState(tx.Bucket(bKind).Bucket(name))
			if !d.High.IsZero() {
				m.Kinds[wire.Kind(name)] = d.High
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	if m.Events = s.marked.Events; s.eventsNear() {
		m.Events = s.newest + ahead
	}
	same := m
	same.Trust.Newest = s.marked.Trust.Newest
	nothing := len(m.Kinds) == 0 && len(m.Trust.Keys) == 0 && s.marked.V == 0
	if nothing || reflect.DeepEqual(same, s.marked) {
		return nil
	}
	text, err := json.Marshal(&m, json.Deterministic(true))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	if err := s.cfg.Faults.at(Mark); err != nil {
		return err
	}
	if err := durable.WriteFile(s.cfg.marksPath(), fmt.Appendf(nil, "%x %s\n", sum, text), 0o600, nil); err != nil {
		return err
	}
	s.marked = m
	return nil
}
