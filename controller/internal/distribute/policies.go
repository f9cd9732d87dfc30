package distribute

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/policies"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// change changes a collection, and issues the documents that follow from it.
func (c *Core) change(ctx context.Context, source wire.Kind, data any) (view.PolicyChange, error) {
	who := caller.From(ctx).Who()
	r, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Change{Ticket: t, Source: source, Data: data, Who: who}
	})
	return view.PolicyChange{Rev: r.Rev, Issued: r.Issued, Rollout: r.Rollout}, err
}

// look reads the unit for an answer that may be an error.
func look[T any](ctx context.Context, c *Core, read func(*fleet.Fleet) (T, *wire.Error)) (v T, err error) {
	var why *wire.Error
	if err := c.see(ctx, func(f *fleet.Fleet) { v, why = read(f) }); err != nil {
		return v, err
	}
	if why != nil {
		return v, why
	}
	return v, nil
}

// Policies lists the management policies.
func (c *Core) Policies(ctx context.Context) (v view.Policies, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v = policies.List(f) })
	return v, err
}

// Policy shows one, or an earlier version of it, and the nodes that it hits.
func (c *Core) Policy(ctx context.Context, in op.PolicyVersionIn) (view.Policy, error) {
	if in.Version != 0 {
		past, err := c.past(ctx, in.Policy, in.Version)
		if err != nil {
			return view.Policy{}, err
		}
		return look(ctx, c, func(f *fleet.Fleet) (view.Policy, *wire.Error) { return past.Shown(f) })
	}
	return look(ctx, c, func(f *fleet.Fleet) (view.Policy, *wire.Error) { return policies.Show(f, in.Policy) })
}

// PolicyStatus shows how far the nodes are with a policy.
func (c *Core) PolicyStatus(ctx context.Context, in op.PolicyStatusIn) (view.PolicyStatus, error) {
	limit := int(cmp.Or(in.Limit, policies.MaxNodes))
	return look(ctx, c, func(f *fleet.Fleet) (view.PolicyStatus, *wire.Error) {
		return policies.Status(f, in.Policy, in.Node, limit)
	})
}

// ApplyPolicy sets a policy, or only says what that would come to.
func (c *Core) ApplyPolicy(ctx context.Context, in op.ApplyPolicyIn) (view.PolicyChange, error) {
	d := policies.Change{Name: in.Policy, Document: in.Document, AllNodes: in.AllNodes}
	if in.DryRun {
		return look(ctx, c, func(f *fleet.Fleet) (view.PolicyChange, *wire.Error) {
			return view.PolicyChange{Issued: policies.Matches(f, d)}, f.Against(wire.KindPolicies, d, c.cfg.Now())
		})
	}
	return c.change(ctx, wire.KindPolicies, d)
}

// EnablePolicy has nodes act on a policy.
func (c *Core) EnablePolicy(ctx context.Context, in op.EnablePolicyIn) (view.PolicyChange, error) {
	return c.change(ctx, wire.KindPolicies,
		policies.Change{Name: in.Policy, Enabled: new(true), AllNodes: in.AllNodes})
}

// DisablePolicy has nodes not act on it any more.
func (c *Core) DisablePolicy(ctx context.Context, in op.PolicyIn) (view.PolicyChange, error) {
	return c.change(ctx, wire.KindPolicies, policies.Change{Name: in.Policy, Enabled: new(false)})
}

// RemovePolicy removes a policy.
func (c *Core) RemovePolicy(ctx context.Context, in op.PolicyIn) (view.PolicyChange, error) {
	return c.change(ctx, wire.KindPolicies, policies.Change{Name: in.Policy, Removed: true})
}

// past reads what happened to the policies of one name; of one version the document is kept. 0: of the newest.
func (c *Core) past(ctx context.Context, name string, want uint64) (*policies.Past, error) {
	past := &policies.Past{Name: name, Want: want}
	return past, c.scan(ctx, wire.KindPolicies, func(at kind.Change, r *record.Record) error {
		if r.Type == record.Rollout {
			d, err := dataOf[record.RolloutData](r)
			if err == nil && d.Ended != nil {
				past.Ended(at, d.ID, d.Ended.Phase)
			}
			return err
		}
		d, err := dataOf[policies.Change](r)
		if err == nil {
			past.Add(at, d)
		}
		return err
	}, record.Settings, record.Rollout)
}

// scan reads the records of some types about a collection, the oldest first.
func (c *Core) scan(ctx context.Context, source wire.Kind, take func(kind.Change, *record.Record) error,
	types ...record.Type) error {

	j, err := c.reader(ctx)
	if err != nil {
		return err
	}
	return j.Scan(journal.Filter{Kind: string(source), Types: types}, func(r record.Record) error {
		return cmp.Or(take(kind.Change{Seq: r.Seq, At: r.At, Who: r.Who}, &r), ctx.Err())
	})
}

// dataOf reads the data of a record.
func dataOf[D any](r *record.Record) (d D, err error) {
	if err = json.Unmarshal(r.Data, &d); err != nil {
		err = fmt.Errorf("entry %d: %w", r.Seq, err)
	}
	return d, err
}

// PolicyHistory lists what happened to the policies of one name.
func (c *Core) PolicyHistory(ctx context.Context, in op.PolicyIn) (view.PolicyHistory, error) {
	past, err := c.past(ctx, in.Policy, 0)
	if err != nil {
		return view.PolicyHistory{}, err
	}
	return past.History()
}

// DiffPolicy returns what changes from one version of a policy to another.
func (c *Core) DiffPolicy(ctx context.Context, in op.PolicyDiffIn) (v view.Diff, err error) {
	var sides [2]map[string]jsontext.Value
	var names [2]string
	for i, want := range []uint64{in.From, in.To} {
		past, err := c.past(ctx, in.Policy, want)
		if err != nil {
			return v, err
		}
		bare, werr := past.Bare()
		if werr != nil {
			return v, werr
		}
		sides[i], names[i] = map[string]jsontext.Value{"": bare}, "now"
		if want != 0 {
			names[i] = strconv.FormatUint(want, 10)
		}
	}
	v = view.Diff{From: names[0], To: names[1], Changes: []view.Change{}}
	all, err := kind.Changes(sides[0], sides[1], ctx.Err)
	if all.List != nil {
		v.Changes, v.Omitted = all.List, all.Omitted
	}
	return v, err
}

// RollBackPolicy makes a policy again what it was.
func (c *Core) RollBackPolicy(ctx context.Context, in op.RollBackPolicyIn) (view.PolicyChange, error) {
	past, err := c.past(ctx, in.Policy, in.To)
	if err != nil {
		return view.PolicyChange{}, err
	}
	d, werr := past.Back(in.AllNodes)
	if werr != nil {
		return view.PolicyChange{}, werr
	}
	v, err := c.change(ctx, wire.KindPolicies, d)
	v.Back = d.Back
	return v, err
}

// WhyPolicy says what becomes of a policy on a node, and why.
func (c *Core) WhyPolicy(ctx context.Context, in op.PolicyNodeIn) (view.PolicyWhy, error) {
	facts := why.PolicyFacts{Now: c.cfg.Now(), Name: in.Node}
	newest := uint64(0)
	verdict, err := look(ctx, c, func(f *fleet.Fleet) (why.PolicyVerdict, *wire.Error) {
		facts.Node, facts.Known = f.Show(in.Node)
		facts.Node.Identity = f.Identity(in.Node, facts.Now)
		newest = f.Seq()
		return policies.Judge(f, in.Policy, in.Node)
	})
	if err != nil {
		return view.PolicyWhy{}, err
	}
	facts.PolicyVerdict, facts.Doc = verdict, facts.Node.Documents[wire.KindPolicies]
	facts.Events, err = c.policyEvents(ctx, in, max(newest, maxWhyBack)-maxWhyBack)
	return why.Policy(facts), err
}

// policyEvents returns the newest events of a node about a policy, the newest last.
func (c *Core) policyEvents(ctx context.Context, in op.PolicyNodeIn, from uint64) ([]view.Entry, error) {
	filter := view.EntryFilter{Node: in.Node, Types: []string{event.Policy}, Reverse: true, From: from}
	all, err := c.Entries(ctx, filter)
	all = slices.DeleteFunc(all, func(e view.Entry) bool {
		var d struct {
			Detail event.PolicyDetail `json:"detail"`
		}
		return json.Unmarshal(e.Data, &d) != nil || d.Detail.Name != in.Policy
	})
	all = all[:min(len(all), maxWhyEvents)]
	slices.Reverse(all)
	return all, err
}

// SetProperty sets a property of a node.
func (c *Core) SetProperty(ctx context.Context, in op.SetPropertyIn) (view.PolicyChange, error) {
	return c.change(ctx, policies.KindProperties,
		policies.PropertyChange{Node: in.Node, Name: in.Property, Value: in.Value, Type: in.Type})
}

// UnsetProperty takes it back.
func (c *Core) UnsetProperty(ctx context.Context, in op.PropertyIn) (view.PolicyChange, error) {
	return c.change(ctx, policies.KindProperties, policies.PropertyChange{Node: in.Node, Name: in.Property})
}

// NodeProperties shows what policies choose a node by.
func (c *Core) NodeProperties(ctx context.Context, in op.NodeIn) (view.NodeProperties, error) {
	return look(ctx, c, func(f *fleet.Fleet) (view.NodeProperties, *wire.Error) {
		v, known := policies.NodeProperties(f, in.Node)
		if !known {
			return v, wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.100q has never described itself", in.Node))
		}
		return v, nil
	})
}

// AgentReleases lists the versions of the agent on offer.
func (c *Core) AgentReleases(ctx context.Context) (v view.AgentReleases, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v = policies.ListReleases(f) })
	return v, err
}

// ReleaseAgent puts a version of the agent on offer.
func (c *Core) ReleaseAgent(ctx context.Context, in op.ReleaseIn) (view.PolicyChange, error) {
	return c.change(ctx, policies.KindReleases, policies.Offer{Version: in.Version, Builds: in.Builds})
}

// WithdrawAgent takes a version off the offer.
func (c *Core) WithdrawAgent(ctx context.Context, in op.AgentVersionIn) (view.PolicyChange, error) {
	return c.change(ctx, policies.KindReleases, policies.Offer{Version: in.Version, Removed: true})
}
