package journal

import (
	"hash/maphash"
	"sync"
)

// An index says of each block of records what may be in it, so that a question for few of a million passes over the
// others. It is in memory: a set of types and a Bloom filter of names for each block, about 2.5 bytes a record. It
// never says that a record is not there which is; so it need not follow what Drop removes. It is filled by Append
// and by whoever reads the log in order, as each start does. Of a block that it does not know it says nothing.
type index struct {
	seed maphash.Seed

	tail learner // of what is appended; guarded by Journal.writer

	mu     sync.RWMutex
	blocks map[uint64]*block // by number
}

// The size of a block, in records; of its filter, in words of 64 bits, a power of two; and how many of its bits a name
// sets. A filter of 128 different names errs in one of 200.
const (
	blockSize   = 128
	filterWords = 32
	filterBits  = 3
)

// block is what may be among blockSize records.
type block struct {
	types typeSet
	names [filterWords]uint64
}

func blockOf(seq uint64) uint64 { return seq / blockSize }

func newIndex() *index { return &index{seed: maphash.MakeSeed(), blocks: map[uint64]*block{}} }

// Names of nodes and kinds are in one filter.
func (x *index) node(name string) uint64 { return maphash.String(x.seed, name) }
func (x *index) kind(name string) uint64 { return ^maphash.String(x.seed, name) }

func (b *block) add(hash uint64) {
	for range filterBits {
		b.names[hash>>6%filterWords] |= 1 << (hash % 64)
		hash >>= 16
	}
}

func (b *block) has(hash uint64) bool {
	for range filterBits {
		if b.names[hash>>6%filterWords]&(1<<(hash%64)) == 0 {
			return false
		}
		hash >>= 16
	}
	return true
}

// learner gathers what is in a block while its records come in order.
type learner struct {
	number uint64
	block  *block // nil: its beginning was missed, something in it cannot be read, or it is known
	next   uint64 // nothing comes any more before that
	begun  bool   // number is that of the record before
}

// learn takes in that a record comes, all before it having come from l.next on, and returns the block to add it to, nil
// if there is none.
func (x *index) learn(l *learner, seq uint64) *block {
	if n := blockOf(seq); !l.begun || n != l.number {
		x.keep(l)
		l.block = nil
		if l.next <= n*blockSize && !x.knows(n) {
			l.block = &block{}
		}
		l.number, l.begun = n, true
	}
	l.next = seq + 1
	return l.block
}

// addValue adds a record to a block as the log has it; false: it cannot be read.
func (x *index) addValue(b *block, value []byte) bool {
	if len(value) < hashSize {
		return false
	}
	d := decoder{b: value[hashSize:]}
	t := d.uvarint()
	d.uvarint() // the two halves of its time
	d.uvarint()
	node, _, kind := d.name(), d.name(), d.name()
	if d.bad || t >= 64 {
		return false
	}
	b.types |= 1 << t
	b.add(maphash.Bytes(x.seed, node))
	b.add(^maphash.Bytes(x.seed, kind))
	return true
}

// appended adds records that are durable.
func (x *index) appended(records []Record, first uint64) {
	for i := range records {
		r := &records[i]
		if b := x.learn(&x.tail, first+uint64(i)); b != nil {
			b.types |= 1 << r.Type
			b.add(x.node(r.Node))
			b.add(x.kind(r.Kind))
		}
	}
}

// leave takes in that what comes from seq on is not learned: the block before it is whole.
func (x *index) leave(l *learner, seq uint64) {
	if blockOf(seq) != l.number {
		x.keep(l)
	}
}

// keep notes a block that is whole: a record of a later one has come.
func (x *index) keep(l *learner) {
	if l.block == nil {
		return
	}
	x.mu.Lock()
	x.blocks[l.number] = l.block
	x.mu.Unlock()
}

func (x *index) knows(number uint64) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.blocks[number] != nil
}

// forget drops the blocks of which nothing is left in the log, now that there are these gaps and no others behind a
// record.
func (x *index) forget(from uint64, gaps []gap) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, g := range gaps {
		for n := max(blockOf(from), blockOf(g.from+blockSize-1)); (n+1)*blockSize <= g.to.seq+1; n++ {
			delete(x.blocks, n)
		}
	}
}

// wanted is what a filter asks of a block.
type wanted struct {
	types      typeSet
	nodes      []uint64 // one of them
	kind       uint64
	named, all bool // kind is asked for; nothing is
}

func (x *index) wanted(f *Filter, types typeSet) (w wanted) {
	w.types = types
	if f.Node != "" {
		w.nodes = append(w.nodes, x.node(f.Node))
		if f.OrUnit {
			w.nodes = append(w.nodes, x.node(""))
		}
	}
	w.kind, w.named = x.kind(f.Kind), f.Kind != ""
	w.all = types == 0 && w.nodes == nil && !w.named
	return w
}

func (w *wanted) in(b *block) bool {
	if w.types != 0 && w.types&b.types == 0 || w.named && !b.has(w.kind) {
		return false
	}
	for _, n := range w.nodes {
		if b.has(n) {
			return true
		}
	}
	return w.nodes == nil
}

// next returns the first record from seq on, or the last one up to it, that may be wanted. It is seq unless others are
// known not to be.
func (x *index) next(seq uint64, w *wanted, reverse bool) uint64 {
	if w.all {
		return seq
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for n := blockOf(seq); ; {
		b := x.blocks[n]
		switch {
		case b == nil || w.in(b):
			return seq
		case !reverse:
			n++
			seq = n * blockSize
		case n == 0:
			return 0
		default:
			seq = n*blockSize - 1
			n--
		}
	}
}
