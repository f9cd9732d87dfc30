package journal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"tandem.internal/shared/filetest"
)

// sampled is how many damages of each sort are tried without -every-bit.
const sampled = 400

// pick calls try with the numbers below n, or with a sample of them.
func pick(t *testing.T, chance *rand.Rand, n int, try func(int)) {
	if filetest.EveryBit() {
		for i := range n {
			try(i)
		}
		return
	}
	for range min(n, sampled) {
		try(chance.IntN(n))
	}
}

// smallJournal leaves a journal with records of all types, a gap, a checkpoint, records after it and bodies. It
// returns the pages in use before and after the last append.
func smallJournal(t *testing.T, path string) (before, after []byte) {
	t.Helper()
	j := mustOpen(t, path, Options{})
	chunks := [][]byte{[]byte("state of 20"), bytes.Repeat([]byte("more "), 100)}
	mustAppend(t, j, Batch{Records: recs(0, 20), Bodies: [][]byte{[]byte("one"), bytes.Repeat([]byte("two"), 2000)},
		Checkpoint: &Checkpoint{Seq: 20, Chunks: chunks}})
	if _, err := j.Drop(t.Context(), []uint64{7, 14}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		mustAppend(t, j, Batch{Records: recs(20+i, 2)})
		st, err := j.Stats()
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, after = after, file[:st.Size]
	}
	mustClose(t, j)
	return before, after
}

// content is what a controller goes by: the state as checkpoint and records, and the bodies. The epoch is not in it:
// nodes put one right that is too low, and one that is too high is a new life.
type content struct {
	state  string
	epoch  uint64
	bodies map[Hash]string
}

// trusted opens a file as a controller does, and writes to it.
func trusted(path string) (all content, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panics: %v\n%s", r, debug.Stack())
		}
	}()
	j, err := Open(path, Options{Now: testClock})
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	c, ok, err := j.Checkpoint()
	if err != nil {
		return all, err
	}
	if ok && string(c.Chunks[0]) != fmt.Sprintf("state of %d", c.Seq) { // as distribute does
		return all, j.Damaged("the checkpoint of record %d holds another state", c.Seq)
	}
	all.epoch = j.Epoch()
	all.state = fmt.Sprintf("%v %d %s\n", ok, c.Seq, c.Chunks)
	err = j.Replay(c.Seq+1, func(r Record) error {
		all.state += show([]Record{r})
		return nil
	})
	hashes, herr := j.bodyHashes(nil, 100)
	if err = errors.Join(err, herr); err != nil {
		return all, err
	}
	all.bodies = map[Hash]string{}
	for _, h := range hashes {
		if body, ok, err := j.Body(h); err == nil && ok { // one that is damaged or gone is missed when it is needed
			all.bodies[h] = string(body)
		}
	}
	_, err = j.Append(&Batch{Records: recs(0, 1)})
	return all, err
}

// mustBeWhole fails unless a file is refused, with its path, or has one of these contents, perhaps without bodies, and
// at least their epoch.
func mustBeWhole(t *testing.T, what, path string, file []byte, wants ...content) (opened bool) {
	t.Helper()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := trusted(path)
	if err != nil {
		known := errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotJournal) || errors.Is(err, ErrNewer)
		if !known || !strings.Contains(err.Error(), path) {
			t.Fatalf("%s: %v", what, err)
		}
		return false
	}
	for h, body := range got.bodies {
		if sha256.Sum256([]byte(body)) != h {
			t.Fatalf("%s: a body was read under the hash of another", what)
		}
	}
	same := func(want content) bool { return want.state == got.state && want.epoch <= got.epoch }
	if !slices.ContainsFunc(wants, same) {
		t.Fatalf("%s: opened with other content, in epoch %d:\n%s", what, got.epoch, got.state)
	}
	return true
}

// Whatever bit of a journal is flipped, wherever it is cut, whatever page of it is zero: it has the content from
// before, or is refused with its name. What a node is to have is never made of anything else.
func TestDamagedFile(t *testing.T) {
	path := filepath.Join(filetest.MemoryDir(t), "journal.db")
	before, good := smallJournal(t, path)
	wants := make([]content, 2)
	for i, file := range [][]byte{good, before} {
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if wants[i], err = trusted(path); err != nil {
			t.Fatal(err)
		}
	}
	wants[0].epoch = 0
	wants[1].epoch++ // the newest commit may be lost, but its numbers are not used again
	chance := filetest.Chance(t)
	opened := 0
	pick(t, chance, 8*len(good), func(bit int) {
		bad := filetest.Flipped(good, bit)
		if mustBeWhole(t, fmt.Sprintf("bit %d", bit), path, bad, wants...) {
			opened++
		}
	})
	if opened == 0 {
		t.Error("every bit is refused, so this test shows nothing")
	}
	pick(t, chance, len(good), func(size int) {
		if mustBeWhole(t, fmt.Sprintf("%d bytes", size), path, good[:size], wants...) {
			t.Errorf("a journal of %d bytes opens with %d", len(good), size)
		}
	})
	page := os.Getpagesize()
	for at := 0; at < len(good); at += page {
		bad := bytes.Clone(good)
		clear(bad[at : at+page])
		mustBeWhole(t, fmt.Sprintf("page %d zero", at/page), path, bad, wants...)
	}
}

// A power cut in the middle of a commit leaves the content from before it or after it, at whichever page, and
// whichever part of one, the writing ended. bbolt writes the page that names the others last.
func TestCutWrite(t *testing.T) {
	path := filepath.Join(filetest.MemoryDir(t), "journal.db")
	before, after := smallJournal(t, path)
	contents := make([]content, 2)
	for i, file := range [][]byte{before, after} {
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if contents[i], err = trusted(path); err != nil {
			t.Fatal(err)
		}
		contents[i].epoch = 0
	}
	page := os.Getpagesize()
	before = append(before, make([]byte, max(0, len(after)-len(before)))...)
	var changed []int
	for at := 2 * page; at < len(after); at += page {
		if !bytes.Equal(before[at:at+page], after[at:at+page]) {
			changed = append(changed, at)
		}
	}
	for at := range 2 {
		if !bytes.Equal(before[at*page:][:page], after[at*page:][:page]) {
			changed = append(changed, at*page)
		}
	}
	if len(changed) < 3 {
		t.Fatalf("%d pages were written", len(changed))
	}
	file := bytes.Clone(before)
	for n, at := range changed {
		for _, part := range []int{1, 16, 64, page / 2, page} {
			copy(file[at:at+part], after[at:])
			what := fmt.Sprintf("%d pages and %d bytes", n, part)
			if !mustBeWhole(t, what, path, file, contents...) {
				t.Errorf("%s: refused", what)
			}
		}
	}
}

// A record that was changed is not read, by whichever way, and is named.
func TestDamagedRecordIsNotRead(t *testing.T) {
	j := withGap(t)
	mustAppend(t, j, Batch{Records: recs(12, 4)})
	good := logValues(t, j)
	for _, seq := range []uint64{1, 3, 7, 12, 14} {
		for bit := range 8 * len(good[seq]) {
			bad := filetest.Flipped(good[seq], bit)
			putRaw(t, j, seq, bad)
			damaged := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("record %d", seq)) &&
					!strings.Contains(err.Error(), fmt.Sprintf("record %d, or the one before it", seq+1)) {
					t.Fatalf("bit %d of record %d: %s: %v", bit, seq, what, err)
				}
			}
			_, _, err := j.Record(seq)
			damaged("Record", err)
			_, err = j.Query(Filter{})
			damaged("Query", err)
			_, err = j.Query(Filter{Reverse: true})
			damaged("backwards", err)
			if seq > 12 {
				damaged("Replay", j.Replay(13, func(Record) error { return nil }))
			}
		}
		putRaw(t, j, seq, good[seq])
	}
}

// A scan for some types reads of the others no more than the type.
func TestScanOfSomeTypes(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: []Record{{At: testTime, Type: Report}, {At: testTime, Type: Accepted}}})
	value := logValues(t, j)[1]
	putRaw(t, j, 1, value[:hashSize+1])
	if got, err := j.Query(Filter{Types: []Type{Accepted}}); err != nil || len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := j.Query(Filter{Types: []Type{Accepted, Report}}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged record of a wanted type: %v", err)
	}
	putRaw(t, j, 1, value[:hashSize])
	if _, err := j.Query(Filter{Types: []Type{Accepted}}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a record without a type: %v", err)
	}
}

// Without its checkpoint a journal that was compacted does not lead to the state, and is not replayed.
func TestReplayOverAGap(t *testing.T) {
	j := withGap(t)
	if err := j.Replay(1, func(Record) error { return nil }); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	n := 0
	if err := j.Scan(Filter{}, func(Record) error { n++; return nil }); err != nil || n != 8 {
		t.Error(n, err)
	}
}
