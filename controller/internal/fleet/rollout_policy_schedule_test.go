package fleet

import (
	"maps"
	"slices"

	"tandem.internal/controller/internal/kinds/policies"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/wire"
)

// anyNode is true of each node of a schedule.
const anyNode = `tandem.type in "mainType, sideType"`

// atPolicy is the version of the policy that makes a node unavailable, since it is at it; "": none does.
func (u *rolloutUnit) atPolicy(d *rolloutDoc) string {
	switch {
	case d.running == nil || d.at.IsZero():
		return ""
	case !settled(d):
		version, _ := u.brings(d)
		return version
	case d.underWay() == nil:
		return ""
	}
	return d.brings
}

// brings is the version of the policy that a node's newest document is because of, and whether the node begins
// something with it. A node that is new, or was wiped, begins what it should have because of none.
func (u *rolloutUnit) brings(d *rolloutDoc) (version string, begins bool) {
	var has *wire.NodePolicy
	wants := u.line(d.retained.Hash)
	if d.running != nil {
		has = u.line(d.running.Hash)
	}
	switch {
	case wants == nil || has != nil && wants.Rev == has.Rev:
		return "", false
	case d.running == nil:
		return "", true
	case has == nil:
		return "line " + wants.Agent.Version, true
	}
	return "line " + max(wants.Agent.Version, has.Agent.Version), true // what is taken back is the newer one
}

// line is the policy in a document; nil: it is not there.
func (u *rolloutUnit) line(hash string) *wire.NodePolicy {
	p, known := u.lines[hash]
	if !known {
		if u.lines == nil {
			u.lines = map[string]*wire.NodePolicy{}
		}
		all := u.policiesOf(hash)
		if i := slices.IndexFunc(all, func(p wire.NodePolicy) bool { return p.Name == "line" }); i >= 0 {
			p = &all[i]
		}
		u.lines[hash] = p
	}
	return p
}

// beginPolicy changes the policy to another version, by a rollout.
func (c *rolloutSchedule) beginPolicy(key, document string) {
	id, err := c.tryChange(record.PolicyData{Name: "line", Document: []byte(document)})
	if id, err = c.began(id, err); err != nil {
		delete(c.limits, key)
		return
	}
	c.ids[key], c.enabled = id, true
}

// enable enables or disables the policy, whatever its rollout is at. Enabling begins another one, if the policy has a
// plan; who is ill because of it is so before.
func (c *rolloutSchedule) enable(yes bool) {
	id, err := c.tryChange(record.PolicyData{Name: "line", Enabled: &yes})
	if id, err = c.began(id, err); err != nil {
		return
	}
	if c.enabled = yes; id == "" {
		return
	}
	p, problems := policy.Parse(c.shown().Document, nil)
	if problems != nil {
		c.Fatalf("%v", problems)
	}
	key := "line " + p.Upgrade.AtLeastVersion
	c.ids[key] = id
	for _, n := range c.nodes {
		if n.because == key {
			n.because = ""
		}
	}
}

// began returns the ID of the rollout that a change has begun; also if the controller was killed before it answered.
func (c *rolloutSchedule) began(id string, err error) (string, error) {
	r := c.w.live.State(wire.KindPolicies).Rollout
	if err != nil && c.killed && r != nil && !slices.Contains(slices.Collect(maps.Values(c.ids)), r.ID) {
		return r.ID, nil
	}
	return id, err
}

// shown is the policy as it is shown.
func (c *rolloutSchedule) shown() view.Policy {
	v, err := policies.Show(c.w.live, "line")
	if err != nil {
		c.Fatalf("%v", err)
	}
	return v
}

// hasPolicy reports whether a document has the policy as it is, if it is enabled. Hash "": there is no document.
func (c *rolloutSchedule) hasPolicy(hash string) bool {
	v := c.shown()
	var has *wire.NodePolicy
	if hash != "" {
		has = c.line(hash)
	}
	if !v.Enabled {
		return has == nil
	}
	return has != nil && has.Rev == v.Rev
}
