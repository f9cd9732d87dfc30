package slot

import (
	"fmt"
	"testing"

	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/race"
	"tandem.internal/shared/wire"
)

// A full disk never lets a trial start, and the good slot always does.
func TestFullDisk(t *testing.T) {
	lives(t, func(i int, o op, before *simDisk, kernel int) {
		w := &world{disk: before.killed(), kernel: kernel}
		was, _, err := w.view()
		if err != nil {
			t.Fatal(err)
		}
		w.disk.full = true
		if _, err := w.run(o); err == nil && o.name[:4] != "boot" && o.name[:4] != "fail" && o.name != "reported" {
			t.Errorf("%d, %s succeeds", i, o.name)
		}
		l, err := w.store().Starting().Next(nil)
		if err != nil || l.Trial || l.Saved || w.content(l.Slot) != was.good || l.Note == "" {
			t.Errorf("%d, %s: %+v %v; good is %s", i, o.name, l, err, was.good)
		}
		w.disk.full = false
		if err := w.start(was, map[string]bool{was.good: true, was.trying: true}); err != nil {
			t.Errorf("%d, %s, with room again: %v", i, o.name, err)
		}
	})
}

// Whatever step fails, the node goes on; and the op done again comes to the same end.
func TestErrorThenAgain(t *testing.T) {
	errs := 0
	lives(t, func(i int, o op, before *simDisk, kernel int) {
		clean := &world{disk: before.killed(), kernel: kernel}
		was, st, err := clean.view()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clean.run(o); err != nil {
			t.Fatal(err)
		}
		want, _, err := clean.view()
		if err != nil {
			t.Fatal(err)
		}
		from := st.Slots
		for at := 1; at <= clean.disk.count; at++ {
			where := fmt.Sprintf("op %d, %s, step %d fails", i, o.name, at)
			w := &world{disk: before.killed(), kernel: kernel}
			w.disk.failAt = at
			starts := o.name[:4] == "boot" || o.name[:4] == "fail"
			again := o
			if o.name == "rollback" { // of the slot that was meant the first time
				left := record.None
				for _, s := range from {
					if s.State == record.InProgress || s.State == record.Updating ||
						left == record.None && s.State == record.Active {
						left = s.Slot
					}
				}
				again = op{o.name, func(w *world) error {
					_, err := w.store().Rollback(left, wire.BootFallback, "a test")
					return err
				}}
			}
			if _, err := w.run(again); err == nil && !starts {
				t.Errorf("%s, and nobody says so", where)
			}
			errs++
			after := &world{disk: w.disk.killed(), kernel: kernel}
			then, _, err := after.view()
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			if err := after.start(then,
				map[string]bool{was.good: true, want.good: true, was.trying: true, want.trying: true}); err != nil {
				t.Fatalf("%s: %v\n%s", where, err, w.disk.dump())
			}
			if starts {
				continue
			}
			if _, err := w.run(again); err != nil {
				t.Fatalf("%s, again: %v", where, err)
			}
			if got, _, err := w.view(); err != nil || got.good != want.good || got.trying != want.trying ||
				got.tries != want.tries {
				t.Fatalf("%s, again: %+v, want %+v, %v", where, got, want, err)
			}
		}
	})
	if !race.Enabled && errs < 100 {
		t.Errorf("only %d errors", errs)
	}
}
