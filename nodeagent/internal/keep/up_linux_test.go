package keep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/shared/wire"
)

// What is to be done last is done when nothing runs any more, before whoever asked for the end hears of it, and while
// no other keeper can have the directory; what goes wrong with it stands in the keeper's log.
func TestLast(t *testing.T) {
	r := newRig(t)
	last := filepath.Join(r.dir, "last")
	r.start(r.shell("a", "exec sleep 1000"))
	if err := r.c.Quit(r.ctx(), false); !errors.Is(err, &wire.Error{Code: wire.CodeWrongState}) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(last); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("while a run is left: %v", err)
	}
	if err := r.c.Quit(r.ctx(), true); err != nil {
		t.Fatal(err)
	}
	if said, err := os.ReadFile(last); err != nil || string(said) != syscall.EWOULDBLOCK.Error() {
		t.Errorf("%q, %v", said, err)
	}
	if said, _, err := ReadLog(filepath.Join(r.dir, "log"), Cursor{}, 1<<20); err != nil ||
		!strings.Contains(string(said), "the last words") {
		t.Errorf("%s, %v", said, err)
	}
}

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
