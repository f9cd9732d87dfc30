package journal

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"tandem.internal/shared/filetest"
)

// A file whose pages were damaged behind bbolt's back is refused, or opens and reads without
// taking the process down; a damaged record then shows in Verify.
func TestDamagedPages(t *testing.T) {
	dir := filetest.MemoryDir(t)
	path := filepath.Join(dir, "journal.db")
	j := mustOpen(t, path, Options{})
	b := Batch{Records: recs(0, 300), Checkpoint: &Checkpoint{Seq: 300, Chunks: [][]byte{make([]byte, 9000)}},
		Bodies: [][]byte{make([]byte, 20_000)}}
	b.Records[7].Data = make([]byte, 50_000)
	mustAppend(t, j, b)
	mustAppend(t, j, Batch{Records: recs(300, 1)})
	st, err := j.Stats()
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good = good[:st.Size]
	page := os.Getpagesize()
	const seed, flips = 1, 300
	rng := rand.New(rand.NewPCG(seed, 2))
	refused, found := 0, 0
	for i := range flips {
		bad := append([]byte{}, good...)
		at := rng.IntN(len(bad))
		if i%2 == 0 { // the headers and tables of the pages are where it hurts
			at = rng.IntN(len(bad)/page)*page + rng.IntN(64)
		}
		bad[at] ^= 1 << rng.IntN(8)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotJournal) {
				t.Fatalf("byte %d: %v", at, err)
			}
			refused++
			continue
		}
		p, err := j.Verify(t.Context())
		if err != nil || !p.OK() {
			found++
		}
		mustClose(t, j)
		if j, err = Open(path, Options{}); err == nil { // bbolt looks at more when it is to write
			mustAppend(t, j, Batch{Records: recs(0, 1)})
			mustClose(t, j)
		}
	}
	t.Logf("of %d flipped bits %d were refused by Open and %d found by Verify; the rest hit unused bytes", flips,
		refused, found)
	if refused < flips/12 || found < flips/2 {
		t.Errorf("refused %d, found %d", refused, found)
	}
}

// A file that is cut is refused by its second meta page, too, when the first one is not valid.
func TestCutWithoutFirstMetaPage(t *testing.T) {
	path := tempPath(t)
	j := mustOpen(t, path, Options{})
	mustAppend(t, j, Batch{Records: recs(0, 300), Bodies: [][]byte{make([]byte, 50_000)}})
	mustClose(t, j)
	bad, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(bad[:100])
	if err := os.WriteFile(path, bad[:4*os.Getpagesize()], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		if j, err := Open(path, Options{ReadOnly: readOnly}); !errors.Is(err, ErrDamaged) {
			t.Fatal(j, err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	path := tempPath(b)
	j := mustOpen(b, path, Options{})
	batch := Batch{Records: make([]Record, 50_000)}
	for i := range batch.Records {
		batch.Records[i] = benchRecord()
	}
	for range 6 {
		mustAppend(b, j, batch)
	}
	mustClose(b, j)
	for b.Loop() {
		mustClose(b, mustOpen(b, path, Options{}))
	}
}
