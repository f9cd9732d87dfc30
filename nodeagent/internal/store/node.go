package store

import (
	"fmt"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/alert"
)

// Node is what must not be forgotten of the node itself. An older agent reads what a newer one has
// saved, when a trial of the newer one failed: members are only ever added, and unknown ones let pass.
type Node struct {
	Health  health.Durable `json:"health,omitzero"`
	Alerts  alert.Durable  `json:"alerts,omitzero"`
	Reboots uint64         `json:"reboots,omitzero"` // starts of the machine that were known at the newest save
}

func putNode(w *writer, n *Node) error {
	data, err := json.Marshal(n, json.Deterministic(true))
	if err != nil {
		return err
	}
	meta, err := w.bucket(bMeta)
	if err != nil {
		return err
	}
	return meta.Put(kCare, data)
}

// Node returns what was saved of the node itself; the zero Node if nothing was.
func (s *Store) Node() (Node, error) {
	var n Node
	err := s.db.View(func(tx *bolt.Tx) error {
		data := tx.Bucket(bMeta).Get(kCare)
		if data == nil {
			return nil
		}
		return json.Unmarshal(data, &n)
	})
	if err != nil {
		return Node{}, fmt.Errorf("state file %s: the node's health: %w", s.cfg.Path, err)
	}
	return n, nil
}
