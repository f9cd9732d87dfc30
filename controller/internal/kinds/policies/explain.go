package policies

import (
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/wire"
)

// Judge says what a policy is to a node.
func Judge(u kind.Unit, name, node string) (why.PolicyVerdict, *wire.Error) {
	all, properties, _ := collections(u)
	e := all.List[name]
	if e == nil {
		return why.PolicyVerdict{}, missing(name)
	}
	t := all.newTally(u, name)
	v := why.PolicyVerdict{Policy: t.view(e), Intent: e.policy.Upgrade != nil, Queued: t.waits(node)}
	v.Back = v.Queued && t.rolled.Back
	n, known := u.Node(wire.KindPolicies, node)
	if !known || n.Info == nil {
		return v, nil
	}
	d := properties.describe(node, n.Type(), n.Info)
	v.Match, v.Unread = new(policy.Explain(e.policy, d.node)), d.err
	if r, ok := n.Detail.(*wire.PoliciesReport); ok {
		if i := slices.IndexFunc(r.Policies, func(s wire.PolicyStatus) bool { return s.Name == name }); i >= 0 {
			v.Status = &r.Policies[i]
		}
	}
	if v.Queued {
		return v, nil
	}
	if t.rolled != nil && !t.rolled.Has(node) {
		all = collectionOf(u.Content(wire.KindPolicies))
	}
	hits := slices.DeleteFunc(all.candidates(), func(c policy.Candidate) bool {
		return !policy.Match(c.Policy, d.node).Hits
	})
	for _, place := range policy.Rank(hits) {
		if place.Name == name {
			w := all.List[place.Winner]
			v.Place, v.Winner = place, (&tally{policy: w.policy, name: place.Winner}).view(w)
		}
	}
	return v, nil
}
