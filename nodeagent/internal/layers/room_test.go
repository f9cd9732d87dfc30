package layers

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Room for what an archive takes is there before it is fetched; a cached copy goes for it, and nothing that is wanted.
func TestRoomIsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.keep = 100
		big := r.layer("big", "zeros", strings.Repeat("0", 64<<10))
		small := r.layer("small", "x", "y")
		small.Unpack = nil
		need := big.Size + big.Unpack.Size
		r.room = uint64(need + r.keep - 1)
		s := r.open()
		s.Want([]workload.Artifact{big, small})
		settled(2 * time.Minute)
		if got := s.Look(big); got.State != "waiting" || got.Err == nil || got.Err.Code != wire.CodeStorage ||
			r.gets["/big"] != 0 {
			t.Errorf("without room for what is in it: %+v, fetched %d times", got, r.gets["/big"])
		}
		if got := s.Look(small); got.State != "" {
			t.Errorf("what has room waits, too: %+v", got)
		}
		r.mu.Lock()
		r.room++
		r.mu.Unlock()
		settled(2 * time.Minute)
		has(t, s, big, "zeros", strings.Repeat("0", 64<<10))
		r.close()
	})
}

// The room stays reserved from the download until the tree is there: nothing else takes it.
func TestRoomStaysReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		big := r.layer("big", "zeros", strings.Repeat("0", 64<<10))
		other := r.layer("other", "x", "y")
		other.Unpack, other.Size = nil, big.Size+2
		r.few, r.room = 1, uint64(big.Size+big.Unpack.Size+1) // so it is the next, and has no room beside the tree
		held := make(chan struct{})
		r.fault = func(step durable.Step, do func() error) error {
			if step == durable.MakeDir {
				<-held
			}
			return do()
		}
		s := r.open()
		s.Want([]workload.Artifact{big, other})
		settled(time.Minute)
		if got := s.Look(other); s.Look(big).State != "unpacking" || got.State != "waiting" || r.gets["/other"] != 0 {
			t.Errorf("while it is unpacked: %+v, and what has no room beside it %+v", s.Look(big), got)
		}
		close(held)
		settled(2 * time.Minute)
		has(t, s, big, "zeros", strings.Repeat("0", 64<<10))
		if got := s.Look(other); got.State != "" {
			t.Errorf("after that: %+v", got)
		}
		r.close()
	})
}

// A layer that is not wanted any more while it is unpacked keeps its room until it is done, and gives it back then.
func TestRoomOfWhatIsNotWantedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		big := r.layer("big", "zeros", strings.Repeat("0", 64<<10))
		other := r.layer("other", "x", "y")
		other.Unpack, other.Size = nil, big.Size+2
		r.few, r.room = 1, uint64(big.Size+big.Unpack.Size+1)
		held := make(chan struct{})
		r.fault = func(step durable.Step, do func() error) error {
			if step == durable.MakeDir {
				<-held
			}
			return do()
		}
		s := r.open()
		s.Want([]workload.Artifact{big})
		settled(time.Minute)
		s.Want([]workload.Artifact{other})
		settled(time.Minute)
		if got := s.Look(other); got.State != "waiting" || r.gets["/other"] != 0 {
			t.Errorf("while another one is unpacked: %+v", got)
		}
		close(held)
		settled(2 * time.Minute)
		if got := s.Look(other); got.State != "" || r.trees() != "" {
			t.Errorf("after that: %+v, and there is %q", got, r.trees())
		}
		r.close()
	})
}

// Where an archive is there and its tree is not, it waits for room, and copies that may go are given up for it.
func TestRoomForATree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		big, cached := r.layer("big", "zeros", strings.Repeat("0", 64<<10)), r.layer("cached", "x", "y")
		cached.Unpack, cached.Cached = nil, true
		s := r.open()
		s.Want([]workload.Artifact{big, cached})
		settled(time.Second)
		r.close()
		if err := os.RemoveAll(filepath.Join(r.dir, "layers")); err != nil {
			t.Fatal(err)
		}
		r.room = uint64(big.Unpack.Size - 1)
		s = r.open()
		s.Want([]workload.Artifact{big})
		settled(time.Minute)
		if got := s.Look(big); got.State != "waiting" || got.Err == nil || got.Err.Code != wire.CodeStorage ||
			got.Next.IsZero() {
			t.Errorf("without room: %+v", got)
		}
		if n := len(copies(t, r)); n != 1 {
			t.Errorf("%d copies: one was to go for the tree", n)
		}
		r.mu.Lock()
		r.room++
		r.mu.Unlock()
		settled(time.Minute)
		has(t, s, big, "zeros", strings.Repeat("0", 64<<10))
		r.close()
	})
}

// A disk that stays full is tried after pauses that double, until it works or something else is wanted.
func TestFullDiskIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := r.layer("a", "a", "good")
		var tries []time.Duration
		began := time.Now()
		full := true
		r.fault = func(step durable.Step, do func() error) error {
			r.mu.Lock()
			no := full && step == durable.MakeDir
			if step == durable.MakeDir {
				tries = append(tries, time.Since(began))
			}
			r.mu.Unlock()
			if no {
				return syscall.ENOSPC
			}
			return do()
		}
		s := r.open()
		s.Want([]workload.Artifact{a})
		settled(time.Hour)
		if n := len(tries); n < 8 || n > 13 || tries[1]-tries[0] > 20*time.Second ||
			tries[n-1]-tries[n-2] > longest+again {
			t.Errorf("tried after %v", tries)
		}
		if err := use(t.Context(), s, "run", a); err == nil || !strings.Contains(err.Error(), "cannot be made anew") {
			t.Errorf("a hook does not wait: %v", err)
		}
		r.mu.Lock()
		tries = nil
		r.mu.Unlock()
		b := r.layer("b", "b", "good")
		s.Want([]workload.Artifact{a, b}) // something else
		settled(31 * time.Second)
		if len(tries) != 6 {
			t.Errorf("something else is wanted, and tried after %v", tries)
		}
		r.mu.Lock()
		full = false
		r.mu.Unlock()
		settled(time.Minute)
		has(t, s, a, "a", "good")
		has(t, s, b, "b", "good")
		r.close()
	})
}

// A clock that was set back does not make the next attempt wait for it.
func TestClockSetBack(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	a := workload.Artifact{Unpack: &workload.Unpack{DiffID: "sha256:" + strings.Repeat("0", 64), Size: 1}}
	a.Verification.Checksum = "x"
	s, err := Open(Config{Dir: filepath.Join(t.TempDir(), "trees"), Blobs: there{"x": "/none"}, Log: zap.NewNop(),
		Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	s.Want([]workload.Artifact{a})
	for _, step := range []struct {
		by     time.Duration
		failed int
	}{{0, 1}, {again - 1, 1}, {1, 2}, {-24 * time.Hour, 3}} {
		now = now.Add(step.by)
		s.advance(t.Context(), "", a.Unpack.DiffID)
		if n := s.layers[a.Unpack.DiffID].failed; n != step.failed {
			t.Errorf("%v later: %d attempts, want %d", step.by, n, step.failed)
		}
	}
}
