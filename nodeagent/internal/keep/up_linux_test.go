package keep

import (
	"context"
	"testing"
)

// A keeper tells for how long a run has been up, whoever asks, also an agent that has just come; of one
// that has ended it does not.
func TestUp(t *testing.T) {
	r := newRig(t)
	down := r.pipe("down")
	r.start(r.shell("a", "read x <down"))
	first, err := r.c.Get(r.ctx(), "a")
	if err != nil || first.Up <= 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	r.ensure()
	second, err := r.c.Get(r.ctx(), "a")
	if err != nil || second.Up <= first.Up {
		t.Errorf("%v, and later %v (%v)", first.Up, second.Up, err)
	}
	found := Status{}
	follow, stop := context.WithCancel(r.ctx())
	defer stop()
	if err := r.c.Follow(follow, func(s Status) {
		if found.ID == "" {
			found = s
			stop()
		}
	}); follow.Err() == nil {
		t.Error(err)
	}
	if found.ID != "a" || found.Up <= second.Up {
		t.Errorf("a follower hears %+v", found)
	}
	if all, err := r.c.List(r.ctx()); err != nil || len(all) != 1 || all[0].Up <= found.Up {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := down.f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if s := r.wait("a"); s.Up != 0 {
		t.Errorf("%+v", s)
	}
}
