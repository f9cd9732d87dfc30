package slot

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"
)

// simDisk is a disk in memory that knows what a power cut leaves. A file has the content that programs
// see and the one that the medium has; a directory has the names that programs see, those that the
// medium has, and the changes between them. What is not synced yet may be lost, in any combination.
type simDisk struct {
	root  *simNode
	locks map[string]bool

	count int // primitive steps so far
	at    int // the step before which the process dies; 0: none
	full  bool

	failAt int    // the step that fails once; 0: none
	watch  func() // is called before every step, to see what a crash there would leave; nil: nobody
}

type simNode struct {
	dir        bool
	data, kept []byte // of a file: seen, and on the medium
	kids       map[string]*simNode
	durable    map[string]*simNode
	pending    []simOp // changes of kids since the last sync
}

// simOp is one change of a directory: a name goes, a name comes, or both at once.
type simOp struct {
	del, add string
	node     *simNode
}

func (o simOp) apply(kids map[string]*simNode) {
	if o.del != "" {
		delete(kids, o.del)
	}
	if o.add != "" {
		kids[o.add] = o.node
	}
}

// died is what the process panics with.
type died struct{}

var errFull = errors.New("no space left on the simulated disk")

func newSim() *simDisk {
	return &simDisk{root: newSimDir(), locks: map[string]bool{}}
}

func newSimDir() *simNode {
	return &simNode{dir: true, kids: map[string]*simNode{}, durable: map[string]*simNode{}}
}

// step is one primitive operation on the disk.
func (d *simDisk) step() error {
	if d.count++; d.count == d.at {
		panic(died{})
	}
	if d.watch != nil {
		d.watch()
	}
	if d.count == d.failAt {
		return errors.New("a simulated input/output error")
	}
	if d.full {
		return errFull
	}
	return nil
}

func (d *simDisk) find(name string) (dir *simNode, base string, err error) {
	dir, base = d.root, path.Clean(name)
	if parent, b := path.Split(base); parent != "" {
		base = b
		if dir = d.root.kids[path.Clean(parent)]; dir == nil || !dir.dir {
			return nil, "", fs.ErrNotExist
		}
	}
	return dir, base, nil
}

func (d *simDisk) file(name string) (*simNode, error) {
	dir, base, err := d.find(name)
	if err != nil {
		return nil, err
	}
	n := dir.kids[base]
	if n == nil || n.dir {
		return nil, fs.ErrNotExist
	}
	return n, nil
}

func (d *simDisk) change(dir *simNode, op simOp) {
	op.apply(dir.kids)
	dir.pending = append(dir.pending, op)
}

func (d *simDisk) syncDir(dir *simNode) error {
	if err := d.step(); err != nil {
		return err
	}
	dir.durable, dir.pending = maps.Clone(dir.kids), nil
	return nil
}

func (d *simDisk) Read(name string, limit int64) ([]byte, error) {
	n, err := d.file(name)
	if err != nil {
		return nil, err
	}
	if int64(len(n.data)) > limit {
		return nil, errors.New("too long")
	}
	return bytes.Clone(n.data), nil
}

func (d *simDisk) Open(name string) (io.ReadCloser, error) {
	n, err := d.file(name)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(bytes.Clone(n.data))), nil
}

func (d *simDisk) List(dir string) ([]string, error) {
	n := d.root
	if dir != "." {
		n = d.root.kids[dir]
	}
	if n == nil {
		return nil, fs.ErrNotExist
	}
	return slices.Sorted(maps.Keys(n.kids)), nil
}

// simReplace is what durable.WriteFile does, one primitive after the other; TestReplaceIsModelled holds
// the two together.
var simReplace = []string{"create", "write", "write", "sync", "rename", "syncdir"}

func (d *simDisk) Replace(name string, data []byte) error {
	dir, base, err := d.find(name)
	if err != nil {
		return err
	}
	if err := d.step(); err != nil {
		return err
	}
	tmp, n := "."+base+".tmp1", &simNode{}
	d.change(dir, simOp{add: tmp, node: n})
	fail := func(err error) error { d.change(dir, simOp{del: tmp}); return err }
	for _, part := range [][]byte{data[:len(data)/2], data[len(data)/2:]} {
		if err := d.step(); err != nil {
			return fail(err)
		}
		n.data = append(n.data, part...)
	}
	if err := d.step(); err != nil {
		return fail(err)
	}
	n.kept = bytes.Clone(n.data)
	if err := d.step(); err != nil {
		return fail(err)
	}
	d.change(dir, simOp{del: tmp, add: base, node: n})
	return d.syncDir(dir)
}

func (d *simDisk) Clean(name string) error {
	dir, base, err := d.find(name)
	if err != nil {
		return nil
	}
	if tmp := "." + base + ".tmp1"; dir.kids[tmp] != nil {
		if err := d.step(); err != nil {
			return err
		}
		d.change(dir, simOp{del: tmp})
	}
	return nil
}

type simFile struct {
	d *simDisk
	n *simNode
}

func (d *simDisk) Create(name string) (File, error) {
	dir, base, err := d.find(name)
	if err != nil {
		return nil, err
	}
	if dir.kids[base] != nil {
		if err := d.step(); err != nil {
			return nil, err
		}
		d.change(dir, simOp{del: base})
	}
	if err := d.step(); err != nil {
		return nil, err
	}
	n := &simNode{}
	d.change(dir, simOp{add: base, node: n})
	return simFile{d, n}, nil
}

func (f simFile) Write(p []byte) (int, error) {
	for i, part := range [][]byte{p[:len(p)/2], p[len(p)/2:]} {
		if err := f.d.step(); err != nil {
			return i * len(p) / 2, err
		}
		f.n.data = append(f.n.data, part...)
	}
	return len(p), nil
}

func (f simFile) Sync() error {
	if err := f.d.step(); err != nil {
		return err
	}
	f.n.kept = bytes.Clone(f.n.data)
	return nil
}

func (f simFile) Close() error { return nil }

func (d *simDisk) SyncDir(name string) error {
	n := d.root.kids[name]
	if n == nil {
		return fs.ErrNotExist
	}
	return d.syncDir(n)
}

func (d *simDisk) Mkdir(name string) error {
	if name == "." || d.root.kids[name] != nil {
		return nil
	}
	if err := d.step(); err != nil {
		return err
	}
	d.change(d.root, simOp{add: name, node: newSimDir()})
	return d.syncDir(d.root)
}

func (d *simDisk) Rename(from, to string) error {
	dir, a, err := d.find(from)
	if err != nil {
		return err
	}
	if dir.kids[a] == nil {
		return fs.ErrNotExist
	}
	if err := d.step(); err != nil {
		return err
	}
	d.change(dir, simOp{del: a, add: path.Base(to), node: dir.kids[a]})
	return d.syncDir(dir)
}

func (d *simDisk) Remove(name string) error {
	dir, base, err := d.find(name)
	if err != nil {
		return nil
	}
	if dir.kids[base] != nil {
		if err := d.step(); err != nil {
			return err
		}
		d.change(dir, simOp{del: base})
	}
	return d.syncDir(dir)
}

func (d *simDisk) Lock(name string, _ time.Duration) (func() error, error) {
	if d.locks[name] {
		return nil, ErrLocked
	}
	d.locks[name] = true
	return func() error { delete(d.locks, name); return nil }, nil
}
