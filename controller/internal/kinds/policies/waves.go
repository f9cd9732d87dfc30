package policies

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// rolloutOf reads the field rollout of a policy. Whether there are the time zones of its windows, the fleet knows.
func rolloutOf(to **plan.Plan) func(*strictjson.Reader, strictjson.At) {
	return func(r *strictjson.Reader, at strictjson.At) {
		*to = plan.Read(r, at, func(string) (*time.Location, error) { return time.UTC, nil })
	}
}

// planOf returns the plan of a policy's rollout; nil: it has none.
func planOf(p *policy.Policy) (all *plan.Plan) {
	if p.Rollout == nil {
		return nil
	}
	if _, problems := policy.Parse(policy.Encode(p), rolloutOf(&all)); problems != nil {
		return nil // of a program with other rules
	}
	return all
}

// rollable says why a policy cannot be brought to the nodes by its plan, if it has one; nil: it can.
func rollable(p *policy.Policy, all *plan.Plan, had *Entry) *wire.Error {
	if all == nil {
		return nil
	}
	if _, over := begins(p); all.Deadline.Std() <= all.Gate.Soak.Std()+over {
		return wire.New(wire.CodeBadValue, "/rollout/deadline", fmt.Sprintf("a node begins within the duration of %d "+
			"s, and has to be in good health for %s then: the deadline %s is too short for it to pass",
			int(over.Seconds()), all.Gate.Soak, all.Deadline))
	}
	if had != nil && had.policy.Enabled && p.Enabled && bytes.Equal(policy.Bare(had.policy), policy.Bare(p)) {
		return wire.New(wire.CodeAlreadyExists, "", "the policy says this already, and is enabled: there is nothing "+
			"to roll out")
	}
	return nil
}

// begins returns when nodes begin with a policy: not before a time, which is zero for now, and within a time after
// that.
func begins(p *policy.Policy) (start time.Time, over time.Duration) {
	u := p.Upgrade
	if u == nil || u.AutoUpgrade {
		return time.Time{}, 0
	}
	return u.StartTime(), time.Duration(u.Duration) * time.Second
}

// waves says how a change comes to the nodes: by the rollout of the policy as it is then, if nodes act on it.
func waves(c kind.Content, data any) kind.Waves {
	d := data.(Change)
	p := after(collectionOf(c).List[d.Name], d)
	if p == nil || !p.Enabled {
		return kind.Waves{Ends: true}
	}
	w := kind.Waves{Plan: planOf(p)}
	w.Start, w.Over = begins(p)
	return w
}

// standing says what a node has made of a policy, by its report.
func standing(c kind.Content, f kind.Facts, detail any, name string) kind.Standing {
	m, ok := c.(*Matching)
	if !ok {
		return kind.Standing{}
	}
	rev := uint64(0) // of the policy in the node's document
	if e := m.policies.List[name]; e != nil && e.policy.Enabled && f.Info != nil &&
		policy.Match(e.policy, m.properties.describe(f.Node, f.Type, f.Info).node).Hits {
		rev = e.Rev
	}
	var st *wire.PolicyStatus
	if r, ok := detail.(*wire.PoliciesReport); ok {
		if i := slices.IndexFunc(r.Policies, func(s wire.PolicyStatus) bool { return s.Name == name }); i >= 0 {
			st = &r.Policies[i]
		}
	}
	switch {
	case st == nil:
		return kind.Standing{Done: rev == 0, Idle: rev == 0}
	case st.Rev != rev:
		return kind.Standing{}
	}
	switch st.State {
	case wire.PolicySuccessful, wire.PolicyNoAction, wire.PolicyConflict:
		return kind.Standing{Done: true, Idle: true}
	case wire.PolicyPrecheckFailed, wire.PolicyFailed, wire.PolicyRollbackSucceeded, wire.PolicyRollbackFailed:
		return kind.Standing{Idle: true, Error: failure(st)}
	case wire.PolicyWaiting, wire.PolicyDownloadFailed:
		return kind.Standing{Idle: true}
	}
	return kind.Standing{}
}

// failure is why a node has failed at a policy.
func failure(st *wire.PolicyStatus) *wire.Error {
	switch {
	case st.Rollback != nil:
		return st.Rollback
	case st.Error != nil:
		return st.Error
	}
	state := strings.ReplaceAll(string(st.State), "-", " ")
	return wire.New(wire.CodeApplyFailed, "", "it is "+state+", and gave no reason")
}
