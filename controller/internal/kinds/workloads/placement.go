package workloads

import (
	"maps"
	"slices"
	"strings"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/items"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Placement is a set of workloads as it was filled: what each node is to run. It is the content of an
// accepted set, and never changed.
type Placement struct {
	nodes map[string]*placed
	order []string // the names of nodes, sorted
	slots int
}

// placed is what one node is to run.
type placed struct {
	body     *kind.Body    // as the node gets it
	slots    []wanted      // by name
	torrents []*wire.Error // of resources that cannot be fetched without BitTorrent, at most maxErrors
	unproved []*wire.Error // of resources that nothing proves, at most maxErrors
	limited  []limited     // those with constraints
	signers  []signed      // the resources by who has signed them, at most maxErrors of one

	layers []items.InstalledLayer // that its instances of services use
}

// signed is a resource, and the key with which it says that it is signed; "": none.
type signed struct {
	slot   workload.Slot
	name   string
	signer publisher.ID
}

// sign notes who has signed a resource. Of more than maxErrors of one signer no more need to be known.
func (n *placed) sign(s workload.Slot, name string, a workload.Artifact) {
	signer, same := a.Signer(), 0
	for _, o := range n.signers {
		if o.signer == signer {
			same++
		}
	}
	if same < maxErrors {
		n.signers = append(n.signers, signed{s, name, signer})
	}
}

// unsigned says which resources no publisher has signed of whom a node has told that it demands one. Whether a
// signature is good only the node can say.
func (n *placed) unsigned(text string) (errs []*wire.Error) {
	ids := publisher.ParseIDs(text)
	if len(ids) == 0 {
		return nil
	}
	for _, r := range n.signers {
		if err := workload.NotPublished(r.slot, r.name, r.signer, ids); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// limited is a slot with constraints.
type limited struct {
	slot        workload.Slot
	constraints map[string]string
}

// maxErrors bounds the errors that are kept of a node: a verdict has no more of one.
const maxErrors = 8

// wanted is one slot as it should be.
type wanted struct {
	slot     string // service@node
	id       string // configurationId
	job      bool
	instance *items.Instance // of a service that it runs; nil: none
}

// none is what a node gets when it is no longer named: all of its slots are stopped.
var none = func() *kind.Body {
	body, err := workload.EncodeDocument(nil)
	if err != nil {
		panic("workloads: nothing cannot be encoded: " + err.Error())
	}
	return kind.NewBody(body)
}()

// place fills a set and works out what each node gets. The same set always gives the same bytes. It gives
// up when stop, which may be nil, returns an error.
func place(set *workload.Set, stop func() error) (*Placement, []*wire.Error) {
	filled, problems := workload.FillUntil(set, stop)
	if problems != nil {
		return nil, problems
	}
	byNode := filled.ByNode()
	p := &Placement{nodes: make(map[string]*placed, len(byNode)), slots: len(filled.Configs)}
	var errs []*wire.Error
	p.order = slices.Sorted(maps.Keys(byNode))
	for _, node := range p.order {
		if stop != nil && stop() != nil {
			return nil, []*wire.Error{wire.New(wire.CodeUnavailable, "", "given up")}
		}
		mine := workload.ForNode(byNode[node], node)
		body, err := workload.EncodeDocument(mine)
		if err != nil {
			e := *err
			e.Node = node
			errs = append(errs, &e)
			continue
		}
		n := &placed{body: kind.NewBody(body)}
		for _, c := range mine {
			n.slots = append(n.slots, wanted{c.Slot.String(), c.ConfigurationID, c.Class == workload.Job,
				instanceOf(&c)})
			n.addLayers(&c)
			if c.Container != nil && len(c.Container.Constraints) > 0 {
				n.limited = append(n.limited, limited{c.Slot, c.Container.Constraints})
			}
			for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
				if len(n.torrents) < maxErrors && !c.Resources[name].HasHTTP() {
					n.torrents = append(n.torrents, workload.NoBitTorrent(c.Slot, name))
				}
				if len(n.unproved) < maxErrors && c.Resources[name].Unproved() {
					n.unproved = append(n.unproved, workload.NoProof(c.Slot, name))
				}
				n.sign(c.Slot, name, c.Resources[name])
			}
		}
		slices.SortFunc(n.slots, func(a, b wanted) int { return strings.Compare(a.slot, b.slot) })
		p.nodes[node] = n
	}
	if errs != nil {
		return nil, errs
	}
	return p, nil
}

// For returns what a node is to run.
func (p *Placement) For(f kind.Facts) *kind.Body {
	if n := p.of(f.Node); n != nil {
		return n.body
	}
	return nil
}

// of returns what a node is to run, nil if the set does not name it.
func (p *Placement) of(node string) *placed {
	if p == nil {
		return nil
	}
	return p.nodes[node]
}

// names lists the nodes that have a slot, sorted. It is not to be changed.
func (p *Placement) names() []string {
	if p == nil {
		return nil
	}
	return p.order
}
