package op

import (
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Management policies (seed 003).
var (
	ListPolicies = define(Op[None, view.Policies]{
		Name: "policies.list", Route: "GET /v1/policies", Role: View,
		About: "Lists the management policies, by name, with how many nodes match each.",
	})
	ShowPolicy = define(Op[PolicyVersionIn, view.Policy]{
		Name: "policy.show", Route: "GET /v1/policies/{policy}", Role: View,
		About: "Shows a policy, or an earlier version of it, and the nodes that match that, enabled or not.",
	})
	HistoryOfPolicy = define(Op[PolicyIn, view.PolicyHistory]{
		Name: "policy.history", Route: "GET /v1/policies/{policy}/history", Role: View,
		About: "Lists what happened to a policy, also to one that was removed.",
	})
	DiffPolicy = define(Op[PolicyDiffIn, view.Diff]{
		Name: "policy.diff", Route: "GET /v1/policies/{policy}/diff", Role: View,
		About: "Shows what changes from one version of a policy to another; owner and lastUpdated do not count.",
	})
	WhyPolicy = define(Op[PolicyNodeIn, view.PolicyWhy]{
		Name: "policy.why", Route: "GET /v1/nodes/{node}/policies/{policy}/why", Role: View,
		About: "Says what becomes of a policy on a node, and why.",
	})
	StatusOfPolicy = define(Op[PolicyStatusIn, view.PolicyStatus]{
		Name: "policy.status", Route: "GET /v1/policies/{policy}/status", Role: View,
		About: "Shows how far the nodes are with a policy; those that are not done come first.",
	})
	ApplyPolicy = define(Op[ApplyPolicyIn, view.PolicyChange]{
		Name: "policy.apply", Route: "POST /v1/policies/{policy}", Role: Operate,
		About: "Sets a policy, in place of the one of that name. One that is enabled and would hit every node is a " +
			"not-allowed, unless allNodes is set. With dryRun nothing is changed; issued is how many nodes match it.",
	})
	RollBackPolicy = define(Op[RollBackPolicyIn, view.PolicyChange]{
		Name: "policy.rollback", Route: "POST /v1/policies/{policy}/rollback", Role: Operate,
		About: "Makes a policy again what it was in an earlier version, enabled or not; one that was removed comes " +
			"back. One that would hit every node is a not-allowed, unless allNodes is set.",
	})
	EnablePolicy = define(Op[EnablePolicyIn, view.PolicyChange]{
		Name: "policy.enable", Route: "POST /v1/policies/{policy}/enable", Role: Operate,
		About: "Has nodes act on a policy. One that would hit every node is a not-allowed, unless allNodes is set.",
	})
	DisablePolicy = define(Op[PolicyIn, view.PolicyChange]{
		Name: "policy.disable", Route: "POST /v1/policies/{policy}/disable", Role: Operate,
		About: "Has nodes not act on a policy any more. What a node has begun to try it ends.",
	})
	RemovePolicy = define(Op[PolicyIn, view.PolicyChange]{
		Name: "policy.remove", Route: "DELETE /v1/policies/{policy}", Role: Operate,
		About: "Removes a policy.",
	})
)

// What operators say of a node, for policies to choose it by.
var (
	SetProperty = define(Op[SetPropertyIn, view.PolicyChange]{
		Name: "property.set", Route: "POST /v1/nodes/{node}/properties/{property}", Role: Operate,
		About: "Sets a property of a node, in place of what the node says of it.",
	})
	UnsetProperty = define(Op[PropertyIn, view.PolicyChange]{
		Name: "property.unset", Route: "DELETE /v1/nodes/{node}/properties/{property}", Role: Operate,
		About: "Takes back what was set: what the node says of it counts again.",
	})
	ShowProperties = define(Op[NodeIn, view.NodeProperties]{
		Name: "properties.show", Route: "GET /v1/nodes/{node}/properties", Role: View,
		About: "Shows the properties of a node, where each is from, its constraints and pattern.",
	})
)

// Versions of the agent on offer.
var (
	ListReleases = define(Op[None, view.AgentReleases]{
		Name: "agent.releases", Route: "GET /v1/agent/releases", Role: View,
		About: "Lists the versions of the agent that are on offer, the lowest first.",
	})
	ReleaseAgent = define(Op[ReleaseIn, view.PolicyChange]{
		Name: "agent.release", Route: "POST /v1/agent/releases/{version}", Role: Operate,
		About: "Puts a version of the agent on offer. What is on offer does not change: another program is another " +
			"version.",
	})
	WithdrawAgent = define(Op[AgentVersionIn, view.PolicyChange]{
		Name: "agent.withdraw", Route: "DELETE /v1/agent/releases/{version}", Role: Operate,
		About: "Takes a version of the agent off the offer. Nodes that run it go on.",
	})
)

// PolicyIn names a policy.
type PolicyIn struct {
	Policy string `path:"policy" is:"name" json:"-"` // its name
}

// PolicyVersionIn names a version of a policy.
type PolicyVersionIn struct {
	PolicyIn
	Version uint64 `query:"version" json:"-"` // the rev of a change; 0: as it is now
}

// PolicyDiffIn names two versions of a policy.
type PolicyDiffIn struct {
	PolicyIn
	From uint64 `query:"from" json:"-"` // the rev of a change; 0: as it is now
	To   uint64 `query:"to" json:"-"`   // the same
}

// RollBackPolicyIn says what a policy is to be again.
type RollBackPolicyIn struct {
	PolicyIn
	AllNodes bool   `query:"allNodes" json:"-"` // it may hit every node
	To       uint64 `query:"to" json:"-"`       // the rev of a change; 0: before it said what it says now
}

// PolicyNodeIn names a policy and a node.
type PolicyNodeIn struct {
	NodeIn
	PolicyIn
}

// PolicyStatusIn names a policy, and of which node.
type PolicyStatusIn struct {
	PolicyIn
	Node  string `query:"node" is:"name" json:"-"`           // this node only
	Limit uint64 `query:"limit" min:"1" max:"1000" json:"-"` // of the nodes listed; 0: 100
}

// ApplyPolicyIn is a policy that is set.
type ApplyPolicyIn struct {
	PolicyIn
	AllNodes bool   `query:"allNodes" json:"-"`        // it may hit every node
	DryRun   bool   `query:"dryRun" json:"-"`          // only say what it would come to
	Document []byte `body:"application/json" json:"-"` // the policy
}

// EnablePolicyIn names a policy that is enabled.
type EnablePolicyIn struct {
	PolicyIn
	AllNodes bool `query:"allNodes" json:"-"` // it may hit every node
}

// PropertyIn names a property of a node.
type PropertyIn struct {
	NodeIn
	Property string `path:"property" json:"-"` // its name
}

// SetPropertyIn is a property that is set.
type SetPropertyIn struct {
	PropertyIn
	PropertyValue
}

// AgentVersionIn names a version of the agent.
type AgentVersionIn struct {
	Version string `path:"version" is:"version" json:"-"` // semantic
}

// ReleaseIn is a version of the agent that is put on offer.
type ReleaseIn struct {
	AgentVersionIn
	AgentBuilds
}

// AgentBuilds are the programs of a version.
type AgentBuilds struct {
	Builds []view.AgentBuild `json:"builds"` // one for each architecture
}

// Check judges that there are some.
func (in *AgentBuilds) Check() *wire.Error {
	if len(in.Builds) == 0 {
		return wire.New(wire.CodeMissing, "/builds", "required")
	}
	return nil
}

// PropertyValue is the value of a property.
type PropertyValue struct {
	Value jsontext.Value `json:"value"`          // a text, number, boolean or list of texts
	Type  string         `json:"type,omitempty"` // "": that of the value
}
