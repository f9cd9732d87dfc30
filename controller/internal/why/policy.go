package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/policy/constraint"
	"tandem.internal/shared/wire"
)

// The reasons of a policy on a node, beside Revoked, UnknownNode, Offline, Refused, NotIssued, NotApplied and
// NotReported. Of a policy that the node acts on the reason is its state there. Programs read them: they are only
// added.
const (
	NotDescribed = "not-described" // the node has not said yet what it is
	NotHit       = "not-hit"       // it is not one of those that the policy is about
	Disabled     = "disabled"
	Conflict     = "conflict"  // another policy decides, which wants something else
	NoIntent     = "no-intent" // the policy wants nothing
	Queued       = "queued"    // its rollout has not reached the node
)

// PolicyFacts are what is known about a policy on a node.
type PolicyFacts struct {
	PolicyVerdict
	Now    time.Time
	Name   string // of the node
	Node   view.Node
	Known  bool          // the node was ever heard of
	Doc    view.Document // the node's, of policies
	Events []view.Entry  // the newest of the node about the policy, the newest last
}

// PolicyVerdict is what a policy is to a node.
type PolicyVerdict struct {
	Policy view.Policy         // without document and nodes
	Match  *policy.Explanation // nil: the node has not described itself
	Unread *wire.Error         // why what the node says of itself does not count; nil: it does
	Intent bool                // the policy wants something
	Place  policy.Place        // among the enabled ones that hit the node; zero: it has none
	Winner view.Policy         // the one that decides
	Status *wire.PolicyStatus  // that the node has reported; nil: none
	Queued bool                // the rollout of the policy has not reached the node
	Back   bool                // it is being taken back, and the node has what it had before
}

// Policy says what becomes of a policy on a node, and why.
func Policy(f PolicyFacts) view.PolicyWhy {
	reason, answer := f.answer()
	findings := f.findings()
	return view.PolicyWhy{Why: f.inSentences(reason, answer, findings), Answer: answer, Reason: reason,
		Policy: f.Policy.Name,
		Node:   f.Name, Match: f.Match, Status: f.Status, Findings: findings, Events: f.Events}
}

// answer finds the first thing that stands between a policy and what it wants of the node.
func (f *PolicyFacts) answer() (reason, sentence string) {
	p, node := f.Policy.Name, f.Name
	say := func(reason, format string, a ...any) (string, string) { return reason, fmt.Sprintf(format, a...) }
	switch id := f.Node.Identity; {
	case id != nil && id.State == "revoked":
		return say(Revoked, "policy %s does nothing on %s: the node was revoked", p, node)
	case !f.Known:
		return say(UnknownNode, "whether policy %s hits %s is not known: the node was never heard of", p, node)
	case f.Match == nil:
		return say(NotDescribed, "whether policy %s hits %s is not known: the node has not said yet what it is", p,
			node)
	case !f.Match.Hits:
		return say(NotHit, "policy %s does not hit %s: %s%s", p, node, f.Match.Why, because(f.Match))
	case !f.Policy.Enabled:
		return say(Disabled, "policy %s would hit %s, and is not enabled", p, node)
	case f.Back:
		return say(Queued, "policy %s is on %s as it was before: its rollout %s is being taken back; tandem rollout "+
			"show %[3]s", p, node, f.Policy.Rollout)
	case f.Queued:
		return say(Queued, "policy %s waits: its rollout %s has not reached %s; tandem rollout show %[2]s", p,
			f.Policy.Rollout, node)
	case f.Place.Conflict:
		return say(Conflict, "policy %s does nothing on %s: policy %s decides, which was enabled before it and wants "+
			"something else", p, node, f.Place.Winner)
	case !f.Intent:
		return say(NoIntent, "policy %s hits %s, and wants nothing of it", p, node)
	}
	return f.onNode()
}

// onNode is answer for a policy that the node acts on.
func (f *PolicyFacts) onNode() (reason, sentence string) {
	p, node, d := f.Policy.Name, f.Name, f.Doc
	say := func(reason, format string, a ...any) (string, string) { return reason, fmt.Sprintf(format, a...) }
	switch {
	case d.Desired == nil:
		return say(NotIssued, "policy %s waits: no document was issued to %s yet", p, node)
	case !d.InSync && refused(d) != nil:
		return say(Refused, "policy %s waits: %s did not take the document %s: %s", p, node, d.Desired.Version,
			Brief(refused(d)))
	case !d.InSync && !f.Node.Online:
		return say(Offline, "policy %s waits: %s is offline for %s", p, node, phrase.Span(f.Now.Sub(f.Node.Since)))
	case !d.InSync:
		return say(NotApplied, "policy %s waits: %s has not put the document %s in force yet%s", p, node,
			d.Desired.Version, during(d))
	case f.Status == nil, f.Status.Rev != f.Policy.Rev:
		return say(NotReported, "policy %s is in force on %s, which has not told yet what becomes of it", p, node)
	}
	text := "policy " + p + " on " + node + ": " + f.state()
	if w := f.Place.Winner; w != "" && w != p {
		text += "; policy " + w + " decides, which was enabled before it and wants the same"
	}
	if !f.Node.Online {
		text += "; the node is offline for " + phrase.Span(f.Now.Sub(f.Node.Since)) + ", so it may be further"
	}
	return string(f.Status.State), text
}

// state says how far the node is.
func (f *PolicyFacts) state() string {
	s := f.Status
	failed := func() string {
		if s.Error == nil {
			return ""
		}
		return ": " + Brief(s.Error)
	}
	switch s.State {
	case wire.PolicyWaiting:
		switch {
		case s.Error != nil:
			return "it waits for a version: " + s.Error.Message
		case s.Scheduled.After(f.Now):
			return "it begins in " + phrase.Ahead(s.Scheduled.Sub(f.Now))
		}
		return "it begins now"
	case wire.PolicyDownloading:
		return "version " + s.Version + " is being fetched"
	case wire.PolicyDownloadFailed:
		return "version " + s.Version + " cannot be fetched, and is tried again" + failed()
	case wire.PolicyDownloaded:
		return "version " + s.Version + " is there, and waits for its trial" + failed()
	case wire.PolicyInitiated:
		return "version " + s.Version + " is on trial"
	case wire.PolicySuccessful:
		return "the node went to version " + s.Version + ", and keeps it"
	case wire.PolicyNoAction:
		return "the node has what it wants"
	case wire.PolicyPrecheckFailed:
		return "version " + s.Version + " cannot be begun there" + failed()
	case wire.PolicyFailed:
		return "version " + s.Version + " is refused until a newer one is on offer" + failed()
	case wire.PolicyRollbackStarted:
		return "version " + s.Version + " is given up, and the one before comes back" + failed()
	case wire.PolicyRollbackSucceeded:
		return "version " + s.Version + " failed, and the one before runs again, until a newer one is on offer" +
			failed()
	case wire.PolicyRollbackFailed:
		text := "version " + s.Version + " is given up, and the one before does not run yet"
		if s.Rollback != nil {
			text += ": " + Brief(s.Rollback)
		}
		return text
	}
	return "it is " + string(s.State) + failed()
}

// because says what the properties are on which a node was not hit.
func because(x *policy.Explanation) string {
	list := x.Policy
	if x.By == policy.ByNodeSide {
		list = x.Node
	} else if x.By != policy.ByPolicySide {
		return ""
	}
	for _, one := range list {
		if !one.Value {
			return deciding(one)
		}
	}
	return ""
}

// deciding says what the properties are on which an expression came to what it is: "  (line is the number 5)".
func deciding(x constraint.Explanation) string {
	var all []string
	var visit func(constraint.Explanation)
	visit = func(part constraint.Explanation) {
		if part.Value != x.Value {
			return
		}
		if part.Why != "" && !slices.Contains(all, part.Why) {
			all = append(all, part.Why)
		}
		for _, p := range part.Parts {
			visit(p)
		}
	}
	visit(x)
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// findings are what is known, in the order in which it had to happen.
func (f *PolicyFacts) findings() (all []view.Finding) {
	set := finding("policy", view.FindingGood, "rev %d, by %s, enabled", f.Policy.Rev, f.Policy.Who)
	if !f.Policy.Enabled {
		set.State, set.Text = view.FindingBad, fmt.Sprintf("rev %d, by %s, not enabled", f.Policy.Rev, f.Policy.Who)
	}
	set.At = f.Policy.At
	all = append(all, set)
	if id := f.Policy.Rollout; id != "" {
		one := finding("rollout", view.FindingGood, "%s has reached the node", id)
		if f.Queued {
			one = finding("rollout", view.FindingBad, "%s has not reached the node, which has what it had before", id)
		}
		all = append(all, one)
	}
	all = append(all, aboutNode(f.Name, &f.Node, f.Known))
	if f.Unread != nil {
		all = append(all, finding("node", view.FindingBad, "%s", NotCounted(f.Unread.Error())))
	}
	if f.Match != nil {
		all = append(all, f.matching()...)
	}
	if f.Match == nil || !f.Match.Hits || !f.Policy.Enabled {
		return all
	}
	if w := f.Place.Winner; w != "" && w != f.Policy.Name {
		one := finding("decides", view.FindingNote, "policy %s, enabled with rev %d, wants the same; this one was "+
			"enabled with rev %d", w, f.Winner.Since, f.Policy.Since)
		if f.Place.Conflict {
			one = finding("decides", view.FindingBad, "policy %s, enabled with rev %d, wants something else; this one "+
				"was enabled with rev %d", w, f.Winner.Since, f.Policy.Since)
		}
		all = append(all, one)
	}
	all = append(all, document(f.Doc))
	return append(all, f.reported()...)
}

// matching are the findings about what each side wants of the other.
func (f *PolicyFacts) matching() (all []view.Finding) {
	state := func(yes bool) string {
		if yes {
			return view.FindingGood
		}
		return view.FindingBad
	}
	for _, p := range f.Match.Patterns {
		one := finding("pattern", view.FindingNote, "%s is not the node's", p.Pattern)
		if p.Value {
			one = finding("pattern", view.FindingGood, "%s is the node's", p.Pattern)
		}
		all = append(all, one)
	}
	if f.Match.By == policy.ByPattern {
		return all // the constraints do not count
	}
	for _, c := range f.Match.Policy {
		all = append(all, finding("constraint", state(c.Value), "%s%s", c.Expression, deciding(c)))
	}
	for _, c := range f.Match.Node {
		all = append(all, finding("of the node", state(c.Value), "%s%s", c.Expression, deciding(c)))
	}
	return all
}

// reported are the findings about what the node has reported of the policy.
func (f *PolicyFacts) reported() (all []view.Finding) {
	s := f.Status
	if s == nil {
		return nil
	}
	state := view.FindingWaits
	switch s.State {
	case wire.PolicySuccessful, wire.PolicyNoAction:
		state = view.FindingGood
	case wire.PolicyConflict, wire.PolicyDownloadFailed, wire.PolicyPrecheckFailed, wire.PolicyFailed,
		wire.PolicyRollbackStarted, wire.PolicyRollbackSucceeded, wire.PolicyRollbackFailed:
		state = view.FindingBad
	}
	text := strings.ReplaceAll(string(s.State), "-", " ")
	if s.Version != "" {
		text += ", version " + s.Version
	}
	if s.Rev != f.Policy.Rev {
		text += fmt.Sprintf(", of rev %d", s.Rev)
	}
	one := finding("state", state, "%s", text)
	for _, at := range []time.Time{s.Ended, s.Started, s.Scheduled} {
		if one.At.IsZero() {
			one.At = at
		}
	}
	all = append(all, one)
	if s.Error != nil {
		all = append(all, finding("error", view.FindingBad, "%s", s.Error.Error()))
	}
	if s.Rollback != nil {
		all = append(all, finding("rollback", view.FindingBad, "%s", s.Rollback.Error()))
	}
	return all
}
