package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/seal"
)

// trust is how inbox.Trust is kept.
type trust struct {
	Keys    map[string][]byte `json:"keys"`
	Order   []string          `json:"order,omitempty"`
	KeysRev uint64            `json:"keysRev,omitzero"`
	Signer  string            `json:"signer,omitempty"`
	Anchor  string            `json:"anchor,omitempty"`
	Epoch   uint64            `json:"epoch"`
	Newest  time.Time         `json:"newest,omitzero"`
	Floor   inbox.Floor       `json:"floor,omitzero"`
	Obeyed  inbox.Obeyed      `json:"obeyed,omitzero"`
}

func savedTrust(t *inbox.Trust) trust {
	saved := trust{Keys: map[string][]byte{}, Order: t.Order, KeysRev: t.KeysRev, Signer: t.Signer, Anchor: t.Anchor,
		Epoch: t.Epoch, Newest: t.Newest.UTC().Round(0), Floor: t.Floor, Obeyed: t.Obeyed}
	for kid, pub := range t.Keys {
		saved.Keys[kid] = pub
	}
	return saved
}

func putTrust(w *writer, t *inbox.Trust) error {
	saved := savedTrust(t)
	data, err := json.Marshal(&saved, json.Deterministic(true))
	if err != nil {
		return err
	}
	meta, err := w.bucket(bMeta)
	if err != nil {
		return err
	}
	return meta.Put(kTrust, data)
}

// Trust returns whom the node believes; the zero Trust before anything was pinned.
func (s *Store) Trust() (t inbox.Trust, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		t, err = readTrust(tx)
		return err
	})
	if err != nil {
		err = fmt.Errorf("state file %s: %w", s.cfg.Path, err)
	}
	return t, err
}

func readTrust(tx *bolt.Tx) (inbox.Trust, error) {
	data := tx.Bucket(bMeta).Get(kTrust)
	if data == nil {
		return inbox.Trust{}, nil
	}
	var saved trust
	if err := json.Unmarshal(data, &saved, json.RejectUnknownMembers(true)); err != nil {
		return inbox.Trust{}, fmt.Errorf("pinned keys: %w", err)
	}
	return saved.value(), nil
}

func (saved *trust) value() inbox.Trust {
	t := inbox.Trust{Order: saved.Order, KeysRev: saved.KeysRev, Signer: saved.Signer, Anchor: saved.Anchor,
		Epoch: saved.Epoch, Newest: saved.Newest, Floor: saved.Floor, Obeyed: saved.Obeyed}
	if len(saved.Keys) > 0 {
		t.Keys = seal.Trust{}
	}
	for kid, pub := range saved.Keys {
		t.Keys[kid] = pub
	}
	if len(t.Order) != len(t.Keys) { // version 1 had no order
		t.Order = slices.Sorted(maps.Keys(t.Keys))
	}
	return t
}

// Believed is what a state file says of its node's trust, for people.
type Believed struct {
	Unit, Node string
	Trust      inbox.Trust
}

// ReadTrust looks into the state file of an agent that does not run. With forget the pinned keys are
// removed, durably: the marks of the documents stay.
func ReadTrust(path string, forget bool) (b Believed, err error) {
	if _, err := os.Stat(path); err != nil { // opening would make it
		return b, fmt.Errorf("state file: %w", err)
	}
	db, err := openFile(path)
	if err != nil {
		return b, err
	}
	err = db.View(func(tx *bolt.Tx) error {
		v, err := readVersion(tx)
		if err == nil && v == 0 {
			err = errors.New("it is not the state file of an agent")
		}
		if err == nil {
			_, err = known(schemas, v, path)
		}
		if err != nil {
			return err
		}
		meta := tx.Bucket(bMeta)
		b.Unit, b.Node = string(meta.Get(kUnit)), string(meta.Get(kNode))
		b.Trust, err = readTrust(tx)
		return err
	})
	if err == nil && forget {
		t := inbox.Trust{Epoch: b.Trust.Epoch, Newest: b.Trust.Newest, Floor: b.Trust.Floor}
		err = change(db, func(w *writer) error { return putTrust(w, &t) })
		s := &Store{cfg: Config{Path: path, Unit: b.Unit, Node: b.Node}, db: db}
		err = errors.Join(err, s.reload(), s.loadMarks())
	}
	if err = errors.Join(err, db.Close()); err != nil {
		err = fmt.Errorf("state file %s: %w", path, err)
	}
	return b, err
}
