package fleet

import (
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// distribute gives one node its documents, as far as they are due.
func (s *step) distribute(n *Node) {
	for _, o := range s.outputs {
		s.supply(n, o)
	}
}

// supply gives one node its document of a kind if it is due.
func (s *step) supply(n *Node, o *output) {
	if of, ok := s.offered(o); ok {
		if reason := s.due(n, &of); reason != "" {
			s.issue(of, []*Node{n}, false, reason)
		}
	}
}

// spread gives out what was accepted: to every node, or to those for whom it says something else than
// before, and to those who have failed at it. It returns how many documents that are.
func (s *step) spread(o *output, reason string) int {
	of, ok := s.offered(o)
	if !ok {
		return 0
	}
	if o.Everyone {
		return s.issue(of, s.sorted(), true, reason)
	}
	var nodes []*Node
	for _, n := range s.sorted() {
		if k := n.Kinds[o.Name]; s.due(n, &of) != "" || s.takesDocuments(n) && k != nil && k.Failed() {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return 0
	}
	return s.issue(of, nodes, true, reason)
}

// issueDue gives documents to those who are due one, and returns how many.
func (s *step) issueDue(of offer, reason string) int {
	var nodes []*Node
	for _, n := range s.sorted() {
		if s.due(n, &of) != "" {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return 0
	}
	return s.issue(of, nodes, false, reason)
}

// due says why a node is to get a document: what it should have is not what was last issued to it,
// it has recovered from an error of its own, or it came back with a document that it had refused (seed 000,
// Node Info Change); one that broke it is not tried again unasked. "": it is not.
func (s *step) due(n *Node, o *offer) string {
	if !s.takesDocuments(n) {
		return ""
	}
	body := o.body(n)
	if body == nil {
		return ""
	}
	k := n.kind(o.Name)
	switch d := k.Desired; {
	case d == nil:
		return "new node"
	case d.Epoch != s.opt.Epoch:
		return "the epoch was raised"
	case d.Hash != body.Hash || o.mode == wire.ModeTry && d.Mode != o.mode:
		return "node info changed"
	case s.ahead(k):
		return "the node knows a newer document than was issued to it"
	case n.recovered:
		return "the node has recovered from its error"
	case k.Failed() && !k.Broke() && k.IssuedBoot != n.Boot && k.Boot == n.Boot: // refused in this boot: so again
		return "node is back with an error"
	}
	return ""
}

// ahead reports whether a node has heard of a document that is newer than the one it should have,
// and that a document issued now would be newer than: this journal is an old copy, in a new epoch.
func (s *step) ahead(k *KindState) bool {
	newest := k.Newest()
	here := wire.Stamp{Epoch: s.opt.Epoch, Rev: s.seq}
	return k.Desired != nil && newest.Compare(k.Desired.Stamp()) > 0 && newest.Compare(here) <= 0 &&
		k.shown.Compare(newest) >= 0
}

// issue makes documents of a kind for nodes and returns how many. Those that are made of different documents of its
// source are different issues.
func (s *step) issue(o offer, nodes []*Node, whole bool, reason string) int {
	if !o.split {
		return s.issueAs(o, nodes, whole, reason)
	}
	var order []string
	by := map[string][]*Node{}
	for _, n := range nodes {
		of := o.variant(n).of
		if by[of] == nil {
			order = append(order, of)
		}
		by[of] = append(by[of], n)
	}
	count := 0
	for _, of := range order {
		o.of = of
		o.version = o.variantOf(of).version
		count += s.issueAs(o, by[of], whole, reason)
	}
	return count
}

func (s *step) issueAs(o offer, nodes []*Node, whole bool, reason string) int {
	data := record.IssuedData{
		Epoch: s.opt.Epoch, Version: o.version, Mode: o.mode, Within: duration.Duration(o.within),
		Whole: whole, Reason: reason, Docs: []record.IssuedDoc{},
	}
	if o.split && o.of != o.main.inForce(o.mode) {
		data.Of = o.of
	}
	at := map[string]int{}
	var bodies [][]byte
	count := 0
	for _, n := range nodes {
		if !s.takesDocuments(n) {
			continue // it gets its document when it tells its type, or has joined anew
		}
		body := o.body(n)
		if body == nil {
			continue
		}
		i, ok := at[body.Hash]
		if !ok {
			i = len(data.Docs)
			at[body.Hash] = i
			data.Docs = append(data.Docs, record.IssuedDoc{Hash: body.Hash})
			bodies = append(bodies, body.Bytes)
		}
		data.Docs[i].Nodes = append(data.Docs[i].Nodes, n.Name)
		count++
	}
	if o.split && count == 0 {
		return 0
	}
	s.out.Bodies = append(s.out.Bodies, bodies...)
	s.emit(record.Record{Type: record.Issued, Kind: string(o.Name), Who: o.who}, data)
	for i, g := range data.Docs {
		doc := s.nodes[g.Nodes[0]].kind(o.Name).Desired
		s.effect(Publish{Kind: o.Name, Doc: doc, Body: bodies[i], Nodes: g.Nodes})
	}
	return count
}
