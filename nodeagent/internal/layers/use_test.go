package layers

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/workload"
)

// made counts the trees that are unpacked.
func (r *rig) made() *int {
	n := new(int)
	r.fault = func(step durable.Step, do func() error) error {
		if step == durable.Sync {
			*n++
		}
		return do()
	}
	return n
}

// write puts another content into a file of a tree.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// A run is told where its resources are: several may be of one tree, which is looked at once.
func TestWhereResourcesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		all := map[string]workload.Artifact{"tree": r.layer("a", "start", "good", "to", "->/bin/sh")}
		part := func(name string) workload.Artifact {
			a := all["tree"]
			a.Unpack = &workload.Unpack{DiffID: a.Unpack.DiffID, Size: a.Unpack.Size, Path: name}
			return a
		}
		all["hook"], all["plain"] = part("start"), r.layer("plain", "b", "good")
		all["plain"] = workload.Artifact{Class: workload.Resource, URLs: all["plain"].URLs, Size: all["plain"].Size,
			Verification: all["plain"].Verification}
		s := r.open()
		s.Want(slices.Collect(maps.Values(all)))
		settled(time.Second)
		all["absent"] = workload.Artifact{UUID: "absent"}
		paths, err := s.Use(t.Context(), "run", all)
		tree := s.Look(all["tree"]).Path
		if err != nil || tree == "" || !maps.Equal(paths, map[string]string{"tree": tree, "hook": tree + "/start",
			"plain": s.Look(all["plain"]).Path}) {
			t.Errorf("%v, %v", paths, err)
		}
		for _, name := range []string{"to", "none"} {
			all["hook"] = part(name)
			if _, err := s.Use(t.Context(), "run", all); err == nil || !strings.HasPrefix(err.Error(),
				`the resource "hook": `) || !strings.Contains(err.Error(), "has no file") {
				t.Errorf("%s: %v", name, err)
			}
		}
		r.close()
	})
}

// A damaged tree that cannot be removed goes later, without anything being wanted or ended.
func TestDamagedTreeGoesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := r.layer("a", "a", "good")
		fails := 0
		r.fault = func(step durable.Step, do func() error) error {
			r.mu.Lock()
			no := fails > 0 && step == durable.Delete
			if no {
				fails--
			}
			r.mu.Unlock()
			if no {
				return syscall.EIO
			}
			return do()
		}
		s := r.open()
		s.trees.Around = r.fault
		s.Want([]workload.Artifact{a})
		settled(time.Second)
		write(t, s.Look(a).Path+"/a", "evil")
		r.mu.Lock()
		fails = 1
		r.mu.Unlock()
		if err := use(t.Context(), s, "run", a); err == nil {
			t.Error("the disk is broken, and it is started")
		}
		if n := len(strings.Fields(r.trees())); n != 1 {
			t.Errorf("%d trees are there: %s", n, r.trees())
		}
		settled(time.Minute)
		has(t, s, a, "a", "good")
		if n := len(strings.Fields(r.trees())); n != 1 {
			t.Errorf("%d trees are left: %s", n, r.trees())
		}
		r.close()
	})
}

// A damaged tree stays as it is, where it is, for the runs that have it, also over a restart of the agent; what is
// started gets one that was made beside it. It goes with the last of these runs.
func TestDamagedInUse(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			a := r.layer("a", "a", "good", "b", "good")
			all := []string{"one", "two"}
			s := r.open()
			s.Want([]workload.Artifact{a})
			settled(time.Second)
			old := s.Look(a).Path
			for _, run := range all {
				if err := use(t.Context(), s, run, a); err != nil {
					t.Error(err)
				}
			}
			restarted := func() {
				r.close()
				s = r.open()
				for _, run := range all {
					s.Used(run, map[string]workload.Artifact{"layer": a})
				}
				s.Want([]workload.Artifact{a})
				settled(time.Second)
			}
			write(t, old+"/a", "evil")
			if restart {
				restarted()
			}
			all = append(all, "three")
			for range 2 {
				if err := use(t.Context(), s, "three", a); err != nil {
					t.Error(err)
				}
			}
			settled(time.Second)
			has(t, s, a, "a", "good")
			if is := s.Look(a).Path; is == old || filepath.Dir(filepath.Dir(is)) != filepath.Dir(filepath.Dir(old)) {
				t.Errorf("it is at %s, and was at %s", is, old)
			}
			still := func(want map[string]bool) {
				t.Helper()
				for run, yes := range want {
					if (s.Outdated(run) == filepath.Base(filepath.Dir(old))) != yes {
						t.Errorf("restart %v: %s has the damaged one: %v", restart, run, !yes)
					}
				}
				if b, err := os.ReadFile(old + "/b"); string(b) != "good" {
					t.Errorf("restart %v: under what runs: %q, %v", restart, b, err)
				}
			}
			still(map[string]bool{"one": true, "two": true, "three": false, "four": false})
			if restart {
				restarted()
				still(map[string]bool{"one": true, "two": true, "three": false})
				has(t, s, a, "a", "good")
			}
			s.Free("one")
			settled(time.Second)
			still(map[string]bool{"one": false, "two": true})
			s.Free("two")
			settled(time.Second)
			if _, err := os.Lstat(old); !os.IsNotExist(err) {
				t.Errorf("nobody has it: %v", err)
			}
			has(t, s, a, "b", "good")
			if r.gets["/a"] != 1 {
				t.Errorf("fetched %v", r.gets)
			}
			s.Want(nil)
			settled(time.Second)
			if r.trees() == "" {
				t.Error("it went from under what runs")
			}
			s.Free("three")
			settled(time.Second)
			if r.trees() != "" {
				t.Errorf("left are the trees %s", r.trees())
			}
			r.close()
		})
	}
}

// A tree that nobody else has is made anew in its place.
func TestDamagedForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := r.layer("a", "a", "good")
		s := r.open()
		s.Want([]workload.Artifact{a})
		settled(time.Second)
		if err := use(t.Context(), s, "one", a); err != nil {
			t.Error(err)
		}
		old := s.Look(a).Path
		write(t, old+"/a", "evil")
		if err := use(t.Context(), s, "one", a); err != nil || s.Look(a).Path != old || s.Outdated("one") != "" {
			t.Errorf("it is at %s, and was at %s: %v", s.Look(a).Path, old, err)
		}
		has(t, s, a, "a", "good")
		r.close()
	})
}

// A tree of whose files hard links were made, for a container without overlays, is as it was made; and it is seen when
// somebody has changed one of them.
func TestHardLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		made := r.made()
		a := r.layer("a", "a", "good", "d/b", "more", "l", "->a")
		s := r.open()
		s.Want([]workload.Artifact{a})
		settled(time.Second)
		tree := s.Look(a).Path
		touch := func(how func(n string) error) {
			was, err := os.Stat(tree + "/d/b")
			if err != nil {
				t.Fatal(err)
			}
			for n := r.dir + "/link"; ; { // until the clock of the file system has gone on
				if err := errors.Join(how(n), os.Remove(n)); err != nil {
					t.Fatal(err)
				}
				if is, err := os.Stat(tree + "/d/b"); err != nil || changed(is) != changed(was) {
					return
				}
			}
		}
		link := func(to string) error { return os.Link(tree+"/d/b", to) }
		use := func(want int) {
			t.Helper()
			if err := use(t.Context(), s, "run", a); err != nil {
				t.Error(err)
			}
			has(t, s, a, "d/b", "more")
			if *made != want {
				t.Errorf("made %d times", *made)
			}
		}
		touch(link)
		use(1)
		if !s.intact(a.Unpack.DiffID, tree, false) {
			t.Error("all of it is read again at the next start")
		}
		touch(link)
		r.close()
		s = r.open()
		s.Want([]workload.Artifact{a})
		settled(time.Second)
		use(1)
		touch(func(to string) error {
			write(t, tree+"/d/b", "evil")
			return errors.Join(os.Chmod(tree+"/d/b", 0o444), link(to))
		})
		use(2)
		r.close()
	})
}

// A tree that lies under another digest than that of what it was made of, or hides something else, does not count.
func TestOfAnotherArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		made := r.made()
		a, b := r.layer("a", "x", "of a", ".wh.y", ""), r.layer("b", "x", "of b")
		s := r.open()
		s.Want([]workload.Artifact{a, b})
		settled(time.Second)
		one, two := filepath.Dir(s.Look(a).Path), filepath.Dir(s.Look(b).Path)
		r.close()
		if err := errors.Join(os.Rename(one, one+"x"), os.Rename(two, one), os.Rename(one+"x", two)); err != nil {
			t.Fatal(err)
		}
		s = r.open()
		s.Want([]workload.Artifact{a, b})
		settled(time.Second)
		has(t, s, a, "x", "of a")
		has(t, s, b, "x", "of b")
		if *made != 4 {
			t.Errorf("made %d times", *made)
		}
		if err := os.WriteFile(filepath.Join(one, "whiteouts"), []byte("x\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := use(t.Context(), s, "run", a); err != nil || *made != 5 {
			t.Errorf("made %d times: %v", *made, err)
		}
		r.close()
	})
}

// What an agent of before has made counts: it wrote down less of it.
func TestPrintOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		made := r.made()
		a := r.layer("a", "a", "good")
		s := r.open()
		s.Want([]workload.Artifact{a})
		settled(time.Second)
		file := filepath.Join(filepath.Dir(s.Look(a).Path), printName)
		data, err := os.ReadFile(file)
		text, _, _ := strings.Cut(string(data), " ")
		if err != nil || os.WriteFile(file, []byte(text), 0o600) != nil {
			t.Fatal(err)
		}
		if err := use(t.Context(), s, "run", a); err != nil || *made != 1 {
			t.Errorf("made %d times: %v", *made, err)
		}
		write(t, s.Look(a).Path+"/a", "evil")
		if err := use(t.Context(), s, "run", a); err != nil || *made != 2 {
			t.Errorf("made %d times: %v", *made, err)
		}
		has(t, s, a, "a", "good")
		r.close()
	})
}
