package fleet

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// maxAlerts bounds the raised alerts that are kept of one node, the oldest go first; a node has a
// rule for each of its parameters, and at most 256 partitions.
const (
	maxAlerts    = 300
	maxAlertName = 256 // bytes of a tag and a parameter, each
)

// noteAlert keeps the node's raised alerts by its events: a raise without a fall yet. Where events are lost,
// what was raised before may have fallen; if not, a node tells of it again (shared/docs/alerts.md).
func (n *Node) noteAlert(at time.Time, e *wire.Event) {
	if e.Lost > 0 {
		n.Alerts = nil
	}
	var d event.AlertDetail
	if e.Type != event.Alert || json.Unmarshal(e.Detail, &d) != nil {
		return
	}
	d.Since = d.Since.UTC()
	if d.Parameter == "" || len(d.Parameter) > maxAlertName || len(d.Tag) > maxAlertName || d.Since.Year() < 0 ||
		d.Since.Year() > 9999 {
		return
	}
	same := func(a view.Alert) bool { return a.Tag == d.Tag && a.Parameter == d.Parameter }
	i := slices.IndexFunc(n.Alerts, same)
	switch d.State {
	case "raise", "continue":
		a := view.Alert{Tag: d.Tag, Parameter: d.Parameter, Value: d.Value, Since: d.Since, At: at, Min: d.Min,
			Max: d.Max}
		list := slices.Clone(n.Alerts) // views may still have the old one
		if i >= 0 {
			list[i] = a
		} else {
			list = append(list, a)
		}
		n.Alerts = list[max(0, len(list)-maxAlerts):]
	case "fall":
		if i >= 0 {
			n.Alerts = slices.Delete(slices.Clone(n.Alerts), i, i+1)
		}
	}
}

// Raised returns the alerts that are raised, in the order of nodes' names, those of revoked nodes left out; at most
// limit, and how many more there are.
func (f *Fleet) Raised(limit int) (all []view.NodeAlert, omitted int) {
	revoked := f.revoked()
	for _, n := range f.sorted() {
		if revoked[n.Name] {
			continue
		}
		for _, a := range n.Alerts {
			if len(all) == limit {
				omitted++
				continue
			}
			all = append(all, view.NodeAlert{Node: n.Name, Type: n.Type(), Online: n.Up, Alert: a})
		}
	}
	return all, omitted
}
