package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	policykind "tandem.internal/controller/internal/kinds/policies"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/policytest"
	"tandem.internal/shared/wire"
)

// largePolicies is a unit of 10,000 nodes with 100 policies. One of them, "all", hits every node, and nodes are in
// every state with it: three quarters have reported.
func largePolicies(tb testing.TB) *policytest.Unit {
	tb.Helper()
	u := policytest.New()
	for i := range 100 {
		name, constraints := fmt.Sprint("p", i), fmt.Sprintf(`["line == %d || openhorizon.memory < 1024"]`, i)
		if i == 50 {
			name, constraints = "all", `[]`
		}
		doc := fmt.Sprintf(`{"enabled":true,"constraints":%s,"patterns":[],"properties":[],
			"agentUpgradePolicy":{"atLeastVersion":"2.%d.0"}}`, constraints, i)
		if err := u.Apply(apitest.Now, name, doc); err != nil {
			tb.Fatal(err)
		}
	}
	states := []wire.PolicyState{wire.PolicyWaiting, wire.PolicyDownloading, wire.PolicySuccessful, wire.PolicyFailed}
	for i := range 10_000 {
		name := fmt.Sprintf("node-%05d", i)
		u.Describe(name, wire.NodeInfo{Type: "edge", OS: "linux", Arch: "arm64", CPUs: 4, RAM: 2 << 30,
			AgentVersion: "1.0.0", Attributes: map[string]string{"line": fmt.Sprint(i % 100)}})
		if i%4 != 3 {
			s := wire.PolicyStatus{Name: "all", Rev: 51, State: states[i%len(states)], Version: "2.50.0"}
			if s.State == wire.PolicyFailed {
				s.Error = wire.New(wire.CodeApplyFailed, "", "exit status 1")
			}
			u.Report(name, []wire.PolicyStatus{s})
		}
	}
	return u
}

// BenchmarkPolicyStatus measures the command about a policy that hits all of 10,000 nodes: the controller's answer, the
// way by the socket, and what is printed, how many are in each state and the first 100 nodes.
func BenchmarkPolicyStatus(b *testing.B) {
	u := largePolicies(b)
	r := apitest.Start(b)
	served := benchOf(b, r, apitest.Instead(r,
		api.Bind(op.StatusOfPolicy, func(_ context.Context, in op.PolicyStatusIn) (view.PolicyStatus, error) {
			v, err := policykind.Status(u, in.Policy, in.Node, policykind.MaxNodes)
			if err != nil {
				return v, err
			}
			return v, nil
		})))
	b.ResetTimer()
	for range b.N {
		io := served.surroundings()
		var out bytes.Buffer
		io.Out = &out
		if exit := Run(b.Context(), []string{"policy", "status", "all"}, io); exit != 0 ||
			strings.Count(out.String(), "\nnode-") != policykind.MaxNodes || !strings.HasPrefix(out.String(),
			"5000 conflict, 1200 download started, 1300 unknown, 1200 waiting, 1300 successful\n") {
			b.Fatalf("exit status %d\n%.2000s", exit, out.String())
		}
	}
}
