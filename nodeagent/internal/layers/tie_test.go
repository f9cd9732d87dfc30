package layers

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// denied demands that an artifact has no tree, neither to look at nor to start with.
func denied(t *testing.T, s *Store, a workload.Artifact) {
	t.Helper()
	r := s.Look(a)
	if r.State != "failed" || r.Path != "" || r.Err == nil || r.Err.Code != wire.CodeBadValue ||
		!strings.Contains(r.Err.Message, "the digest of what is in it is") {
		t.Errorf("it is %+v: %v", r, r.Err)
	}
	if err := use(t.Context(), s, "run", a); err == nil ||
		!strings.Contains(err.Error(), "not known to have the tree in it: the layer is refused") {
		t.Errorf("a run has it: %v", err)
	}
}

// Who names the tree of another archive, by its diff ID, does not get it: not before, nor after a restart.
func TestTreeOfAnotherArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		unpacked := r.made()
		right := r.layer("right", "a", "good")
		wrong := r.layer("wrong", "a", "else")
		wrong.Unpack = right.Unpack
		s := r.open()
		s.Want([]workload.Artifact{right})
		settled(time.Second)
		if err := use(t.Context(), s, "run", wrong); err == nil || s.Look(wrong).Path != "" {
			t.Errorf("before it is fetched: %+v, %v", s.Look(wrong), err)
		}
		s.Want([]workload.Artifact{wrong, right})
		settled(time.Second)
		has(t, s, right, "a", "good")
		denied(t, s, wrong)
		for _, all := range [][]workload.Artifact{{wrong, right}, {wrong}} {
			r.close()
			s = r.open()
			s.Want(all)
			settled(time.Second)
			denied(t, s, wrong)
		}
		if *unpacked != 1 {
			t.Errorf("unpacked %d times", *unpacked)
		}
		r.close()
	})
}

// Archives that are compressed otherwise have one tree; that is known after a restart, without them being read again.
func TestTreeOfTwoArchives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		unpacked := r.made()
		inside := archive(t, "a", strings.Repeat("good", 1000))
		one := r.serve("one", zipped(t, inside, gzip.BestSpeed), inside)
		two := r.serve("two", zipped(t, inside, gzip.NoCompression), inside)
		both := []workload.Artifact{one, two}
		s := r.open()
		s.Want(both)
		settled(time.Second)
		usable := func() {
			t.Helper()
			for _, a := range both {
				has(t, s, a, "a", strings.Repeat("good", 1000))
				if err := use(t.Context(), s, "run", a); err != nil {
					t.Error(err)
				}
			}
		}
		usable()
		r.close()
		r.files = nil
		for _, file := range copies(t, r) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		s = r.open()
		s.Want(both)
		settled(time.Second)
		usable()
		if *unpacked != 1 {
			t.Errorf("unpacked %d times", *unpacked)
		}
		r.close()
	})
}

// What an agent of before has unpacked is of an archive only when that has been read once more.
func TestArchivesOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		unpacked := r.made()
		a := r.layer("a", "a", "good")
		s := r.open()
		s.Want([]workload.Artifact{a})
		settled(time.Second)
		file := filepath.Join(filepath.Dir(s.Look(a).Path), archivesName)
		r.close()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		gone := r.files
		r.files = nil
		for _, file := range copies(t, r) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		s = r.open()
		s.Want([]workload.Artifact{a})
		settled(time.Second)
		if got := s.Look(a); got.Path != "" {
			t.Errorf("its archive is not there: %+v", got)
		}
		r.mu.Lock()
		r.files = gone
		r.mu.Unlock()
		s.Retry([]workload.Artifact{a})
		settled(time.Minute)
		has(t, s, a, "a", "good")
		if all := s.archives(s.Look(a).Path); !slices.Equal(all, []string{a.Verification.Checksum}) || *unpacked != 1 {
			t.Errorf("unpacked %d times, known of %v", *unpacked, all)
		}
		r.close()
	})
}
