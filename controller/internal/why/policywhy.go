package why

import (
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// The bases of what is said of a policy on a node, by reason; those that the node has told are in policyTold.
var policyBases = map[string]basis{
	Revoked:      {view.LevelError, "the journal: the revocation", "the node joins anew: tandem node enroll NODE"},
	UnknownNode:  {view.LevelError, "the node's messages: none has ever come", "the node connects"},
	NotDescribed: {view.LevelWarning, "the node's report of info", "the node tells what it is"},
	NotHit:       {view.LevelInfo, "the policy, and what the node tells of itself", "either of them changes"},
	Disabled:     {view.LevelWarning, "the journal: the policy", "it is enabled: tandem policy enable POLICY"},
	Conflict:     {view.LevelWarning, "the journal: when each was enabled", "the other one is disabled"},
	NoIntent:     {view.LevelInfo, "the policy", "the policy wants something"},
	Queued:       {view.LevelWarning, "the journal: the rollout's records", "the rollout reaches the node, or ends"},
	NotIssued:    {view.LevelWarning, "the journal: what was issued", "a document is issued"},
	Refused:      {view.LevelError, "the node's report of policies", "the policy is changed so that the node takes it"},
	Offline:      {view.LevelError, "the node's presence at the broker", "the node connects again"},
	NotApplied:   {view.LevelWarning, "the node's report of policies", "the node says that it is in force"},
	NotReported:  {view.LevelWarning, "the node's report of policies", "the node reports anew"},
}

// policyTold are levels and changes of the states that nodes tell.
var policyTold = map[wire.PolicyState]struct {
	level   view.Level
	changes string
}{
	wire.PolicyWaiting:           {view.LevelWarning, "its time has come and there is a version"},
	wire.PolicyConflict:          {view.LevelWarning, "the other policy is disabled"},
	wire.PolicyNoAction:          {view.LevelInfo, "a newer version is on offer"},
	wire.PolicyDownloading:       {view.LevelWarning, "the version is there"},
	wire.PolicyDownloadFailed:    {view.LevelError, "the version can be fetched"},
	wire.PolicyDownloaded:        {view.LevelWarning, "the trial begins"},
	wire.PolicyInitiated:         {view.LevelWarning, "the trial ends"},
	wire.PolicySuccessful:        {view.LevelInfo, "a newer version is on offer"},
	wire.PolicyPrecheckFailed:    {view.LevelError, "what stands in the way is gone"},
	wire.PolicyFailed:            {view.LevelError, "a newer version is on offer"},
	wire.PolicyRollbackStarted:   {view.LevelError, "the version before runs"},
	wire.PolicyRollbackSucceeded: {view.LevelError, "a newer version is on offer"},
	wire.PolicyRollbackFailed:    {view.LevelError, "the version before runs"},
}

// inSentences is the shape that all have.
func (f *PolicyFacts) inSentences(reason, answer string, findings []view.Finding) view.Why {
	b, known := policyBases[reason]
	if !known {
		b = basis{view.LevelWarning, "the node's report of policies", "the node reports anew"}
		if t, there := policyTold[wire.PolicyState(reason)]; there {
			b.level, b.changes = t.level, t.changes
		}
	}
	at := time.Time{}
	if s := f.Status; s != nil {
		at = s.Ended
	}
	rest := sentences(findings, "")
	if reason == NotHit || reason == Disabled { // nothing has failed
		for i := range rest {
			if rest[i].Level == view.LevelError {
				rest[i].Level = view.LevelWarning
			}
		}
	}
	return view.Why{
		About: view.About{Kind: view.AboutPolicy, Policy: f.Policy.Name, Node: f.Name}, State: reason,
		Sentences: append([]view.Because{b.with("NODE", f.Name, "POLICY", f.Policy.Name).because(at, "%s", answer)},
			rest...),
	}
}
