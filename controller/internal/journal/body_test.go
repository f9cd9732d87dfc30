package journal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
)

// TestBodyIsVerifiedWhenRead: of a body with any one bit flipped nothing is ever returned; the error names the place,
// and storing the body again mends it.
func TestBodyIsVerifiedWhenRead(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	body := []byte(`{"version":"1.0.0"}`)
	hash := Hash(sha256.Sum256(body))
	named := rec(1)
	named.Type, named.Data = Accepted, fmt.Appendf(nil, `{"hash":"sha256:%x"}`, hash)
	seq := mustAppend(t, j, Batch{Records: []Record{rec(0), named, rec(2)}, Bodies: [][]byte{body}}) + 1
	for bit := range 8*len(body) + 1 {
		raw(t, j, func(tx *bbolt.Tx) error {
			if bit == 8*len(body) {
				return tx.Bucket(bucketBodies).Delete(hash[:])
			}
			bad := filetest.Flipped(body, bit)
			return tx.Bucket(bucketBodies).Put(hash[:], bad)
		})
		got, err := j.NeededBody(hash)
		bad, ok := errors.AsType[*BodyError](err)
		if !ok || got != nil || !errors.Is(err, ErrDamaged) || wire.AsError(err).Code != wire.CodeStorage {
			t.Fatalf("bit %d: read %q, %v", bit, got, err)
		}
		if bad.Path != j.Path() || bad.Hash != hash || bad.Record != seq || bad.Absent != (bit == 8*len(body)) {
			t.Fatalf("bit %d: the place is %+v", bit, bad)
		}
		p := mustVerify(t, j)
		if len(p.Problems) != 1 || p.Problems[0].What != BodyWrong || p.Problems[0].Seq != seq ||
			!strings.Contains(p.String(), fmt.Sprintf("%x", hash)) {
			t.Fatalf("bit %d: verify found %s", bit, p.String())
		}
		mustAppend(t, j, Batch{Bodies: [][]byte{body}})
		if got, err := j.NeededBody(hash); err != nil || string(got) != string(body) {
			t.Fatalf("bit %d: stored again, read %q, %v", bit, got, err)
		}
	}
}
