package steer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/kinds/components"
	"tandem.internal/shared/items"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// installed is a component that is to have a version.
type installed struct {
	components.Entry
	placed *desired.Placed
}

// Components makes of a plan the list of components that nodes get their parts of, without those that cannot be
// installed as it was decided. Equal plans give equal bytes.
func (u *Unit) Components(p *desired.Plan) ([]byte, []desired.Misfit) {
	c := u.newCrowd("list of components", components.MaxDocument)
	var all []components.Entry
	for i := range p.Nodes {
		n := &p.Nodes[i]
		for _, one := range u.ofNode(c, n) {
			c.add(part{node: n.Node, placed: one.placed, size: len(marshal(&one.Entry))})
			all = append(all, one.Entry)
		}
	}
	c.keep(math.MaxInt, func(parts []part) bool {
		size := 0
		for _, p := range parts {
			size += p.size + 1
		}
		return size < wire.MaxBody-100
	})
	slices.SortFunc(all, func(a, b components.Entry) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return marshal(&components.Document{FormatVersion: wire.ComponentsFormat, Components: all}), c.misfits
}

// ofNode are the components of a node, in the order of their runtimes. Of several in one runtime that of the highest
// rank is there.
func (u *Unit) ofNode(c *crowd, n *desired.NodePlan) (all []installed) {
	for j := range n.Instances {
		p := &n.Instances[j]
		if p.Type != items.Component {
			continue
		}
		e, err := u.component(n.Node, p)
		if err != nil {
			c.refuse(n.Node, p, err.Message)
			continue
		}
		all = append(all, installed{e, p})
	}
	slices.SortFunc(all, func(a, b installed) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), c.rank(a.placed, b.placed))
	})
	var first []installed
	for _, one := range all {
		k := len(first) - 1
		if k < 0 || first[k].Name != one.Name {
			first = append(first, one)
			continue
		}
		c.refuse(n.Node, one.placed, fmt.Sprintf("the runtime %s is one component, and %s %s of %s goes first: say in "+
			"their metadata which runtimes they need", one.Name, first[k].Item, first[k].Version, first[k].Subject))
	}
	u.order(first)
	return first
}

// component is an instance of a component as its node gets it.
func (u *Unit) component(node string, i *desired.Placed) (e components.Entry, err *wire.Error) {
	v := u.Find(ref(i), i.Version)
	if v == nil {
		return e, wire.New(wire.CodeNotFound, "", "it was removed")
	}
	build := v.Content.Build(i.Platform)
	switch {
	case build == nil:
		return e, wire.New(wire.CodeNotFound, "", "it has no build for "+platformText(i.Platform))
	case len(v.Meta.Runtimes) == 0:
		return e, wire.New(wire.CodeMissing, "", "its metadata does not say which runtimes it needs: those of "+
			"components have their names")
	case ofServices(i.Runtime):
		return e, wire.New(wire.CodeNotSupported, "", "the runtime "+i.Runtime+" is no component: those of components "+
			"have their names")
	}
	b := &build.Blobs[0]
	stored, _ := b.Stored()
	return components.Entry{Node: node, Subject: i.Subject, NodeComponent: wire.NodeComponent{Name: i.Runtime,
		Item: i.Codename, Version: i.Version, Hash: b.Digest, Size: b.Size,
		URLs: []string{jointoken.ArtefactURL(stored)}, Minisign: b.Minisign, Encrypted: b.Encrypted}}, nil
}

// order says which components of a node have to have their versions before others: those that a component needs, or
// comes after; and it itself before those that it comes before. In another version than it depends on they do not
// count, as in the decision: else two could come after each other.
func (u *Unit) order(all []installed) {
	after := func(i, j int) {
		if name := all[j].Name; i != j && !slices.Contains(all[i].After, name) {
			all[i].After = append(all[i].After, name)
		}
	}
	for i := range all {
		v := u.Find(items.Ref{Type: items.Component, Codename: all[i].Item}, all[i].Version)
		for _, d := range v.Meta.Dependencies {
			for j := range all {
				switch {
				case d.Type != items.Component || all[j].Item != d.Codename || !inRange(&d, all[j].Version):
				case d.Condition == items.Before:
					after(j, i)
				default:
					after(i, j)
				}
			}
		}
	}
	for i := range all {
		slices.Sort(all[i].After)
	}
}
