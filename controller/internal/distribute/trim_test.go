package distribute

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// keepFew has the journal keep as little as it may of what nodes say.
func keepFew(c *Config) {
	one := retain.Rule{Records: 1}
	c.KeepRecords = 1
	c.Keep = retain.Rules{retain.Reports: one, retain.Events: one, retain.Alerts: one, retain.Issued: one}
}

// says has a node come and go, so many times.
func (r *faulty) says(node string, first uint64, times int) {
	r.Helper()
	for i := range times {
		r.mustBe("presence", r.hear(live(node, first+uint64(i))), "")
	}
	synctest.Wait()
}

// sameState checks that the journal leads to the state that there is.
func (r *faulty) sameState() {
	r.Helper()
	r.look(func(f *fleet.Fleet) {
		again, _, err := replay(r.core.journal.Load(), r.core.options(r.core.journal.Load()))
		if err != nil {
			r.Error(err)
		} else if err := differ("the journal", again.Checkpoint(), f.Checkpoint()); err != nil {
			r.Error(err)
		}
	})
}

// left checks that what is left of some records is as it was, and returns the numbers of those that are gone.
func (r *faulty) left(was []record.Record) (gone []uint64) {
	r.Helper()
	now := map[uint64]string{}
	for _, n := range r.records() {
		now[n.Seq] = fmt.Sprintf("%+v", n)
	}
	for _, w := range was {
		text, there := now[w.Seq]
		if !there {
			gone = append(gone, w.Seq)
		} else if text != fmt.Sprintf("%+v", w) {
			r.Errorf("record %d is another one", w.Seq)
		}
	}
	return gone
}

// said returns the data of the records that say what goes.
func (r *faulty) said() (all []record.TrimmedData) {
	r.Helper()
	for _, t := range r.records(record.Trimmed) {
		var d record.TrimmedData
		if err := json.Unmarshal(t.Data, &d); err != nil {
			r.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// exports returns the numbers of the records in the files of a directory.
func (r *faulty) exports(dir string) map[uint64]bool {
	r.Helper()
	all := map[uint64]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "journal-*"+exportEnd))
	if err != nil {
		r.Fatal(err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			r.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			r.Fatal(name, err)
		}
		lines := bufio.NewScanner(z)
		for lines.Scan() {
			var e struct {
				Seq uint64 `json:"seq"`
			}
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				r.Fatal(name, err)
			}
			all[e.Seq] = true
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			r.Fatal(name, err)
		}
	}
	return all
}

// Whatever is kept of what happened, after a trim the state is the same, also after a crash, what is left is as it was,
// and the journal is whole.
func TestTrimChangesNoState(t *testing.T) {
	for seed := range uint64(12) {
		chance := rand.New(rand.NewPCG(seed, 15))
		rule := func() retain.Rule {
			return retain.Rule{Age: time.Duration(chance.IntN(3)) * 10 * time.Hour, Records: chance.IntN(4),
				Bytes: int64(chance.IntN(3)) * 1000}
		}
		tune := func(c *Config) {
			c.KeepRecords, c.Keep = 1+chance.IntN(20), retain.Rules{}
			for _, k := range retain.Kinds {
				c.Keep[k] = rule()
			}
		}
		withFaults(t, tune, func(t *testing.T, r *faulty) {
			version, session := 0, uint64(0)
			for range 6 {
				for range chance.IntN(12) {
					switch chance.IntN(5) {
					case 0:
						version++
						r.install(fmt.Sprintf("1.0.%d", version))
					case 1:
						r.join(fmt.Sprint("n", chance.IntN(4)))
					case 2:
						r.mustBe("health", r.set(time.Duration(6+chance.IntN(9))*time.Minute), "")
					default:
						r.says(fmt.Sprint("n", chance.IntN(4)), 10+chance.Uint64N(1000), 3)
					}
					time.Sleep(time.Hour)
				}
				was := r.records()
				r.compacts()
				gone := r.left(was)
				n := 0
				for _, d := range r.said() {
					n += d.Count
				}
				if got, err := r.core.journal.Load().Gone(); err != nil || uint64(n) != got || len(gone) > n {
					r.Errorf("seed %d: %d are gone, %d by their trims; %d now: %v", seed, got, n, len(gone), err)
				}
				r.sameState()
				if chance.IntN(2) == 0 {
					session++
					time.Sleep(time.Second) // maintenance may write a checkpoint at the hour
					r.says("n9", session, 1)
					r.crash()
					r.sameState()
				}
			}
			r.install(fmt.Sprintf("2.0.%d", version))
			r.bodies()
		})
	}
}

// A commit that fails at any step of a trim, on the disk or not, costs nothing that was to stay; the next one does the
// rest. What is gone is in an export.
func TestTrimIsInterrupted(t *testing.T) {
	for _, persisted := range []bool{false, true} {
		for good := range 4 {
			dir := t.TempDir()
			tune := func(c *Config) {
				keepFew(c)
				c.KeepExport = dir
				c.Fleet.Limits = fleet.Limits{StateRate: 1e6, StateBurst: 1e6, EventRate: 1, EventBurst: 2}
			}
			withFaults(t, tune, func(t *testing.T, r *faulty) {
				r.join("n")
				r.says("n", 2, 1100)
				was := r.records()
				r.disk.failAfter(good, 1, 0)
				if persisted {
					r.disk.failAfter(good, 0, 1)
				}
				err := r.core.compact(r.Context())
				r.disk.fail(0, 0)
				if err == nil {
					t.Fatalf("%d commits are enough", good)
				}
				r.core.noticeBroken(r.Context())
				r.recover()
				r.left(was)
				r.sameState()
				r.compacts()
				gone, there := r.left(was), r.exports(dir)
				for _, seq := range gone {
					if !there[seq] {
						t.Errorf("record %d is gone and not exported", seq)
					}
				}
				if len(gone) < 1090 {
					t.Errorf("only %d are gone", len(gone))
				}
				r.sameState()
			})
		}
	}
}

// While the disk for exports fails, at whichever step, nothing goes, and that is told until it works again.
func TestExportFails(t *testing.T) {
	steps := 0
	for failing := 0; failing == 0 || failing <= steps; failing++ {
		for _, late := range []bool{false, true} {
			dir := t.TempDir()
			n, at := 0, failing
			around := func(_ durable.Step, do func() error) error {
				if n++; n != at {
					return do()
				}
				if late {
					if err := do(); err != nil {
						return err
					}
				}
				return errDisk
			}
			tune := func(c *Config) { keepFew(c); c.KeepExport, c.Around = dir, around }
			withFaults(t, tune, func(t *testing.T, r *faulty) {
				r.join("n")
				r.says("n", 2, 50)
				was := r.records()
				err := r.core.compact(r.Context())
				if steps = max(steps, n); at == 0 {
					r.mustBe("without a fault", err, "")
					return
				}
				if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "--keep-export: ") {
					t.Fatalf("step %d: %v", at, err)
				}
				if gone := r.left(was); len(gone) > 0 {
					t.Errorf("step %d: %d are gone", at, len(gone))
				}
				if len(r.said()) > 0 {
					t.Errorf("step %d: it is said that they go", at)
				}
				if text := r.trouble(); !strings.Contains(text, "the journal could not be trimmed: --keep-export: ") {
					t.Errorf("nothing is told: %s", text)
				}
				r.compacts()
				there := r.exports(dir)
				for _, seq := range r.left(was) {
					if !there[seq] {
						t.Errorf("step %d: record %d is gone and not exported", at, seq)
					}
				}
				if len(there) < 45 || r.trouble() != "" {
					t.Errorf("step %d: %d are exported; %s", at, len(there), r.trouble())
				}
				if left, err := filepath.Glob(filepath.Join(dir, "*"+partEnd)); err != nil || len(left) > 0 {
					t.Errorf("step %d: %v %v", at, left, err)
				}
			})
		}
	}
	if steps < 5 {
		t.Errorf("%d steps were tried", steps)
	}
}

// trouble is what operators are told, without what the rig always has.
func (r *faulty) trouble() string {
	r.Helper()
	st, err := r.core.Status(r.Context())
	r.mustBe("the unit", err, "")
	return strings.Join(slices.DeleteFunc(st.Trouble, func(s string) bool {
		return strings.HasPrefix(s, "no session")
	}), "\n")
}

// A directory for exports that is missing is not made: it may be a disk that is not mounted.
func TestExportDirectoryIsMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "away")
	withFaults(t, func(c *Config) { keepFew(c); c.KeepExport = dir }, func(t *testing.T, r *faulty) {
		r.says("n", 1, 9)
		if err := r.core.compact(r.Context()); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		half := filepath.Join(dir, "journal-1-1-2"+exportEnd+partEnd)
		if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.compacts()
		d := r.said()
		if len(d) != 1 || len(r.exports(dir)) != d[0].Count || d[0].File == "" || !wire.ValidHash(d[0].Sum) {
			t.Errorf("%+v", d)
		}
		data, err := os.ReadFile(filepath.Join(dir, d[0].File))
		if err != nil || wire.Hash(data) != d[0].Sum {
			t.Errorf("%s, not %s: %v", wire.Hash(data), d[0].Sum, err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("%v %v", files, err)
		}
	})
}

// A journal is trimmed some minutes after the start, once a day, and when it has grown.
func TestTrimIsDue(t *testing.T) {
	withFaults(t, keepFew, func(t *testing.T, r *faulty) {
		for i, c := range []struct {
			wait time.Duration
			want int
		}{{maintenance / 2, 0}, {maintenance, 1}, {trimEvery - 2*maintenance, 1}, {2 * maintenance, 2}} {
			r.says("n", uint64(1+i*20), 10)
			time.Sleep(c.wait)
			synctest.Wait()
			if got := len(r.said()); got != c.want {
				t.Errorf("after step %d there were %d trims, not %d", i, got, c.want)
			}
		}
		size, err := inUse(r.core.journal.Load())
		r.mustBe("the size", err, "")
		now, last := time.Now(), trimmed{time.Now(), size}
		if last.due(now, size+trimGrown-1) || !last.due(now, size+trimGrown) || !last.due(now.Add(-trimEvery), size) {
			t.Error("when it has grown, or the clock was set back")
		}
	})
}

// Documents of operators go when they are too old or too many: not the newest, nor what nodes have.
func TestOldDocumentsGo(t *testing.T) {
	tune := func(c *Config) {
		c.KeepRecords, c.Keep = 1, retain.Rules{retain.Documents: {Age: 5 * time.Hour, Records: 4}}
	}
	withFaults(t, tune, func(t *testing.T, r *faulty) {
		r.join("n")
		for i := range 6 {
			r.install(fmt.Sprintf("1.0.%d", i))
			time.Sleep(time.Hour)
		}
		r.compacts()
		if got := len(r.records(record.Accepted)); got != 4 {
			t.Errorf("%d are left of the newest 4", got)
		}
		time.Sleep(2 * time.Hour)
		r.says("n", 5, 1)
		r.compacts()
		if got := len(r.records(record.Accepted)); got != 2 {
			t.Errorf("%d are left of the 2 that are young", got)
		}
		time.Sleep(100 * time.Hour)
		r.says("n", 6, 1)
		r.compacts()
		left := r.records(record.Accepted)
		if got, err := r.core.Document(t.Context(), wire.KindConfig, ""); len(left) != 1 || err != nil {
			t.Errorf("%d are left; %+v %v", len(left), got, err)
		}
		if h, err := r.core.History(t.Context(), wire.KindConfig); err != nil || len(h.Versions) == 0 {
			t.Errorf("%+v %v", h, err)
		}
		r.says("n", 7, 1)
		r.crash()
		r.sameState()
		r.install("2.0.0")
	})
}

// Operators are told before the disk is full, once for each level, and not any more when there is room again.
func TestLittleRoom(t *testing.T) {
	var left atomic.Int64 // below 0: that cannot be told
	left.Store(2000)
	tune := func(c *Config) {
		c.DiskLow, c.Room = 1000, func() (int64, error) {
			n := left.Load()
			if n < 0 {
				return 0, errDisk
			}
			return n, nil
		}
	}
	withFaults(t, tune, func(t *testing.T, r *faulty) {
		for i, c := range []struct {
			left  int64
			told  int
			words string
		}{
			{1001, 0, ""}, {999, 1, "has 999 B left (--disk-low 1000 B): make room"}, {500, 1, "500 B left"},
			{1100, 1, "left"}, {900, 1, "left"}, {249, 2, "249 B left"}, {270, 2, "270 B left"}, {240, 2, "left"},
			{900, 2, "left"}, {1200, 2, ""}, {999, 3, "left"}, {100, 4, "left"}, {2000, 4, ""},
		} {
			left.Store(c.left)
			time.Sleep(lookEvery)
			synctest.Wait()
			told := 0
			for _, e := range r.records(record.Trouble) {
				if strings.Contains(string(e.Data), "once it is full nothing more is accepted") {
					told++
				}
			}
			if text := r.trouble(); told != c.told || !strings.Contains(text, c.words) || c.words == "" && text != "" {
				t.Errorf("step %d, %d bytes: told %d times, not %d: %s", i, c.left, told, c.told, text)
			}
		}
		left.Store(-1)
		time.Sleep(lookEvery)
		synctest.Wait()
		if text := r.trouble(); !strings.Contains(text, "cannot be told: "+errDisk.Error()) {
			t.Error(text)
		}
	})
}
