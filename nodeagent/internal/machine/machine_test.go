package machine

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// counter is a state machine that counts what it is told, and may have to save that.
type counter struct {
	n    int
	next time.Duration
}

// rig is a Machine of a counter, and the trace of what its owner did. An event is a list of words: each is an effect.
type rig struct {
	Machine[counter, string, string]
	disk  error // of the next saves
	trace []string
}

func newRig() *rig {
	r := &rig{}
	say := func(format string, a ...any) { r.trace = append(r.trace, fmt.Sprintf(format, a...)) }
	r.Machine = Machine[counter, string, string]{
		Now: func() clock.Now { return clock.Now{Mono: time.Minute} },
		Step: func(s counter, now clock.Now, ev string) (counter, []string) {
			s.n++
			s.next = now.Mono + time.Second
			return s, strings.Fields(ev)
		},
		Failed: func(s counter, _ clock.Now, ev string, err *wire.Error) (counter, []string) {
			s.n += 100
			return s, []string{"failed:" + string(err.Code)}
		},
		Next: func(s counter) (time.Duration, bool) { return s.next, s.next > 0 },
		Tick: "tick",
		Sort: func(e string) Order {
			switch e {
			case "save":
				return Order{Save: true}
			case "must":
				return Order{Save: true, Must: true}
			case "emit":
				return Order{Emit: &wire.Event{Type: "t"}}
			}
			return Order{}
		},
		Answer: func(e string) (string, bool) {
			return strings.CutPrefix(e, "ask:")
		},
		Commit: func(events []wire.Event, must bool) error {
			say("commit %d: n=%d, %d events, must %v", len(r.trace), r.State.n, len(events), must)
			if r.disk == nil {
				r.Unsaved = false
			}
			return r.disk
		},
		Run: func(e string) {
			say("run %s", e)
			if more, ok := strings.CutPrefix(e, "then:"); ok {
				r.Handle(more)
			}
		},
		After: func() { say("after n=%d", r.State.n) },
	}
	return r
}

func TestHandle(t *testing.T) {
	full := errors.New("disk full")
	for name, c := range map[string]struct {
		disk    error
		ev      string
		want    []string
		n       int
		unsaved bool
	}{
		"nothing to save": {nil, "x", []string{"run x", "after n=1"}, 1, false},
		"what is saved is the new state, before any effect": {nil, "save x",
			[]string{"commit 0: n=1, 0 events, must false", "run save", "run x", "after n=1"}, 1, false},
		"events go along": {nil, "must emit",
			[]string{"commit 0: n=1, 1 events, must true", "run must", "run emit", "after n=1"}, 1, false},
		"events alone": {full, "emit x",
			[]string{"commit 0: n=1, 1 events, must false", "run emit", "run x", "after n=1"}, 1, false},
		"a save that may come later": {full, "save x",
			[]string{"commit 0: n=1, 0 events, must false", "run save", "run x", "after n=1"}, 1, true},
		"a step that had to be saved does not count": {full, "must emit x",
			[]string{"commit 0: n=1, 1 events, must true", "run failed:storage", "after n=100"}, 100, true},
		"an effect is an event": {nil, "then:save x",
			[]string{"run then:save", "commit 1: n=2, 0 events, must false", "run save", "after n=2",
				"run x", "after n=2"}, 2, false},
		"an answer is a part of the step and of its save": {nil, "must ask:emit ask:z y",
			[]string{"commit 0: n=3, 1 events, must true", "run must", "run y", "run emit", "run z", "after n=3"},
			3, false},
		"with a step that had to be saved its answer does not count": {full, "ask:must x",
			[]string{"commit 0: n=2, 0 events, must true", "run failed:storage", "after n=100"}, 100, true},
	} {
		r := newRig()
		r.disk = c.disk
		r.Handle(c.ev)
		if !reflect.DeepEqual(r.trace, c.want) || r.State.n != c.n || r.Unsaved != c.unsaved {
			t.Errorf("%s: n=%d, unsaved %v, %q; want n=%d, %v, %q",
				name, r.State.n, r.Unsaved, r.trace, c.n, c.unsaved, c.want)
		}
	}
}

// What could not be saved goes along with the next event, whatever that is.
func TestUnsavedGoesAlong(t *testing.T) {
	r := newRig()
	r.disk = errors.New("disk full")
	r.Handle("save")
	r.disk, r.trace = nil, nil
	r.Handle("x")
	want := []string{"commit 0: n=2, 0 events, must false", "run x", "after n=2"}
	if !reflect.DeepEqual(r.trace, want) || r.Unsaved {
		t.Errorf("unsaved %v, %q; want %q", r.Unsaved, r.trace, want)
	}
}

func TestElapse(t *testing.T) {
	r := newRig()
	if _, ok := r.Due(); ok {
		t.Error("due before the first event")
	}
	r.Elapse(time.Hour)
	r.Handle("x")
	if at, ok := r.Due(); !ok || at != time.Minute+time.Second {
		t.Errorf("due at %v, %v", at, ok)
	}
	for at, n := range map[time.Duration]int{time.Minute: 1, time.Minute + time.Second: 2} {
		r := newRig()
		r.Handle("x")
		if r.Elapse(at); r.State.n != n {
			t.Errorf("at %v: %d events, want %d", at, r.State.n, n)
		}
	}
	r.Next = nil
	if _, ok := r.Due(); ok {
		t.Error("due without deadlines")
	}
}
