// Package policy decides what a node does about the management policies that match it (seed 003, Agent Upgrade Policy):
// which version of the agent it should have, when it goes there, and what became of that.
//
// The package is pure. It does not fetch, stage or try: it asks for that by effects, and is told how it went. What a
// trial ends with is decided by package health, and carried out by package update.
//
// It guarantees: the time in a window is drawn once, is saved, and is drawn anew in a window of the same length if it
// was missed; nothing is fetched that is not needed; a version that has failed is not gone to again, only a newer one;
// a node without a policy asks for nothing; a conflict is told of by an event once for each winner, and each state of a
// plan once, however often it comes back. From the moment that the trial is ordered an edit of the policy waits for
// its end.
//
//tandem:pure
package policy

import (
	"maps"
	"slices"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// Durable is what must survive a restart.
type Durable struct {
	Plan Plan `json:"plan,omitzero"`
	// Lost are the policies in conflict that were told of by an event, with the one that decides in their place.
	Lost map[string]string `json:"lost,omitempty"`
}

// Equal reports whether two are the same.
func (d Durable) Equal(o Durable) bool { return d.Plan == o.Plan && maps.Equal(d.Lost, o.Lost) }

// Plan is what the node does about the policy that decides. The zero Plan is none.
type Plan struct {
	Policy   string             `json:"policy,omitempty"`
	Rev      uint64             `json:"rev,omitzero"` // of the policy
	Upgrade  wire.AgentUpgrade  `json:"upgrade,omitzero"`
	State    wire.PolicyState   `json:"state,omitempty"`
	At       time.Time          `json:"at,omitzero"`      // when it begins, drawn once
	Target   *wire.AgentRelease `json:"target,omitempty"` // that is gone to, or was
	Number   uint64             `json:"number,omitzero"`  // of the update, once it is staged
	Began    time.Time          `json:"began,omitzero"`
	Ended    time.Time          `json:"ended,omitzero"`
	Error    *wire.Error        `json:"error,omitempty"`
	Rollback *wire.Error        `json:"rollback,omitempty"`
}

// Update is how the agent's own update stands.
type Update struct {
	Running    string // version in force; "": not known yet
	Slots      bool   // the agent can be updated: it was started by the launcher
	Number     uint64 // of the newest update
	GivenUp    bool   // of Number: the way back is under way
	Note       string // what is in the way of that
	Quarantine []wire.HealthFailed
	Floor      string    // lowest version that may be put in force; "": any
	Ended      []Outcome // the newest updates that are over, the newest first
}

// Outcome is how an update ended.
type Outcome struct {
	Number  uint64
	Kept    bool
	Tried   bool // it ran on trial
	Version string
	Why     string // it was not kept
}

// State is all there is to know. Make it with New.
type State struct {
	Durable
	doc     *wire.Policies // that the node goes by; nil: none
	update  Update
	started bool          // update is known
	read    bool          // doc is
	again   time.Duration // no order to stage is repeated before
	owed    bool          // a report that a step which could not be saved has asked for
	afresh  bool          // the target is to be asked for once more, also if it is being fetched
	asked   asked
	before  asked // as it was before the newest step, whose effects may not happen
}

// asked is what the effects so far have come to.
type asked struct {
	fetches   *wire.AgentRelease // that is being fetched
	staging   bool               // the target is being staged
	announced announced
	lost      map[string]string // as in Durable; it is never changed, only replaced
}

// New returns the State from its saved part.
func New(d Durable) State {
	return State{Durable: d, asked: asked{announced: newAnnounced(&d.Plan), lost: d.Lost}}
}

// Now is one instant, and chance.
type Now struct {
	clock.Now
	Chance float64 // at least 0 and less than 1, drawn for this step
}

// Event is something that happened.
type Event interface{ event() }

// Document says which policies the node goes by. Nil: none.
type Document struct{ Policies *wire.Policies }

// Updated says how the agent's own update stands. Nothing is begun before the first one.
type Updated struct{ Update }

// Fetched says how the download of a release stands.
type Fetched struct {
	Hash  string
	Done  bool        // it is there, and verified
	Err   *wire.Error // of the newest attempt, which will be repeated
	Waits *wire.Error // what it waits for, although nothing is wrong
}

// Staged answers Stage. Err: it is not staged, or not to be tried.
type Staged struct {
	Hash   string
	Number uint64 // of the update
	Err    *wire.Error
	Final  bool // it would end so again
}

// Tick says that time has passed.
type Tick struct{}

// Dropped says that the step before could not be saved.
type Dropped struct{}

func (Document) event() {}
func (Updated) event()  {}
func (Fetched) event()  {}
func (Staged) event()   {}
func (Tick) event()     {}
func (Dropped) event()  {}

// Effect is something that the shell does, after the Durable is saved if it has changed.
type Effect interface{ effect() }

// Fetch asks for a release, and for Fetched whenever that changes. Nil: none is needed any more.
type Fetch struct{ Release *wire.AgentRelease }

// Stage asks for the release that was fetched to be staged and tried, and for Staged.
type Stage struct{ Release wire.AgentRelease }

// Log asks for an event of the type event.Policy to be kept and sent.
type Log struct{ Detail event.PolicyDetail }

// Report asks for the report to be sent again.
type Report struct{}

func (Fetch) effect()  {}
func (Stage) effect()  {}
func (Log) effect()    {}
func (Report) effect() {}

// The pauses between two attempts.
const (
	stagePause = 30 * time.Second // to stage, while something else is under way
	heartbeat  = time.Minute      // within which a new version is gone to with autoUpgrade
)

// NextDeadline returns when Step wants a Tick at the latest, on the monotonic clock.
func (s State) NextDeadline(now clock.Now) (time.Duration, bool) {
	switch s.Plan.State {
	case wire.PolicyWaiting:
		if s.decides() && s.Plan.At.After(now.Wall) { // else it waits for a version on offer
			return now.Mono + s.Plan.At.Sub(now.Wall), true
		}
	case wire.PolicyDownloaded, wire.PolicyPrecheckFailed:
		return s.again, !s.asked.staging && s.decides()
	}
	return 0, false
}

// Status lists what became of each policy, in the document's order.
func (s State) Status() []wire.PolicyStatus {
	if s.doc == nil {
		return nil
	}
	all := make([]wire.PolicyStatus, 0, len(s.doc.Policies))
	for i := range s.doc.Policies {
		p := &s.doc.Policies[i]
		st := wire.PolicyStatus{Name: p.Name, Rev: p.Rev, State: wire.PolicyNoAction}
		switch {
		case p.Conflict:
			st.State = wire.PolicyConflict
		case p.Agent == nil:
		case p.Name == s.Plan.Policy, p.DecidedBy != "" && p.DecidedBy == s.Plan.Policy:
			st = s.Plan.status()
			st.Name, st.Rev = p.Name, p.Rev
		default: // an update for another policy has to end first
			st.State = wire.PolicyWaiting
		}
		st.DecidedBy = p.DecidedBy
		all = append(all, st)
	}
	return all
}

func (p *Plan) status() wire.PolicyStatus {
	st := wire.PolicyStatus{Name: p.Policy, Rev: p.Rev, State: p.State, Scheduled: p.At, Started: p.Began,
		Ended: p.Ended, Error: p.Error, Rollback: p.Rollback}
	if p.Target != nil {
		st.Version = p.Target.Version
	}
	return st
}

// decides returns whether the plan's policy is one of the document's that decides.
func (s *State) decides() bool {
	d := s.decider()
	return d != nil && d.Name == s.Plan.Policy && d.Rev == s.Plan.Rev
}

// decider returns the policy that decides about the agent's version, nil if none does.
func (s *State) decider() *wire.NodePolicy {
	if s.doc == nil {
		return nil
	}
	i := slices.IndexFunc(s.doc.Policies, func(p wire.NodePolicy) bool { return p.Agent != nil && p.DecidedBy == "" })
	if i < 0 {
		return nil
	}
	return &s.doc.Policies[i]
}

// ordered reports whether the trial was ordered and its end is not known: nothing about the plan changes until then.
func (p *Plan) ordered() bool {
	switch p.State {
	case wire.PolicyInitiated, wire.PolicyRollbackStarted, wire.PolicyRollbackFailed:
		return true
	}
	return false
}
