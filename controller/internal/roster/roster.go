// Package roster says how nodes stand, each in a line: its class, its row, and the counts of all.
//
//tandem:pure
package roster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// MaxWhy is how many characters the why of a row has at most.
const MaxWhy = 80

// Row is a node in a line. Source names the kind of the unit's own document; "": there is none.
func Row(n *view.Node, source wire.Kind) view.Row {
	r := view.Row{Node: n.Node, Type: n.Type, Class: Class(n), State: n.State(source), Since: since(n, source)}
	if n.Health != nil {
		r.Alerts = n.Health.Alerts
	}
	if d, ok := n.Documents[source]; ok {
		if d.Running != nil {
			r.Version = d.Running.Version
		}
		if d.Desired != nil {
			r.Desired = d.Desired.Version
		}
	}
	r.Why = phrase.Clean(phrase.Shorten(why(n, r.Class), MaxWhy))
	return r
}

// Class is how a node stands, in a word.
func Class(n *view.Node) view.Class {
	switch {
	case Revoked(n):
		return view.ClassRevoked
	case !n.Online:
		return view.ClassOffline
	case Failed(n):
		return view.ClassFailed
	case !n.InSync || underWay(n.Health):
		return view.ClassOnTheWay
	case Unwell(n):
		return view.ClassUnwell
	}
	return view.ClassInStep
}

// Revoked reports whether a node is not let in any more.
func Revoked(n *view.Node) bool { return n.Identity != nil && n.Identity.State == "revoked" }

// Failed reports whether a node did not take what it should run, or has lost it, be it online or not.
func Failed(n *view.Node) bool { return fault(n) != "" }

// Unwell reports whether something is wrong with a node besides its documents, be it online or not.
func Unwell(n *view.Node) bool {
	h := n.Health
	return n.Info != nil && n.Info.Error != nil ||
		h != nil && (h.Alerts > 0 || h.State != view.HealthOK && h.State != view.HealthUnknown && !underWay(h))
}

// underWay reports whether a node tries a version of its agent, or of a component.
func underWay(h *view.Health) bool { return h != nil && h.State == view.HealthTrial }

// fault names a kind whose newest document the node does not run, and will not; "": there is none.
func fault(n *view.Node) (first wire.Kind) {
	for kind, d := range n.Documents {
		if !d.InSync && (d.Error != nil || refused(&d)) && (first == "" || kind < first) {
			first = kind
		}
	}
	return first
}

// refused reports whether the node has told that what it should run failed there.
func refused(d *view.Document) bool {
	return d.Last != nil && d.Desired != nil && d.Last.Stamp() == d.Desired.Stamp() && d.Last.State.Settled() &&
		d.Last.State != wire.StateInstalled && d.Last.State != wire.StateSuperseded
}

// since is when the state of a node began; of one that is offline or revoked, when that did.
func since(n *view.Node, source wire.Kind) (t time.Time) {
	d := n.Documents[source]
	switch {
	case Revoked(n):
		t = n.Identity.Revoked
	case !n.Online && n.FirstSeen.IsZero() && n.Identity != nil:
		t = n.Identity.Joined
	case !n.Online:
		t = n.Since
	case d.Last != nil && (d.Desired == nil || d.Last.Stamp() == d.Desired.Stamp()):
		t = d.Last.At
	case d.Desired != nil:
		t = d.Desired.Issued
	}
	return t.UTC()
}

// why says why a node is in its class.
func why(n *view.Node, class view.Class) string {
	switch class {
	case view.ClassFailed:
		kind := fault(n)
		d := n.Documents[kind]
		err := d.Error
		if err == nil {
			err = d.Last.Error
		}
		if err == nil {
			return string(kind) + ": " + string(d.Last.State)
		}
		return string(kind) + ": " + string(err.Code) + ": " + err.Message
	case view.ClassOnTheWay:
		return waits(n)
	case view.ClassUnwell:
		if n.Info != nil && n.Info.Error != nil {
			return string(n.Info.Error.Code) + ": " + n.Info.Error.Message
		}
		if n.Health.State != view.HealthOK && n.Health.State != view.HealthUnknown {
			return n.Health.Text
		}
		return phrase.Plural(n.Health.Alerts, "alert")
	case view.ClassOffline:
		if n.FirstSeen.IsZero() {
			return "has not connected yet"
		}
	}
	return ""
}

// waits says which kinds of documents are on their way.
func waits(n *view.Node) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(n.Documents)) {
		d := n.Documents[kind]
		if d.InSync {
			continue
		}
		state := "waiting"
		if d.Last != nil && (d.Desired == nil || d.Last.Stamp() == d.Desired.Stamp()) {
			state = string(d.Last.State)
		}
		parts = append(parts, string(kind)+" "+state)
	}
	if len(parts) == 0 && n.Health != nil {
		return n.Health.Text
	}
	return cmp.Or(strings.Join(parts, ", "), "waiting")
}
