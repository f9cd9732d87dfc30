package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/wire"
)

// MaxNodes bounds the nodes that are listed of a policy, unless more are asked for.
const MaxNodes = 100

// collections returns the policies, one that is rolled out as its rollout brings it, what operators say of nodes, and
// what is on offer.
func collections(u kind.Unit) (*Collection, *Properties, *Releases) {
	all := collectionOf(u.Content(wire.KindPolicies))
	if r := u.Rolled(wire.KindPolicies); r != nil {
		all = collectionOf(r.Content)
	}
	return all, propertiesOf(u.Content(KindProperties)), releasesOf(u.Content(KindReleases))
}

// missing is the error of a policy that is not there.
func missing(name string) *wire.Error {
	return wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no policy %.80s; tandem policy list has them", name))
}

// tally counts the nodes that a policy hits.
type tally struct {
	policy *policy.Policy
	name   string
	rev    uint64             // of its newest change: what nodes report of another one does not count
	ahead  []policy.Candidate // those that would decide in its place, the first first
	hits   int

	rolled *kind.Rolled       // that goes on, of this policy or another one; nil: none does
	before []policy.Candidate // ahead, on nodes that a rollout has not reached

	states map[wire.PolicyState]int
	nodes  []view.PolicyNode
	wanted func(kind.Node) bool // whether a node is listed; nil: none is
}

// newTally returns the tally of a policy that is named and counted.
func (c *Collection) newTally(u kind.Unit, name string) *tally {
	e := c.List[name]
	t := &tally{policy: e.policy, name: name, rev: e.Rev, ahead: c.ahead(e)}
	if t.rolled = u.Rolled(wire.KindPolicies); t.rolled != nil {
		t.before = collectionOf(u.Content(wire.KindPolicies)).ahead(e)
	}
	return t
}

// ahead lists the policies that would decide in the place of one.
func (c *Collection) ahead(e *Entry) (all []policy.Candidate) {
	if e.policy.Upgrade == nil || !e.policy.Enabled {
		return nil
	}
	for _, other := range c.candidates() {
		if other.Policy.Upgrade != nil && other.Rev < e.Since {
			all = append(all, other)
		}
	}
	slices.SortFunc(all, func(a, b policy.Candidate) int { return cmp.Compare(a.Rev, b.Rev) })
	return all
}

// rollout is the ID of that of this policy; "": none goes on.
func (t *tally) rollout() string {
	if t.rolled == nil || t.rolled.Element != t.name {
		return ""
	}
	return t.rolled.ID
}

// waits reports whether a node still has of this policy what it had before the rollout.
func (t *tally) waits(node string) bool { return t.rollout() != "" && !t.rolled.Has(node) }

// conflict returns the policy that decides on a node and wants something else; "": there is none.
func (t *tally) conflict(node string, n *policy.Node) string {
	ahead := t.ahead
	if t.rolled != nil && !t.rolled.Has(node) {
		ahead = t.before
	}
	for _, c := range ahead {
		if policy.Match(c.Policy, n).Hits {
			places := policy.Rank([]policy.Candidate{c, {Name: t.name, Rev: c.Rev + 1, Policy: t.policy}})
			if places[1].Conflict {
				return c.Name
			}
			return ""
		}
	}
	return ""
}

// add counts a node that the policy hits, where by is in conflict with it, if that is not "".
func (t *tally) add(n kind.Node, by string) {
	t.hits++
	if !t.policy.Enabled {
		if t.wanted != nil && t.wanted(n) {
			t.nodes = append(t.nodes, view.PolicyNode{Node: n.Name, Online: n.Up,
				PolicyStatus: wire.PolicyStatus{Name: t.name, State: view.PolicyUnknown}})
		}
		return
	}
	st := wire.PolicyStatus{Name: t.name, State: view.PolicyUnknown}
	if t.waits(n.Name) {
		if st.State, by = view.PolicyQueued, ""; t.rolled.Back {
			st.State = view.PolicyTakenBack
		}
	} else if r, ok := n.Detail.(*wire.PoliciesReport); ok {
		for i := range r.Policies {
			if one := &r.Policies[i]; one.Name == t.name && one.Rev == t.rev {
				st = *one
			}
		}
	}
	switch { // who decides is the controller's to say, whatever the node knows by now
	case by != "" && (st.State != wire.PolicyConflict || st.DecidedBy != by):
		st = wire.PolicyStatus{Name: t.name, Rev: t.rev, State: wire.PolicyConflict, DecidedBy: by}
	case by == "" && st.State == wire.PolicyConflict:
		st = wire.PolicyStatus{Name: t.name, State: view.PolicyUnknown}
	}
	if t.states == nil {
		t.states = map[wire.PolicyState]int{}
	}
	t.states[st.State]++
	if t.wanted != nil && t.wanted(n) {
		t.nodes = append(t.nodes, view.PolicyNode{Node: n.Name, Online: n.Up, PolicyStatus: st})
	}
}

// counts lists the states that nodes are in, those that are not done first.
func (t *tally) counts() (all []view.PolicyCount) {
	for state, n := range t.states {
		all = append(all, view.PolicyCount{State: state, Nodes: n})
	}
	slices.SortFunc(all, func(a, b view.PolicyCount) int { return byState(a.State, b.State) })
	return all
}

// byState orders states: what went wrong, what is under way, what is done.
func byState(a, b wire.PolicyState) int {
	return cmp.Or(cmp.Compare(urgency(a), urgency(b)), cmp.Compare(a, b))
}

func urgency(s wire.PolicyState) int {
	switch s {
	case wire.PolicySuccessful, wire.PolicyNoAction:
		return 2
	case wire.PolicyWaiting, wire.PolicyDownloading, wire.PolicyDownloaded, wire.PolicyInitiated, view.PolicyUnknown,
		view.PolicyQueued, view.PolicyTakenBack:
		return 1
	}
	return 0
}

// each counts, for every tally, the nodes that its policy hits.
func each(u kind.Unit, properties *Properties, tallies []*tally) {
	u.Each(wire.KindPolicies, func(n kind.Node) {
		if n.Info == nil || n.Revoked {
			return
		}
		described := properties.describe(n.Name, n.Type(), n.Info).node
		for _, t := range tallies {
			if policy.Match(t.policy, described).Hits {
				t.add(n, t.conflict(n.Name, described))
			}
		}
	})
}

// List lists the policies, by name.
func List(u kind.Unit) view.Policies {
	all, properties, _ := collections(u)
	var tallies []*tally
	for _, name := range all.names() {
		tallies = append(tallies, all.newTally(u, name))
	}
	each(u, properties, tallies)
	v := view.Policies{Policies: make([]view.Policy, 0, len(tallies))}
	for _, t := range tallies {
		v.Policies = append(v.Policies, t.view(all.List[t.name]))
	}
	return v
}

func (t *tally) view(e *Entry) view.Policy {
	return view.Policy{Name: t.name, Enabled: t.policy.Enabled, Rev: e.Rev, Since: e.Since, At: e.At, Who: e.Who,
		Matching: t.hits, States: t.counts(), Rollout: t.rollout()}
}

// Show shows one policy, and which nodes it hits, also before it is enabled.
func Show(u kind.Unit, name string) (view.Policy, *wire.Error) {
	all, properties, _ := collections(u)
	e := all.List[name]
	if e == nil {
		return view.Policy{}, missing(name)
	}
	t := all.newTally(u, name)
	t.wanted = func(kind.Node) bool { return true }
	each(u, properties, []*tally{t})
	v := t.view(e)
	v.Document = e.Document
	t.named(&v)
	return v, nil
}

// named names the nodes that were listed, in their order.
func (t *tally) named(v *view.Policy) {
	slices.SortFunc(t.nodes, func(a, b view.PolicyNode) int { return strings.Compare(a.Node, b.Node) })
	kind.Clip(&t.nodes, kind.MaxNamed)
	for _, n := range t.nodes {
		v.Nodes = append(v.Nodes, n.Node)
	}
}

// Status shows how far the nodes are with a policy, at most limit of them, or only node.
func Status(u kind.Unit, name, node string, limit int) (view.PolicyStatus, *wire.Error) {
	all, properties, _ := collections(u)
	e := all.List[name]
	if e == nil {
		return view.PolicyStatus{}, missing(name)
	}
	t := all.newTally(u, name)
	t.wanted = func(n kind.Node) bool { return node == "" || n.Name == node }
	each(u, properties, []*tally{t})
	v := view.PolicyStatus{Name: name, Enabled: e.policy.Enabled, States: t.counts(), Rollout: t.rollout()}
	slices.SortFunc(t.nodes, func(a, b view.PolicyNode) int {
		return cmp.Or(byState(a.State, b.State), strings.Compare(a.Node, b.Node))
	})
	v.Omitted = kind.Clip(&t.nodes, limit)
	v.Nodes = t.nodes
	if node != "" && len(t.nodes) == 0 {
		return v, wire.New(wire.CodeNotFound, "", fmt.Sprintf("policy %s does not hit node %.80s", name, node))
	}
	return v, nil
}

// Matches returns how many nodes a policy would hit after a change.
func Matches(u kind.Unit, d Change) (hits int) {
	all, _, _ := collections(u)
	if p := after(all.List[d.Name], d); p != nil {
		hits, _ = count(u, p)
	}
	return hits
}

// NodeProperties shows what policies choose a node by, or what has been set for one that has not described itself yet;
// false: nothing has.
func NodeProperties(u kind.Unit, name string) (view.NodeProperties, bool) {
	_, properties, _ := collections(u)
	n, known := u.Node(wire.KindPolicies, name)
	if !known || n.Info == nil {
		v := view.NodeProperties{Node: name}
		for _, property := range slices.Sorted(maps.Keys(properties.Nodes[name])) {
			set := properties.Nodes[name][property]
			v.Properties = append(v.Properties, view.NodeProperty{Name: property, Value: set.Value, Type: set.Type,
				From: byOperator, At: set.At, Who: set.Who})
		}
		return v, len(v.Properties) > 0
	}
	d := properties.describe(name, n.Type(), n.Info)
	v := view.NodeProperties{Node: name, Org: d.node.Org, Pattern: d.node.Pattern, Constraints: d.node.InForce(),
		Error: d.err, Properties: make([]view.NodeProperty, 0, len(d.all))}
	for _, one := range d.list() {
		p := view.NodeProperty{Name: one.Name, Value: one.Value, Type: string(one.Type), From: one.from}
		if one.from == byOperator {
			set := properties.Nodes[name][one.Name]
			p.At, p.Who = set.At, set.Who
		}
		v.Properties = append(v.Properties, p)
	}
	return v, true
}

// ListReleases lists the versions of the agent on offer, the lowest first.
func ListReleases(u kind.Unit) view.AgentReleases {
	_, _, releases := collections(u)
	running := map[string]int{}
	u.Each(wire.KindPolicies, func(n kind.Node) {
		if n.Info != nil && !n.Revoked {
			running[n.Info.AgentVersion]++
		}
	})
	v := view.AgentReleases{Releases: make([]view.AgentRelease, 0, len(releases.List))}
	for _, version := range releases.versions() {
		r := releases.List[version]
		v.Releases = append(v.Releases, view.AgentRelease{Version: version, Builds: r.Builds, Rev: r.Rev, At: r.At,
			Who: r.Who, Running: running[version]})
	}
	return v
}
