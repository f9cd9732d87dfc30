package unitstatus

import (
	"slices"
	"strings"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// component is how a component is: as an item on its node, and as an instance.
func (a *assembly) component(i *items.Instance) (cloud.ItemState, cloud.InstanceState, *cloud.ErrorInfo) {
	n, _ := a.Node(wire.KindComponents, i.Node)
	if d := n.Document; d != nil && d.Failed() {
		return cloud.ItemFailed, cloud.InstanceFailed, refused(d)
	}
	r, _ := n.Detail.(*wire.ComponentsReport)
	at := -1
	if r != nil {
		at = slices.IndexFunc(r.Components, func(s wire.ComponentStatus) bool {
			return s.Name == i.Runtime && s.Item == i.Codename && s.Version == i.Version
		})
	}
	if at < 0 {
		return cloud.ItemPending, cloud.InstanceActivating, nil
	}
	switch s := &r.Components[at]; s.State {
	case wire.ComponentInstalled:
		return cloud.ItemInstalled, cloud.InstanceActive, nil
	case wire.ComponentFailed:
		return cloud.ItemFailed, cloud.InstanceFailed, cloud.ErrorOf(s.Error)
	case wire.ComponentDownloading:
		return cloud.ItemDownloading, cloud.InstanceActivating, cloud.ErrorOf(s.Error)
	case wire.ComponentInstalling:
		return cloud.ItemInstalling, cloud.InstanceActivating, cloud.ErrorOf(s.Error)
	default:
		return cloud.ItemPending, cloud.InstanceActivating, cloud.ErrorOf(s.Error)
	}
}

// refused is why a node did not take a document.
func refused(d *kind.Document) *cloud.ErrorInfo {
	if err := d.Fork(); err != nil {
		return cloud.ErrorOf(err)
	}
	if d.Last.Error == nil {
		return &cloud.ErrorInfo{AosCode: 1, Message: "the node did not take it: " + string(d.Last.State)}
	}
	return cloud.ErrorOf(d.Last.Error)
}

// service is how an instance of a service is: its version as an item on the node, and the instance.
func (a *assembly) service(p *placed) (item cloud.ItemState, inst cloud.InstanceState, info *cloud.ErrorInfo) {
	n, _ := a.Node(wire.KindWorkloads, p.Node)
	if d := n.Document; d != nil && d.Failed() {
		return cloud.ItemFailed, cloud.InstanceFailed, refused(d)
	}
	s := a.slots[p.slot]
	if s == nil || s.Report == nil {
		return cloud.ItemPending, cloud.InstanceActivating, nil
	}
	r := s.Report
	if info = cloud.ErrorOf(r.Error); info != nil && r.Exit != nil {
		info.ExitCode = r.Exit.Code
	}
	stopped := s.Stopped != nil || r.State == wire.WorkloadStopped
	switch here := r.ID == s.Desired && r.Wanted == ""; { // what the node tells is of this version, and of no other
	case here && r.State == wire.WorkloadFailed:
		return cloud.ItemFailed, cloud.InstanceFailed, info
	case here && (stopped || r.State == wire.WorkloadCompleted):
		return cloud.ItemInstalled, cloud.InstanceInactive, info
	case here && r.State == wire.WorkloadRunning:
		return cloud.ItemInstalled, cloud.InstanceActive, info
	case here && r.State == wire.WorkloadRestarting:
		return cloud.ItemInstalled, cloud.InstanceActivating, info
	case r.ID != s.Desired && r.Wanted != s.Desired: // it has not told of this version yet
		return cloud.ItemPending, cloud.InstanceActivating, nil
	case r.Error != nil && r.Doing == "":
		return cloud.ItemFailed, cloud.InstanceFailed, info
	}
	item = coming(r)
	for i := range r.Resources {
		if res := &r.Resources[i]; res.State == "failed" {
			return cloud.ItemFailed, cloud.InstanceActivating, cloud.ErrorOf(res.Error)
		}
	}
	return item, cloud.InstanceActivating, info
}

// coming is how far what a slot prepares has come.
func coming(r *wire.WorkloadSlot) cloud.ItemState {
	if r.Doing == "" {
		return cloud.ItemPending
	}
	if r.Doing == "fetch" {
		return cloud.ItemDownloading
	}
	return cloud.ItemInstalling
}

// layers adds the layers that nodes are to have, by codename and version.
func (a *assembly) layers() {
	set, _ := a.Content(wire.KindWorkloads).(*workloads.Placement)
	all := set.Current().Layers
	slices.SortFunc(all, func(x, y items.InstalledLayer) int {
		if c := strings.Compare(x.Codename, y.Codename); c != 0 {
			return c
		}
		if c := strings.Compare(x.Version, y.Version); c != 0 {
			return c
		}
		return strings.Compare(x.Node, y.Node)
	})
	for _, l := range all {
		state, info := a.layer(&l)
		a.note(version{items.Ref{Type: items.Layer, Codename: l.Codename}, l.Version, ""}, state, info)
	}
}

// layer is how a layer is on a node: slots there tell what they lack, by its codename. It is there once all that use it
// have been told of and lack it no more.
func (a *assembly) layer(l *items.InstalledLayer) (cloud.ItemState, *cloud.ErrorInfo) {
	n, _ := a.Node(wire.KindWorkloads, l.Node)
	if n.Document == nil || !n.Document.InStep() {
		return cloud.ItemPending, nil
	}
	state := cloud.ItemInstalled
	for _, s := range a.byNode[l.Node] {
		if s.Report == nil {
			continue
		}
		for i := range s.Report.Resources {
			r := &s.Report.Resources[i]
			switch {
			case r.Name != l.Codename:
			case r.State == "failed":
				return cloud.ItemFailed, cloud.ErrorOf(r.Error)
			case r.State == "unpacking" && state == cloud.ItemInstalled:
				state = cloud.ItemInstalling
			case r.State != "unpacking":
				state = cloud.ItemDownloading
			}
		}
	}
	return state, nil
}
