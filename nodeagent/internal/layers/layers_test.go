package layers

import (
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// A hook may be a file at the top of a tree, which is made once for all that is in it. What is not there, or leads
// elsewhere, is no hook.
func TestFileOfATree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		tree := r.layer("service", "bin/x", "y", "start", "run", "stop", "->/bin/sh", "up", "->bin")
		file := func(name string) workload.Artifact {
			a := tree
			u := *tree.Unpack
			a.Unpack, u.Path = &u, name
			return a
		}
		s := r.open()
		s.Want([]workload.Artifact{tree, file("start"), file("stop"), file("none"), file("bin"), file("up")})
		settled(time.Second)
		has(t, s, tree, "start", "run")
		whole := s.Look(tree)
		if got := s.Look(file("start")); got.State != "" || got.Path != filepath.Join(whole.Path, "start") {
			t.Errorf("a file: %+v", got)
		}
		for _, name := range []string{"stop", "none", "bin", "up"} {
			if got := s.Look(file(name)); got.State != "failed" || got.Path != "" || got.Err.Code != wire.CodeNotFound {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if r.gets["/service"] != 1 || len(r.trees()) != 8 {
			t.Errorf("fetched %v, trees %s", r.gets, r.trees())
		}
		r.close()
	})
}

// Slots that have a layer share its tree, which is fetched and made once, also when it comes as two archives; over a
// restart nothing is made again. It goes when nobody has it any more, and plain resources are as they are.
func TestOneTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		made := 0
		r.fault = func(step durable.Step, do func() error) error {
			if step == durable.Sync {
				made++
			}
			return do()
		}
		python := r.layer("python", "bin/python", "3.12", "lib/a", "->../bin/python")
		inside := archive(t, "bin/python", "3.12", "lib/a", "->../bin/python")
		again := r.serve("again", zipped(t, inside, gzip.BestSpeed), inside)
		again.Size++ // so it is another resource
		plain := r.layer("plain", "x", "y")
		plain.Unpack = nil
		s := r.open()
		if got := s.Look(python); got.State != "waiting" {
			t.Errorf("before anything is wanted: %+v", got)
		}
		s.Want([]workload.Artifact{python, plain, python})
		settled(time.Second)
		has(t, s, python, "lib/a", "3.12")
		if got := s.Look(plain); got.State != "" || got.Path != filepath.Join(r.dir, "resources/copies",
			filepath.Base(got.Path)) {
			t.Errorf("a resource that is not unpacked: %+v", got)
		}
		s.Want([]workload.Artifact{python, again})
		settled(time.Second)
		has(t, s, again, "bin/python", "3.12")
		r.close()
		s = r.open()
		s.Want([]workload.Artifact{python, again})
		settled(time.Second)
		has(t, s, python, "bin/python", "3.12")
		if made != 1 || r.gets["/python"] != 1 || r.gets["/again"] != 1 {
			t.Errorf("made %d times, fetched %v", made, r.gets)
		}
		other := r.layer("other", "x", "z")
		s.Want([]workload.Artifact{other, again})
		settled(time.Second)
		has(t, s, again, "bin/python", "3.12")
		s.Want([]workload.Artifact{other})
		settled(time.Second)
		if got, want := r.trees(), strings.TrimPrefix(other.Unpack.DiffID, "sha256:")[:8]; got != want {
			t.Errorf("left are the trees %s, want %s", got, want)
		}
		s.Want(nil)
		settled(time.Second)
		if got := r.trees(); got != "" {
			t.Errorf("left are the trees %s", got)
		}
		r.close()
	})
}

// What cannot be unpacked is refused by name, and not tried again before it changes or somebody orders it; what is
// beside it is made all the same.
func TestRefused(t *testing.T) {
	tarred, out, through := archive(t, "a", "b"), archive(t, "../../a", "b"), archive(t, "l", "->/etc", "l/a", "b")
	for name, row := range map[string]struct {
		blob, archive []byte
		want          string
	}{
		"no gzip":              {tarred, tarred, "gzip"},
		"no archive":           {zipped(t, []byte("hello"), 6), []byte("hello"), "it ends too early"},
		"another archive":      {zipped(t, tarred, 6), []byte("x"), "the digest of what is in it is"},
		"out of its tree":      {zipped(t, out, 6), out, ".."},
		"through a link":       {zipped(t, through, 6), through, "leads through"},
		"larger than it says":  {zipped(t, tarred, 6), tarred, "too large"},
		"something behind it ": {append(zipped(t, tarred, 6), 0), tarred, "behind its end"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				bad := r.serve("bad", row.blob, row.archive)
				if row.want == "too large" {
					bad.Unpack.Size -= 512
				}
				if row.want == "the digest of what is in it is" {
					bad.Unpack.Size = 1 << 20
				}
				good := r.layer("good", "x", "y")
				opened := 0
				s := r.open()
				r.fault = func(step durable.Step, do func() error) error {
					if step == durable.MakeDir {
						opened++
					}
					return do()
				}
				s.Want([]workload.Artifact{bad, good})
				settled(time.Hour)
				has(t, s, good, "x", "y")
				got := s.Look(bad)
				if got.State != "failed" || got.Err == nil || got.Err.Code != wire.CodeBadValue ||
					!strings.Contains(got.Err.Message, row.want) || !got.Next.IsZero() {
					t.Errorf("%+v, %v", got, got.Err)
				}
				if opened != 2 || r.gets["/bad"] != 1 {
					t.Errorf("tried %d times, fetched %d times", opened, r.gets["/bad"])
				}
				s.Retry([]workload.Artifact{bad})
				settled(time.Second)
				if opened != 3 {
					t.Errorf("ordered to try again, and tried %d times", opened)
				}
				if id := strings.TrimPrefix(good.Unpack.DiffID, "sha256:")[:8]; r.trees() != id {
					t.Errorf("left are the trees %s", r.trees())
				}
				r.close()
			})
		})
	}
}

func copies(t *testing.T, r *rig) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(r.dir, "resources/copies/*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range all {
		if !strings.Contains(filepath.Base(name), ".") {
			names = append(names, name)
		}
	}
	return names
}

// A tree that is not as it was made is noticed before a hook starts and after a restart, and made anew of its archive;
// where that is damaged, too, it is fetched again.
func TestDamaged(t *testing.T) {
	spoil := map[string]func(tree string) error{
		"another content": func(tree string) error {
			return errors.Join(os.Chmod(tree+"/a", 0o644), os.WriteFile(tree+"/a", []byte("tampered"), 0o644))
		},
		"another content, as it was by size and time": func(tree string) error {
			was, err := os.Stat(tree + "/a")
			if err != nil {
				return err
			}
			for range 10_000 { // until the clock of the file system has gone on
				if err := errors.Join(os.Chmod(tree+"/a", 0o644), os.WriteFile(tree+"/a", []byte("evil"), 0o644),
					os.Chmod(tree+"/a", was.Mode()), os.Chtimes(tree+"/a", was.ModTime(), was.ModTime())); err != nil {
					return err
				}
				if is, err := os.Stat(tree + "/a"); err != nil || changed(is) != changed(was) {
					return err
				}
			}
			return errors.New("the clock stands still")
		},
		"a file more":  func(tree string) error { return os.WriteFile(tree+"/more", nil, 0o444) },
		"a file less":  func(tree string) error { return os.Remove(tree + "/a") },
		"other rights": func(tree string) error { return os.Chmod(tree+"/a", 0o777) },
		"another link": func(tree string) error {
			return errors.Join(os.Remove(tree+"/l"), os.Symlink("/etc/passwd", tree+"/l"))
		},
		"no print":    func(tree string) error { return os.Remove(filepath.Join(filepath.Dir(tree), printName)) },
		"all of it":   func(tree string) error { return os.RemoveAll(filepath.Dir(tree)) },
		"a directory": func(tree string) error { return os.Mkdir(tree+"/d/e", 0o755) },
	}
	for name, spoil := range spoil {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					a := r.layer("a", "a", "good", "d/b", "more", "l", "->a")
					s := r.open()
					s.Want([]workload.Artifact{a})
					settled(time.Second)
					tree := s.Look(a).Path
					if err := use(t.Context(), s, "run", a); err != nil {
						t.Error(err)
					}
					if err := spoil(tree); err != nil {
						t.Fatal(err)
					}
					if restart {
						r.close()
						s = r.open()
						s.Want([]workload.Artifact{a})
						settled(time.Second)
					} else if err := use(t.Context(), s, "run", a); err != nil {
						t.Error(err)
					}
					has(t, s, a, "a", "good")
					has(t, s, a, "l", "good")
					if !s.intact(a.Unpack.DiffID, s.Look(a).Path, false) || r.gets["/a"] != 1 {
						t.Errorf("not whole, or fetched again: %v", r.gets)
					}
					r.close()
				})
			})
		}
	}
}

// An archive that was damaged on the disk when its tree is to be made is verified, and fetched again.
func TestDamagedArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := r.layer("a", "a", "good")
		s := r.open()
		s.Want([]workload.Artifact{a})
		settled(time.Second)
		path := copies(t, r)[0]
		if err := errors.Join(os.Chmod(path, 0o755), os.WriteFile(path, make([]byte, a.Size), 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(s.Look(a).Path + "/a"); err != nil {
			t.Fatal(err)
		}
		if err := use(t.Context(), s, "run", a); err == nil || !strings.Contains(err.Error(), "cannot be made anew") {
			t.Errorf("made of a damaged archive: %v", err)
		}
		settled(time.Minute)
		has(t, s, a, "a", "good")
		if r.gets["/a"] != 2 {
			t.Errorf("fetched %d times", r.gets["/a"])
		}
		r.close()
	})
}

// A fault at any step of making a tree leaves it unmade, and it is made the next time; a crash there likewise.
func TestFaults(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for at, came := 1, true; came && !t.Failed(); at++ {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				a := r.layer("a", "a", "good", "l", "->a")
				n, where := 0, ""
				r.fault = func(step durable.Step, do func() error) error {
					if n++; n < at || where != "" && !restart {
						return do()
					}
					if where == "" {
						where = string(step)
					}
					return syscall.EIO
				}
				s := r.open()
				s.Want([]workload.Artifact{a})
				settled(time.Second)
				if where != "" && s.Look(a).State == "" {
					t.Errorf("trouble at %s, and the tree counts: %+v", where, s.Look(a))
				}
				if restart {
					r.close()
					r.fault = nil
					s = r.open()
					s.Want([]workload.Artifact{a})
				}
				settled(time.Minute)
				has(t, s, a, "l", "good")
				if came = where != ""; !came && at < 6 {
					t.Errorf("%d steps only", at)
				}
				r.close()
			})
		}
	}
}

// Whoever waits for a tree while everything ends waits no longer.
func TestUseEnds(t *testing.T) {
	r := newRig(t)
	a := r.layer("a", "a", "b")
	s, err := Open(Config{Dir: filepath.Join(r.dir, "layers"), Blobs: none{}})
	if err != nil {
		t.Fatal(err)
	}
	s.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := use(ctx, s, "run", a); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// none has no resources.
type none struct{ Blobs }

func (none) Look(workload.Artifact) workloads.Resource { return workloads.Resource{State: "waiting"} }
