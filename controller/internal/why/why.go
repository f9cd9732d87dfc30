// Package why finds out why something in the unit is not as it should be. It is given what the controller knows, and
// says it as one sentence, a reason for programs, and findings; pages and commands only show them.
//
//tandem:pure
package why

import (
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/workload"
)

// The reasons of a slot. Programs read them: they are only added.
const (
	NotWanted   = "not-wanted"   // the set does not have the slot any more
	Revoked     = "revoked"      // its node is not let in any more
	UnknownNode = "unknown-node" // its node was never heard of
	Runs        = "runs"
	Completed   = "completed"
	Stopped     = "stopped"         // by an operator
	Offline     = "offline"         // its node is
	Refused     = "refused"         // its node did not take the document
	NotIssued   = "not-issued"      // its node has no document yet
	NotApplied  = "not-applied"     // its node has not put the newest document in force yet
	NotReported = "not-reported"    // its node has not told of the slot
	Stopping    = "stopping"        // what has run there is being stopped
	Unfetched   = "resource-failed" // a resource cannot be fetched
	Fetching    = "resource"        // a resource is not there yet
	HookFailed  = "hook-failed"     // a hook has failed, and is run again
	Hook        = "hook"            // a hook is under way
	Failed      = "failed"          // nothing is tried any more
	Pause       = "pause"           // the process has ended, and is started again after a pause
	Needing     = "needs"           // it waits for other slots
	Preparing   = "preparing"       // the step before the process is under way
	Damaged     = "damaged"         // it runs, with a resource that is damaged
)

// Origin is where what a slot should run comes from.
type Origin struct {
	Config   workload.Config // as its node gets it
	Topology bool            // the set has a topology of the slot
	Fillers  []string        // that apply to it
}

// Facts are what is known about a slot.
type Facts struct {
	Now     time.Time
	Slot    view.Slot // as the list shows it
	Node    view.Node
	Known   bool          // the node was ever heard of
	Doc     view.Document // the node's, of workloads
	Version string        // of the unit's set; "": there is none
	Since   time.Time
	Who     string
	Origin  *Origin      // nil: the slot is not wanted, or the set could not be read
	Unread  error        // why it could not
	Events  []view.Entry // the newest about the slot, the newest last
	Broker  view.Broker  // the controller's road to its nodes; zero: not known
}

// Slot says why a slot does not run what it should, or how it runs.
func Slot(f Facts) view.SlotWhy {
	reason, answer := f.answer()
	findings := append(f.asked(), f.done()...)
	return view.SlotWhy{
		Why:    f.inSentences(reason, answer, findings),
		Answer: answer, Reason: reason, Slot: f.Slot, Findings: findings, Events: f.Events,
	}
}
