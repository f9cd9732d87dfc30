package store

import (
	"fmt"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/supervise"
)

// Workloads returns what was saved of the slots, by service.
func (s *Store) Workloads() (map[string]supervise.Durable, error) {
	all := map[string]supervise.Durable{}
	err := s.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bWorkload).ForEach(func(service, data []byte) error {
			var d supervise.Durable
			if err := json.Unmarshal(data, &d); err != nil {
				return fmt.Errorf("slot %s: %w", service, err)
			}
			all[string(service)] = d
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("state file %s: workloads: %w", s.cfg.Path, err)
	}
	return all, nil
}

// SaveWorkloads saves slots by service, all or none; nil removes one. Unlike the rest, it may be called
// beside the store's goroutine.
func (s *Store) SaveWorkloads(slots map[string]*supervise.Durable) error {
	return s.update(func(w *writer) error {
		b, err := w.bucket(bWorkload)
		if err != nil {
			return err
		}
		for service, d := range slots {
			if d == nil {
				if err := b.Delete([]byte(service)); err != nil {
					return err
				}
				continue
			}
			data, err := json.Marshal(d, json.Deterministic(true))
			if err == nil {
				err = b.Put([]byte(service), data)
			}
			if err != nil {
				return fmt.Errorf("slot %s: %w", service, err)
			}
		}
		return nil
	})
}
