package policies_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	agent "tandem.internal/nodeagent/policytest"
	"tandem.internal/shared/wire"
)

// order lists the policies that hit a node, enabled, in the order in which they were enabled.
func (w *world) order(node string) (all []string) {
	for name, p := range w.policies {
		if p.enabled && p.line == w.lines[node] {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(w.policies[a].since, w.policies[b].since) })
	return all
}

// wants says in words what the report of a node has to have of each policy: who decides, and whether that is a
// conflict.
func (w *world) wants(node string) (all map[string]string, decider string) {
	all = map[string]string{}
	for _, name := range w.order(node) {
		p := w.policies[name]
		switch {
		case p.version == "" && !p.auto:
			all[name] = "no-action-required"
		case decider == "":
			decider, all[name] = name, "decides"
		case p.says() != w.policies[decider].says():
			all[name] = "conflict behind " + decider
		default:
			all[name] = "decides behind " + decider
		}
	}
	return all, decider
}

// judge says what is wrong at the end.
func (w *world) judge() (wrong []string) {
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	status := map[string]map[string]string{}
	for name := range w.policies {
		status[name] = w.unit.Status(name)
	}
	for _, n := range w.nodes {
		wrong = append(wrong, n.Broken...)
		want, decider := w.wants(n.Name)
		got := map[string]string{}
		for _, st := range n.Report() {
			text := string(st.State)
			if st.DecidedBy != "" {
				text += " behind " + st.DecidedBy
			}
			got[st.Name] = text
			if seen := status[st.Name][n.Name]; seen != text {
				bad("%s: policy status shows %q of %s, the node says %q", n.Name, seen, st.Name, text)
			}
			end := w.ends(n, w.policies[decider])
			if end != string(st.State) && strings.HasPrefix(want[st.Name], "decides") {
				bad("%s: %s is %s and runs %s, want %s", n.Name, st.Name, text, n.Running, end)
			}
		}
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
			bad("%s reports %v, want %v", n.Name, got, want)
		}
		lost := n.Lost()
		for name, text := range want {
			rest, is := strings.CutPrefix(text, "conflict behind ")
			if is && (got[name] != text || lost[name] != rest) {
				bad("%s: %s is %q, its event says %q, want %q", n.Name, name, got[name], lost[name], text)
			}
		}
		if !n.Idle() {
			bad("%s is not idle", n.Name)
		}
		for i, v := range n.Tried {
			if w.bad[v] && slices.Contains(n.Tried[:i], v) {
				bad("%s has tried %s, which is bad, twice: %v", n.Name, v, n.Tried)
			}
		}
	}
	return wrong
}

// verdicts holds against the controller who decides on each node, whatever the nodes know of it by now.
func (w *world) verdicts() error {
	for name := range w.policies {
		status := w.unit.Status(name)
		for _, n := range w.nodes {
			want, _ := w.wants(n.Name)
			_, mine := strings.CutPrefix(want[name], "conflict")
			if _, shown := strings.CutPrefix(status[n.Name], "conflict"); mine != shown ||
				mine && want[name] != status[n.Name] {
				return fmt.Errorf("policy status of %s on %s is %q, want %q", name, n.Name, status[n.Name], want[name])
			}
		}
	}
	return nil
}

// ends is the state in which a node has to end with the policy that decides.
func (w *world) ends(n *agent.Node, p wanted) string {
	target := ""
	for _, v := range w.offered { // the lowest first
		if (p.auto || v >= p.version) && (target == "" || p.auto) {
			target = v
		}
	}
	var own wire.PolicyStatus
	for _, st := range n.Report() {
		if st.State != wire.PolicyConflict && st.Version != "" {
			own = st
		}
	}
	switch {
	case p.auto && target != "" && n.Running >= target, !p.auto && n.Running >= p.version:
		if own.State == wire.PolicySuccessful {
			return "successful"
		}
		return "no-action-required"
	case target == "":
		return "waiting"
	case own.State == wire.PolicyRollbackSucceeded && w.bad[own.Version] && own.Version == target:
		return "rollback-successful"
	case w.bad[target]:
		return "failed"
	}
	return "successful"
}
