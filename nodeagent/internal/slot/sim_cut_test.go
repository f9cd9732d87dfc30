package slot

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
