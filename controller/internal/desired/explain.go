package desired

import (
	"slices"

	"tandem.internal/shared/items"
)

// Explanation is what decided about an item on a node.
type Explanation struct {
	Why       string        `json:"why"`                 // in one sentence
	Node      string        `json:"node"`                // that was asked about
	Type      items.Type    `json:"type"`                // of the item
	Codename  string        `json:"codename"`            // of the item
	Here      []Placed      `json:"here,omitempty"`      // instances on the node
	Layers    []PlacedLayer `json:"layers,omitempty"`    // of a layer: its versions on the node, and for what
	Elsewhere []Elsewhere   `json:"elsewhere,omitempty"` // instances on other nodes, at most 16
	Others    int           `json:"others,omitzero"`     // how many there are
	Refusals  []Refusal     `json:"refusals,omitempty"`  // why those may not be on this node
	Changes   []Change      `json:"changes,omitempty"`   // of the item on the node, against now
	Reasons   []Reason      `json:"reasons,omitempty"`   // of what is not there
}

// Elsewhere is an instance on another node.
type Elsewhere struct {
	Node    string `json:"node"`    // where it is
	Version string `json:"version"` // of it
	Subject string `json:"subject"` // for which it runs
	Index   int    `json:"index"`   // of the instance
	Chosen  Choice `json:"chosen"`  // why it is there
}

// Why says what decided about an item on a node. known is false if there is no such node, or nothing has the item.
func (p *Plan) Why(nodeID string, ref items.Ref) (e Explanation, known bool) {
	n := p.w.byNode[nodeID]
	if n == nil {
		return e, false
	}
	e = Explanation{Node: nodeID, Type: ref.Type, Codename: ref.Codename}
	at := slices.IndexFunc(p.Nodes, func(o NodePlan) bool { return o.Node == nodeID })
	for _, i := range p.Nodes[at].Instances {
		if i.Type == ref.Type && i.Codename == ref.Codename {
			e.Here = append(e.Here, i)
		}
	}
	for _, l := range p.Nodes[at].Layers {
		if ref.Type == items.Layer && l.Codename == ref.Codename {
			e.Layers = append(e.Layers, l)
		}
	}
	for _, c := range p.Nodes[at].Changes {
		if c.Type == ref.Type && c.Codename == ref.Codename {
			e.Changes = append(e.Changes, c)
		}
	}
	for _, r := range p.Reasons {
		if r.Type == ref.Type && r.Codename == ref.Codename {
			e.Reasons = append(e.Reasons, r)
		}
	}
	p.w.elsewhere(&e, n, ref)
	known = len(p.w.versions[ref]) > 0 || len(e.Reasons) > 0 || len(e.Changes) > 0
	return e, known
}

// elsewhere adds the item's instances on other nodes, and what this node would say to them now.
func (w *world) elsewhere(e *Explanation, n *node, ref items.Ref) {
	sorted := slices.SortedFunc(slices.Values(w.placed), func(a, b *instance) int {
		if order := inOrder(a, b); order != 0 {
			return order
		}
		return byName(a, b)
	})
	asked := map[*candidate]bool{}
	for _, i := range sorted {
		if i.ref() != ref || i.at.node == n {
			continue
		}
		if e.Others++; len(e.Elsewhere) < mostRefusals {
			e.Elsewhere = append(e.Elsewhere, Elsewhere{i.at.node.Info.Node, i.Meta.Version, i.subject.Codename,
				i.index, i.chosen})
		}
		if asked[i.candidate] || ref.Type == items.Component && !i.subject.takes(n) && len(e.Here) > 0 {
			continue
		}
		asked[i.candidate] = true
		probe := &instance{candidate: i.candidate, index: i.index}
		e.Refusals = append(e.Refusals, w.refusals(probe, n)...)
	}
}

// refusals are those of a node and its runtimes.
func (w *world) refusals(i *instance, n *node) (all []Refusal) {
	if v := w.onNode(i.candidate, n, false); v.filter != "" {
		return []Refusal{i.refusal(v, n, nil)}
	}
	for _, r := range n.runtimes {
		if v := w.inRuntime(i.candidate, r); v.filter != "" {
			all = append(all, i.refusal(v, n, r))
		}
	}
	if len(n.runtimes) == 0 {
		all = append(all, i.refusal(verdict{filter: OfRuntime}, n, nil))
	}
	return all
}

// Known are the IDs of the nodes, sorted, and the items.
func (p *Plan) Known() (nodes []string, all []items.Ref) {
	for _, n := range p.Nodes {
		nodes = append(nodes, n.Node)
	}
	for ref := range p.w.versions {
		all = append(all, ref)
	}
	return nodes, all
}
