package slot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
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

// choices counts, for each thing that is not synced, the ways in which a power cut may leave it: two for
// a change of a directory, three for a file's content (the old one, half of the new one, the new one).
func (d *simDisk) choices() []int {
	var out []int
	d.walk(func(n *simNode) {
		if n.dir {
			for range n.pending {
				out = append(out, 2)
			}
		} else if !bytes.Equal(n.data, n.kept) {
			out = append(out, 3)
		}
	})
	return out
}

// walk visits every node that may survive once, in a fixed order.
func (d *simDisk) walk(visit func(*simNode)) {
	seen := map[*simNode]bool{}
	var down func(n *simNode)
	down = func(n *simNode) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		visit(n)
		for _, name := range slices.Sorted(maps.Keys(n.durable)) {
			down(n.durable[name])
		}
		for _, op := range n.pending {
			down(op.node)
		}
	}
	down(d.root)
}

// cut returns the disk after a power cut that leaves what pick says, one number for each of choices.
func (d *simDisk) cut(pick []int) *simDisk {
	chosen := map[*simNode][]int{}
	d.walk(func(n *simNode) {
		width := 0
		if n.dir {
			width = len(n.pending)
		} else if !bytes.Equal(n.data, n.kept) {
			width = 1
		}
		chosen[n], pick = pick[:width], pick[width:]
	})
	after := map[*simNode]*simNode{}
	var copyOf func(n *simNode) *simNode
	copyOf = func(n *simNode) *simNode {
		if c := after[n]; c != nil {
			return c
		}
		if !n.dir {
			data := n.kept
			if p := chosen[n]; len(p) == 1 && p[0] > 0 {
				data = n.data[:len(n.data)*p[0]/2]
			}
			after[n] = &simNode{data: bytes.Clone(data), kept: bytes.Clone(data)}
			return after[n]
		}
		c := newSimDir()
		after[n] = c
		names := maps.Clone(n.durable)
		for i, op := range n.pending {
			if chosen[n][i] == 1 {
				op.apply(names)
			}
		}
		for name, kid := range names {
			c.kids[name] = copyOf(kid)
		}
		c.durable = maps.Clone(c.kids)
		return c
	}
	return &simDisk{root: copyOf(d.root), locks: map[string]bool{}}
}

// killed returns the disk after the death of the process alone: nothing is lost, nothing is synced.
func (d *simDisk) killed() *simDisk {
	after := map[*simNode]*simNode{}
	var copyOf func(n *simNode) *simNode
	copyOf = func(n *simNode) *simNode {
		if n == nil {
			return nil
		}
		if c := after[n]; c != nil {
			return c
		}
		c := &simNode{dir: n.dir, data: bytes.Clone(n.data), kept: bytes.Clone(n.kept)}
		after[n] = c
		if n.dir {
			c.kids, c.durable = map[string]*simNode{}, map[string]*simNode{}
			for name, kid := range n.kids {
				c.kids[name] = copyOf(kid)
			}
			for name, kid := range n.durable {
				c.durable[name] = copyOf(kid)
			}
			for _, op := range n.pending {
				c.pending = append(c.pending, simOp{op.del, op.add, copyOf(op.node)})
			}
		}
		return c
	}
	return &simDisk{root: copyOf(d.root), locks: map[string]bool{}}
}

// aftermath is every disk that the next start may find, but for those that a power cut has left before:
// seen has their fingerprints.
func (d *simDisk) aftermath(seen map[[32]byte]bool, visit func(how string, rebooted bool, after *simDisk)) {
	radix := d.choices()
	if print := d.fingerprint(); len(radix) > 0 || !seen[print] {
		visit("kill", false, d.killed())
	}
	pick := make([]int, len(radix))
	for {
		after := d.cut(pick)
		if print := after.fingerprint(); !seen[print] {
			seen[print] = true
			visit(fmt.Sprintf("cut %v of %v", pick, radix), true, after)
		}
		i := 0
		for ; i < len(pick); i++ {
			if pick[i]++; pick[i] < radix[i] {
				break
			}
			pick[i] = 0
		}
		if i == len(pick) {
			return
		}
	}
}

// fingerprint tells disks apart on which everything is synced.
func (d *simDisk) fingerprint() [32]byte { return sha256.Sum256([]byte(d.dump())) }

// dump shows the files, for failures.
func (d *simDisk) dump() string {
	var b strings.Builder
	var down func(prefix string, n *simNode)
	down = func(prefix string, n *simNode) {
		for _, name := range slices.Sorted(maps.Keys(n.kids)) {
			if kid := n.kids[name]; kid.dir {
				down(prefix+name+"/", kid)
			} else {
				fmt.Fprintf(&b, "%s%s: %s\n", prefix, name, kid.data)
			}
		}
	}
	down("", d.root)
	return b.String()
}
