package distribute

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// What runs on a node is told by that node alone: a report of another node's slots, or of one slot twice,
// counts for nothing, and is in the journal as trouble.
func TestNodeTellsOfItsOwnSlots(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.join("m")
		seq := uint64(0)
		report := func(slots ...string) {
			seq++
			w := wire.Workloads{Slots: []wire.WorkloadSlot{}}
			for _, s := range slots {
				w.Slots = append(w.Slots,
					wire.WorkloadSlot{Slot: s, ID: "evil", State: wire.WorkloadRunning, Since: time.Now().UTC()})
			}
			payload := wire.Encode(&wire.Reported{V: wire.Version, Node: "m", Kind: wire.KindWorkloads, Boot: "b",
				Seq: seq, Detail: wire.Encode(&w)})
			r.mustBe("a report", r.hear(topic.ForNode(faultyUnit, "m").Reported(wire.KindWorkloads), payload), "")
			synctest.Wait()
		}
		shown := func() string {
			all, err := r.core.Slots(t.Context(), op.SlotsIn{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range all.Slots {
				names = append(names, s.Slot)
			}
			return strings.Join(names, " ")
		}
		report("a@m", "b@m")
		if got := shown(); got != "a@m b@m" {
			t.Errorf("its own slots: %q", got)
		}
		for what, slots := range map[string][]string{
			"another node's":    {"a@m", "web@n"},
			"no slot's name":    {"a@m", "web@n@m"},
			"an escape":         {"../../n@m"},
			"one of them twice": {"a@m", "a@m"},
		} {
			before := len(r.records(record.Trouble))
			report(slots...)
			if got := shown(); got != "a@m b@m" {
				t.Errorf("%s: %q is shown", what, got)
			}
			time.Sleep(time.Minute) // a sender's trouble is journaled now and then
			synctest.Wait()
			if n := len(r.records(record.Trouble)) - before; n != 1 {
				t.Errorf("%s: %d troubles", what, n)
			}
		}
		r.whole()
	})
}
