package steer

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// crowd is what is to be in a document, and what has no room there. Who has to stay out is of the lowest rank.
type crowd struct {
	name    string // of the document
	most    int    // bytes
	rank    func(a, b *desired.Placed) int
	parts   []part
	misfits []desired.Misfit
}

// part is an instance as an entry of a document.
type part struct {
	node   string
	placed *desired.Placed
	size   int    // bytes
	with   string // key of another entry that it needs, which may be there for others; "": none
	weight int    // bytes of that
}

func (u *Unit) newCrowd(name string, most int) *crowd {
	return &crowd{name: name, most: most, rank: u.byRank()}
}

// byRank compares instances: by priority of the item, then of the subject, then names.
func (u *Unit) byRank() func(a, b *desired.Placed) int {
	priority := make(map[string]int, len(u.Subjects))
	for i := range u.Subjects {
		priority[u.Subjects[i].Codename] = u.Subjects[i].Priority
	}
	return func(a, b *desired.Placed) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(priority[b.Subject], priority[a.Subject]),
			cmp.Compare(a.Codename, b.Codename), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Subject, b.Subject),
			cmp.Compare(a.Index, b.Index))
	}
}

func (c *crowd) add(p part) { c.parts = append(c.parts, p) }

// refuse says that an instance cannot be given to its node.
func (c *crowd) refuse(node string, p *desired.Placed, why string) {
	m := desired.Misfit{Item: ref(p), Version: p.Version, Subject: p.Subject, Why: why}
	if p.Type == items.Service {
		m.Instance, m.Index = true, p.Index
	} else {
		m.Node, m.Runtime = node, p.Runtime
	}
	c.misfits = append(c.misfits, m)
}

// keep refuses what is too much: for the document, which has at most so many entries, and for each node, of which fits
// says whether some parts are not too much.
func (c *crowd) keep(entries int, fits func([]part) bool) {
	slices.SortStableFunc(c.parts, func(a, b part) int {
		return cmp.Or(c.rank(a.placed, b.placed), cmp.Compare(a.node, b.node))
	})
	size, count, there := 100, 0, map[string]bool{}
	byNode := map[string][]part{}
	for _, p := range c.parts {
		more, n := p.size+1, 1
		if p.with != "" && !there[p.with] {
			more, n = more+p.weight+1, 2
		}
		if size+more > c.most || count+n > entries {
			c.refuse(p.node, p.placed, fmt.Sprintf("the %s has no room for it", c.name))
			continue
		}
		size, count, there[p.with] = size+more, count+n, true
		byNode[p.node] = append(byNode[p.node], p)
	}
	for node, parts := range byNode {
		size := 0
		for _, p := range parts {
			size += p.size + p.weight + 100
		}
		if size < wire.MaxBody || fits(parts) {
			continue
		}
		first := sort.Search(len(parts), func(k int) bool { return !fits(parts[:k+1]) })
		for _, p := range parts[first:] {
			c.refuse(node, p.placed, fmt.Sprintf("what %s gets has no room for it: a node's document has at most %d "+
				"bytes", node, wire.MaxBody))
		}
	}
}
