package fleet

import (
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// notices are the nodes that have changed, for whoever shows them and does not want to look at all of them.
type notices struct {
	on    bool
	all   bool // any node may have changed
	names map[string]bool
}

func (n *notices) add(name string) {
	if n.on && !n.all && name != "" {
		n.names[name] = true
	}
}

// record takes notice of records that say something of any number of nodes.
func (n *notices) record(t record.Type) {
	switch t {
	case record.Opened, record.Accepted, record.Confirm, record.RolledBack, record.State, record.Settings:
		n.all = n.on
	}
}

// Changed returns the names of the nodes that may have changed since it was called last, in no order; all: any of them
// may have. It begins to keep them with the first call, which is all.
func (f *Fleet) Changed() (names []string, all bool) {
	names, all = slices.Collect(maps.Keys(f.changes.names)), f.changes.all || !f.changes.on
	f.changes = notices{on: true, names: map[string]bool{}}
	return names, all
}

// Unwatched ends the keeping of what Changed returns.
func (f *Fleet) Unwatched() { f.changes = notices{} }

// Names returns the names of all nodes, those that may come in and have never been heard of among them, in order.
func (f *Fleet) Names(now time.Time) []string {
	all := slices.Collect(maps.Keys(f.nodes))
	f.enrolled.Each(func(sub *enrol.Subject) {
		if name, isNode := strings.CutPrefix(sub.Name, nodePrefix); isNode && f.awaited(name, sub, now) {
			all = append(all, name)
		}
	})
	slices.Sort(all)
	return all
}

// awaited reports whether a node may come in and has never been heard of.
func (f *Fleet) awaited(name string, sub *enrol.Subject, now time.Time) bool {
	standing := sub.Standing(now)
	return f.nodes[name] == nil && f.forgotten[name].Time.IsZero() && standing != "revoked" && standing != ""
}

// Glance returns a node as a list shows it, with its Identity, and the parameters of its alerts; false: there is
// none of this name.
func (f *Fleet) Glance(name string, now time.Time) (v view.Node, alerts []string, known bool) {
	if known = f.GlanceInto(&v, name, now); f.nodes[name] != nil {
		for _, a := range f.nodes[name].Alerts {
			alerts = append(alerts, a.Parameter)
		}
	}
	return v, alerts, known
}

// GlanceInto is Glance without the alerts, into a node whose map of documents is used again.
func (f *Fleet) GlanceInto(v *view.Node, name string, now time.Time) (known bool) {
	n := f.nodes[name]
	if n != nil {
		f.viewInto(v, n)
		known = true
	} else {
		*v = view.Node{Node: name}
		known = f.awaited(name, f.enrolled.Lookup(nodePrefix+name), now)
	}
	v.Identity = f.Identity(name, now)
	return known
}
