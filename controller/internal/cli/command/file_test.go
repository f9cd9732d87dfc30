package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/shared/wire"
)

// A file is replaced if that is asked for; what is no file never is.
func TestVacant(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", at("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path    string
		replace bool
		want    string // part of the error; "": none
	}{
		{at("new"), false, ""},
		{at("new"), true, ""},
		{at("none/new"), true, "its directory does not exist"},
		{at("file"), false, "the file exists"},
		{at("file"), true, ""},
		{at("link"), false, "the file exists"},
		{at("link"), true, ""},
		{at("fifo"), true, "it is not a regular file"},
		{dir, true, "it is not a regular file"},
		{os.DevNull, true, "it is not a regular file"},
	} {
		err := Vacant(c.path, c.replace)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, replace %v: %v, want %q", c.path, c.replace, err, c.want)
		}
		if err != nil && strings.Contains(Replaceable(err).Error(), "--replace") != (c.want == "the file exists") {
			t.Errorf("%s, replace %v: %v, which --replace helps or not", c.path, c.replace, err)
		}
	}
}

// What a full disk does not take has the code of that, whoever wrote it.
func TestFullDisk(t *testing.T) {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		path := filepath.Join(t.TempDir(), "new")
		err := WriteNew(path, func(io.Writer) error {
			return fmt.Errorf("writing the download: %w", &fs.PathError{Op: "write", Path: "x", Err: full})
		})
		f := AsFailure(err)
		if f.Err.Code != wire.CodeStorage || f.From.File != path ||
			!strings.Contains(f.Err.Message, "the disk is full") {
			t.Errorf("%v: %+v", full, f)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: %v", full, err)
		}
	}
}
