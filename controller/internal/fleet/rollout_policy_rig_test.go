package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// underWay is the policy that a node is at; nil: none.
func (d *rolloutDoc) underWay() *wire.PolicyStatus {
	i := slices.IndexFunc(d.policies, func(s wire.PolicyStatus) bool { return s.State == wire.PolicyInitiated })
	if i < 0 {
		return nil
	}
	return &d.policies[i]
}

// finishPolicies has a node take a document of policies, and then begin with what is new in it; or end that. What has
// ended restarts the agent.
func (u *rolloutUnit) finishPolicies(n *rolloutNode, d *rolloutDoc) {
	if st := d.underWay(); st != nil && settled(d) {
		does := n.does
		if st.Version < "2" {
			does = obeys
		}
		switch does {
		case hangs:
			return
		case fails, breaks:
			st.State, st.Error = wire.PolicyRollbackSucceeded, wire.New(wire.CodeApplyFailed, "", "three starts")
		case dies:
			n.does, n.deadSince, n.because = obeys, u.now, d.brings
			u.leave(n)
			return
		default:
			st.State = wire.PolicySuccessful
		}
		if (does == alerts || does == breaks) && !n.sick && !n.wasSick {
			n.because = d.brings
		}
		u.ail(n, does == alerts || does == breaks)
		u.start(n)
		return
	}
	ref, before := *d.retained, d.policies
	d.last = &wire.Attempt{Epoch: ref.Epoch, Rev: ref.Rev, Version: ref.Version, Hash: ref.Hash, Attempt: 1, At: u.now,
		State: wire.StateInstalled}
	if brings, begins := u.brings(d); begins {
		d.brings = brings
	}
	d.running, d.policies, n.quietSince = &ref, nil, u.now
	for _, p := range u.policiesOf(ref.Hash) {
		st := wire.PolicyStatus{Name: p.Name, Rev: p.Rev, State: wire.PolicyNoAction, DecidedBy: p.DecidedBy}
		i := slices.IndexFunc(before, func(s wire.PolicyStatus) bool { return s.Name == p.Name && s.Rev == p.Rev })
		switch {
		case p.Conflict:
			st.State = wire.PolicyConflict
		case i >= 0:
			st = before[i]
		case p.Agent != nil:
			st.State, st.Version = wire.PolicyInitiated, p.Agent.Version
			d.at = u.now.Add(5 * time.Minute)
		}
		d.policies = append(d.policies, st)
	}
	n.seqs[wire.KindPolicies]++
	u.report(n, wire.KindPolicies)
}

// policiesOf reads a document of policies.
func (u *rolloutUnit) policiesOf(hash string) []wire.NodePolicy {
	doc, err := wire.Decode[wire.Policies](u.w.bodies[hash])
	if err != nil {
		u.Fatal(err)
	}
	return doc.Policies
}

// policyDocument is a policy that hits the nodes whose line is so, or all of a type; plan "": it is not rolled
// out.
func policyDocument(constraint, version, plan string) string {
	text := fmt.Sprintf(`{"enabled":true,"constraints":[%q],"agentUpgradePolicy":{"atLeastVersion":%q}`, constraint,
		version)
	if plan != "" {
		text += `,"rollout":` + plan
	}
	return text + "}"
}

// change changes a policy, and returns the ID of the rollout. If the controller was killed before it answered, it may
// have happened already.
func (u *rolloutUnit) change(d record.PolicyData) string {
	u.Helper()
	id, err := u.tryChange(d)
	if err == nil {
		return id
	}
	if !u.killed {
		u.Fatalf("%+v: %v", d, err)
	}
	if r := u.w.live.State(wire.KindPolicies).Rollout; r != nil && r.Element == d.Name {
		return r.ID
	}
	return id
}

func (u *rolloutUnit) tryChange(d record.PolicyData) (string, error) {
	d.AllNodes = true
	r, err := u.order(func() Event { return Change{Source: wire.KindPolicies, Data: d, Who: "ann"} })
	return r.Rollout, err
}

func (u *rolloutUnit) set(node, name, value string) {
	u.Helper()
	if _, err := u.order(func() Event {
		return Change{Source: record.KindProperties, Who: "ann",
			Data: record.PropertyData{Node: node, Name: name, Value: []byte(value)}}
	}); err != nil {
		u.Fatal(err)
	}
}

// told is what nodes say of a policy, each state with the nodes that are in it: "successful 2.0.0: n01 n02".
func (u *rolloutUnit) told(name string) string {
	by := map[string][]string{}
	for _, node := range u.names() {
		for _, st := range u.nodes[node].doc(wire.KindPolicies).policies {
			if st.Name == name {
				key := string(st.State) + " " + st.Version
				by[key] = append(by[key], node)
			}
		}
	}
	var all []string
	for key, nodes := range by {
		all = append(all, fmt.Sprintf("%s: %d", strings.TrimSpace(key), len(nodes)))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (u *rolloutUnit) wantTold(name, want string) {
	u.Helper()
	if got := u.told(name); got != want {
		u.Fatalf("of %s the nodes say %q, want %q", name, got, want)
	}
}

// report sends the report of a kind under the sequence number that it has.
func (u *rolloutUnit) report(n *rolloutNode, k wire.Kind) {
	r := &wire.Reported{V: wire.Version, Node: n.name, Kind: k, Boot: n.bootName(), Seq: n.seqs[k]}
	d := n.doc(k)
	r.Running, r.Last = d.running, d.last
	if k == wire.KindHealth {
		h := told(u.w, []string{"contact"}, nil)
		if !n.mute {
			quiet := wire.SpanOf(u.now.Sub(n.quietSince).Truncate(time.Second))
			h.Quiet = &wire.HealthQuiet{Alerts: quiet, Checks: quiet, Restarts: quiet, Workloads: quiet,
				Revs: map[wire.Kind]uint64{}}
			for k, d := range n.docs {
				if d.running != nil {
					h.Quiet.Revs[k] = d.running.Rev
				}
			}
		}
		r.Detail = wire.Encode(h)
	}
	if k == wire.KindPolicies {
		r.Detail = wire.Encode(&wire.PoliciesReport{Policies: slices.Clone(d.policies)})
	}
	u.say(n, r)
}
