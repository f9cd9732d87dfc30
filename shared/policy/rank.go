package policy

import (
	"cmp"
	"slices"
)

// Intent is what a policy is about. Policies of different intents never conflict (seed 003).
type Intent string

// IntentAgentUpgrade is the intent of the field agentUpgradePolicy.
const IntentAgentUpgrade Intent = "agentUpgradePolicy"

// Candidate is a policy that hits a node.
type Candidate struct {
	Name   string // unique
	Rev    uint64 // the rev that enabled it; an edit keeps it, disabling ends it
	Policy *Policy
}

// Place is what becomes of one intent of a policy on a node.
type Place struct {
	Name     string
	Intent   Intent
	Winner   string // the policy that acts: this one, or one that was enabled before it
	Conflict bool   // the winner wants something else
}

// Rank decides which of the policies that hit a node act. Per intent the one that was enabled first does; one that
// wants the same is no conflict. Policies that are not enabled have no place. The places are in the order of enabling,
// whatever the order of all.
func Rank(all []Candidate) []Place {
	list := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool { return !c.Policy.Enabled })
	slices.SortFunc(list, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Rev, b.Rev), cmp.Compare(a.Name, b.Name))
	})
	var places []Place
	var winner *Candidate // of the only intent that there is
	for i := range list {
		c := &list[i]
		if c.Policy.Upgrade == nil {
			continue
		}
		if winner == nil {
			winner = c
		}
		places = append(places, Place{c.Name, IntentAgentUpgrade, winner.Name,
			c.Policy.Upgrade.effective() != winner.Policy.Upgrade.effective()})
	}
	return places
}
