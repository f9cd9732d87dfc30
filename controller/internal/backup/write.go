package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/shared/wire"
)

// Config says what a backup is made of.
type Config struct {
	Dir       string // the state directory
	Unit      string
	Program   string // version of the controller
	Now       time.Time
	Settings  []Setting
	Artefacts bool // they are in it, too
	Final     bool // nothing of the unit happens after it
}

// Setting is a file of settings/.
type Setting struct {
	Name string // controller.yaml, or what a setting that names a file is called
	Path string // of the file; "": Text is the content
	Text []byte
}

// Draft is a backup that is being made. One goroutine uses it, and closes it.
type Draft struct {
	cfg      Config
	root     *os.Root
	snapshot *journal.Snapshot
	small    []small
	manifest Manifest
}

// small is an entry that is held in memory.
type small struct {
	name string
	data []byte
}

// Begin takes the moment of a backup: a copy of the journal begins, and then the small files are read, which are held
// in memory. They are not older than the journal therefore, so that it knows nobody whom they do not; the caller keeps
// keys and CAs from being retired meanwhile. A link that leads out of the state directory is an error.
func Begin(cfg Config, j *journal.Journal) (_ *Draft, err error) {
	d := &Draft{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.root, err = os.OpenRoot(cfg.Dir); err != nil {
		return nil, err
	}
	if d.snapshot, err = j.Snapshot(); err != nil {
		return nil, err
	}
	s := d.snapshot
	d.manifest = Manifest{Format: Format, Unit: cfg.Unit, Program: cfg.Program, At: cfg.Now.UTC().Round(0),
		Epoch: s.Epoch, Seq: s.Seq, Hash: hex.EncodeToString(s.Hash[:]), Final: cfg.Final}
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int {
		return strings.Compare(order(a.Name()), order(b.Name()))
	})
	for _, e := range entries {
		if kept, _ := Kept(e.Name()); !kept || e.Name() == journalFile {
			continue
		}
		data, err := d.read(e.Name())
		if errors.Is(err, fs.ErrNotExist) { // of a receiver that was removed a moment ago
			d.leave(stateDir+e.Name(), "it was removed meanwhile")
			continue
		}
		if err != nil {
			return nil, err
		}
		d.small = append(d.small, small{stateDir + e.Name(), data})
	}
	for _, s := range cfg.Settings {
		if s.Path != "" {
			if s.Text, err = os.ReadFile(s.Path); err != nil {
				d.leave(settingsDir+s.Name, err.Error())
				continue
			}
		}
		d.small = append(d.small, small{settingsDir + s.Name, s.Text})
	}
	return d, nil
}

// order sorts the files by which others are judged to the end.
func order(name string) string {
	if strings.HasPrefix(name, "revoked") {
		return "1" + name
	}
	return "0" + name
}

func (d *Draft) leave(name, why string) { d.manifest.Left = append(d.manifest.Left, Left{name, why}) }

// read reads a small file of the state directory.
func (d *Draft) read(name string) ([]byte, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSmall {
		return nil, fmt.Errorf("%s/%s: not a regular file of at most %d bytes", d.cfg.Dir, name, maxSmall)
	}
	return d.root.ReadFile(name)
}

// release ends the copy of the journal, which keeps that from being closed.
func (d *Draft) release() error {
	s := d.snapshot
	if d.snapshot = nil; s == nil {
		return nil
	}
	return s.Close()
}

// Close ends it. Nothing of the unit was changed.
func (d *Draft) Close() (err error) {
	err = d.release()
	if d.root != nil {
		err = errors.Join(err, d.root.Close())
	}
	return err
}

// Write writes the file for those whom to names. It is whole only if the error is nil. It is called once.
func (d *Draft) Write(ctx context.Context, w io.Writer, to ...age.Recipient) (Manifest, error) {
	sealed, err := age.Encrypt(w, to...)
	if err != nil {
		return Manifest{}, fmt.Errorf("backup: %w", err)
	}
	t := tar.NewWriter(sealed)
	for _, step := range []func() error{
		func() error {
			for _, s := range d.small {
				if err := d.add(t, s.name, int64(len(s.data)), bytes.NewReader(s.data).WriteTo); err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			return d.add(t, stateDir+journalFile, d.snapshot.Size, func(w io.Writer) (int64, error) {
				return d.snapshot.WriteTo(until{ctx, w.Write})
			})
		},
		d.release,
		func() error { return d.artefacts(ctx, t) },
		func() error {
			text, err := json.Marshal(&d.manifest)
			if err != nil {
				return err
			}
			return d.add(t, manifestName, int64(len(text)), bytes.NewReader(text).WriteTo)
		},
		t.Close, sealed.Close,
	} {
		if err := step(); err != nil {
			return Manifest{}, fmt.Errorf("backup: %w", err)
		}
	}
	return d.manifest, nil
}

// add writes an entry, whose content fill writes, and puts it down in the manifest.
func (d *Draft) add(t *tar.Writer, name string, size int64, fill func(io.Writer) (int64, error)) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: d.manifest.At}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := fill(io.MultiWriter(t, sum))
	if err == nil && n != size {
		err = fmt.Errorf("%s has %d bytes, and had %d", name, n, size)
	}
	if err != nil {
		return err
	}
	if name == manifestName {
		return nil
	}
	d.manifest.Files = append(d.manifest.Files, File{name, size, hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// artefacts writes the artefacts that are there. One that is removed meanwhile is left out.
func (d *Draft) artefacts(ctx context.Context, t *tar.Writer) error {
	dir, err := fs.Sub(d.root.FS(), "artefacts")
	if err != nil {
		return err
	}
	return store.Blobs(dir, func(digest, path string) error {
		name := artefactsDir + strings.TrimPrefix(digest, wire.HashPrefix)
		if !d.cfg.Artefacts {
			d.leave(name, "the backup was made without artefacts")
			return nil
		}
		f, err := dir.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			d.leave(name, "it was removed meanwhile")
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close() // it was only read
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return d.add(t, name, info.Size(), func(w io.Writer) (int64, error) { return io.Copy(until{ctx, w.Write}, f) })
	})
}

// until reads, or writes, until a context ends.
type until struct {
	ctx context.Context
	do  func([]byte) (int, error) // Read or Write of what is behind it
}

func (u until) Read(b []byte) (int, error)  { return u.pass(b) }
func (u until) Write(b []byte) (int, error) { return u.pass(b) }

func (u until) pass(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.do(b)
}
