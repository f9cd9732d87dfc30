package why

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/policy/constraint"
	"tandem.internal/shared/wire"
)

// obeyed is a policy that a node acts on.
func obeyed() PolicyFacts {
	ref := wire.DocRef{Epoch: 1, Rev: 9, Version: "8+3+0", Hash: "h"}
	return PolicyFacts{
		Now: now, Name: "n", Known: true,
		Node: view.Node{Node: "n", Online: true, Since: now.Add(-3 * time.Hour)},
		Doc:  view.Document{Desired: &view.Desired{DocRef: ref}, Running: &ref, InSync: true},
		PolicyVerdict: PolicyVerdict{Intent: true,
			Policy: view.Policy{Name: "p", Enabled: true, Rev: 8, Since: 8, Who: "ann", At: now.Add(-time.Hour)},
			Match: &policy.Explanation{Hits: true, By: policy.ByConstraints,
				Policy: []constraint.Explanation{{Expression: "line == 4", Value: true, Why: "line is the int 4"}}},
			Place:  policy.Place{Name: "p", Winner: "p"},
			Winner: view.Policy{Name: "p", Since: 8},
			Status: &wire.PolicyStatus{Name: "p", Rev: 8, State: wire.PolicyInitiated, Version: "1.1.0",
				Started: now.Add(-time.Minute)},
		},
	}
}

// is changes what the node has told.
func is(state wire.PolicyState, change func(*wire.PolicyStatus)) func(*PolicyFacts) {
	return func(f *PolicyFacts) {
		s := *f.Status
		s.State = state
		if change != nil {
			change(&s)
		}
		f.Status = &s
	}
}

func failed(s *wire.PolicyStatus) { s.Error = wire.New(wire.CodeApplyFailed, "", "three starts") }

// misses is a policy whose constraints are false of the node, or the node's of the policy.
func misses(by policy.By) func(*PolicyFacts) {
	return func(f *PolicyFacts) {
		parts := []constraint.Explanation{{Expression: "a == 1", Why: "a is the int 2"},
			{Expression: "b == 1", Value: true, Why: "b is the int 1"}, {Expression: "a == 3", Why: "a is the int 2"}}
		false1 := constraint.Explanation{Expression: "a == 1 && b == 1 && a == 3", Parts: parts}
		x := &policy.Explanation{By: by, Why: "the " + string(by) + "'s constraint is not true"}
		if by == policy.ByPolicySide {
			x.Policy = []constraint.Explanation{{Expression: "c == 1", Value: true, Why: "c is the int 1"}, false1}
		} else {
			x.Node = []constraint.Explanation{false1}
		}
		f.Match = x
	}
}

// TestPolicy: the first thing that stands between a policy and what it wants of a node is the answer.
func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		reason, answer string
		change         func(*PolicyFacts)
	}{
		{Revoked, "revoked", func(f *PolicyFacts) { f.Node.Identity = &view.Identity{State: "revoked"} }},
		{UnknownNode, "never heard of", func(f *PolicyFacts) { f.Known = false }},
		{NotDescribed, "has not said yet what it is", func(f *PolicyFacts) { f.Match = nil }},
		{NotHit, "does not hit n: the policy's constraint is not true (a is the int 2)", misses(policy.ByPolicySide)},
		{NotHit, "does not hit n: the node's constraint is not true (a is the int 2)", misses(policy.ByNodeSide)},
		{NotHit, "does not hit n: no side", func(f *PolicyFacts) {
			f.Match = &policy.Explanation{By: policy.ByNoSide, Why: "no side"}
		}},
		{Disabled, "would hit n, and is not enabled", func(f *PolicyFacts) { f.Policy.Enabled = false }},
		{Queued, "its rollout r1 is being taken back", func(f *PolicyFacts) { f.Back, f.Policy.Rollout = true, "r1" }},
		{Queued, "its rollout r1 has not reached n", func(f *PolicyFacts) { f.Queued, f.Policy.Rollout = true, "r1" }},
		{Conflict, "policy q decides, which was enabled before it and wants something else", func(f *PolicyFacts) {
			f.Place = policy.Place{Name: "p", Winner: "q", Conflict: true}
		}},
		{NoIntent, "wants nothing", func(f *PolicyFacts) { f.Intent = false }},
		{NotIssued, "no document", func(f *PolicyFacts) { f.Doc = view.Document{} }},
		{Refused, "did not take the document 8+3+0: internal: no", func(f *PolicyFacts) {
			f.Doc.InSync, f.Doc.Error = false, wire.New("internal", "", "no")
		}},
		{Offline, "waits: n is offline for 3h", func(f *PolicyFacts) { f.Doc.InSync, f.Node.Online = false, false }},
		{NotApplied, "has not put the document 8+3+0 in force yet", func(f *PolicyFacts) { f.Doc.InSync = false }},
		{NotReported, "has not told yet", func(f *PolicyFacts) { f.Status = nil }},
		{NotReported, "has not told yet", func(f *PolicyFacts) { f.Policy.Rev = 9 }},
		{"waiting", "it begins in 1m", is(wire.PolicyWaiting, func(s *wire.PolicyStatus) {
			s.Scheduled = now.Add(time.Minute)
		})},
		{"waiting", "it begins now", is(wire.PolicyWaiting, nil)},
		{"waiting", "it waits for a version: three starts", is(wire.PolicyWaiting, failed)},
		{"download-started", "1.1.0 is being fetched", is(wire.PolicyDownloading, nil)},
		{"download-failed", "cannot be fetched, and is tried again: apply-failed: three", is(wire.PolicyDownloadFailed,
			failed)},
		{"downloaded", "waits for its trial", is(wire.PolicyDownloaded, nil)},
		{"initiated", "version 1.1.0 is on trial", nil},
		{"successful", "went to version 1.1.0, and keeps it", is(wire.PolicySuccessful, nil)},
		{"no-action-required", "has what it wants", is(wire.PolicyNoAction, nil)},
		{"precheck-failed", "cannot be begun there: apply-failed", is(wire.PolicyPrecheckFailed, failed)},
		{"failed", "is refused until a newer one is on offer: apply-failed", is(wire.PolicyFailed, failed)},
		{"rollback-started", "is given up, and the one before comes back", is(wire.PolicyRollbackStarted, nil)},
		{"rollback-successful", "the one before runs again, until a newer one is on offer: apply-failed: three starts",
			is(wire.PolicyRollbackSucceeded, failed)},
		{"rollback-failed", "the one before does not run yet: storage: full", is(wire.PolicyRollbackFailed,
			func(s *wire.PolicyStatus) { s.Rollback = wire.New(wire.CodeStorage, "", "full") })},
		{"initiated", "on trial; policy q decides, which was enabled before it and wants the same",
			func(f *PolicyFacts) { f.Place.Winner = "q" }},
		{"initiated", "the node is offline for 3h, so it may be further", func(f *PolicyFacts) {
			f.Node.Online = false
		}},
	} {
		f := obeyed()
		if c.change != nil {
			c.change(&f)
		}
		if got := Policy(f); got.Reason != c.reason || !strings.Contains(got.Answer, c.answer) {
			t.Errorf("%s: %s, want %s: %s", got.Reason, got.Answer, c.reason, c.answer)
		}
	}
}

// TestPolicyFindings: what is known stands below the answer, in the order in which it had to happen; what no longer
// counts is left out.
func TestPolicyFindings(t *testing.T) {
	f := obeyed()
	f.Place = policy.Place{Name: "p", Winner: "q", Conflict: true}
	f.Winner = view.Policy{Name: "q", Since: 5}
	f.Unread = wire.New(wire.CodeBadValue, "/org", "no")
	f.Match.Patterns = []policy.PatternExplanation{{Pattern: "x/a"}, {Pattern: "x/b", Value: true}}
	is(wire.PolicyRollbackFailed, func(s *wire.PolicyStatus) {
		failed(s)
		s.Rev, s.Rollback = 7, wire.New(wire.CodeStorage, "", "full")
	})(&f)
	check := func(want ...string) {
		t.Helper()
		var got []string
		for _, one := range Policy(f).Findings {
			got = append(got, fmt.Sprintf("%s %s %s", one.About, one.State, one.Text))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check("policy good rev 8, by ann, enabled", "node good n is online",
		"node bad what it says of itself does not count: bad-value: no (at /org)",
		"pattern note x/a is not the node's", "pattern good x/b is the node's",
		"constraint good line == 4 (line is the int 4)",
		"decides bad policy q, enabled with rev 5, wants something else; this one was enabled with rev 8",
		"document good 8+3+0 (rev 9) is in force", "state bad rollback failed, version 1.1.0, of rev 7",
		"error bad apply-failed: three starts", "rollback bad storage: full")
	f = obeyed()
	misses(policy.ByNodeSide)(&f)
	check("policy good rev 8, by ann, enabled", "node good n is online",
		"of the node bad a == 1 && b == 1 && a == 3 (a is the int 2)")
	f = obeyed()
	f.Match = &policy.Explanation{Hits: true, By: policy.ByPattern, Policy: f.Match.Policy,
		Patterns: []policy.PatternExplanation{{Pattern: "*", Value: true}}}
	f.Policy.Enabled = false
	check("policy bad rev 8, by ann, not enabled", "node good n is online", "pattern good * is the node's")
}
