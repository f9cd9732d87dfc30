package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// maxFile is the size of the largest file that is read, in bytes.
const maxFile = unitconfig.MaxDocument

// Read reads a file, or standard input for "-". A file of more than maxFile bytes is a failure.
func (a *App) Read(file string) (Source, error) {
	s := Source{File: NameOf(file)}
	var err error
	if file == "-" {
		s.Text, err = io.ReadAll(io.LimitReader(a.In, maxFile+1))
	} else {
		s.Text, err = ReadFile(file)
	}
	if err != nil {
		return s, Unreadable(s.File, err)
	}
	if len(s.Text) > maxFile {
		f := Refuse(ExitUsage, wire.CodeTooLarge, "the document is larger than %s", term.Size(maxFile))
		f.From.File = s.File
		return s, f
	}
	return s, nil
}

// NameOf is what people call a file that is given as an argument.
func NameOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// ReadFile reads at most maxFile+1 bytes of a file.
func ReadFile(file string) (data []byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// FileModes says whether files of this system have modes that say who may read and execute them.
const FileModes = runtime.GOOS != "windows"

// Vacant refuses a path at which a file stands, unless replace says otherwise. What is no file, such as a device or a
// directory, is never replaced.
func Vacant(path string, replace bool) error {
	refuse := func(code wire.Code, why string) error {
		f := Refuse(ExitUsage, code, "%s", why)
		f.From.File = path
		return f
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return refuse(wire.CodeNotFound, "its directory does not exist")
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return Unreadable(path, err)
	case !durable.Replaceable(info):
		return refuse(wire.CodeAlreadyExists, "it is not a regular file and was left alone")
	case replace:
		return nil
	}
	return refuse(wire.CodeAlreadyExists, exists)
}

const exists = "the file exists and was left alone"

// Replaceable adds to an error of Vacant or Save that --replace replaces a file that exists.
func Replaceable(err error) error {
	if f, ok := errors.AsType[*Failure](err); ok && f.Err.Message == exists {
		f.Err.Message += "; --replace replaces it"
	}
	return err
}

// Save lets write fill a file (mode 0600) that appears under its name whole and durable, or not at all. It prints the
// file's size.
func (a *App) Save(path string, replace bool, write func(io.Writer) error) error {
	if err := writeFile(path, replace, write); err != nil {
		return err
	}
	return a.Saved(path)
}

// WriteNew is Save of a file that does not exist yet, and prints nothing.
func WriteNew(path string, write func(io.Writer) error) error { return writeFile(path, false, write) }

func writeFile(path string, replace bool, write func(io.Writer) error) (err error) {
	if err := Vacant(path, replace); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return Unreadable(path, err)
	}
	defer func() {
		if closing := f.Close(); closing != nil && !errors.Is(closing, fs.ErrClosed) {
			err = errors.Join(err, closing)
		}
		if err != nil {
			if rm := os.Remove(f.Name()); !errors.Is(rm, fs.ErrNotExist) {
				err = errors.Join(err, rm)
			}
		}
	}()
	if err := write(f); full(err) {
		return Unreadable(path, err)
	} else if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return Unreadable(path, err)
	}
	if err := durable.Replace(f.Name(), path); err != nil {
		return Unreadable(path, err)
	}
	return nil
}

// SavedFile is what --json prints of a file that was written.
type SavedFile struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// Saved prints the size of a file that was written.
func (a *App) Saved(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return Unreadable(path, err)
	}
	if a.JSON {
		return a.PrintJSON(SavedFile{path, info.Size()})
	}
	a.Print("wrote %s, %s\n", path, term.Size(uint64(info.Size())))
	return nil
}
