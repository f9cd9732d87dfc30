package store

import (
	"fmt"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/alert"
	"tandem.internal/nodeagent/internal/health"
)

// Care is what must not be forgotten of the node itself. An older agent reads what a newer one has
// saved, when a trial of the newer one failed: members are only ever added, and unknown ones let pass.
type Care struct {
	Health  health.Durable `json:"health,omitzero"`
	Alerts  alert.Durable  `json:"alerts,omitzero"`
	Reboots uint64         `json:"reboots,omitzero"` // starts of the machine that were known at the newest save
}

func putCare(tx *bolt.Tx, c *Care) error {
	data, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return err
	}
	return tx.Bucket(bMeta).Put(kCare, data)
}

// Care returns what was saved of the node itself; the zero Care if nothing was.
func (s *Store) Care() (Care, error) {
	var c Care
	err := s.db.View(func(tx *bolt.Tx) error {
		data := tx.Bucket(bMeta).Get(kCare)
		if data == nil {
			return nil
		}
		return json.Unmarshal(data, &c)
	})
	if err != nil {
		return Care{}, fmt.Errorf("state file %s: the node's health: %w", s.cfg.Path, err)
	}
	return c, nil
}
