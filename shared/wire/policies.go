package wire

import (
	"fmt"
	"strconv"
	"time"
)

// Policies is the body of a document of the kind policies: the enabled management policies that match the node (seed
// 003), in the order in which they were enabled, and the versions of the agent that are on offer to it.
type Policies struct {
	FormatVersion string         `json:"formatVersion"`      // PoliciesFormat
	Policies      []NodePolicy   `json:"policies,omitempty"` // that match the node
	Agents        []AgentRelease `json:"agents,omitempty"`   // for its architecture; the lowest version first
}

// PoliciesFormat is the format of Policies.
const PoliciesFormat = "1"

// NodePolicy is a management policy as a node gets it.
type NodePolicy struct {
	Name string `json:"name"` // of the policy
	Rev  uint64 `json:"rev"`  // of its newest change: with another one it is planned anew
	// the policy that decides in its place, since it was enabled before; absent: this one does
	DecidedBy string        `json:"decidedBy,omitempty"`
	Conflict  bool          `json:"conflict,omitzero"`            // that one wants something else
	Agent     *AgentUpgrade `json:"agentUpgradePolicy,omitempty"` // absent: it says nothing of the agent's version
}

// AgentUpgrade says which version of the agent a node should have, and when it goes there (seed 003, Agent Upgrade
// Policy).
type AgentUpgrade struct {
	Auto      bool      `json:"autoUpgrade,omitzero"`    // always the newest on offer; Start and Duration do not count
	Version   string    `json:"atLeastVersion"`          // VersionCurrent, or a semantic version
	Start     time.Time `json:"start"`                   // when the window begins
	Duration  uint32    `json:"duration,omitzero"`       // seconds that the window is long
	Downgrade bool      `json:"allowDowngrade,omitzero"` // exactly Version, also if a higher one runs
	// it comes in a rollout: of a window that has begun, the whole length is left to a node when it gets it
	Whole bool `json:"wholeWindow,omitzero"`
}

// VersionCurrent stands for the newest version on offer.
const VersionCurrent = "current"

// AgentRelease is a version of the agent on offer.
type AgentRelease struct {
	Version  string   `json:"version"`            // semantic
	Hash     string   `json:"hash"`               // of the program, sha256:…
	Size     int64    `json:"size"`               // of the program, bytes
	URLs     []string `json:"urls"`               // where it is to be had
	Minisign string   `json:"minisign,omitempty"` // a publisher's signature of the program
}

// PolicyState is how far a node is with a policy.
type PolicyState string

// The states, in the order in which a node goes through them (the states of the real system, in its order).
const (
	PolicyConflict          PolicyState = "conflict"            // another policy decides, which wants something else
	PolicyWaiting           PolicyState = "waiting"             // for its time, or for a version on offer
	PolicyDownloading       PolicyState = "download-started"    // the program is being fetched
	PolicyDownloadFailed    PolicyState = "download-failed"     // the newest attempt has; there will be another one
	PolicyDownloaded        PolicyState = "downloaded"          // it is there and verified, and waits for its trial
	PolicyInitiated         PolicyState = "initiated"           // the version is staged, or on trial
	PolicySuccessful        PolicyState = "successful"          // the version is kept
	PolicyNoAction          PolicyState = "no-action-required"  // the node had what the policy wants
	PolicyPrecheckFailed    PolicyState = "precheck-failed"     // it cannot be begun here
	PolicyFailed            PolicyState = "failed"              // the version was refused before its trial
	PolicyRollbackStarted   PolicyState = "rollback-started"    // it was tried, and is given up
	PolicyRollbackSucceeded PolicyState = "rollback-successful" // the version before runs again
	PolicyRollbackFailed    PolicyState = "rollback-failed"     // it does not, yet
)

// Final reports whether the state stays until something else is wanted: the policy has come to an end on the node, or
// another one decides.
func (s PolicyState) Final() bool {
	switch s {
	case PolicyConflict, PolicySuccessful, PolicyNoAction, PolicyFailed, PolicyRollbackSucceeded:
		return true
	}
	return false
}

// PolicyStates returns every state.
func PolicyStates() []PolicyState {
	return []PolicyState{PolicyConflict, PolicyWaiting, PolicyDownloading, PolicyDownloadFailed, PolicyDownloaded,
		PolicyInitiated, PolicySuccessful, PolicyNoAction, PolicyPrecheckFailed, PolicyFailed, PolicyRollbackStarted,
		PolicyRollbackSucceeded, PolicyRollbackFailed}
}

// PoliciesReport is the detail of a reported/policies envelope.
type PoliciesReport struct {
	Policies []PolicyStatus `json:"policies,omitempty"` // in the document's order
}

// PolicyStatus is what became of a policy on a node. Times are by the node's clock.
type PolicyStatus struct {
	Name      string      `json:"name"`                    // of the policy
	Rev       uint64      `json:"rev"`                     // of the policy
	State     PolicyState `json:"state"`                   // how far it is
	DecidedBy string      `json:"decidedBy,omitempty"`     // the policy that decides in its place
	Version   string      `json:"version,omitempty"`       // that the node goes to, or went to
	Scheduled time.Time   `json:"scheduledTime,omitzero"`  // when it begins
	Started   time.Time   `json:"startTime,omitzero"`      // when it began
	Ended     time.Time   `json:"endTime,omitzero"`        // when it was over
	Error     *Error      `json:"error,omitempty"`         // what went wrong
	Rollback  *Error      `json:"rollbackError,omitempty"` // what is in the way of going back
}

// The most that a document and a report of policies have.
const (
	MaxPolicies  = 200
	MaxReleases  = 64
	MaxAddresses = 16 // of a file
)

func (p *Policies) check() error {
	switch {
	case p.FormatVersion != PoliciesFormat:
		return New(CodeWrongVersion, "/formatVersion", "this agent reads format "+PoliciesFormat)
	case len(p.Policies) > MaxPolicies:
		return New(CodeTooLarge, "/policies", fmt.Sprintf("more than %d", MaxPolicies))
	case len(p.Agents) > MaxReleases:
		return New(CodeTooLarge, "/agents", fmt.Sprintf("more than %d", MaxReleases))
	}
	for i := range p.Policies {
		if err := p.Policies[i].check("/policies/" + strconv.Itoa(i)); err != nil {
			return err
		}
	}
	for i := range p.Agents {
		r, at := &p.Agents[i], "/agents/"+strconv.Itoa(i)
		if err := first(text(at+"/version", r.Version), hash(at+"/hash", r.Hash)); err != nil {
			return err
		}
		if r.Size <= 0 {
			return New(CodeBadValue, at+"/size", "the size of the program, in bytes")
		}
		if err := addresses(at+"/urls", r.URLs); err != nil {
			return err
		}
	}
	return nil
}

// addresses returns an error unless there are from 1 to MaxAddresses addresses of a file.
func addresses(path string, urls []string) *Error {
	if n := len(urls); n == 0 || n > MaxAddresses {
		return New(CodeBadValue, path, fmt.Sprintf("from 1 to %d addresses", MaxAddresses))
	}
	return nil
}

func (p *NodePolicy) check(at string) error {
	if err := first(name(at+"/name", p.Name), positive(at+"/rev", p.Rev)); err != nil {
		return err
	}
	if p.DecidedBy != "" {
		if err := name(at+"/decidedBy", p.DecidedBy); err != nil {
			return err
		}
	} else if p.Conflict {
		return New(CodeMissing, at+"/decidedBy", "with whom it is in conflict")
	}
	if a := p.Agent; a != nil {
		at += "/agentUpgradePolicy"
		if err := first(text(at+"/atLeastVersion", a.Version), instant(at+"/start", a.Start)); err != nil {
			return err
		}
		if a.Auto && a.Version != VersionCurrent {
			return New(CodeBadValue, at+"/atLeastVersion", "with autoUpgrade it is "+VersionCurrent)
		}
	}
	return nil
}

func (r *PoliciesReport) check() error {
	if len(r.Policies) > MaxPolicies {
		return New(CodeTooLarge, "/policies", fmt.Sprintf("more than %d", MaxPolicies))
	}
	for i := range r.Policies {
		s, at := &r.Policies[i], "/policies/"+strconv.Itoa(i)
		if err := first(name(at+"/name", s.Name), positive(at+"/rev", s.Rev), text(at+"/state", string(s.State)),
			plain(at+"/version", s.Version), plain(at+"/decidedBy", s.DecidedBy), bounded(at+"/error", s.Error),
			bounded(at+"/rollbackError", s.Rollback)); err != nil {
			return err
		}
	}
	return nil
}

// CheckHash returns what is wrong with a hash, sha256:…
func CheckHash(path, h string) *Error { return hash(path, h) }
