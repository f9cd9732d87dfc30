// Package policies is the kind policies: the management policies of the unit (seed 003), what operators say of nodes
// for policies to choose them by, and the versions of the agent that are on offer. The controller matches: a node gets
// the enabled policies that hit it, and which of them decides.
//
//tandem:pure
package policies

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/wire"
)

// Set returns the sources and the kind.
func Set() kind.Set {
	return kind.Set{
		Sources: []*kind.Source{
			{Name: wire.KindPolicies, Title: "policies", Noun: "policy", Fold: policyFold()},
			{Name: KindProperties, Title: "properties of nodes", Noun: "property", Fold: propertyFold()},
			{Name: KindReleases, Title: "versions of the agent on offer", Noun: "version", Fold: releaseFold(),
				Artefacts: func(c kind.Content, each func(digest, by string)) { releasesOf(c).artefacts(each) }},
		},
		Kinds: []*kind.Kind{{
			Name: wire.KindPolicies, From: []wire.Kind{wire.KindPolicies, KindProperties, KindReleases},
			Build: build, Looks: kind.Looks{Type: true, Info: true}, Empty: none,
			Artefacts: named, Alike: true, Detail: kind.Detail[wire.PoliciesReport], Standing: standing,
			Blank: func() any { return &wire.PoliciesReport{} },
			Words: words,
		}},
	}
}

// none is what a node gets when no policy hits it any more.
var none = kind.NewBody(wire.Encode(&wire.Policies{FormatVersion: wire.PoliciesFormat}))

// Matching is what nodes get of the policies. It is the content of the kind.
type Matching struct {
	policies   *Collection
	properties *Properties
	releases   *Releases
	torrents   bool // some of these are on offer by BitTorrent, too
	candidates []policy.Candidate
	bodies     atomic.Pointer[map[string]*kind.Body] // that were made, by what they are about; it is replaced
}

// maxBodies bounds the bodies that are kept to be shared.
const maxBodies = 1000

func build(from map[wire.Kind]kind.Content) kind.Content {
	m := &Matching{policies: collectionOf(from[wire.KindPolicies]), properties: propertiesOf(from[KindProperties]),
		releases: releasesOf(from[KindReleases])}
	m.candidates, m.torrents = m.policies.candidates(), m.releases.torrents()
	m.bodies.Store(&map[string]*kind.Body{})
	return m
}

// For returns the policies that hit a node.
func (m *Matching) For(f kind.Facts) *kind.Body {
	if f.Info == nil || len(m.candidates) == 0 {
		return nil
	}
	hits := m.hits(f.Node, f.Type, f.Info)
	if len(hits) == 0 {
		return nil
	}
	plain := m.torrents && f.Info.Attributes[wire.AttributeBitTorrent] == wire.AttributeNone
	return m.body(hits, f.Info.Arch, plain)
}

// hits returns the enabled policies that hit a node.
func (m *Matching) hits(node, nodeType string, info *wire.NodeInfo) (all []policy.Candidate) {
	n := m.properties.describe(node, nodeType, info).node
	for _, c := range m.candidates {
		if policy.Match(c.Policy, n).Hits {
			all = append(all, c)
		}
	}
	return all
}

// body returns what nodes of an architecture get that are hit by these policies; plain: and have to be spared addresses
// of BitTorrent.
func (m *Matching) body(hits []policy.Candidate, arch string, plain bool) *kind.Body {
	var key strings.Builder
	key.WriteString(arch)
	if plain {
		key.WriteString("/") // which no name has
	}
	for _, c := range hits {
		key.WriteString("/" + c.Name)
	}
	bodies := *m.bodies.Load()
	if b := bodies[key.String()]; b != nil {
		return b
	}
	doc := wire.Policies{FormatVersion: wire.PoliciesFormat}
	upgrades := false
	for _, place := range policy.Rank(hits) {
		e := m.policies.List[place.Name]
		n := wire.NodePolicy{Name: place.Name, Rev: e.Rev, Conflict: place.Conflict}
		if place.Winner != place.Name {
			n.DecidedBy = place.Winner
		}
		n.Agent, upgrades = upgrade(e), true
		doc.Policies = append(doc.Policies, n)
	}
	for _, c := range hits { // those that want nothing are named, too
		if c.Policy.Upgrade == nil {
			doc.Policies = append(doc.Policies, wire.NodePolicy{Name: c.Name, Rev: m.policies.List[c.Name].Rev})
		}
	}
	if upgrades {
		doc.Agents = m.releases.offers(arch, plain)
	}
	b := kind.NewBody(wire.Encode(&doc))
	if len(bodies) < maxBodies {
		more := make(map[string]*kind.Body, len(bodies)+1)
		for k, v := range bodies {
			more[k] = v
		}
		more[key.String()] = b
		m.bodies.Store(&more) // another one that was made at the same time is made again
	}
	return b
}

// upgrade is what a node gets of a policy about the agent. The word now stands for the time of the newest change, or in
// a rollout for that at which the node gets it.
func upgrade(e *Entry) *wire.AgentUpgrade {
	u := e.policy.Upgrade
	a := &wire.AgentUpgrade{Auto: u.AutoUpgrade, Version: u.AtLeastVersion, Start: u.StartTime().UTC(),
		Duration: uint32(u.Duration), Downgrade: u.AllowDowngrade, Whole: e.policy.Rollout != nil}
	if a.Version == "" || a.Version == policy.Current {
		a.Version = wire.VersionCurrent
	}
	if a.Start.IsZero() {
		a.Start = e.At.UTC()
	}
	return a
}

// count returns how many nodes a policy hits, enabled or not, and how many there are that have described themselves.
func count(u kind.Unit, p *policy.Policy) (hits, all int) {
	properties := propertiesOf(u.Content(KindProperties))
	u.Each(wire.KindPolicies, func(n kind.Node) {
		if n.Info == nil || n.Revoked {
			return
		}
		all++
		if policy.Match(p, properties.describe(n.Name, n.Type(), n.Info).node).Hits {
			hits++
		}
	})
	return hits, all
}

// words says in a few words what a report has.
func words(raw jsontext.Value) (string, *wire.Error) {
	var r wire.PoliciesReport
	if json.Unmarshal(raw, &r) != nil || len(r.Policies) == 0 {
		return "", nil
	}
	var parts []string
	for i := range r.Policies {
		if s := &r.Policies[i]; i < 3 {
			state := strings.ReplaceAll(string(s.State), "-", " ")
			parts = append(parts, strings.TrimSpace(s.Name+" "+state+" "+s.Version))
		}
	}
	if more := len(r.Policies) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprint("and ", strconv.Itoa(more), " more"))
	}
	for i := range r.Policies {
		if err := r.Policies[i].Error; err != nil {
			return strings.Join(parts, ", "), err
		}
	}
	return strings.Join(parts, ", "), nil
}
