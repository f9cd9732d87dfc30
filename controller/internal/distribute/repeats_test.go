package distribute

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

func TestRepeats(t *testing.T) {
	var r repeats
	r.init()
	h := fleet.Heard{Node: "n", Raw: []byte("one"), Reported: &wire.Reported{Seq: 1}}
	r.keep("t", h)
	if got, ok := r.find("t", []byte("one")); !ok || got.Reported != h.Reported {
		t.Error("what was said is not known")
	}
	for _, c := range [][2]string{{"t", "two"}, {"u", "one"}, {"t", ""}} {
		if _, ok := r.find(c[0], []byte(c[1])); ok {
			t.Error(c, "is known")
		}
	}
	long := bytes.Repeat([]byte{'x'}, maxRepeat+1)
	if r.keep("long", fleet.Heard{Raw: long}); len(r.of("long").all) != 0 && r.of("long") != r.of("t") {
		t.Error("a long report is kept")
	}
	for i := range 2 * len(r.shards) * maxRepeats {
		r.keep(fmt.Sprint(i), h)
	}
	for i := range r.shards {
		if n := len(r.shards[i].all); n == 0 || n > maxRepeats {
			t.Fatalf("shard %d keeps %d reports", i, n)
		}
	}
}

// A report that says the same again is acknowledged without waiting for the disk, since it is there
// already; one that says something new waits, although it differs in one byte only.
func TestRepeatedReportDoesNotWait(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		synctest.Wait()
		release := r.disk.hold()
		say := func(to string, payload []byte) (done chan struct{}) {
			done = make(chan struct{})
			go func() {
				defer close(done)
				r.deliver(to, bytes.Clone(payload))
			}()
			synctest.Wait()
			return done
		}
		other, same, fresh := say(live("m", 1)), say(info("n", 1)), say(info("n", 2))
		for _, c := range []struct {
			what string
			done chan struct{}
			want bool
		}{{"a new live message", other, false}, {"a repeated report", same, true}, {"a new report", fresh, false}} {
			select {
			case <-c.done:
				if !c.want {
					t.Errorf("%s does not wait for the disk", c.what)
				}
			default:
				if c.want {
					t.Errorf("%s waits for the disk", c.what)
				}
			}
		}
		release()
		<-other
		<-fresh
		if n := len(r.records(record.Report)); n != 2 {
			t.Errorf("%d reports are journaled, want 2", n)
		}
		r.whole()
	})
}

// What could not be made durable is not taken for a repetition when it comes again.
func TestRefusedReportIsNoRepetition(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		r.disk.fail(1, 0)
		to, payload := info("n", 2)
		r.mustBe("a report on a full disk", r.hear(to, payload), wire.CodeStorage)
		if _, ok := r.core.repeats.find(to, payload); ok {
			t.Fatal("it is remembered")
		}
		r.recover()
		if err := r.hear(to, payload); err != nil {
			t.Fatal(err)
		}
		if n := len(r.records(record.Report)); n != 2 {
			t.Errorf("%d reports are journaled, want 2", n)
		}
		r.whole()
	})
}

// Whoever repeats itself without pause waits like everybody else.
func TestRepetitionsAreBounded(t *testing.T) {
	var q queue
	q.init()
	for range maxRoomy {
		if !q.roomy() {
			t.Fatal("no room in a queue that is not full")
		}
		q.put(item{event: fleet.Tick{}}, nil)
	}
	if q.roomy() {
		t.Error("there is room without end")
	}
	q.close()
}
