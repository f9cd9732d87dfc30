package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// calls is every call of the seam, in order.
var calls = []Step{Create, Write, Write, Sync, Rename, SyncDir}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "(none)"
	} else if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestStepsInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var got []Step
	if err := WriteFile(path, []byte("new"), 0o640,
		func(s Step) error { got = append(got, s); return nil }); err != nil || !slices.Equal(got, calls) {
		t.Errorf("%v %v", got, err)
	}
	stat, err := os.Stat(path)
	if err != nil || stat.Mode() != 0o640 {
		t.Errorf("%v %v", stat.Mode(), err)
	}
}

type crash struct{}

// Fails or crashes before every step, with an old file and without, and looks at what is left.
func TestFaultAtEveryStep(t *testing.T) {
	const whole = "the new content"
	full := fmt.Errorf("seam: %w", syscall.ENOSPC)
	for _, old := range []string{"(none)", "the old, longer content"} {
		for at, step := range calls {
			for _, crashes := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d-%s/crash=%v/old=%v", at, step, crashes, old != "(none)"), func(t *testing.T) {
					dir := t.TempDir()
					path := filepath.Join(dir, "f.json")
					if old != "(none)" {
						if err := WriteFile(path, []byte(old), 0o600, nil); err != nil {
							t.Fatal(err)
						}
					}
					call := 0
					steps := func(Step) error {
						if call++; call-1 != at {
							return nil
						}
						if crashes {
							panic(crash{})
						}
						return full
					}
					err := func() (err error) {
						defer func() {
							if r := recover(); r != nil {
								if r != (crash{}) {
									panic(r)
								}
								err = full
							}
						}()
						return WriteFile(path, []byte(whole), 0o600, steps)
					}()
					if !errors.Is(err, syscall.ENOSPC) {
						t.Errorf("error %v", err)
					}
					want := old
					if step == SyncDir {
						want = whole
					}
					if got := content(t, path); got != want {
						t.Errorf("content %q, want %q", got, want)
					}
					left := slices.DeleteFunc(names(t, dir), func(n string) bool { return n == "f.json" })
					inside := step != Create && step != SyncDir
					if (len(left) != 0) != (crashes && inside) {
						t.Errorf("left behind: %q", left)
					}
					if crashes && at == 2 {
						if got := content(t, filepath.Join(dir, left[0])); got != whole[:len(whole)/2] {
							t.Errorf("not a short write: %q", got)
						}
					}
					// The next start: clean up, then write again.
					if err := Clean(path); err != nil {
						t.Error(err)
					}
					if got := content(t, path); got != want {
						t.Errorf("after Clean: %q, want %q", got, want)
					}
					if err := WriteFile(path, []byte(whole), 0o600, nil); err != nil || content(t, path) != whole {
						t.Errorf("after the fault: %q %v", content(t, path), err)
					}
					if got := names(t, dir); len(got) != 1 {
						t.Errorf("files: %q", got)
					}
				})
			}
		}
	}
}

func TestRealErrors(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "no", "f"), nil, 0o600, nil); !errors.Is(err, fs.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "replace ") {
		t.Errorf("no directory: %v", err)
	}
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(sub, []byte("x"), 0o600, nil); err == nil {
		t.Error("a directory was replaced")
	}
	if err := WriteFile(filepath.Join(dir, strings.Repeat("x", 250)), nil, 0o600, nil); !errors.Is(err,
		syscall.ENAMETOOLONG) {
		t.Errorf("long name: %v", err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"sub"}) {
		t.Errorf("left: %q", got)
	}
}

func TestRelativePathAndEmptyData(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := WriteFile("f", nil, 0o600, nil); err != nil || content(t, "f") != "" {
		t.Errorf("%q %v", content(t, "f"), err)
	}
	if err := os.WriteFile(".f.tmp12", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Clean("f"); err != nil {
		t.Error(err)
	}
	if err := Remove("f"); err != nil {
		t.Error(err)
	}
	if err := Remove("f"); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if got := names(t, "."); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

func TestCleanTakesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	keep := []string{".a.tmp", ".a.tmp1x", ".a.tmpl", ".ab.tmp1", "a", "a.tmp1", ".a[*].tmp3"}
	for _, n := range append([]string{".a.tmp1", ".a.tmp0123456789"}, keep...) {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".a.tmp77"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Clean(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	want := append([]string{".a.tmp77"}, keep...)
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := Clean(filepath.Join(dir, "none", "a")); err != nil {
		t.Errorf("no directory: %v", err)
	}
}

func TestLinkIsReplaced(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "target"), filepath.Join(dir, "f")
	if err := os.WriteFile(target, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("new"), 0o600, nil); err != nil || content(t, target) != "t" ||
		content(t, path) != "new" {
		t.Errorf("%v: target %q, path %q", err, content(t, target), content(t, path))
	}
}

// A reader never sees anything but a whole version.
func TestReadersSeeWholeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	versions := [][]byte{bytes.Repeat([]byte("a"), 5000), bytes.Repeat([]byte("b"), 70000)}
	if err := WriteFile(path, versions[0], 0o600, nil); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(got, versions[0]) && !bytes.Equal(got, versions[1]) {
				t.Errorf("%d bytes, %v", len(got), err)
				return
			}
		}
	}()
	for i := range 100 {
		if err := WriteFile(path, versions[i%2], 0o600, nil); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-done
}

// TestReadFile: what is read is a regular file within its limit; a FIFO would wait for a writer for ever.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadFile(file, 5); err != nil || string(data) != "12345" {
		t.Errorf("%q %v", data, err)
	}
	for _, c := range []struct{ path, want string }{
		{file, "more than 4 bytes"}, {fifo, "not a regular file"}, {dir, "not a regular file"},
		{filepath.Join(dir, "none"), "no such file"},
	} {
		if data, err := ReadFile(c.path, 4); err == nil || data != nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %q %v", c.path, data, err)
		}
	}
}
