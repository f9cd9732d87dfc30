package slot

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// swappedDisk has the binary replaced, in place or by another file, once it was measured so often.
type swappedDisk struct {
	osDisk
	measured, after int
	swap            func(path string)
}

type swapped struct {
	io.ReadCloser
	swap func()
}

func (s swapped) Close() error {
	defer s.swap()
	return s.ReadCloser.Close()
}

func (d *swappedDisk) Open(name string) (io.ReadCloser, error) {
	f, err := d.osDisk.Open(name)
	return swapped{f, func() {
		if d.measured++; d.measured == d.after {
			d.swap(d.path(name))
		}
	}}, err
}

// Whoever can write to the slot does not get executed what was not measured.
func TestSwapBetweenMeasuringAndExecuting(t *testing.T) {
	for _, how := range []string{"in place", "by another file"} {
		dir := filepath.Join(t.TempDir(), "slots")
		ran := filepath.Join(t.TempDir(), "ran")
		d := &swappedDisk{osDisk: osDisk{dir, nil}, after: 1, swap: func(path string) {
			if how != "in place" {
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
			}
			if err := os.WriteFile(path, []byte("#!/bin/sh\necho tandem-node 2; : >"+ran+"\n"), 0o755); err != nil {
				t.Error(err)
			}
		}}
		_, err := Open(Config{Dir: dir, Disk: d}).Stage(t.Context(), Source{File: script(t, "2")})
		if !errors.Is(err, errAltered) {
			t.Errorf("%s: %v", how, err)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: it ran", how)
		}
	}
}

// What is executed is the copy that was measured, and nobody can alter that, nor keep it from having no_new_privs.
func TestSealed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tandem-node")
	const text = "#!/bin/sh\necho tandem-node $(grep NoNewPrivs /proc/self/status | tr -d '\\t:')\n"
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	copied, hash, err := seal(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if copied == nil {
		t.Skip("NOT TRIED: this kernel executes nothing in memory (vm.memfd_noexec)")
	}
	defer copied.Close()
	if _, err := copied.WriteAt([]byte("x"), 0); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a sealed file was written: %v", err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\necho tandem-node evil\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if v, err := start(t.Context(), file, copied); err != nil || v != "NoNewPrivs1" {
		t.Errorf("%q %v", v, err)
	}
	if _, err := Version(t.Context(), file, hash); !errors.Is(err, errAltered) {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Version(t.Context(), file, ""); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("what cannot be executed where it is: %v", err)
	}
}

// Below its directory a disk follows no links, and waits for no writer of a FIFO.
func TestDiskFollowsNoLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	d := OpenDisk(dir, nil)
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(filepath.Join(other, "f"), nil, 0o600),
		os.Symlink(filepath.Join(other, "f"), in("f")),
		os.Symlink(filepath.Join(other, "new"), in("new")), os.Symlink(other, in("a")),
		syscall.Mkfifo(in("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f", "new", "fifo"} {
		if _, err := d.Read(name, 1); err == nil {
			t.Errorf("%s was read", name)
		}
		if _, err := d.Lock(name, 0); err == nil {
			t.Errorf("%s was locked", name)
		}
	}
	if err := d.Mkdir("a"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a link is a directory: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(other, "new")); err == nil {
		t.Error("a file was made through a link")
	}
}
