package desired

import (
	"cmp"
	"slices"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/items"
)

// ReliefMove takes an instance of a service from a node that is overloaded to another one. It counts until the instance
// runs there and no more where it was; one whose target refuses the instance changes nothing.
type ReliefMove struct {
	Codename string   `json:"codename"` // of the service
	Subject  string   `json:"subject"`  // for which it runs
	Index    int      `json:"index"`    // of the instance
	From     string   `json:"from"`     // node
	To       string   `json:"to"`       // node
	Because  Overload `json:"because"`  // of From
}

// Service is what it takes.
func (m *ReliefMove) Service() Service { return Service{m.Codename, m.Subject, m.Index} }

// Overload is a node of which more was used on average than its rule allows, for the rule's minTimeout.
type Overload struct {
	Node      string            `json:"node"`      // its ID
	Parameter Parameter         `json:"parameter"` // of which too much is used
	Average   float64           `json:"average"`   // share of the node's, from 0 to 1
	Max       float64           `json:"max"`       // of the rule
	For       duration.Duration `json:"for"`       // for how long at least
}

// Parameter is what is measured.
type Parameter string

// The parameters, in the order in which they are relieved.
const (
	CPU Parameter = "cpu"
	RAM Parameter = "ram"
)

// addMoves sorts the moves by their instances.
func (w *world) addMoves() {
	w.moves = make(map[serviceKey][]*ReliefMove, len(w.in.Moves))
	for i := range w.in.Moves {
		m := &w.in.Moves[i]
		k := serviceKey{m.Codename, m.Subject, m.Index}
		w.moves[k] = append(w.moves[k], m)
	}
	for _, all := range w.moves {
		slices.SortFunc(all, func(a, b *ReliefMove) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
		})
	}
}

// moveOf is the move of an instance that runs where it leaves, or nowhere; nil: there is none, or it may not move.
func (w *world) moveOf(i *instance) *ReliefMove {
	k := serviceKey{i.Meta.Codename, i.subject.Codename, i.index}
	if len(w.moves) == 0 || w.moves[k] == nil || i.stuck() != "" {
		return nil
	}
	runs := w.runs[k]
	for _, m := range w.moves[k] {
		if m.From != m.To && (len(runs) == 0 || slices.ContainsFunc(runs, func(at int) bool {
			return w.in.Current.Instances[at].Node == m.From
		})) {
			return m
		}
	}
	return nil
}

// stuck is why an instance may leave no node; "": it may.
func (c *candidate) stuck() Stuck {
	switch {
	case c.Meta.BalancingPolicy == items.Unbalanced:
		return NotBalanced
	case c.kept:
		return NotAnew
	}
	return ""
}

// leave takes an instance that stays where it runs to where it should move. It comes after all that stay, so that it
// takes nobody's place; if the other node refuses it, it is as if there were no move.
func (w *world) leave(i *instance) {
	m := w.moveOf(i)
	if m == nil || i.at.node.Info.Node != m.From || w.byNode[m.To] == nil {
		return
	}
	from := i.at
	i.release()
	to, _ := w.search(i, []*node{w.byNode[m.To]})
	if to == nil {
		i.reserve(from)
		return
	}
	i.reserve(to)
	i.chosen, i.move = ByRelief, m
}

// arrive puts an instance that runs nowhere, or may not stay, where it should move.
func (w *world) arrive(i *instance) bool {
	m := w.moveOf(i)
	if m == nil || w.byNode[m.To] == nil {
		return false
	}
	to, _ := w.search(i, []*node{w.byNode[m.To]})
	if to == nil {
		return false
	}
	w.put(i, to, ByRelief)
	i.move = m
	return true
}
