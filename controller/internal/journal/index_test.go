package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"tandem.internal/controller/internal/record"
)

// long is a journal of reports of many nodes, with a few other records among them.
func long(t testing.TB, j *Journal, rng *rand.Rand, from, n int) []Record {
	t.Helper()
	j.db.NoSync = true
	var all []Record
	for len(all) < n {
		batch := make([]Record, min(1+rng.IntN(400), n-len(all)))
		for i := range batch {
			r := Record{At: testTime, Type: record.Report, Node: fmt.Sprintf("node-%d", rng.IntN(1000)), Kind: "config",
				Data: []byte("{}")}
			switch at := from + len(all) + i; {
			case at%5000 < 20:
				r.Type, r.Kind = record.Event, "alert"
			case at%3000 == 17:
				r.Type, r.Node = record.Accepted, ""
			case at%3000 == 2100:
				r.Type, r.Node, r.Kind = record.Settings, "", ""
			case at%7 == 0:
				r.Type, r.Kind = record.Live, ""
			}
			batch[i] = r
		}
		first := mustAppend(t, j, Batch{Records: batch})
		all = append(all, numbered(first, batch)...)
	}
	return all
}

// picked is what a filter picks, by going through everything.
func picked(all []Record, f Filter) []Record {
	var out []Record
	for _, r := range all {
		if r.Seq >= f.From && (f.To == 0 || r.Seq <= f.To) && (f.Types == nil || slices.Contains(f.Types, r.Type)) &&
			(f.Kind == "" || f.Kind == r.Kind) &&
			(f.Node == "" || f.Node == r.Node || f.OrUnit && r.Node == "") {
			out = append(out, r)
		}
	}
	if f.Reverse {
		slices.Reverse(out)
	}
	if f.Limit > 0 {
		out = out[:min(f.Limit, len(out))]
	}
	return out
}

// ask asks for many things, in both directions.
func ask(t testing.TB, j *Journal, rng *rand.Rand, all []Record, when string) {
	t.Helper()
	for i := range 60 {
		f := Filter{Reverse: rng.IntN(2) == 0, Limit: rng.IntN(3) * 7}
		if rng.IntN(2) == 0 {
			f.From = uint64(rng.IntN(len(all)))
		}
		if rng.IntN(2) == 0 {
			f.To = f.From + 1 + uint64(rng.IntN(len(all)))
		}
		switch i % 6 {
		case 0:
			f.Node = fmt.Sprintf("node-%d", rng.IntN(1100)) // some are unknown
		case 1:
			f.Types, f.Kind = []Type{record.Event}, "alert"
		case 2:
			f.Types = []Type{record.Accepted, record.Refused}
		case 3:
			f.Node, f.OrUnit, f.Types = "node-3", true, []Type{record.Event, record.Settings}
		case 4:
			f.Node, f.Types = "node-4", []Type{record.Event, record.Live}
		case 5:
			f.Types = []Type{record.Joined} // there are none
		}
		got, err := j.Query(f)
		if want := picked(all, f); err != nil || show(got) != show(want) {
			t.Fatalf("%s, %+v: %d records, want %d (%v)", when, f, len(got), len(want), err)
		}
	}
}

// What the index passes over is never what was asked for: before it knows anything, while it learns, after a restart,
// with what is appended, and around what Drop has removed.
func TestIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	j := mustOpen(t, tempPath(t), Options{})
	all := long(t, j, rng, 0, 20_000)
	ask(t, j, rng, all, "as it was appended")
	j = reopen(t, j, Options{})
	ask(t, j, rng, all, "opened, and not known yet")
	learned(t, j)
	ask(t, j, rng, all, "learned")
	all = append(all, long(t, j, rng, len(all), 5_000)...)
	ask(t, j, rng, all, "more appended")

	mustAppend(t, j, Batch{Checkpoint: &Checkpoint{Seq: 22_000, Chunks: [][]byte{{1}}}})
	goes := func(r Record) bool {
		stay := r.Type == record.Accepted || r.Type == record.Settings
		return r.Seq > 1 && r.Seq <= 19_000 && (!stay || r.Seq < 17_000)
	}
	if _, err := dropIf(t.Context(), j, goes); err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, goes)
	ask(t, j, rng, all, "compacted")
	if n := len(j.index.blocks); n > 8_000/blockSize { // of 20,000
		t.Errorf("%d blocks are known of what is left", n)
	}
	learned(t, j)
	ask(t, j, rng, all, "compacted and learned")
	j = reopen(t, j, Options{})
	learned(t, j)
	ask(t, j, rng, all, "compacted and opened")
	if n := len(j.index.blocks); n > 8_000/blockSize { // of 20,000
		t.Errorf("%d blocks are known after a start", n)
	}
}

// learned reads the log in order, as a start does.
func learned(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Scan(Filter{Types: []Type{record.Accepted}}, func(Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// Few questions have to look at much: at one block in ten, at most.
func TestIndexPassesOver(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	rng := rand.New(rand.NewPCG(3, 4))
	all := long(t, j, rng, 0, 40_000)
	for _, f := range []Filter{{Types: []Type{record.Accepted}}, {Types: []Type{record.Event}, Kind: "alert"},
		{Types: []Type{record.Joined}}, {Node: "node-1001"}} {
		w := j.index.wanted(&f, setOf(f.Types))
		in := 0
		for _, b := range j.index.blocks {
			if w.in(b) {
				in++
			}
		}
		if known := len(j.index.blocks); known != len(all)/blockSize-1 && known != len(all)/blockSize || in > known/10 {
			t.Errorf("%+v: %d of %d blocks", f, in, known)
		}
	}
}

// A record whose head cannot be read is no reason to pass over its block: whoever asks hears of it.
func TestIndexAndDamage(t *testing.T) {
	path := tempPath(t)
	j := mustOpen(t, path, Options{})
	long(t, j, rand.New(rand.NewPCG(5, 6)), 0, 1_000)
	j = reopen(t, j, Options{})
	raw(t, j, func(tx *bbolt.Tx) error {
		log := tx.Bucket(bucketLog)
		return log.Put(beSeq(300), append(slices.Clone(log.Get(beSeq(300))[:hashSize]), 0xff))
	})
	joined := Filter{Types: []Type{record.Joined}}
	if err := j.Scan(joined, func(Record) error { return nil }); !errors.Is(err, ErrDamaged) {
		t.Errorf("learning: %v", err)
	}
	joined.From = 300
	if _, err := j.Query(joined); !errors.Is(err, ErrDamaged) {
		t.Errorf("asking: %v", err)
	}
}

// One record among many is found wherever in its block it is, in both directions, also if the block was first read from
// its middle on.
func TestIndexFindsOne(t *testing.T) {
	for _, at := range []uint64{5 * blockSize, 5*blockSize + 1, 5*blockSize + 60, 6*blockSize - 1, 6 * blockSize} {
		j := mustOpen(t, tempPath(t), Options{})
		j.db.NoSync = true
		records := slices.Repeat([]Record{{At: testTime, Type: record.Report, Node: "n"}}, 10*blockSize)
		records[at-1].Node = "x"
		mustAppend(t, j, Batch{Records: records})
		found := func(when string) {
			t.Helper()
			for _, f := range []Filter{{Node: "x"}, {Node: "x", Reverse: true}, {Node: "x", From: at},
				{Node: "x", To: at, Reverse: true}} {
				if got, err := j.Query(f); err != nil || len(got) != 1 || got[0].Seq != at {
					t.Errorf("%s, at %d, %+v: %d records, %v", when, at, f, len(got), err)
				}
			}
		}
		found("appended")
		for _, from := range []uint64{1, 5*blockSize + 1, 5*blockSize + 90, 6 * blockSize} {
			j = reopen(t, j, Options{})
			if _, err := j.Query(Filter{From: from, Types: []Type{record.Joined}}); err != nil {
				t.Fatal(err)
			}
			found(fmt.Sprint("read from ", from))
			learned(t, j)
			found(fmt.Sprint("read from ", from, " and from 1"))
		}
	}
}

// A block that somebody else has learned meanwhile is not replaced by a part of it.
func TestIndexKeepsWholeBlocks(t *testing.T) {
	x, l := newIndex(), learner{next: blockSize}
	for seq := uint64(blockSize); seq < blockSize+9; seq++ {
		x.learn(&l, seq)
	}
	x.leave(&l, blockSize+9)
	if x.knows(1) {
		t.Error("a part of a block is taken for it")
	}
	x.leave(&l, 2*blockSize)
	if !x.knows(1) {
		t.Error("a block that is whole is not known")
	}
}
