package why

import (
	"slices"
	"time"

	"tandem.internal/controller/internal/view"
)

// The bases of what is said of a slot, by reason.
var slotBases = map[string]basis{
	NotWanted:   {view.LevelInfo, "the set of workloads", "a set that has it is applied: tandem workload apply"},
	Revoked:     {view.LevelError, "the journal: the revocation", "the node joins anew: tandem node enroll NODE"},
	UnknownNode: {view.LevelError, "the node's messages: none has ever come", "the node connects"},
	Runs:        {view.LevelInfo, "the node's report of workloads", "another set or an order changes it"},
	Completed:   {view.LevelInfo, "the node's report of workloads", "another set, or tandem workload restart SLOT"},
	Stopped:     {view.LevelWarning, "the journal: an order", "somebody starts it: tandem workload start SLOT"},
	Offline:     {view.LevelError, "the node's presence at the broker", "the node connects again"},
	Refused:     {view.LevelError, "the node's report of workloads", "it takes a set, or tandem workload retry"},
	NotIssued:   {view.LevelWarning, "the journal: what was issued", "a document is issued to it"},
	NotApplied:  {view.LevelWarning, "the node's report of workloads", "the node says that it is in force"},
	NotReported: {view.LevelWarning, "the node's report of workloads", "the node reports anew"},
	Stopping:    {view.LevelWarning, "the node's report of workloads", "the process has ended"},
	Unfetched:   {view.LevelError, "the node's report of workloads", "the resource is there and whole"},
	Fetching:    {view.LevelWarning, "the node's report of workloads", "the resource is there and whole"},
	HookFailed:  {view.LevelError, "the node's report of workloads", "the hook ends well, or the set has another"},
	Hook:        {view.LevelWarning, "the node's report of workloads", "the hook ends"},
	Failed:      {view.LevelError, "the node's report of workloads", "another set, or tandem workload restart SLOT"},
	Pause:       {view.LevelError, "the node's report of workloads", "the pause is over and the process stays up"},
	Needing:     {view.LevelWarning, "the node's report of workloads", "the others are so far"},
	Preparing:   {view.LevelWarning, "the node's report of workloads", "the step is done"},
	Damaged:     {view.LevelError, "the node's report of workloads", "the node has the resource anew"},
}

// inSentences is the shape that all have.
func (f *Facts) inSentences(reason, answer string, findings []view.Finding) view.Why {
	b := slotBases[reason].with("SLOT", f.Slot.Slot, "NODE", f.Slot.Node)
	return view.Why{
		About: view.About{Kind: view.AboutSlot, Slot: f.Slot.Slot, Node: f.Slot.Node}, State: reason,
		Sentences: slices.Concat(reached(&f.Broker), []view.Because{b.because(f.began(), "%s", answer)},
			sentences(findings, f.Slot.Slot)),
	}
}

// began is since when the slot is as it is; zero: that is not known.
func (f *Facts) began() time.Time {
	switch {
	case f.Slot.State == view.SlotAway:
		return f.Slot.Since
	case f.Slot.Stopped != nil:
		return f.Slot.Stopped.At
	case f.Slot.Report != nil:
		return f.Slot.Report.Since
	}
	return f.Node.Since
}
