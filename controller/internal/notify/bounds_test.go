package notify

import (
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
)

// TestFull: what is read is no more than there is room for, and when nothing waits, what nobody wants is passed, too.
func TestFull(t *testing.T) {
	w := newWorld(Filter{})
	w.trouble(5)
	if f, ok := w.machine.Next(w.now).(Fetch); !ok || f.Limit != MaxQueue {
		t.Errorf("%+v", f)
	}
	w.turn(w.take)
	w.trouble(100)
	w.now = w.now.Add(time.Hour)
	if f, ok := w.machine.Next(w.now).(Send); !ok {
		t.Errorf("%+v", f)
	}
	w.turn(func(Message) Answered { return Answered{Err: "down"} })
	if f, ok := w.machine.Next(w.now).(Fetch); !ok || f.Limit != MaxQueue-5 {
		t.Errorf("%+v", f)
	}
	w.settle(w.take)
	w.trouble(1)
	w.happen(record.Report, "n1", "config", struct{}{})
	w.now = w.now.Add(time.Second)
	for w.turn(w.take) {
		continue
	}
	if s := w.machine.Shown(); s.Cursor != 107 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}
