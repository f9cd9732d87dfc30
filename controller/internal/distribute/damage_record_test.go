package distribute

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/seal"
)

// TestDamagedRecords crashes a controller, flips bits of what it has issued since its checkpoint, and starts another:
// it refuses the journal, and names the record. Nothing of it is signed.
func TestDamagedRecords(t *testing.T) {
	var file []byte
	var issued []uint64
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.install("1.0.0")
		r.install("2.0.0")
		for _, rec := range r.records(record.Accepted, record.Issued) {
			issued = append(issued, rec.Seq)
		}
		var err error
		if file, err = os.ReadFile(filepath.Join(r.dir, "journal.db")); err != nil { // as a crash leaves it
			t.Fatal(err)
		}
	})
	if len(issued) < 4 {
		t.Fatalf("%d records", len(issued))
	}
	for _, seq := range issued {
		bits, step := 1, 37
		if filetest.EveryBit() {
			step = 1
		}
		for bit := 0; bit < bits; bit += step {
			path := filepath.Join(t.TempDir(), "journal.db")
			bits = 8 * flipRecord(t, path, file, seq, bit)
			core, err := New(Config{
				Kinds: kinds.All(), Unit: faultyUnit, Version: "1", Signer: seal.NewSigner(make([]byte, 64)),
				Open: func() (*journal.Journal, error) { return journal.Open(path, journal.Options{MapSize: 1 << 24}) },
			})
			if err == nil {
				t.Errorf("bit %d of record %d: it starts", bit, seq)
				if err := core.Close(); err != nil {
					t.Error(err)
				}
				continue
			}
			named := strings.Contains(err.Error(), fmt.Sprintf("record %d, or the one before it", seq)) ||
				strings.Contains(err.Error(), fmt.Sprintf("record %d, or the one before it", seq+1)) || // its hash
				strings.Contains(err.Error(), fmt.Sprintf("newest record %d ", seq))
			if !errors.Is(err, journal.ErrDamaged) || !named {
				t.Errorf("bit %d of record %d: %v", bit, seq, err)
			}
		}
	}
}

// flipRecord writes a journal with one bit of a record flipped, and returns how many bytes that has.
func flipRecord(t *testing.T, path string, file []byte, seq uint64, bit int) (size int) {
	t.Helper()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		log, key := tx.Bucket([]byte("log")), binary.BigEndian.AppendUint64(nil, seq)
		value := bytes.Clone(log.Get(key))
		size = len(value)
		value[bit/8] ^= 1 << (bit % 8)
		return log.Put(key, value)
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return size
}
