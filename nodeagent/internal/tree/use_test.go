package tree

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestKeep: of all layers those are left that are named or used; what another has put there is not touched.
func TestKeep(t *testing.T) {
	s, _ := open(t)
	_, a := add(t, s, file("a", ""))
	b, bRef := add(t, s, file("b", ""))
	_, c := add(t, s, dir("d"), file("d/c", "").with(0o555))
	if err := os.WriteFile(filepath.Join(s.Dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"one", "two"} {
		if used, err := s.Use(bRef.DiffID, by, false); err != nil || used != b {
			t.Fatal(used, err)
		}
	}
	there := func() (out string) {
		for _, r := range []Ref{a, bRef, c} {
			if path, ok := s.Path(r.DiffID); ok {
				out += listing(t, path)
			}
		}
		return out
	}
	left := func(by string) func() { return func() { s.Leave(by) } }
	steps := []struct {
		do   func()
		keep []string
		want string
	}{
		{func() {}, []string{a.DiffID, c.DiffID}, "-r--r--r-- a \n-r--r--r-- b \ndrwxr-xr-x d\n-r-xr-xr-x d/c \n"},
		{left("none"), []string{a.DiffID}, "-r--r--r-- a \n-r--r--r-- b \n"},
		{left("one"), nil, "-r--r--r-- b \n"},
		{left("two"), nil, ""},
	}
	for i, step := range steps {
		step.do()
		if err := s.Keep(step.keep); err != nil || there() != step.want {
			t.Errorf("step %d: %v\n%s", i, err, there())
		}
	}
	if _, err := s.Use(bRef.DiffID, "one", false); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
	if got := listing(t, s.Dir); got != "-rw------- mine \n" {
		t.Errorf("left\n%s", got)
	}
}

// TestSetAside: a tree that is to go while somebody uses it stays where it is, and the new one is beside it; also when
// the agent is started anew in between, at any point. It goes when nobody has it any more.
func TestSetAside(t *testing.T) {
	for _, restart := range []bool{false, true} {
		s, _ := open(t)
		again := func() {
			if restart {
				s = reopen(t, s.Dir)
			}
		}
		old, ref := add(t, s, file("a", "content"))
		all := []string{"one", "two", "late"}
		used := func() {
			for _, by := range all {
				if _, err := s.Use(ref.DiffID, by, true); err != nil && !errors.Is(err, ErrAbsent) {
					t.Error(err)
				}
			}
		}
		used() // of before the agent was started: nobody says which trees
		inside := func(path, want string) {
			t.Helper()
			if got := listing(t, path); got != want {
				t.Errorf("restart %v: %s has\n%s", restart, path, got)
			}
		}
		const whole = "-r--r--r-- a content\n"
		if err := s.Remove(ref.DiffID, "late"); err != nil {
			t.Fatal(err)
		}
		again()
		if _, ok := s.Path(ref.DiffID); ok {
			t.Error("what was set aside is found")
		}
		inside(old, whole)
		blob, _ := layer(file("a", "content"))
		path, err := s.Add(t.Context(), bytes.NewReader(blob), ref)
		if err != nil || path == old {
			t.Fatal(path, err)
		}
		again()
		used()
		if got, err := s.Use(ref.DiffID, "two", false); err != nil || got != path { // it was not started yet
			t.Error(got, err)
		}
		if got, err := s.Use(ref.DiffID, "later", false); err != nil || got != path {
			t.Error(got, err)
		}
		if got, ok := s.Path(ref.DiffID); !ok || got != path {
			t.Error(got, ok)
		}
		var have []string
		for _, by := range append(all, "later") {
			if s.Old(by) == ref.DiffID[len(scheme):] {
				have = append(have, by)
			}
		}
		if !slices.Equal(have, []string{"one"}) {
			t.Errorf("restart %v: %v have the old tree", restart, have)
		}
		if err := s.Keep(nil); err != nil {
			t.Error(err)
		}
		inside(old, whole)
		inside(path, whole)
		// the new one, too, while both are used
		if err := s.Remove(ref.DiffID, ""); err != nil {
			t.Error(err)
		}
		third, err := s.Add(t.Context(), bytes.NewReader(blob), ref)
		if err != nil || third == old || third == path {
			t.Error(third, err)
		}
		s.Leave("one")
		all = []string{"later"}
		if again(); restart {
			used()
		}
		if err := s.Keep([]string{ref.DiffID}); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Dir(old)); !os.IsNotExist(err) {
			t.Errorf("restart %v: nobody uses it, and it is there: %v", restart, err)
		}
		inside(path, whole)
		for _, by := range []string{"two", "late", "later"} {
			s.Leave(by)
		}
		if err := s.Keep(nil); err != nil || listing(t, s.Dir) != "" {
			t.Errorf("%v: left\n%s", err, listing(t, s.Dir))
		}
	}
}

// TestUsersCannotBeRead: what was set aside stays as long as it is not known who has it.
func TestUsersCannotBeRead(t *testing.T) {
	for name, damage := range map[string]func(file string) error{
		"no file":   func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
		"empty":     func(file string) error { return os.Truncate(file, 0) },
		"too large": func(file string) error { return os.Truncate(file, maxUsers+1) },
	} {
		s, _ := open(t)
		path, ref := add(t, s, file("a", "content"))
		for _, by := range []string{"one", "two"} {
			if _, err := s.Use(ref.DiffID, by, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Remove(ref.DiffID, "two"); err != nil {
			t.Fatal(err)
		}
		users := filepath.Join(filepath.Dir(path), usersName)
		whole, err := os.ReadFile(users)
		if err := errors.Join(err, damage(users)); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, s.Dir)
		_, there := s.Path(ref.DiffID)
		s.Leave("two")
		if err := s.Keep(nil); err != nil || there || listing(t, path) != "-r--r--r-- a content\n" {
			t.Errorf("%s: found %v, left %q, %v", name, there, listing(t, path), err)
		}
		if err := errors.Join(os.RemoveAll(users), os.WriteFile(users, whole, 0o600)); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, s.Dir)
		if err := s.Keep(nil); err != nil || listing(t, s.Dir) != "" {
			t.Errorf("%s: nobody has it, and left is %q, %v", name, listing(t, s.Dir), err)
		}
	}
}

// TestTreeGone: a layer whose tree somebody has taken away can be added again.
func TestTreeGone(t *testing.T) {
	s, _ := open(t)
	path, ref := add(t, s, file("a", ""), file(".wh.b", ""))
	for _, again := range []bool{false, true} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if again {
			s = reopen(t, s.Dir)
		}
		if got, _ := add(t, s, file("a", ""), file(".wh.b", "")); got != path || listing(t, got) != "-r--r--r-- a \n" {
			t.Errorf("%s: %s", got, listing(t, got))
		}
	}
	if got, ok := s.Path(ref.DiffID); !ok || got != path {
		t.Error(got, ok)
	}
}

// TestRoomIsAskedFor: whatever entries an archive has, no more of the disk is taken than was asked for before; and
// without room nothing is left.
//
// In memory directories and names take no room, so it looks at a disk.
func TestRoomIsAskedFor(t *testing.T) {
	many := func(each func(name string) item) (all []item) {
		for i := range 120 {
			all = append(all, each("a/"+strings.Repeat("x", i%70)+string(rune('a'+i%26))+strings.Repeat("y", i/26)))
		}
		return all
	}
	for name, items := range map[string][]item{
		"directories":             many(dir),
		"directories of paths":    {deep(60, "x"), file(strings.Repeat("e/", 60)+"x", "")},
		"empty files":             many(func(n string) item { return file(n, "") }),
		"small files":             many(func(n string) item { return file(n, "x") }),
		"files beyond a block":    many(func(n string) item { return file(n, strings.Repeat("x", cluster+1)) }),
		"symbolic links":          many(func(n string) item { return symlink(n, strings.Repeat("z", 99)) }),
		"hard links":              append([]item{file("f", "")}, many(func(n string) item { return hard(n, "f") })...),
		"whiteouts":               many(func(n string) item { return file(".wh."+n[2:], "") }),
		"one large file":          {file("f", strings.Repeat("x", 1<<20))},
		"larger than its archive": {{name: "f", body: "x"}},
	} {
		s := reopen(t, filepath.Join(onDisk(t), "layers"))
		asked, most := int64(0), int64(1<<40)
		had := int64(0)
		s.Limits.Full = func(taken int64) { had = taken }
		s.Limits.Room = func(bytes int64) error {
			if asked += bytes; asked > most {
				return syscall.ENOSPC
			}
			return nil
		}
		blob, ref := layer(items...)
		path, err := s.Add(t.Context(), bytes.NewReader(blob), ref)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		used := int64(0)
		if err := filepath.WalkDir(path, func(at string, _ fs.DirEntry, err error) error {
			var st syscall.Stat_t
			if at != path && syscall.Lstat(at, &st) == nil && (st.Nlink == 1 || st.Mode&syscall.S_IFDIR != 0) {
				used += st.Blocks * 512
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if asked < used || asked > used+used/2+int64(len(items)+4)*2*cluster {
			t.Errorf("%s: it takes %d bytes, and %d were asked for", name, used, asked)
		}
		if err := s.Keep(nil); err != nil {
			t.Error(err)
		}
		asked, most = 0, asked-1
		if _, err := s.Add(t.Context(), bytes.NewReader(blob), ref); !errors.Is(err, syscall.ENOSPC) ||
			had > used+3*cluster || had == 0 ||
			errors.Is(err, ErrRefused) || listing(t, s.Dir) != "" {
			t.Errorf("%s, without room: %v, left\n%s", name, err, listing(t, s.Dir))
		}
	}
}

// onDisk returns a directory that is not in memory, as temporary ones may be.
func onDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "tandem-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
