package distribute

import (
	"testing"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/fleet"
)

// Whatever is put is taken once and in order, and nobody is told that his item is durable before
// the batch that holds it has been.
func TestQueueKeepsOrderAndPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		q.init()
		type waiter struct {
			ticket uint64
			done   <-chan struct{}
		}
		var waiting []waiter
		var put, durable uint64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				put++
				w := waiter{ticket: put}
				if !q.put(item{event: fleet.Confirm{Ticket: put}}, &w.done) {
					t.Fatal("refused though open")
				}
				waiting = append(waiting, w)
				continue
			}
			items, done := q.take(rapid.IntRange(1, 5).Draw(t, "at most"))
			for _, it := range items {
				durable++
				if got := it.event.(fleet.Confirm).Ticket; got != durable {
					t.Fatalf("took %d, want %d", got, durable)
				}
			}
			if len(items) > 0 {
				close(done)
				q.recycle(items)
			}
			for _, w := range waiting {
				select {
				case <-w.done:
					if w.ticket > durable {
						t.Fatalf("%d is said to be durable, only %d are", w.ticket, durable)
					}
				default:
				}
			}
		}
		if len(q.wake) == 0 && durable < put && durable == 0 {
			t.Fatal("nobody is woken for what waits")
		}
		q.close()
		q.close()
		for _, w := range waiting {
			select {
			case <-w.done:
			default:
				t.Fatalf("%d waits for ever", w.ticket)
			}
		}
		if items, _ := q.take(9); items != nil || q.put(item{}, nil) {
			t.Fatal("a closed queue takes or gives")
		}
	})
}

// TestQueueInAHurry: those who bring more are let run first, unless somebody waits for an answer, be it of an order or
// of a look; and the next batch gathers again.
func TestQueueInAHurry(t *testing.T) {
	for name, c := range map[string]struct {
		first item
		taken int
	}{
		"a report": {item{}, 1 + maxTurns},
		"an order": {item{ticket: 1}, 1},
		"a look":   {item{view: func(*fleet.Fleet, error) {}}, 1},
	} {
		var q queue
		q.init()
		q.others = func() { q.put(item{}, nil) }
		for _, first := range []item{c.first, {}, c.first} {
			want := c.taken
			if first.view == nil && first.ticket == 0 {
				want = 1 + maxTurns
			}
			q.put(first, nil)
			if items, _ := q.take(9); len(items) != want {
				t.Errorf("%s: taken with %d others", name, len(items)-1)
			}
		}
		q.put(item{}, nil)
		q.put(c.first, nil)
		if items, _ := q.take(1); len(items) != 1 {
			t.Errorf("%s: of two, %d are taken", name, len(items))
		}
		if items, _ := q.take(9); len(items) != c.taken {
			t.Errorf("%s: who is left is taken with %d others", name, len(items)-1)
		}
		q.put(c.first, nil)
		q.put(item{}, nil)
		if items, _ := q.take(9); len(items) != 1+c.taken {
			t.Errorf("%s: with one more behind it, it is taken with %d others", name, len(items)-1)
		}
	}
}
