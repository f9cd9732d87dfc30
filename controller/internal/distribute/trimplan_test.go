package distribute

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/retain"
)

// What a plan says would go is what the next trim removes and exports, to the record; asking for it changes nothing.
func TestTrimPlanIsWhatGoes(t *testing.T) {
	reasons := map[string]int{}
	for seed := range uint64(8) {
		chance := rand.New(rand.NewPCG(seed, 16))
		dir := t.TempDir()
		tune := func(c *Config) {
			c.KeepRecords, c.Keep, c.KeepSuperseded = 1+chance.IntN(10), retain.Rules{}, 2
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
	synctest.Wait() // for what maintenance does just now
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
	r.compacts()
	gone := r.left(was)
	if len(gone) != p.Records || there != len(was) {
		r.Errorf("%d of %d went, and %d of %d would", len(gone), len(was), p.Records, there)
	}
	said := r.said()[earlier:]
	if len(said) != len(p.Files) {
		r.Fatalf("%d trims, and %d files", len(said), len(p.Files))
	}
	for i, d := range said {
		f := p.Files[i]
		if d.First != f.First || d.Last != f.Last || d.Count != f.Records || d.Bytes != f.Bytes || d.Bytes != p.Bytes ||
			!maps.Equal(d.Kinds, kinds) || want != "" && d.File != f.Name {
			r.Errorf("%+v, and %+v", d, f)
		}
		if _, err := os.Stat(filepath.Join(dir, f.Name)); want == "" == (err == nil) {
			r.Errorf("%s: %v", f.Name, err)
		}
	}
}
