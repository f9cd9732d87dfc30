package tree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/shared/durable"
)

// TestWhatIsUnpacked: kinds, modes, links, what is there twice, and what is in no layer but hidden by it.
func TestWhatIsUnpacked(t *testing.T) {
	old := syscall.Umask(0o077) // as the packaged unit has it
	defer syscall.Umask(old)
	s, _ := open(t)
	path, ref := add(t, s, dir("./"), dir("bin/").with(0o700), file("bin/sh", "shell").with(0o4711),
		hard("bin/ash", "/bin/sh"), file("/etc/shadow", "x").with(0o600),
		file("etc/conf", "first"), symlink("etc/conf", "shadow"),
		symlink("etc/up", "../../../secret"), file("etc/up", "replaced"), symlink("run", "/var/run"),
		file("a/b//c/./d", ""), file("twice", "first, longer"), hard("kept", "twice"),
		file("twice", "second"), dir("bin"), hard("l", "run"),
		file("gone/.wh.x", ""), hard("gone/.wh.also", "gone/.wh.x"), file("gone/.wh.x", ""),
		file("new/.wh..wh..opq", ""), dir("tmp").with(0o1777))
	const want = "drwxr-xr-x a\ndrwxr-xr-x a/b\ndrwxr-xr-x a/b/c\n-r--r--r-- a/b/c/d \n" +
		"drwxr-xr-x bin\n-r-xr-xr-x bin/ash shell\n-r-xr-xr-x bin/sh shell\n" +
		"drwxr-xr-x etc\nLrwxrwxrwx etc/conf -> shadow\n-r--r--r-- etc/shadow x\n-r--r--r-- etc/up replaced\n" +
		"drwxr-xr-x gone\n-r--r--r-- kept first, longer\nLrwxrwxrwx l -> /var/run\ndrwxr-xr-x new\n" +
		"Lrwxrwxrwx run -> /var/run\ndrwxr-xr-x tmp\n-r--r--r-- twice second\n"
	if got := listing(t, path); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(path, "twice")); err != nil || info.ModTime().Unix() != 1234567890 {
		t.Errorf("%v %v", info, err)
	}
	hidden, err := Whiteouts(path)
	if want := []string{"gone/also", "gone/x", "new"}; err != nil || !slices.Equal(hidden, want) {
		t.Errorf("%q %v", hidden, err)
	}
	if got, ok := reopen(t, s.Dir).Path(ref.DiffID); !ok || got != path {
		t.Errorf("%q %v", got, ok)
	}
	modes := func(top os.FileMode) {
		t.Helper()
		for d, perm := range map[string]os.FileMode{s.Dir: top, filepath.Dir(path): 0o711} {
			if info, err := os.Stat(d); err != nil || info.Mode().Perm() != perm {
				t.Errorf("%s: %v %v", d, info, err)
			}
		}
	}
	modes(0o700)
	if err := os.Chmod(s.Dir, 0o757); err != nil { // others were let pass, and more
		t.Fatal(err)
	}
	reopen(t, s.Dir)
	modes(0o711)
}

// TestWhiteouts: of a layer that hides nothing, and of one that hides all.
func TestWhiteouts(t *testing.T) {
	s, _ := open(t)
	none, _ := add(t, s, file("f", ""))
	all, _ := add(t, s, file(".wh..wh..opq", ""), file("with\nnewline/.wh.x", ""))
	if hidden, err := Whiteouts(none); err != nil || hidden != nil {
		t.Errorf("%q %v", hidden, err)
	}
	if hidden, err := Whiteouts(all); err != nil || !slices.Equal(hidden, []string{".", "with\nnewline/x"}) {
		t.Errorf("%q %v", hidden, err)
	}
}

// TestBounds: what is just possible.
func TestBounds(t *testing.T) {
	s, _ := open(t)
	archive := tarOf(deep(3, "12345"), file("a", strings.Repeat("x", 1000)))
	s.Limits = Limits{Bytes: int64(len(archive)), Entries: 5, Depth: 4, Name: 5}
	blob, ref := packed(archive)
	if _, err := s.Add(t.Context(), bytes.NewReader(blob), ref); err != nil {
		t.Error(err)
	}
	long, _ := open(t)
	name := strings.Repeat("n", 100) + "/" + strings.Repeat("m", 99)
	if path, _ := add(t, long, file(name, "x")); listing(t, filepath.Join(path, filepath.Dir(name))) == "" {
		t.Error("a name in two parts")
	}
	path, _ := add(t, long, deep(63, "x"))
	if err := os.RemoveAll(path); err != nil {
		t.Error(err)
	}
}

// TestIsNotUnpackedAgain: a layer that is there is only read, and is of no blob that does not have it, or is damaged.
func TestIsNotUnpackedAgain(t *testing.T) {
	s, _ := open(t)
	path, ref := add(t, s, file("a", ""))
	s.Around = func(step durable.Step, _ func() error) error { return errors.New(string(step)) }
	blob, same := layer(file("a", ""))
	other, wrong := layer(file("b", ""))
	wrong.DiffID = ref.DiffID
	small := func(l *Limits) { l.Bytes = 100 }
	for _, row := range []struct {
		blob   io.Reader
		ref    Ref
		limits func(*Limits)
		want   error
	}{
		{bytes.NewReader(blob), same, nil, nil},
		{bytes.NewReader(other), wrong, nil, ErrRefused},
		{bytes.NewReader(blob), same, small, ErrRefused},
		{bytes.NewReader(blob), wrong, nil, ErrDamaged},
		{bytes.NewReader(blob[:10]), same, nil, ErrDamaged},
		{failing{syscall.EIO}, ref, nil, syscall.EIO},
	} {
		s.Limits = Limits{}
		if row.limits != nil {
			row.limits(&s.Limits)
		}
		if got, err := s.Add(t.Context(), row.blob, row.ref); !errors.Is(err, row.want) || err == nil && got != path {
			t.Errorf("%q, %v; want %v", got, err, row.want)
		}
	}
}

// TestRestsOfAFailedRemoval: what an attempt has left because it could not even be removed is in no tree.
func TestRestsOfAFailedRemoval(t *testing.T) {
	s, _ := open(t)
	_, ref := layer(file("a", ""))
	if err := os.MkdirAll(filepath.Join(s.Dir, newPrefix+ref.DiffID[7:], treeName, "rest"), 0o700); err != nil {
		t.Fatal(err)
	}
	if path, _ := add(t, s, file("a", "")); listing(t, path) != "-r--r--r-- a \n" {
		t.Error(listing(t, path))
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestReaderFails: that is the reader's error, not one of the layer. A call that is given up ends.
func TestReaderFails(t *testing.T) {
	s, outside := open(t)
	blob, ref := layer(file("a", strings.Repeat("content", 1000)))
	before := listing(t, outside)
	for _, n := range []int64{0, 5, 20, int64(len(blob)) - 1, int64(len(blob))} {
		in := io.MultiReader(io.LimitReader(bytes.NewReader(blob), n), failing{syscall.EIO})
		if _, err := s.Add(t.Context(), in, ref); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDamaged) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	entered, done := make(chan struct{}), make(chan error, 1)
	s.Around = func(step durable.Step, do func() error) error {
		if step == durable.Write {
			close(entered)
			<-ctx.Done()
		}
		return do()
	}
	go func() {
		_, err := s.Add(ctx, bytes.NewReader(blob), ref)
		done <- err
	}()
	<-entered
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if after := listing(t, outside); after != before {
		t.Errorf("left\n%s", after)
	}
}
