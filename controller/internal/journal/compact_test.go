package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

func seqs(rs []Record) (out []uint64) {
	for _, r := range rs {
		out = append(out, r.Seq)
	}
	return out
}

func gapList(t *testing.T, j *Journal) (out []string) {
	t.Helper()
	err := j.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketGaps).ForEach(func(k, v []byte) error {
			m, _ := parseMark(v)
			out = append(out, fmt.Sprintf("%d-%d", k[7], m.seq))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDrop(t *testing.T) {
	for name, c := range map[string]struct {
		checkpoint uint64
		doomed     []uint64
		left       string
		gaps       string
	}{
		"no checkpoint":      {0, []uint64{1, 2}, "[1 2 3 4 5 6 7 8 9]", "[]"},
		"nothing":            {9, nil, "[1 2 3 4 5 6 7 8 9]", "[]"},
		"up to a checkpoint": {6, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, "[7 8 9]", "[1-6]"},
		"everything":         {9, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, "[]", "[1-9]"},
		"some":               {6, []uint64{2, 5, 6, 8}, "[1 3 4 7 8 9]", "[2-2 5-6]"},
	} {
		j := mustOpen(t, tempPath(t), Options{})
		b := Batch{Records: recs(0, 9)}
		if c.checkpoint > 0 {
			b.Checkpoint = &Checkpoint{Seq: c.checkpoint}
		}
		mustAppend(t, j, b)
		done, err := j.Drop(t.Context(), c.doomed)
		left := all(t, j)
		if err != nil || fmt.Sprint(seqs(left)) != c.left || fmt.Sprint(gapList(t, j)) != c.gaps ||
			done.Records != 9-len(left) || done.Records > 0 == (done.Bytes == 0) {
			t.Errorf("%s: left %v gaps %v %+v %v", name, seqs(left), gapList(t, j), done, err)
		}
		for _, r := range left {
			if show([]Record{r}) != show(numbered(r.Seq, recs(int(r.Seq)-1, 1))) {
				t.Errorf("%s: record %d changed", name, r.Seq)
			}
		}
		p := mustVerify(t, j)
		if !p.OK() || p.Compacted != uint64(done.Records) || p.Unproven != 0 {
			t.Errorf("%s: %+v", name, p)
		}
		j = reopen(t, j, Options{})
		if first := mustAppend(t, j, Batch{Records: recs(9, 1)}); first != 10 {
			t.Errorf("%s: the next record is %d", name, first)
		}
	}
}

func TestDropJoinsGaps(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 9), Checkpoint: &Checkpoint{Seq: 9}})
	for _, c := range []struct {
		drop []uint64
		want string
	}{
		{[]uint64{2}, "[2-2]"}, {[]uint64{4}, "[2-2 4-4]"}, {[]uint64{3}, "[2-4]"}, {[]uint64{5, 7}, "[2-5 7-7]"},
		{[]uint64{1}, "[1-5 7-7]"}, {[]uint64{6, 8, 9}, "[1-9]"},
	} {
		if _, err := j.Drop(t.Context(), c.drop); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(gapList(t, j)); got != c.want {
			t.Errorf("after dropping %v: %s, want %s", c.drop, got, c.want)
		}
		if p := mustVerify(t, j); !p.OK() {
			t.Errorf("%+v", p)
		}
	}
}

func TestDropBodies(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	var b Batch
	kept := map[Hash]bool{}
	for i := range 2500 { // more than two chunks
		body := fmt.Appendf(nil, "body %d", i)
		b.Bodies = append(b.Bodies, body)
		kept[sha256.Sum256(body)] = i%3 == 0
	}
	mustAppend(t, j, b)
	again := true
	done, err := j.DropBodies(t.Context(), func(h Hash) bool {
		if again { // a batch that comes while it is decided brings bodies 1 to 4 back
			again = false
			mustAppend(t, j, Batch{Bodies: b.Bodies[1:5]})
		}
		return kept[h]
	})
	if err != nil || done.Bodies != 2500-834-3 {
		t.Errorf("%+v %v", done, err)
	}
	for i, body := range b.Bodies {
		_, ok, err := j.Body(sha256.Sum256(body))
		if want := i%3 == 0 || i < 5; err != nil || ok != want {
			t.Errorf("body %d: there %v, want %v (%v)", i, ok, want, err)
		}
	}
	if p := mustVerify(t, j); !p.OK() {
		t.Errorf("%+v", p)
	}
}

// Growth is bounded: with regular checkpoints and trims the file stops growing.
func TestDropBoundsTheFile(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	j.db.NoSync = true
	size := func() int64 {
		st, err := j.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return st.Size
	}
	var early int64
	for round := range 30 {
		b := Batch{Records: recs(0, 2000),
			Checkpoint: &Checkpoint{Seq: j.Last() + 2000, Chunks: [][]byte{make([]byte, 100_000)}}}
		for i := range b.Records {
			b.Records[i].Data = make([]byte, 300)
		}
		mustAppend(t, j, b)
		last := j.Last()
		if _, err := dropIf(t.Context(), j, func(r Record) bool { return r.Seq+1000 <= last }); err != nil {
			t.Fatal(err)
		}
		if round == 5 {
			early = size()
		}
	}
	if late := size(); late > early*3/2 {
		t.Errorf("the file grew from %d to %d bytes", early, late)
	}
	if p := mustVerify(t, j); !p.OK() || p.Records != 1000 {
		t.Errorf("%+v", p)
	}
	st, err := j.Stats()
	if err != nil || st.First != 59_001 || st.Last != 60_000 || st.Checkpoint != 60_000 || st.Free == 0 ||
		st.Epoch != j.Epoch() {
		t.Errorf("%+v %v", st, err)
	}
}

func TestDropIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	commits := 0
	j := mustOpen(t, tempPath(t), Options{Faults: Faults{AfterCommit: func() error {
		if commits--; commits == 0 {
			cancel()
		}
		return nil
	}}})
	mustAppend(t, j, Batch{Records: recs(0, 3*compactChunk), Checkpoint: &Checkpoint{Seq: 3 * compactChunk}})
	commits = 2
	done, err := dropIf(ctx, j, func(Record) bool { return true })
	if !errors.Is(err, context.Canceled) || done.Records != 2*compactChunk {
		t.Errorf("%+v %v", done, err)
	}
	if p := mustVerify(t, j); !p.OK() || p.Records != compactChunk {
		t.Errorf("%+v", p)
	}
	j.maintenance <- struct{}{} // one at a time
	defer func() { <-j.maintenance }()
	if _, err := j.Drop(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestCheckpoint(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	if _, ok, err := j.Checkpoint(); ok || err != nil {
		t.Errorf("a new journal has a checkpoint (%v)", err)
	}
	var chunks [][]byte
	for i := range 10_000 { // the size of a large fleet
		chunks = append(chunks, bytes.Repeat([]byte{byte(i)}, 500))
	}
	for _, want := range []Checkpoint{
		{Seq: 3, Chunks: chunks}, {Seq: 3, Chunks: [][]byte{[]byte("a"), {}, []byte("b")}}, {Seq: 5},
	} {
		mustAppend(t, j, Batch{Records: recs(0, 3), Checkpoint: &want})
		j = reopen(t, j, Options{})
		got, ok, err := j.Checkpoint()
		if err != nil || !ok || got.Seq != want.Seq || len(got.Chunks) != len(want.Chunks) {
			t.Fatalf("%d chunks at %d, %v %v", len(got.Chunks), got.Seq, ok, err)
		}
		for i := range want.Chunks {
			if !bytes.Equal(got.Chunks[i], want.Chunks[i]) {
				t.Errorf("chunk %d differs", i)
			}
		}
	}
	raw(t, j, func(tx *bbolt.Tx) error { return tx.Bucket(bucketCheckpoint).Delete(keyHead) })
	raw(t, j, func(tx *bbolt.Tx) error { return tx.Bucket(bucketCheckpoint).Put([]byte{0, 0, 0, 0}, []byte("x")) })
	if _, _, err := j.Checkpoint(); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// A journal from which nothing was removed is no larger than its pages were, and the same a second time. What bbolt
// reserves in the new file is not left there.
func TestCompactFileOfAWholeJournal(t *testing.T) {
	path := tempPath(t)
	j := mustOpen(t, path, Options{})
	j.db.NoSync = true
	for i := 0; i < 20_000; i += 100 {
		b := Batch{Records: recs(i, 100), Bodies: [][]byte{fmt.Appendf(nil, "body %d", i)}}
		for k := range b.Records {
			b.Records[k].Data = bytes.Repeat([]byte{byte(k)}, 400)
		}
		if i%5000 == 0 {
			b.Checkpoint = &Checkpoint{Seq: uint64(i + 100), Chunks: [][]byte{bytes.Repeat([]byte("s"), 50_000)}}
		}
		mustAppend(t, j, b)
	}
	used, err := pagesOf(j)
	if err = errors.Join(err, j.db.Sync()); err != nil {
		t.Fatal(err)
	}
	want := show(all(t, j))
	mustClose(t, j)
	_, first, err := CompactFile(path, Options{})
	if err != nil || first > used {
		t.Errorf("%d bytes in pages became a file of %d, %v", used, first, err)
	}
	if before, after, err := CompactFile(path, Options{}); err != nil || before != first || after != first {
		t.Errorf("once more: from %d to %d, %v; it was %d", before, after, err, first)
	}
	j = mustOpen(t, path, Options{})
	if show(all(t, j)) != want {
		t.Error("the records are others")
	}
	if p := mustVerify(t, j); !p.OK() || p.Records != 20_000 || p.Bodies != 200 {
		t.Errorf("%+v", p)
	}
	cp, ok, err := j.Checkpoint()
	if err != nil || !ok || cp.Seq != 15_100 || len(cp.Chunks) != 1 || len(cp.Chunks[0]) != 50_000 {
		t.Errorf("checkpoint of %d, %v, %v", cp.Seq, ok, err)
	}
	if first := mustAppend(t, j, Batch{Records: recs(0, 1)}); first != 20_001 {
		t.Errorf("the next record is %d", first)
	}
}

// pagesOf is the size of the file's pages, without what is reserved behind them.
func pagesOf(j *Journal) (size int64, err error) {
	err = j.db.View(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size, err
}

func TestCompactFile(t *testing.T) {
	path := tempPath(t)
	j := mustOpen(t, path, Options{})
	b := Batch{Records: recs(0, 5000), Checkpoint: &Checkpoint{Seq: 5000, Chunks: [][]byte{[]byte("s")}},
		Bodies: [][]byte{[]byte("body")}}
	for i := range b.Records {
		b.Records[i].Data = make([]byte, 1000)
	}
	mustAppend(t, j, b)
	if _, err := dropIf(t.Context(), j, func(r Record) bool { return r.Seq <= 4990 }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := CompactFile(path, Options{LockTimeout: time.Millisecond}); !errors.Is(err, ErrLocked) {
		t.Errorf("beside a running controller: %v", err)
	}
	want, epoch := show(all(t, j)), j.Epoch()
	mustClose(t, j)
	if _, _, err := CompactFile(path, Options{ReadOnly: true}); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	if _, _, err := CompactFile(path+".none", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	before, after, err := CompactFile(link, Options{})
	if at, lerr := os.Readlink(link); lerr != nil || at != path {
		t.Errorf("the link leads to %q: %v", at, lerr)
	}
	info, serr := os.Stat(path)
	if err != nil || serr != nil || before < 5_000_000 || after > 200_000 || info.Size() != after ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("from %d to %d, %v %v", before, after, err, serr)
	}
	j = mustOpen(t, path, Options{})
	if got := show(all(t, j)); got != want || j.Last() != 5000 || j.Epoch() != epoch {
		t.Error(got)
	}
	if p := mustVerify(t, j); !p.OK() || p.Bodies != 1 || p.Compacted != 4990 {
		t.Errorf("%+v", p)
	}
	if first := mustAppend(t, j, Batch{Records: recs(0, 1)}); first != 5001 {
		t.Errorf("the next record is %d", first)
	}
}
