package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// findings verifies the journal: what, seq and to of every problem.
func findings(t *testing.T, j *Journal) (out []string) {
	t.Helper()
	for _, p := range mustVerify(t, j).Problems {
		out = append(out, fmt.Sprintf("%s %d %d", p.What, p.Seq, p.To))
	}
	return out
}

// logValues reads the whole log as it is on the disk.
func logValues(t *testing.T, j *Journal) map[uint64][]byte {
	t.Helper()
	all := map[uint64][]byte{}
	err := j.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketLog).ForEach(func(k, v []byte) error {
			all[binary.BigEndian.Uint64(k)] = bytes.Clone(v)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func putRaw(t *testing.T, j *Journal, seq uint64, value []byte) {
	t.Helper()
	raw(t, j, func(tx *bbolt.Tx) error {
		if value == nil {
			return tx.Bucket(bucketLog).Delete(beSeq(seq))
		}
		return tx.Bucket(bucketLog).Put(beSeq(seq), value)
	})
}

// withGap is a journal of the records 1 to 12, of which 4 to 6 and 9 were compacted away.
func withGap(t *testing.T) *Journal {
	t.Helper()
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 12), Checkpoint: &Checkpoint{Seq: 12}})
	if done, err := j.Drop(t.Context(), []uint64{4, 5, 6, 9}); err != nil || done.Records != 4 {
		t.Fatal(done, err)
	}
	if got := findings(t, j); got != nil {
		t.Fatal(got)
	}
	return j
}

func TestVerifyFindsEachByte(t *testing.T) {
	j := withGap(t)
	for seq, value := range logValues(t, j) {
		for i := range value {
			for _, flip := range []byte{1, 0x80} {
				bad := bytes.Clone(value)
				bad[i] ^= flip
				putRaw(t, j, seq, bad)
				if got, want := findings(t, j), fmt.Sprintf("[altered %d 0]", seq); fmt.Sprint(got) != want {
					t.Fatalf("byte %d of record %d flipped by %#x: %v", i, seq, flip, got)
				}
			}
		}
		for name, bad := range map[string][]byte{
			"longer": append(bytes.Clone(value), ' '), "shorter": value[:len(value)-1], "a stub": value[:hashSize-1],
		} {
			putRaw(t, j, seq, bad)
			if got := findings(t, j); len(got) == 0 || got[0] != fmt.Sprintf("altered %d 0", seq) || len(got) > 1 {
				t.Fatalf("%s record %d: %v", name, seq, got)
			}
		}
		putRaw(t, j, seq, value)
	}
	if got := findings(t, j); got != nil {
		t.Fatal(got)
	}
}

func TestVerifyFindsRemovedRecords(t *testing.T) {
	j := withGap(t)
	values := logValues(t, j)
	for seq, value := range values {
		putRaw(t, j, seq, nil)
		if got, want := findings(t, j), fmt.Sprintf("[removed %d %d]", seq, seq); fmt.Sprint(got) != want {
			t.Errorf("record %d removed: %v", seq, got)
		}
		putRaw(t, j, seq, value)
	}
	for _, seq := range []uint64{10, 11, 12} { // a whole tail
		putRaw(t, j, seq, nil)
	}
	if got := findings(t, j); fmt.Sprint(got) != "[removed 10 12]" {
		t.Error(got)
	}
	for seq := range values {
		putRaw(t, j, seq, nil)
	}
	if got := findings(t, j); fmt.Sprint(got) != "[removed 1 3 removed 7 8 removed 10 12]" {
		t.Error(got)
	}
}

func TestVerifyFindsSwaps(t *testing.T) {
	j := withGap(t)
	values := logValues(t, j)
	for a := range values {
		for b := range values {
			if a >= b {
				continue
			}
			putRaw(t, j, a, values[b])
			putRaw(t, j, b, values[a])
			if got, want := findings(t, j),
				fmt.Sprintf("[reordered %d %d reordered %d %d]", a, b, b, a); fmt.Sprint(got) != want {
				t.Errorf("records %d and %d swapped: %v", a, b, got)
			}
			putRaw(t, j, a, values[a])
			putRaw(t, j, b, values[b])
		}
	}
	putRaw(t, j, 7, values[2]) // a copy over another record
	// Nothing tells what the hash of 7 was, so 8 falls under suspicion, too.
	p := mustVerify(t, j)
	if len(p.Problems) != 2 || p.Problems[0].Seq != 7 || p.Problems[1].Seq != 8 ||
		!strings.Contains(p.Problems[1].Detail, "before it was replaced") {
		t.Error(p.Problems)
	}
}

// What was accepted cannot be made to disappear behind the record that says so.
func TestVerifyFindsRemovedBodies(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	doc, other := []byte(`{"version":"1.0.0"}`), []byte("a node's document, which goes when it is not used any more")
	data := func(hash Hash) []byte {
		return fmt.Appendf(nil, `{"id":"a","version":"1.0.0","hash":"sha256:%x"}`, hash)
	}
	mustAppend(t, j, Batch{Bodies: [][]byte{doc, other}, Records: []Record{
		{Type: Opened, At: testTime},
		{Type: Accepted, At: testTime, Who: "ann", Data: data(sha256.Sum256(doc))},
		{Type: Refused, At: testTime, Who: "bob", Data: data(sha256.Sum256([]byte("never kept")))},
		{Type: Accepted, At: testTime, Data: []byte(`{"hash":"sha256:00"}`)},
		{Type: Accepted, At: testTime, Data: []byte("no JSON")},
	}})
	if got := findings(t, j); got != nil {
		t.Fatal(got)
	}
	for _, c := range []struct {
		body []byte
		want string
	}{{other, "[]"}, {doc, "[body 2 0]"}} {
		hash := sha256.Sum256(c.body)
		raw(t, j, func(tx *bbolt.Tx) error { return tx.Bucket(bucketBodies).Delete(hash[:]) })
		if got := fmt.Sprint(findings(t, j)); got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
}

func TestVerifyFindsTheRest(t *testing.T) {
	forged := func(prev Hash, seq uint64) []byte {
		payload := appendPayload(nil, &Record{Type: Note, At: testTime})
		h := link(prev, seq, payload)
		return append(h[:], payload...)
	}
	for name, c := range map[string]struct {
		change func(tx *bbolt.Tx, j *Journal) error
		want   string
	}{
		"a record in a gap": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketLog).Put(beSeq(5), forged(Hash{}, 5))
		}, "[added 5 0]"},
		"a record after a gap's start": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketLog).Put(beSeq(4), forged(Hash(tx.Bucket(bucketLog).Get(beSeq(3))[:hashSize]), 4))
		}, "[added 4 0]"},
		"a gap gone": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketGaps).Delete(beSeq(4))
		}, "[removed 4 6]"},
		"a gap malformed": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketGaps).Put(beSeq(4), []byte("?"))
		}, "[gaps 0 0 removed 4 6]"},
		"a gap's hash altered": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketGaps).Put(beSeq(4), mark{seq: 6}.bytes())
		}, "[altered 7 0]"},
		"a gap forged over records": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketGaps).Put(beSeq(1), mark{seq: 2}.bytes())
		}, "[added 1 0 added 2 0 altered 3 0]"},
		"head's hash": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketMeta).Put(keyHead, mark{seq: 12}.bytes())
		}, "[head 0 0]"},
		"creation time": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketMeta).Put(keyCreated, []byte("2001-01-01T00:00:00Z"))
		}, "[altered 1 0]"},
		"no checkpoint head": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketCheckpoint).Put(keyHead, nil)
		}, "[checkpoint 0 0]"},
		"a checkpoint chunk more": {func(tx *bbolt.Tx, j *Journal) error {
			h := checkpointHead{seq: 12, chunks: 1, sum: sumChunks(nil)}
			return tx.Bucket(bucketCheckpoint).Put(keyHead, h.bytes())
		}, "[checkpoint 0 0]"},
		"a body altered": {func(tx *bbolt.Tx, j *Journal) error {
			return tx.Bucket(bucketBodies).Put(make([]byte, hashSize), []byte("x"))
		}, "[body 0 0]"},
		"a record unreadable but chained": {func(tx *bbolt.Tx, j *Journal) error {
			prev := Hash(tx.Bucket(bucketLog).Get(beSeq(11))[:hashSize])
			h := link(prev, 12, []byte("?"))
			return errors.Join(tx.Bucket(bucketLog).Put(beSeq(12), append(h[:], '?')),
				tx.Bucket(bucketMeta).Put(keyHead, mark{12, h}.bytes()))
		}, "[altered 12 0]"},
	} {
		j := withGap(t)
		raw(t, j, func(tx *bbolt.Tx) error { return c.change(tx, j) })
		if got := findings(t, j); fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestVerifyOffline(t *testing.T) {
	j := withGap(t)
	last := logValues(t, j)[12]
	raw(t, j, func(tx *bbolt.Tx) error {
		return errors.Join(tx.Bucket(bucketLog).Put(beSeq(14), last), tx.Bucket(bucketMeta).Delete(keyHead))
	})
	mustClose(t, j)
	if _, err := Open(j.Path(), Options{}); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	j = mustOpen(t, j.Path(), Options{ReadOnly: true})
	if got := findings(t, j); fmt.Sprint(got) != "[head 0 0 removed 13 13]" {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := j.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestProblemText(t *testing.T) {
	for want, p := range map[string]Problem{
		"head: x":                   {What: HeadWrong, Detail: "x"},
		"record 3 altered: x":       {What: Altered, Seq: 3, Detail: "x"},
		"records 3 to 5 removed: x": {What: Removed, Seq: 3, To: 5, Detail: "x"},
		"record 3 removed: x":       {What: Removed, Seq: 3, To: 3, Detail: "x"},
	} {
		if p.String() != want {
			t.Error(p)
		}
	}
}
