package cli

import (
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/shared/wire"
)

// TestPolicies runs the commands about the unit's policies, properties of nodes and versions of the agent, one after
// the other on one unit, for people and as JSON.
func TestPolicies(t *testing.T) {
	for _, suffix := range []string{"", "-json"} {
		b := newBench(t, apitest.StartSample(t))
		enabled := b.write("line-4.json", `{"constraints":["line == 4"],"enabled":true,`+
			`"agentUpgradePolicy":{"duration":3600}}`)
		b.write("all.json", `{"enabled":true,"agentUpgradePolicy":{"atLeastVersion":"1.1.0"}}`)
		b.write("later.json", `{"constraints":["tandem.type == mainType"],`+
			`"agentUpgradePolicy":{"atLeastVersion":"1.2.0"}}`)
		b.write("line-5.json", `{"constraints":["line == 5 || line == 6","openhorizon.cpu > 1"],"enabled":true,`+
			`"agentUpgradePolicy":{"duration":60}}`)
		b.write("bad.json", `{"constraints":["line =="],"enabeld":true}`)
		for _, c := range []struct{ name, args string }{
			{"list-none", "policy list"},
			{"check", "policy check DIR/line-4.json"},
			{"check-bad", "policy check DIR/bad.json"},
			{"check-all", "policy check DIR/all.json"},
			{"property-set", "property set node-1 line 4"},
			{"property-set-version", "property set node-1 firmware 1.10.0 --type version"},
			{"property-set-text", "property set node-2 site lab,plant"},
			{"property-set-bad", "property set node-1 line {}"},
			{"property-set-measured", "property set node-1 openhorizon.arch x"},
			{"property-list", "property list node-1"},
			{"property-list-unknown", "property list nod-1"},
			{"apply", "policy apply DIR/line-4.json"},
			{"apply-all", "policy apply DIR/all.json"},
			{"apply-yes", "policy apply DIR/all.json --yes-all-nodes"},
			{"apply-later", "policy apply DIR/later.json"},
			{"apply-stdin", "policy apply -"},
			{"apply-name", "policy apply DIR/later.json --name a/b"},
			{"list", "policy list"},
			{"show", "policy show later"},
			{"show-unknown", "policy show latr"},
			{"status", "policy status line-4"},
			{"status-node", "policy status all --node node-1"},
			{"status-not-hit", "policy status line-4 --node node-2"},
			{"status-disabled", "policy status later"},
			{"enable", "policy enable later"},
			{"enable-again", "policy enable later"},
			{"disable", "policy disable all"},
			{"agent-list-none", "agent list"},
			{"agent-release-none", "agent release"},
			{"agent-release-text", "agent release " + enabled + " --version 1.1.0 --url https://files.example"},
			{"agent-withdraw", "agent withdraw 1.1.0"},
			{"apply-edit", "policy apply DIR/line-5.json --name line-4"},
			{"history", "policy history line-4"},
			{"history-unknown", "policy history line-5"},
			{"diff", "policy diff line-4 32 now"},
			{"diff-file", "policy diff line-4 now DIR/line-4.json"},
			{"diff-same", "policy diff line-4 32 32"},
			{"diff-neither", "policy diff line-4 now nosuch"},
			{"show-version", "policy show line-4 --version 32"},
			{"show-version-unknown", "policy show line-4 --version 1"},
			{"why-not-hit", "policy why line-4 node-1"},
			{"rollback", "policy rollback line-4"},
			{"rollback-same", "policy rollback line-4 --to 32"},
			{"rollback-never", "policy rollback line-6"},
			{"why", "policy why line-4 node-1"},
			{"why-conflict", "policy why later node-1"},
			{"why-disabled", "policy why all node-1"},
			{"why-unknown", "policy why line-4 nod-1"},
			{"remove", "policy remove all"},
			{"history-removed", "policy history all --limit 2"},
			{"rollback-removed", "policy rollback all"},
			{"remove-again", "policy remove all"},
			{"remove-unknown", "policy remove all"},
			{"property-unset", "property unset node-1 line"},
			{"property-unset-again", "property unset node-1 line"},
			{"events", "events --type settings --limit 4"},
		} {
			args := strings.Fields(strings.ReplaceAll(c.args, "DIR", b.dir))
			if suffix != "" {
				args = append(args, "--json")
			}
			golden(t, "policy-unit-"+c.name+suffix, b.transcript("", args...))
		}
	}
}

// TestAllNodesIsTyped: at a terminal whoever types how many nodes there are goes on; who types anything else does not.
// That number is asked for whatever the policy hits now.
func TestAllNodesIsTyped(t *testing.T) {
	for typed, want := range map[string]string{"4\n": "policy all is set", "2\n": "nothing was changed",
		"yes\n": "nothing was changed", "\n": "nothing was changed", "": "nothing was changed"} {
		for document, now := range map[string]string{`{"enabled":true}`: "4 of 4",
			`{"enabled":true,"patterns":["*"]}`: "0 of 4"} {
			b := newBench(t, apitest.StartSample(t))
			file := b.write("all.json", document)
			b.io.InTerminal, b.io.ErrTerminal = true, true
			stdout, stderr, status := b.run(typed, "policy", "apply", file)
			asks := now + " now.\nType 4, the number of all nodes, to go on: "
			if !strings.Contains(stderr, asks) || !strings.Contains(stdout+stderr, want) ||
				(status == 0) != (typed == "4\n") {
				t.Errorf("%q: status %d\n%s%s", typed, status, stdout, stderr)
			}
		}
	}
}

// TestPolicyInWaves has a unit roll a policy out: who shows the policy or the rollout is told of the other, the journal
// has both, and what would disturb it is refused.
func TestPolicyInWaves(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	doc := func(file, constraint, version, plan string) {
		b.write(file, `{"constraints":["`+constraint+`"],"enabled":true,`+
			`"agentUpgradePolicy":{"atLeastVersion":"`+version+`","duration":600},"rollout":`+plan+`}`)
	}
	const plan = `{"waves":[{"count":1,"canary":true},{"percent":100}],"maxUnavailable":{"count":3}}`
	doc("line-4.json", "line == 4", "1.2.0", plan)
	doc("next.json", "line == 4", "1.3.0", plan)
	doc("other.json", "line == 5", "1.2.0", plan)
	doc("zone.json", "line == 5", "1.2.0", strings.TrimSuffix(plan, "}")+
		`,"windows":[{"cron":"0 2 * * *","zone":"Mars/Base","duration":"PT1H"}]}`)
	doc("short.json", "line == 4", "1.2.0", strings.TrimSuffix(plan, "}")+`,"deadline":"PT20M"}`)
	b.write("late.json", `{"constraints":["line == 4"],"enabled":true,`+
		`"agentUpgradePolicy":{"start":"2031-01-01T00:00:00Z"},"rollout":`+plan+`}`)
	says := func(node string, all ...wire.PolicyStatus) func() {
		return func() {
			detail := wire.Encode(&wire.PoliciesReport{Policies: all})
			b.unit.Report(node, wire.KindPolicies, wire.StateInstalled, nil, detail)
		}
	}
	failed := wire.PolicyStatus{Name: "line-4", Rev: 31, State: wire.PolicyRollbackSucceeded, Version: "1.2.0",
		Error: wire.New(wire.CodeApplyFailed, "", "three starts")}
	for _, c := range []struct {
		name, args string
		before     func()
	}{
		{"property-1", "property set node-1 line 4", nil},
		{"property-2", "property set node-2 line 4", nil},
		{"check-zone", "policy check DIR/zone.json", nil},
		{"check-short", "policy check DIR/short.json", nil},
		{"check-late", "policy check DIR/late.json", nil},
		{"check", "policy check DIR/line-4.json", nil},
		{"apply", "policy apply DIR/line-4.json", nil},
		{"list", "policy list", nil},
		{"show", "policy show line-4", nil},
		{"status", "policy status line-4", nil},
		{"status-json", "policy status line-4 --json", nil},
		{"why-1", "policy why line-4 node-1", nil},
		{"why-2", "policy why line-4 node-2", nil},
		{"rollout", "rollout show", nil},
		{"check-again", "policy check DIR/next.json --name line-4", nil},
		{"again", "policy apply DIR/next.json --name line-4", nil},
		{"rollback", "policy rollback line-4", nil},
		{"other", "policy apply DIR/other.json", nil},
		{"other-check", "policy check DIR/other.json --json", nil},
		{"paused", "rollout show", says("node-1", failed)},
		{"abort", "rollout abort --take-back", nil},
		{"why-back", "policy why line-4 node-2", nil},
		{"status-back", "policy status line-4", nil},
		{"aborted", "rollout show", says("node-1")},
		{"status-aborted", "policy status line-4", nil},
		{"history", "policy history line-4", nil},
		{"apply-json", "policy apply DIR/next.json --name line-4 --json", nil},
		{"disable", "policy disable line-4", nil},
		{"rollouts", "rollout list", nil},
		{"enable", "policy enable line-4", nil},
		{"remove", "policy remove line-4", nil},
		{"history-removed", "policy history line-4", nil},
		{"events", "events --type rollout", nil},
		{"settings", "events --type settings --limit 8", nil},
	} {
		if c.before != nil {
			c.before()
		}
		args := strings.Fields(strings.ReplaceAll(c.args, "DIR", b.dir))
		golden(t, "policy-waves-"+c.name, b.transcript("", args...))
	}
}
