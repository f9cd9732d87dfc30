package distribute

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/controller/internal/clock"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/race"
)

// trimming is a trim that ends after some of its writes.
type trimming struct {
	keep    int // records; below 0: none
	rules   string
	exports bool
	full    bool // the disk is, until it is not; else the process is killed and started again
}

// A trim that ends after any of its writes, be it to the journal or to an export, leaves a journal that verify finds
// whole and that leads to the same state; what is gone of it is exported. So does the next one, which removes the rest:
// however few records are kept, by number, by age, or by a clock that is ahead for years.
func TestTrimEndsAfterAnyWrite(t *testing.T) {
	keeps := []int{-1, 1, 2, 3}
	if race.Enabled || testing.Short() {
		keeps = []int{-1}
	}
	for _, keep := range keeps {
		for _, rules := range []string{"number", "age", "clock"} {
			for i := range 4 {
				c := trimming{keep, rules, i&1 > 0, i&2 > 0}
				t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
					writes := 0
					for c.ends(t, writes) {
						writes++
					}
					if least := map[bool]int{false: 3, true: 8}[c.exports]; writes < least {
						t.Errorf("only %d writes were tried", writes)
					}
				})
			}
		}
	}
}

// ends has a trim end after some writes; false: it needs no more.
func (c trimming) ends(t *testing.T, writes int) (more bool) {
	dir := t.TempDir()
	var machine atomic.Pointer[disk]
	var ahead atomic.Int64
	tune := func(cfg *Config) {
		if cfg.KeepRecords = c.keep; c.exports {
			cfg.KeepExport = dir
		}
		cfg.Around = func(_ durable.Step, do func() error) error {
			if err := machine.Load().faults().BeforeCommit(); err != nil {
				return err
			}
			return do()
		}
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		cfg.Clock = clock.New(clock.Config{Now: now})
		cfg.Keep = retain.DefaultRules()
		for _, kind := range retain.Kinds {
			switch c.rules {
			case "number":
				cfg.Keep[kind] = retain.Rule{Records: 1}
			case "age":
				cfg.Keep[kind] = retain.Rule{Age: time.Hour}
			}
		}
	}
	withFaults(t, tune, func(t *testing.T, r *faulty) {
		machine.Store(&r.disk)
		r.join("n")
		r.install("1.0.0")
		r.says("n", 2, 3)
		time.Sleep(2 * time.Hour)
		r.install("2.0.0")
		r.says("n", 10, 6)
		if c.rules == "clock" {
			ahead.Store(int64(9 * 365 * 24 * time.Hour))
			r.says("n", 20, 2)
		}
		was := r.records()
		r.disk.failAfter(writes, math.MaxInt, 0)
		more = r.core.compact(r.Context()) != nil
		if !more {
			r.disk.fail(0, 0)
		} else {
			c.comesBack(r)
		}
		ahead.Store(0)
		before := c.whole(r, dir, was)
		r.compacts()
		after := c.whole(r, dir, was)
		if goes := c.rules != "clock" || !more; after < before || goes && after == 0 { // else it is right again
			t.Errorf("%d are gone after the next trim, of %d; before it %d", after, len(was), before)
		}
	})
	return more
}

// comesBack has the core go on after a trim that ended.
func (c trimming) comesBack(r *faulty) {
	r.Helper()
	if !c.full {
		_ = r.stop() // it fails if a checkpoint of the end would be another write
		r.disk.fail(0, 0)
		r.start()
		return
	}
	r.core.noticeBroken(r.Context())
	r.disk.fail(0, 0)
	r.recover()
}

// whole checks that the journal is, and returns how many records are gone.
func (c trimming) whole(r *faulty, dir string, was []record.Record) int {
	r.Helper()
	if v, err := r.core.Verify(r.Context()); err != nil || !v.OK {
		r.Errorf("%+v %v", v, err)
	}
	r.mustBe("the audit", r.core.Audit(r.Context()), "")
	gone, there := r.left(was), r.exports(dir)
	for _, seq := range gone {
		if c.exports && !there[seq] {
			r.Errorf("record %d is gone and not exported", seq)
		}
	}
	return len(gone)
}
