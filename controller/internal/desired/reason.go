package desired

import (
	"cmp"
	"slices"

	"tandem.internal/shared/items"
)

// Code is the kind of a reason. Programs read it: codes are only added.
type Code string

// The codes.
const (
	NotReported Code = "notReported" // no node reports its subject
	NotReady    Code = "notReady"    // no version is ready, or this one is not yet
	Deprecated  Code = "deprecated"  // it is not deployed anew
	Superseded  Code = "superseded"  // a higher version is chosen
	Outranked   Code = "outranked"   // a higher subject has the component on the node
	Suppressed  Code = "suppressed"  // an item of higher rank does not want it beside it
	Ineffective Code = "ineffective" // it is there, and what it suppresses, too: that is of higher rank
	Conflict    Code = "conflict"    // an item of higher rank has what it needs for itself
	Unmet       Code = "unmet"       // no version that it may have, or that it needs, is there
	Cycle       Code = "cycle"       // it waits for itself
	Refused     Code = "refused"     // nodes cannot be given it as it was decided
	Unplaced    Code = "unplaced"    // no node has a place for it
)

// Reason is why something is not there.
type Reason struct {
	Reason   Code       `json:"reason"`             // what kind it is of
	Type     items.Type `json:"type"`               // of the item
	Codename string     `json:"codename"`           // of the item
	Version  string     `json:"version,omitzero"`   // none: no version of it was chosen
	Subject  string     `json:"subject"`            // for which it is not there
	Index    *int       `json:"index,omitzero"`     // of an instance; absent: all of them
	By       *Party     `json:"by,omitzero"`        // the other side
	Rule     Rule       `json:"rule,omitzero"`      // of a conflict: what it is about
	About    string     `json:"about,omitzero"`     // of a conflict: what both want; of refused: why, in words
	Needs    *Need      `json:"needs,omitzero"`     // of unmet: what is not there
	Versions []string   `json:"versions,omitempty"` // those that there are, the highest first, at most 8
	Path     []Party    `json:"path,omitempty"`     // of a cycle: each waits for the next, the last for the first
	Nodes    int        `json:"nodes,omitzero"`     // of outranked, and of a component refused: on how many nodes
	Emptied  Filter     `json:"emptied,omitzero"`   // of unplaced: the filter that left nothing
	Counts   []Count    `json:"counts,omitempty"`   // of unplaced: places refused by each filter
	Refusals []Refusal  `json:"refusals,omitempty"` // of unplaced: at most 16, the nearest to a place first
	Why      string     `json:"why,omitzero"`       // the same as a sentence
}

// Lacking reports whether something is not there that should be: nobody has taken it out of use, and nothing of
// higher rank is there in its place.
func (r *Reason) Lacking() bool {
	switch r.Reason {
	case NotReady:
		return r.By == nil
	case Conflict, Unmet, Cycle, Refused, Unplaced:
		return true
	}
	return false
}

// Party is one side of a reason.
type Party struct {
	Type     items.Type `json:"type"`             // of the item
	Codename string     `json:"codename"`         // of the item
	Version  string     `json:"version,omitzero"` // none: no version of it was chosen
	Subject  string     `json:"subject,omitzero"` // of a layer: none
}

// Need is what somebody needs.
type Need struct {
	Of       *Party     `json:"of,omitzero"`     // a layer that needs it; absent: the item itself does
	Type     items.Type `json:"type"`            // of what is needed
	Codename string     `json:"codename"`        // of what is needed
	Range    string     `json:"range,omitzero"`  // absent: any version
	Reason   Code       `json:"reason,omitzero"` // why it is not there itself; absent: nobody desires it
	By       *Party     `json:"by,omitzero"`     // that keeps it out
}

// Rule is what a conflict is about.
type Rule string

// The rules.
const (
	Hostname Rule = "hostname" // one service in the unit has it
	Versions Rule = "versions" // it is there in another version than this one needs
)

// Filter is what a place has to pass, in this order.
type Filter string

// The filters.
const (
	OfState        Filter = "state"        // the node takes part
	OfOnline       Filter = "online"       // it is online
	OfNode         Filter = "node"         // the subject is attached to it
	OfLabels       Filter = "labels"       // it has all labels
	OfResources    Filter = "resources"    // a share of each is left
	OfDevices      Filter = "devices"      // a share of each is left
	OfPorts        Filter = "ports"        // nobody else on the node listens on them
	OfLoad         Filter = "load"         // of a move for relief: the node stays below its minimum
	OfRuntime      Filter = "runtime"      // the runtime's type will do
	OfPlatform     Filter = "platform"     // it runs what the item and its layers are built for
	OfContent      Filter = "content"      // it can run what the item and its layers consist of
	OfCPU          Filter = "cpu"          // enough is free
	OfRAM          Filter = "ram"          // enough is free
	OfStorage      Filter = "storage"      // enough is free on the node's partition for it
	OfStateStorage Filter = "stateStorage" // the same, for the state of instances
	OfInstances    Filter = "instances"    // the runtime may have one more
)

// filters are all of them, in their order.
var filters = []Filter{OfState, OfOnline, OfNode, OfLabels, OfResources, OfDevices, OfPorts, OfLoad, OfRuntime,
	OfPlatform, OfContent, OfCPU, OfRAM, OfStorage, OfStateStorage, OfInstances}

// Count is how many places a filter has refused.
type Count struct {
	Filter Filter `json:"filter"` // that refused
	Places int    `json:"places"` // how many
}

// Refusal is why an instance may not be at a place.
type Refusal struct {
	Node      string   `json:"node"`               // its ID
	Runtime   string   `json:"runtime,omitzero"`   // absent: the node itself refuses it
	Filter    Filter   `json:"filter"`             // that refuses
	About     string   `json:"about,omitzero"`     // the label, resource, device or port; what was there instead
	Needed    int64    `json:"needed,omitzero"`    // how much
	Available int64    `json:"available,omitzero"` // how much is left
	Holders   []Holder `json:"holders,omitempty"`  // who has it, at most 8
}

// Holder is an instance that has what another one needs.
type Holder struct {
	Codename string `json:"codename"` // of the service
	Subject  string `json:"subject"`  // for which it runs
	Index    int    `json:"index"`    // of the instance
}

// Bounds of what is recorded.
const (
	mostVersions = 8
	mostRefusals = 16
	mostHolders  = 8
)

// reason is a Reason about a candidate.
func (c *candidate) reason(code Code) Reason {
	return Reason{Reason: code, Type: c.Meta.Type, Codename: c.Meta.Codename, Version: c.Meta.Version,
		Subject: c.subject.Codename}
}

// refuse puts a candidate out.
func (w *world) refuse(c *candidate, r Reason) {
	c.out = &r
	w.reasons = append(w.reasons, r)
}

// live are the candidates that are not out, of the highest rank first.
func (w *world) live() (all []*candidate) {
	for _, c := range w.candidates {
		if c.out == nil {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, byRank)
	return all
}

// byRank sorts by priority of the item, that of the subject, and names.
func byRank(a, b *candidate) int {
	return cmp.Or(cmp.Compare(b.Meta.Priority, a.Meta.Priority), cmp.Compare(b.subject.Priority, a.subject.Priority),
		compareRefs(a.ref(), b.ref()), cmp.Compare(a.subject.Codename, b.subject.Codename))
}

func compareRefs(a, b items.Ref) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Codename, b.Codename))
}

// sortReasons are reasons in their order: by item, version, subject, index, code and the other side. No two are
// equal in all of these.
func sortReasons(all []Reason) []Reason {
	index := func(r *Reason) int {
		if r.Index == nil {
			return -1
		}
		return *r.Index
	}
	sorted := make([]*Reason, len(all)) // a Reason is large
	for i := range all {
		sorted[i] = &all[i]
	}
	slices.SortFunc(sorted, func(a, b *Reason) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Codename, b.Codename),
			cmp.Compare(a.Version, b.Version), cmp.Compare(a.Subject, b.Subject),
			cmp.Compare(index(a), index(b)), cmp.Compare(a.Reason, b.Reason), compareParties(a.By, b.By))
	})
	out := make([]Reason, len(all))
	for i, r := range sorted {
		out[i] = *r
	}
	return out
}

func compareParties(a, b *Party) int {
	if a == nil || b == nil {
		return 0 // reasons of one code have both, or neither
	}
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Codename, b.Codename), cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.Subject, b.Subject))
}
