package enrol

import (
	"net/netip"
	"slices"
	"time"
)

const (
	maxWaiting = 4096      // nodes that wait for an approval, of all batches
	waitLife   = time.Hour // for which somebody is remembered who does not ask again
	pruneEvery = time.Minute
	maxEarlier = 4096           // names of which it is remembered who was first before
	earlyLife  = 24 * time.Hour // for which that is remembered
)

// The levels at which the room for those that wait is shared, from the widest: the secret of the batch; the network of
// the batch that the address is of; 24 bits of an IPv4 address, 48 of another; the address, or 64 bits of it.
const levels = 4

// place says of which group somebody is at each level.
type place [levels]string

// placeOf is the place of an address that the batch is for.
func placeOf(b *Batch, from string) place {
	at := place{b.Hash}
	a, err := netip.ParseAddr(from)
	if err != nil {
		return at
	}
	a = a.Unmap().WithZone("")
	network, address := 24, 32
	if a.Is6() {
		network, address = 48, 64
	}
	narrowest := netip.Prefix{} // of -1 bits
	for _, p := range b.From {
		if p.Contains(a) && p.Bits() > narrowest.Bits() {
			narrowest = p
		}
	}
	for i, p := range []netip.Prefix{narrowest, netip.PrefixFrom(a, network), netip.PrefixFrom(a, address)} {
		at[1+i] = p.Masked().String()
	}
	return at
}

// group is who shares a part of the room.
type group struct {
	name  string
	of    *group            // nil: it is all
	parts map[string]*group // by name; none at the last level
	n     int               // how many wait
	who   []*Waiting        // in the order in which they came; only at the last level
}

// part is the part of a group that has a name; it is made if there is none.
func (g *group) part(name string) *group {
	p := g.parts[name]
	if p == nil {
		p = &group{name: name, of: g, parts: map[string]*group{}}
		g.parts[name] = p
	}
	return p
}

// earlier is a key that was the first under a name, and is not any more.
type earlier struct {
	key string // "": there were several
	at  time.Time
}

// queue is who waits. When all places are taken, the newest of a group that has more than its share leaves for one of a
// group that has less. Nobody leaves for another of the same group.
type queue struct {
	by     map[string]*Waiting // by name of the node
	all    *group
	pruned time.Time

	earlier      map[string]earlier // by name of the node
	swept        time.Time
	lost, lostAt time.Time // first and last time that an earlier key found no room
}

func newQueue() queue {
	return queue{by: map[string]*Waiting{}, all: &group{parts: map[string]*group{}}, earlier: map[string]earlier{}}
}

// add notes that one more waits; false: there is no room.
func (q *queue) add(now time.Time, w *Waiting, at place) bool {
	if len(q.by) >= maxWaiting && !q.makeRoom(now, at) {
		return false
	}
	q.by[w.Node] = w
	g := q.all
	for _, name := range at {
		g.n++
		g = g.part(name)
	}
	g.n++
	g.who, w.of = append(g.who, w), g
	return true
}

func (q *queue) remove(node string) {
	w := q.by[node]
	if w == nil {
		return
	}
	delete(q.by, node)
	w.of.who = slices.DeleteFunc(w.of.who, func(other *Waiting) bool { return other == w })
	for g := w.of; g != nil; g = g.of {
		if g.n--; g.n == 0 && g.of != nil {
			delete(g.of.parts, g.name)
		}
	}
}

// drop removes who waits without having been approved, and remembers that he was there.
func (q *queue) drop(now time.Time, w *Waiting) {
	q.remove(w.Node)
	q.remember(now, w.Node, w.Key)
}

func (q *queue) dropIf(now time.Time, which func(*Waiting) bool) {
	for _, w := range q.by {
		if which(w) {
			q.drop(now, w)
		}
	}
}

// makeRoom has one leave for another; false: of the groups with the most, that one is the newest.
func (q *queue) makeRoom(now time.Time, at place) bool {
	if now.Sub(q.pruned).Abs() >= pruneEvery {
		q.pruned = now
		q.dropIf(now, func(w *Waiting) bool { return now.Sub(w.Last) > waitLife })
		if len(q.by) < maxWaiting {
			return true
		}
	}
	own := q.all // of the one that comes; nil: others have more
	chosen := []*group{q.all}
	for _, name := range at {
		most, parts := 0, []*group{}
		for _, g := range chosen {
			for _, p := range g.parts {
				if p.n > most {
					most, parts = p.n, nil
				}
				if p.n == most {
					parts = append(parts, p)
				}
			}
		}
		if own != nil {
			if own = own.parts[name]; own == nil && most < 2 {
				return false
			}
			if own != nil && own.n+1 >= most {
				chosen = []*group{own}
				continue
			}
			own = nil
		}
		chosen = parts
	}
	if own != nil {
		return false
	}
	var newest *Waiting
	for _, g := range chosen {
		if last := g.who[len(g.who)-1]; newest == nil || newest.before(last) {
			newest = last
		}
	}
	q.drop(now, newest)
	return true
}

// remember notes that a key was the first under a name.
func (q *queue) remember(now time.Time, node, key string) {
	old, ok := q.earlier[node]
	if !ok && len(q.earlier) >= maxEarlier && now.Sub(q.swept).Abs() >= pruneEvery {
		q.swept = now
		for node, e := range q.earlier {
			if now.Sub(e.at) > earlyLife {
				delete(q.earlier, node)
			}
		}
	}
	switch {
	case ok && old.key != key:
		key = ""
	case !ok && len(q.earlier) >= maxEarlier:
		if q.lost.IsZero() || now.Sub(q.lostAt) > earlyLife {
			q.lost = now
		}
		q.lostAt = now
		return
	}
	q.earlier[node] = earlier{key, now}
}

// contested reports whether another key than that of who waits has asked under its name, or may have.
func (q *queue) contested(now time.Time, w *Waiting) bool {
	e, ok := q.earlier[w.Node]
	lost := !q.lost.IsZero() && now.Sub(q.lostAt) <= earlyLife && !w.First.Before(q.lost)
	return w.Rival != nil || lost || ok && e.key != w.Key && now.Sub(e.at) <= earlyLife
}
