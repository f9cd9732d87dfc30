package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Around does a step of a Part, of Move or of Unlink: do is the step. A test may leave it out, fail although it was
// done, or panic before or after it, which leaves the disk as a crash would. Nil does the step.
type Around func(step Step, do func() error) error

// Do does a step.
func (a Around) Do(step Step, do func() error) error {
	if a == nil {
		return do()
	}
	return a(step, do)
}

// The steps that WriteFile does not have.
const (
	MakeDir Step = "mkdir"  // create a directory
	Delete  Step = "delete" // remove a file
)

// ErrDiscarded says that a Part is gone: the disk failed to flush it, and a later flush could report success without
// the data.
var ErrDiscarded = errors.New("the disk did not keep what was written; the part was discarded")

// Part is a large file that grows piece by piece. What Durable counts survives a power cut. One goroutine uses it. Move
// gives it its final name.
type Part struct {
	path    string
	file    *os.File
	size    int64 // written
	durable int64 // of them, flushed
	around  Around
}

// OpenPart opens the part at path, or creates an empty one with mode 0600. What it finds there is flushed before it
// counts.
func OpenPart(path string, around Around) (*Part, error) {
	p := &Part{path: path, around: around}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return p, p.create()
	}
	if err != nil {
		return nil, err
	}
	p.file = f
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p.size = info.Size()
	return p, p.Sync()
}

func (p *Part) create() error {
	err := p.around.Do(Create, func() (err error) {
		p.file, err = os.OpenFile(p.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err == nil {
		err = p.around.Do(SyncDir, func() error { return SettleDir(filepath.Dir(p.path)) })
	}
	if err != nil {
		return errors.Join(err, p.discard())
	}
	return nil
}

// Durable is how many bytes survive a power cut.
func (p *Part) Durable() int64 { return p.durable }

// Size is how many bytes were written.
func (p *Part) Size() int64 { return p.size }

// Append writes b behind what was written. After an error there is what Durable counts, and no more; with
// ErrDiscarded, nothing.
func (p *Part) Append(b []byte) error {
	err := p.around.Do(Write, func() error {
		_, err := p.file.WriteAt(b, p.size)
		return err
	})
	if err == nil {
		p.size += int64(len(b))
		return nil
	}
	p.size = p.durable
	if terr := p.file.Truncate(p.durable); terr != nil {
		return errors.Join(err, terr, ErrDiscarded, p.discard())
	}
	return err
}

// Sync flushes what was written. After an error the part is gone, and the error is an ErrDiscarded.
func (p *Part) Sync() error {
	if err := p.around.Do(Sync, p.file.Sync); err != nil {
		return errors.Join(fmt.Errorf("flush %s: %w", p.path, err), ErrDiscarded, p.discard())
	}
	p.durable = p.size
	return nil
}

// Close closes the file, and leaves it.
func (p *Part) Close() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	return err
}

func (p *Part) discard() error {
	err := p.Close()
	if rerr := os.Remove(p.path); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	p.size, p.durable = 0, 0
	return err
}

// Move renames a flushed file, over one that is there, and makes its directory if that is missing. The directory above
// it exists. If the disk fails to flush a directory afterwards, the file is removed, and the error is an ErrDiscarded:
// nobody can tell any more what is there after a power cut. After any other error the file has its old name or, if
// the disk has renamed it all the same, its new one.
func Move(from, to string, around Around) error {
	dir := filepath.Dir(to)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		err := around.Do(MakeDir, func() error { return os.Mkdir(dir, 0o700) })
		if err == nil {
			err = around.Do(SyncDir, func() error { return SettleDir(filepath.Dir(dir)) })
		}
		if err != nil {
			return errors.Join(err, ignoreMissing(os.Remove(dir)))
		}
	} else if err != nil {
		return err
	}
	if err := around.Do(Rename, func() error { return rename(from, to) }); err != nil {
		return err
	}
	for _, d := range []string{dir, filepath.Dir(from)} {
		if err := around.Do(SyncDir, func() error { return SettleDir(d) }); err != nil {
			return errors.Join(fmt.Errorf("flush %s: %w", d, err), ErrDiscarded, ignoreMissing(os.Remove(to)))
		}
	}
	return nil
}

// Unlink is Remove with steps.
func Unlink(path string, around Around) error {
	if err := around.Do(Delete, func() error { return ignoreMissing(os.Remove(path)) }); err != nil {
		return err
	}
	return around.Do(SyncDir, func() error { return ignoreMissing(SettleDir(filepath.Dir(path))) })
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
