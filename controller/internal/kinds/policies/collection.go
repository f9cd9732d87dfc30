package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/wire"
)

// Collection is the unit's management policies, by name.
type Collection struct {
	List map[string]*Entry `json:"policies,omitempty"`
}

// Entry is one policy. It is never changed, only replaced.
type Entry struct {
	Document jsontext.Value `json:"document"` // as Encode has it, with owner and lastUpdated
	Rev      uint64         `json:"rev"`      // of its newest change
	Since    uint64         `json:"since,omitzero"`
	At       time.Time      `json:"at"`
	Who      string         `json:"who,omitempty"`

	policy *policy.Policy
}

// Change is a change of a policy. It is the data of its records.
type Change = record.PolicyData

// maxPolicies bounds the policies of a unit: a node gets at most wire.MaxPolicies.
const maxPolicies = wire.MaxPolicies

func policyFold() *kind.Fold {
	return kind.JSON[Change, Collection](kind.Fold{Reason: "policies changed",
		Judge: judge, Weigh: weigh, Submit: submit, Apply: apply, Waves: waves, Load: load})
}

// judge says why a change is refused.
func judge(c kind.Content, data any) *wire.Error {
	all, d := collectionOf(c), data.(Change)
	had := all.List[d.Name]
	switch {
	case !wire.ValidName(d.Name):
		return wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("%.80q is no name of a policy", d.Name))
	case d.Document == nil && had == nil:
		return missing(d.Name)
	case d.Document == nil && d.Enabled != nil && *d.Enabled == had.policy.Enabled:
		return wire.New(wire.CodeWrongState, "", fmt.Sprintf("policy %s is %s already", d.Name, enabled(*d.Enabled)))
	case d.Document == nil:
		return nil
	case had == nil && len(all.List) >= maxPolicies:
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("a unit has at most %d policies", maxPolicies))
	}
	var inWaves *plan.Plan // nil: at once
	p, problems := policy.Parse(d.Document, rolloutOf(&inWaves))
	if problems != nil {
		return problems[0]
	}
	if err := contradicts(p, had); err != nil {
		return err
	}
	return rollable(p, inWaves, had)
}

// submit makes a change of a policy that was submitted over MQTT.
func submit(m *wire.Submission, from record.InboxData) (any, *wire.Error) {
	switch {
	case m.Name == "":
		return nil, wire.New(wire.CodeMissing, "/name", "the name of the policy is required")
	case m.Mode == wire.ModeTry:
		return nil, wire.New(wire.CodeNotSupported, "/mode", "a policy is not tried: each node tries what it wants")
	case m.Force:
		return nil, wire.New(wire.CodeNotSupported, "/force", "a policy does not fail: a version that failed on a "+
			"node is not gone to again")
	}
	return Change{Name: m.Name, Document: m.Document, AllNodes: m.AllNodes, Inbox: &from}, nil
}

// contradicts says that a document claims another owner or time than the controller has set: it was made from an
// older one, or from another policy.
func contradicts(p *policy.Policy, had *Entry) *wire.Error {
	if p.Owner != "" && (had == nil || p.Owner != had.policy.Owner) {
		return wire.New(wire.CodeNotAllowed, "/owner", "the controller sets the owner: leave it out")
	}
	if p.LastUpdated != "" && (had == nil || p.LastUpdated != had.policy.LastUpdated) {
		text := "the controller sets the time: leave it out"
		if had != nil {
			text = "the policy was changed since, at " + had.policy.LastUpdated + ", by " + had.Who +
				": begin from what tandem policy show prints, or leave it out"
		}
		return wire.New(wire.CodeWrongState, "/lastUpdated", text)
	}
	return nil
}

func enabled(yes bool) string {
	if yes {
		return "enabled"
	}
	return "disabled"
}

// weigh refuses what would hit every node, unless that was confirmed (seed 003: in a large scale environment).
func weigh(u kind.Unit, c kind.Content, data any) *wire.Error {
	d := data.(Change)
	if d.AllNodes || d.Removed {
		return nil
	}
	p := after(collectionOf(c).List[d.Name], d)
	if p == nil || !p.Enabled {
		return nil
	}
	hits, all := count(u, p)
	text := fmt.Sprintf("%d of %d", hits, all)
	if why := p.HitsAll(policy.BuiltIns()); why != "" {
		text = "it " + why + "; " + text + " now"
	} else if all == 0 || hits < all {
		return nil
	}
	err := wire.New(wire.CodeNotAllowed, wire.PathAllNodes, fmt.Sprintf("policy %s would hit every node: %s", d.Name,
		text))
	err.Nodes = all
	return err
}

// after returns a policy as it is after a change; nil: there is none.
func after(had *Entry, d Change) *policy.Policy {
	if d.Removed {
		return nil
	}
	var p *policy.Policy
	switch {
	case d.Document != nil:
		parsed, problems := policy.Parse(d.Document, nil)
		if problems != nil {
			return nil
		}
		p = parsed
	case had == nil:
		return nil
	default:
		p = new(*had.policy)
	}
	if d.Enabled != nil {
		p.Enabled = *d.Enabled
	}
	return p
}

// apply changes the policies. Whoever edits an enabled policy leaves it its place among those that are enabled;
// disabling gives that up.
func apply(c kind.Content, at kind.Change, data any) kind.Content {
	list, d := maps.Clone(collectionOf(c).List), data.(Change)
	if list == nil {
		list = map[string]*Entry{}
	}
	had := list[d.Name]
	p := after(had, d)
	if p == nil {
		delete(list, d.Name)
		return &Collection{list}
	}
	e := &Entry{Rev: at.Seq, At: at.At, Who: at.Who, policy: p}
	p.Owner, p.LastUpdated = owner(at.Who), at.At.UTC().Format(time.RFC3339Nano)
	if had != nil {
		p.Owner = had.policy.Owner
	}
	switch {
	case !p.Enabled:
	case had != nil && had.Since != 0:
		e.Since = had.Since
	default:
		e.Since = at.Seq
	}
	e.Document = policy.Encode(p)
	list[d.Name] = e
	return &Collection{list}
}

// owner is who created a policy, without a slash: what is before one would be its organisation.
func owner(who string) string {
	if who == "" {
		return "the controller"
	}
	return strings.ReplaceAll(who, "/", ":")
}

func load(saved jsontext.Value) (kind.Content, error) {
	all := &Collection{}
	if err := json.Unmarshal(saved, all); err != nil {
		return nil, err
	}
	for name, e := range all.List {
		p, problems := policy.Parse(e.Document, nil)
		if problems != nil {
			return nil, fmt.Errorf("policy %s: %w", name, problems[0])
		}
		e.policy = p
	}
	return all, nil
}

// For returns nothing: the documents are made by the kind.
func (*Collection) For(kind.Facts) *kind.Body { return nil }

func collectionOf(c kind.Content) *Collection { return kind.As[Collection](c) }

// names lists the policies.
func (c *Collection) names() []string { return slices.Sorted(maps.Keys(c.List)) }

// candidates are the enabled policies, in the order of their names.
func (c *Collection) candidates() (all []policy.Candidate) {
	for _, name := range c.names() {
		if e := c.List[name]; e.policy.Enabled {
			all = append(all, policy.Candidate{Name: name, Rev: e.Since, Policy: e.policy})
		}
	}
	return all
}
