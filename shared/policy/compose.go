package policy

import "tandem.internal/shared/policy/constraint"

// Read returns the value of a property.
func (p Property) Read() (constraint.Value, error) { return value(p.Type, p.Value) }

// Compose returns what from is, with these properties in place of its own, for whoever knows more of a node than it
// says. own: one of them is no built-in. Constraints for management stand in place of the others, as in ParseNode.
func Compose(from *Node, properties constraint.Properties, own bool) *Node {
	n := &Node{Org: from.Org, Pattern: from.Pattern, constraints: from.constraints, properties: properties}
	n.own = own || len(n.constraints) > 0
	return n
}

// InForce returns the constraints of a node that count.
func (n *Node) InForce() []string {
	var all []string
	for _, e := range n.constraints {
		all = append(all, e.String())
	}
	return all
}
