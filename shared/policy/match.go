package policy

import (
	"slices"
	"strings"

	"tandem.internal/shared/policy/constraint"
)

// Verdict is whether a policy hits a node, and by what.
type Verdict struct {
	Hits bool
	By   By
}

// By is what decided.
type By string

// What decides. A policy that hits a node by its pattern hits it whatever its constraints say.
const (
	ByPattern     By = "pattern"     // the policy names the pattern that the node uses
	ByConstraints By = "constraints" // both lists of constraints are true
	ByPolicySide  By = "policy"      // the policy's constraints are not true of the node
	ByNodeSide    By = "node"        // the node's constraints are not true of the policy
	ByNoSide      By = "side"        // the policy has patterns only and the node uses none of them, or the reverse
)

// Match decides whether a policy hits a node, whether it is enabled or not (seed 003). A node that uses a pattern is
// hit by a policy that lists it, or *. A node without a pattern, or which besides has constraints or a property that is
// no built-in, is hit if the policy's constraints are true of its properties and its constraints of the policy's
// properties; a policy with patterns and neither constraints nor properties has no such side.
func Match(p *Policy, n *Node) Verdict {
	if n.Pattern != "" && p.lists(n) {
		return Verdict{true, ByPattern}
	}
	switch {
	case !p.compares() || !n.compares():
		return Verdict{false, ByNoSide}
	case !p.constraints.Holds(n.properties):
		return Verdict{false, ByPolicySide}
	case !n.constraints.Holds(p.properties):
		return Verdict{false, ByNodeSide}
	}
	return Verdict{true, ByConstraints}
}

// lists reports whether one of the policy's patterns is the one that the node uses.
func (p *Policy) lists(n *Node) bool {
	return slices.ContainsFunc(p.Patterns, func(pattern string) bool { return p.names(pattern, n) })
}

// names reports whether a pattern of the policy is the one that the node uses. Without an organisation it is in that of
// the policy, and a policy without one in that of the node.
func (p *Policy) names(pattern string, n *Node) bool {
	if pattern == "*" || pattern == n.Pattern && p.Org == n.Org {
		return true
	}
	org := p.Org
	if org == "" {
		org = n.Org
	}
	return qualified(pattern, org) == qualified(n.Pattern, n.Org)
}

// compares reports whether the policy chooses nodes by constraints.
func (p *Policy) compares() bool {
	return len(p.Patterns) == 0 || len(p.constraints) > 0 || len(p.Properties) > 0
}

// compares reports whether the node is chosen by constraints.
func (n *Node) compares() bool { return n.Pattern == "" || n.own }

// HitsAll returns what about the policy makes it hit, by its logic alone, every node that uses a pattern, since it
// lists *, or every node that is chosen by constraints, since its own are always true (constraint.AlwaysTrue) of nodes
// with the properties in always; unless a node's own constraints keep it out. It does not depend on which nodes there
// are. The words follow "the policy"; "": it does not.
func (p *Policy) HitsAll(always map[string]constraint.Type) string {
	switch {
	case slices.Contains(p.Patterns, "*"):
		return "lists *, which is any pattern"
	case !p.compares() || !constraint.AlwaysTrue(p.constraints, always):
		return ""
	case len(p.constraints) == 0:
		return p.unbounded()
	}
	return "has constraints that are always true of the properties that every node has"
}

// unbounded says why a policy without constraints chooses by them all the same.
func (p *Policy) unbounded() string {
	switch {
	case len(p.Patterns) > 0:
		return "has properties and no constraints, so beside its patterns it takes every node that uses none"
	case len(p.Properties) > 0:
		return "has properties, which choose no nodes, and no constraints"
	}
	return "has neither constraints nor patterns"
}

// Explanation is why a policy hits a node or does not.
type Explanation struct {
	Hits     bool                     `json:"hits"`               // the policy is about the node
	By       By                       `json:"by"`                 // what decided
	Why      string                   `json:"why"`                // in words
	Patterns []PatternExplanation     `json:"patterns,omitempty"` // of the policy, if the node uses one
	Policy   []constraint.Explanation `json:"policy,omitempty"`   // its constraints, on the node's properties
	Node     []constraint.Explanation `json:"node,omitempty"`     // its constraints, on the policy's properties
}

// PatternExplanation is whether a pattern of a policy is that of a node.
type PatternExplanation struct {
	Pattern string `json:"pattern"` // with its organisation
	Value   bool   `json:"value"`   // it is that of the node
}

// Explain returns the verdict of Match with its reasons. What does not count is left out.
func Explain(p *Policy, n *Node) Explanation {
	v := Match(p, n)
	x := Explanation{Hits: v.Hits, By: v.By}
	org := p.Org
	if org == "" {
		org = n.Org
	}
	mine := qualified(n.Pattern, n.Org)
	if n.Pattern != "" {
		for _, pattern := range p.Patterns {
			shown := pattern
			if pattern != "*" {
				shown = qualified(pattern, org)
			}
			x.Patterns = append(x.Patterns, PatternExplanation{shown, p.names(pattern, n)})
		}
	}
	if p.compares() && n.compares() {
		x.Policy, x.Node = p.constraints.Explain(n.properties), n.constraints.Explain(p.properties)
	}
	switch v.By {
	case ByPattern:
		x.Why = "the policy lists the pattern that the node uses, " + mine
	case ByConstraints:
		if len(p.constraints) == 0 {
			x.Why = "the policy " + p.unbounded() + "; the node's constraints are true of it"
			break
		}
		x.Why = "the policy's constraints are true of the node, and the node's of the policy"
	case ByPolicySide:
		x.Why = "the policy's " + firstFalse(x.Policy) + " is not true of the node"
	case ByNodeSide:
		x.Why = "the node's " + firstFalse(x.Node) + " is not true of the policy"
	default:
		x.Why = p.noSide(n, mine)
	}
	return x
}

// firstFalse returns the first expression that is false, for a message.
func firstFalse(list []constraint.Explanation) string {
	i := slices.IndexFunc(list, func(x constraint.Explanation) bool { return !x.Value })
	return "constraint " + list[i].Expression
}

// noSide returns why nothing in the policy is about the node.
func (p *Policy) noSide(n *Node, mine string) string {
	switch {
	case n.Pattern == "":
		return "the policy chooses by patterns only, and the node uses none"
	case len(p.Patterns) > 0:
		return "the node uses the pattern " + mine + "; the policy lists " + strings.Join(p.Patterns, ", ")
	}
	return "the node uses the pattern " + mine + " and has no constraints or properties of its own; the policy lists " +
		"no pattern"
}
