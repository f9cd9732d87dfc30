package keep

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/durable"
)

// recordFormat is the format of records. A keeper reads older ones; fields that it does not know it passes over.
const recordFormat = 1

// record is what the next keeper has to know of a run, in runs/ID.json. It is written before the process
// is started, once more when that is, and when it has ended.
type record struct {
	Format    int           `json:"format"`
	Boot      string        `json:"boot"`           // of the kernel, in which PID and Ticks mean something
	Ticks     uint64        `json:"ticks,omitzero"` // when the main process began, as /proc has it; 0: it may not have
	Cgroups   []string      `json:"cgroups,omitempty"`
	Log       Log           `json:"log"`
	StopGrace time.Duration `json:"stopGrace,omitzero"`
	Status    Status        `json:"status"`
}

// records are a directory of them.
type records struct {
	dir   string
	steps durable.Steps
}

func (r records) path(id string) string { return filepath.Join(r.dir, id+".json") }

func (r records) save(rec record) error {
	data, err := rec.encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(r.path(rec.Status.ID), data, 0o600, r.steps)
}

func (rec record) encode() ([]byte, error) {
	data, err := json.Marshal(rec, codec)
	if err != nil {
		return nil, fmt.Errorf("encode a run: %w", err)
	}
	return append(data, '\n'), nil
}

// decodeRecord reads the record of a run. Of a damaged one only the ID is left, and it counts as a run that
// may have been started.
func decodeRecord(id string, data []byte) record {
	var rec record
	if err := json.Unmarshal(data, &rec, codec); err != nil || rec.Status.ID != id || rec.Format < 1 {
		return record{Format: recordFormat, Status: Status{ID: id, State: Running}}
	}
	return rec
}

func (r records) remove(id string) error { return durable.Remove(r.path(id)) }

// load reads all records.
func (r records) load() (all []record, err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("records of runs: %w", err)
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, fmt.Errorf("records of runs: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(r.dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") { // what a crash left of a write
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("records of runs: %w", err)
			}
			continue
		}
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !goodID(id) {
			continue // not ours
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("records of runs: %w", err)
		}
		all = append(all, decodeRecord(id, data))
	}
	return all, nil
}

// identity is the keeper's own ID, made once for a directory: by it, its processes are told from those of
// another agent on the same machine.
func identity(dir string, steps durable.Steps) (string, error) {
	path := filepath.Join(dir, "identity")
	data, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(data)); err == nil && len(id) == 16 && goodID(id) {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("keeper's identity: %w", err)
	}
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("keeper's identity: %w", err)
	}
	id := hex.EncodeToString(random)
	if err := durable.WriteFile(path, []byte(id+"\n"), 0o600, steps); err != nil {
		return "", fmt.Errorf("keeper's identity: %w", err)
	}
	return id, nil
}
