package confine

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// Here confines the calling thread, for good, as far as this kernel lets it. why says what is missing to Landlock; nil:
// nothing. The thread must be one of Apart.
func Here(room Room) (reached Level, why error) {
	if err := errors.Join(drop(), NoNewPrivs()); err != nil {
		return None, err
	}
	// Landlock before the filter, in which more system calls may be missing one day
	level, why := Basic, error(nil)
	n, err := abi()
	if err == nil {
		if err = landlock(room, n); err == nil {
			if level = Files; n >= scopedABI {
				level = Landlock
			} else {
				why = fmt.Errorf("the kernel's Landlock, of ABI %d, has no scopes, which came with %d (Linux 6.12)", n,
					scopedABI)
			}
		}
	}
	if err != nil {
		why = err
	}
	if err := filter(); err != nil {
		return None, errors.Join(err, why)
	}
	return level, why
}

// Possible is the level that this process can give to what it starts, and why not more.
var Possible = sync.OnceValues(func() (level Level, why error) {
	Apart(func() { level, why = Here(Room{}) })
	return level, why
})

// Thread is a thread that is confined. All that it starts is in one domain of Landlock: its processes may signal each
// other, and nobody outside.
type Thread struct {
	Level Level
	Why   error // what is missing to Landlock; nil: nothing
	TID   int
	calls chan func()
	ended chan struct{}
}

// NewThread makes one, until End.
func NewThread(room Room) *Thread { return newThread(func() (Level, error) { return Here(room) }) }

// PlainThread makes one that is confined to nothing, as on a kernel that cannot.
func PlainThread() *Thread {
	return newThread(func() (Level, error) { return None, errors.New("nothing is confined") })
}

func newThread(set func() (Level, error)) *Thread {
	t := &Thread{calls: make(chan func()), ended: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(t.ended)
		Apart(func() {
			t.TID = syscall.Gettid()
			t.Level, t.Why = set()
			close(ready)
			for f := range t.calls {
				f()
			}
		})
	}()
	<-ready
	return t
}

// Do calls f on the thread and waits for it. What f starts is confined, and f itself is: it opens no files but those of
// the room. Not after End.
func (t *Thread) Do(f func()) {
	done := make(chan struct{})
	t.calls <- func() { defer close(done); f() }
	<-done
}

// End ends the thread and waits for that. What it has started goes on.
func (t *Thread) End() {
	close(t.calls)
	<-t.ended
}
