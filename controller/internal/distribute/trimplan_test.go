package distribute

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
	"tandem.internal/shared/durable"
)

// What a plan says would go is what the next trim removes and exports, to the record; asking for it changes nothing.
func TestTrimPlanIsWhatGoes(t *testing.T) {
	reasons := map[string]int{}
	for seed := range uint64(8) {
		chance := rand.New(rand.NewPCG(seed, 16))
		dir := t.TempDir()
		tune := func(c *Config) {
			c.KeepRecords, c.Keep, c.KeepSuperseded = 1+chance.IntN(10), retain.Rules{}, 2
			c.TrimRecords = []int{1, 2, 7, 1000}[chance.IntN(4)]
			if chance.IntN(3) > 0 {
				c.KeepExport = dir
			}
			for _, k := range retain.Kinds {
				c.Keep[k] = retain.Rule{Age: time.Duration(chance.IntN(3)) * 100 * time.Minute,
					Records: chance.IntN(3) * 10, Bytes: int64(chance.IntN(3)) * 2000}
			}
		}
		withFaults(t, tune, func(t *testing.T, r *faulty) {
			for i := range 25 {
				switch chance.IntN(3) {
				case 0:
					r.install(fmt.Sprintf("1.0.%d", i))
				case 1:
					r.mustBe("health", r.set(time.Duration(6+chance.IntN(9))*time.Minute), "")
				}
				r.says(fmt.Sprint("n", chance.IntN(4)), 10+uint64(i*10), 3)
				time.Sleep(10 * time.Minute)
			}
			synctest.Wait() // for what maintenance does just now
			r.says("n0", 1000, 20)
			st, err := r.core.journal.Load().Stats()
			if err != nil || st.Checkpoint >= st.Last { // a trim begins with one of all that is there
				t.Fatalf("there is a checkpoint already: %+v %v", st, err)
			}
			r.plan(dir, reasons)
		})
	}
	for _, why := range []retain.Reason{retain.Age, retain.Number, retain.Size} {
		if reasons[string(why)] == 0 {
			t.Errorf("nothing went by its %s: %v", why, reasons)
		}
	}
}

// plan compares a plan with the trim that follows.
func (r *faulty) plan(dir string, reasons map[string]int) {
	r.Helper()
	j := r.core.journal.Load()
	last, was, earlier := j.Last(), r.records(), len(r.said())
	had, err := os.ReadDir(dir)
	r.mustBe("the directory", err, "")
	before, err := j.Stats()
	r.mustBe("the journal", err, "")
	p, err := r.core.TrimPlan(r.Context())
	r.mustBe("the plan", err, "")
	st, err := j.Stats()
	r.mustBe("the journal", err, "")
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(had) || j.Last() != last || st != before || len(r.left(was)) > 0 {
		r.Fatalf("asking has changed something: %v %v, %d records", files, err, j.Last())
	}
	want := r.core.cfg.KeepExport
	if p.UpTo != last || p.Dir != want || p.KeepRecords != r.core.cfg.KeepRecords || p.At.IsZero() {
		r.Errorf("%+v", p)
	}
	there := 0
	kinds := map[string]int{}
	for _, k := range p.Kinds {
		n := 0
		for why, count := range k.Why {
			reasons[why], n = reasons[why]+count, n+count
		}
		if n != k.Goes.Records || n > k.There.Records || n > 0 == (k.Goes.Bytes == 0) {
			r.Errorf("%+v", k)
		}
		if there += k.There.Records; n > 0 {
			kinds[k.Kind] = n
		}
	}
	documents := r.documents(was)
	r.compacts()
	gone := r.left(was)
	if len(gone) != p.Records || there != len(was) {
		r.Errorf("%d of %d went, and %d of %d would", len(gone), len(was), p.Records, there)
	}
	said := r.said()[earlier:]
	if len(said) != len(p.Files) {
		r.Fatalf("%d trims, and %d files", len(said), len(p.Files))
	}
	went, bytes, with := map[string]int{}, int64(0), int64(0)
	for i, d := range said {
		f := p.Files[i]
		own := int64(0)
		for _, seq := range gone {
			if seq >= f.First && seq <= f.Last {
				own += documents[seq]
			}
		}
		if d.First != f.First || d.Last != f.Last || d.Count != f.Records || d.Bytes != f.Bytes || f.Documents != own ||
			want != "" && d.File != f.Name {
			r.Errorf("%+v, and %+v with %d bytes of documents", d, f, own)
		}
		for kind, n := range d.Kinds {
			went[kind] += n
		}
		bytes, with = bytes+f.Bytes, with+f.Documents
		if full := min(r.core.cfg.TrimRecords, len(gone)-i*r.core.cfg.TrimRecords); d.Count != full {
			r.Errorf("%+v: %d records go by it, not %d", d, d.Count, full)
		}
		if _, err := os.Stat(filepath.Join(dir, f.Name)); want == "" == (err == nil) {
			r.Errorf("%s: %v", f.Name, err)
		}
	}
	if !maps.Equal(went, kinds) || bytes != p.Bytes || with != p.Documents {
		r.Errorf("%v, %d and %d bytes went, and %v of %+v", went, bytes, with, kinds, p)
	}
}

// documents is how many bytes the documents of records have, each counted with the newest record that has it.
func (r *faulty) documents(was []record.Record) map[uint64]int64 {
	r.Helper()
	sizes, seen := map[uint64]int64{}, map[journal.Hash]bool{}
	for _, rec := range slices.Backward(was) {
		hash, has := rec.Body()
		if !has || seen[hash] {
			continue
		}
		seen[hash] = true
		body, _, err := r.core.journal.Load().Body(hash)
		r.mustBe("the document", err, "")
		sizes[rec.Seq] = int64(len(body))
	}
	return sizes
}

// An export never takes the name of a file that is there, and leaves it as it is.
func TestExportNameIsTaken(t *testing.T) {
	dir := t.TempDir()
	withFaults(t, func(c *Config) { keepFew(c); c.KeepExport = dir }, func(t *testing.T, r *faulty) {
		r.says("n", 1, 9)
		p, err := r.core.TrimPlan(t.Context())
		if err != nil || len(p.Files) != 1 {
			t.Fatalf("%+v %v", p, err)
		}
		first := p.Files[0].Name
		second := strings.TrimSuffix(first, exportEnd) + "-2" + exportEnd
		for _, name := range []string{first, second} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("of a crash"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.compacts()
		if d := r.said(); len(d) != 1 || d[0].File != strings.TrimSuffix(first, exportEnd)+"-3"+exportEnd {
			t.Errorf("%+v, and %s is taken, %s too", d, first, second)
		}
		for _, name := range []string{first, second} {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "of a crash" {
				t.Errorf("%s: %q %v", name, data, err)
			}
		}
	})
}

// An export is on the disk before it has its name, and has its name before anything goes.
func TestExportIsSyncedFirst(t *testing.T) {
	dir := t.TempDir()
	var steps []durable.Step
	tune := func(c *Config) {
		keepFew(c)
		c.KeepExport, c.Around = dir, func(step durable.Step, do func() error) error {
			steps = append(steps, step)
			return do()
		}
	}
	withFaults(t, tune, func(t *testing.T, r *faulty) {
		r.says("n", 1, 9)
		r.compacts()
		want := []durable.Step{durable.Create, durable.SyncDir, durable.Write, durable.Sync, durable.Rename,
			durable.SyncDir, durable.SyncDir}
		if !slices.Equal(steps, want) {
			t.Errorf("%v, not %v", steps, want)
		}
	})
}
