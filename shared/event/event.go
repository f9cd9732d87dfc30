// Package event owns the types of events and the shapes of their details. Nodes write them, the controller stores them
// unchanged, and commands print them. A newer node may send events of further types, and details with further members.
//
//tandem:pure
package event

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// The types of events, each with the type of its detail.
const (
	Alert    = "alert"    // AlertDetail: a parameter crossed a threshold
	Watchdog = "watchdog" // WatchdogDetail: a loop of the agent or a watched program does not make progress

	Boot            = "boot"              // HealthDetail: the agent has started, and why
	ContactLost     = "contact-lost"      // HealthDetail: the newest message of the controller is too old
	ContactBack     = "contact-back"      // HealthDetail: the controller is heard again
	CheckFailed     = "check-failed"      // HealthDetail: a check fails, or has no result
	CheckRecovered  = "check-recovered"   // HealthDetail: a check is good again
	Maintenance     = "maintenance"       // HealthDetail: announced maintenance began or ended
	TrialStarted    = "trial-started"     // HealthDetail: a version runs on trial
	TrialCommitted  = "trial-committed"   // HealthDetail: the version on trial is kept
	TrialRolledBack = "trial-rolled-back" // HealthDetail: the version before the trial runs again
	CommitFailed    = "commit-failed"     // HealthDetail: the commit could not be written; it is tried again
	RestartPlanned  = "restart-planned"   // HealthDetail: a restart was decided, and why
	RestartRefused  = "restart-refused"   // HealthDetail: a restart is due and does not happen, and why
	RestartFailed   = "restart-failed"    // HealthDetail: a restart was requested and did not happen

	Policy           = "policy"            // PolicyDetail: how far the node is with a management policy
	ComponentStaged  = "component-staged"  // HealthDetail: a version is installed, and may be tried
	ComponentRefused = "component-refused" // HealthDetail: a version is not tried, and why
	ComponentEnded   = "component-ended"   // HealthDetail: an update ended before its trial, and why

	WorkloadExit      = "workload-exit"      // WorkloadDetail: the process of an instance ended, or a job failed
	WorkloadUnhealthy = "workload-unhealthy" // WorkloadDetail: a restart for the status; Exit is the hook's
	WorkloadCompleted = "workload-completed" // WorkloadDetail: a job has succeeded
	WorkloadInstalled = "workload-installed" // WorkloadDetail: a new configuration is in force
	WorkloadBack      = "workload-back"      // WorkloadDetail: a new configuration did not stay up
	WorkloadRefused   = "workload-refused"   // WorkloadDetail: a configuration cannot be put in force
	WorkloadDamaged   = "workload-damaged"   // WorkloadDetail: a resource is damaged, and cannot be fetched again
	WorkloadUndone    = "workload-undone"    // WorkloadDetail: an uninstall hook failed and is not run again

	Drift          = "drift"           // DocumentDetail: a document's effects are not what they should be, and stay so
	DriftRepaired  = "drift-repaired"  // DocumentDetail: a change to a document's effects was undone
	Fork           = "fork"            // DocumentDetail: another document has the newest stamp
	Stale          = "stale"           // DocumentDetail: an older document was refused
	RestoreTrouble = "restore-trouble" // DocumentDetail: last-good is back, its command failed

	RefusedMessage = "refused-message" // MessageDetail: malformed, for another node, or badly signed
	KeyRefused     = "key-refused"     // MessageDetail or none: a beacon is signed by a key that is not trusted
	KeyPinned      = "key-pinned"      // KeysDetail: signing keys were learned
	KeyDropped     = "key-dropped"     // KeysDetail: a signing key is not trusted any more
	ClockSkew      = "clock-skew"      // none: the clocks of node and controller differ too much
	ViewStale      = "view-stale"      // ViewDetail: the newest documents, or the word which they are, do not arrive
	ViewCurrent    = "view-current"    // none: they have

	CertificateRenewed    = "certificate-renewed"     // CertificateDetail
	CertificateNotRenewed = "certificate-not-renewed" // CertificateDetail: at once, for each new reason, and daily
	CertificateExpired    = "certificate-expired"     // CertificateDetail: the node has to join again

	StateLost = "state-lost" // StateDetail: the file of the node's state was damaged or gone, and the node began anew
)

// AlertDetail has those members of an alert that the controller reads: of the cloud's item, and of what Tandem adds
// (shared/docs/alerts.md). A node sends more.
type AlertDetail struct {
	Tag       string    `json:"tag"`
	Parameter string    `json:"parameter"`
	Value     float64   `json:"value"`
	State     string    `json:"state"` // "raise", "continue" or "fall"
	Since     time.Time `json:"since"` // when the alert was raised
	Min       float64   `json:"minThreshold"`
	Max       float64   `json:"maxThreshold"`
	Reason    string    `json:"reason"` // of a fall: "below-threshold" or "rule-removed"
}

// WatchdogDetail is what the watchdog has found about a loop or program.
type WatchdogDetail struct {
	Name    string            `json:"name"`
	Program bool              `json:"program,omitzero"` // it is a watched program; else a loop of the agent
	Verdict string            `json:"verdict"`          // "late", "hung", "died", "unreadable", "back" or "gone"
	For     duration.Duration `json:"for,omitzero"`     // time without progress
	Text    string            `json:"text,omitempty"`
}

// HealthDetail is the detail of an event about health or an update (shared/docs/health.md).
type HealthDetail struct {
	Slot      string          `json:"slot,omitempty"` // of the agent
	Component string          `json:"component,omitempty"`
	Version   string          `json:"version,omitempty"`
	Check     string          `json:"check,omitempty"`
	Reason    wire.BootReason `json:"reason,omitempty"`
	Text      string          `json:"text,omitempty"`
	Restarts  uint64          `json:"restarts,omitzero"`
}

// WorkloadDetail is the detail of an event about a workload slot.
type WorkloadDetail struct {
	Slot string             `json:"slot"` // service@node
	ID   string             `json:"id"`   // configurationId
	Exit *wire.WorkloadExit `json:"exit,omitempty"`
	Text string             `json:"text,omitempty"`
	// events of this type that were left out before it, of all slots
	Suppressed uint64 `json:"suppressed,omitzero"`
}

// PolicyDetail is the detail of an event about a management policy.
type PolicyDetail struct {
	wire.PolicyStatus
	// events of this type that were left out before it, of all policies
	Suppressed uint64 `json:"suppressed,omitzero"`
}

// DocumentDetail is the detail of an event about a document.
type DocumentDetail struct {
	Kind wire.Kind `json:"kind"`
	*wire.DocRef
	Suppressed uint64 `json:"suppressed,omitzero"` // events of this type that were left out before it
}

// MessageDetail is the detail of an event about a refused message.
type MessageDetail struct {
	Topic      string `json:"topic"`
	Suppressed uint64 `json:"suppressed,omitzero"` // events of this type that were left out before it
}

// KeysDetail has the signing keys that a node trusts.
type KeysDetail struct {
	Keys    []string `json:"keys"` // IDs of the trusted ones, the oldest first
	Dropped []string `json:"dropped,omitempty"`
	Rev     uint64   `json:"rev,omitzero"` // of the controller's list
}

// CertificateDetail is the detail of an event about the node's certificate.
type CertificateDetail struct {
	Expires time.Time `json:"expires"`
}

// Decode decodes the detail of an event of this type. The result is a pointer to the type that the list above names. It
// is nil, without an error, if the event has no detail or its type is unknown.
func Decode(eventType string, detail jsontext.Value) (any, error) {
	d := shape(eventType)
	if d == nil || len(detail) == 0 {
		return nil, nil
	}
	if err := wire.Unmarshal(detail, d); err != nil {
		return nil, err
	}
	return d, nil
}

// Types returns every type.
func Types() []string {
	return []string{
		Alert, Watchdog,
		Boot, ContactLost, ContactBack, CheckFailed, CheckRecovered, Maintenance, TrialStarted, TrialCommitted,
		TrialRolledBack, CommitFailed, RestartPlanned, RestartRefused, RestartFailed,
		Policy, ComponentStaged, ComponentRefused, ComponentEnded,
		WorkloadExit, WorkloadUnhealthy, WorkloadCompleted, WorkloadInstalled, WorkloadBack, WorkloadRefused,
		WorkloadDamaged, WorkloadUndone,
		Drift, DriftRepaired, Fork, Stale, RestoreTrouble,
		RefusedMessage, KeyRefused, KeyPinned, KeyDropped, ClockSkew, ViewStale, ViewCurrent,
		CertificateRenewed, CertificateNotRenewed, CertificateExpired,
		StateLost,
	}
}

// shape returns an empty detail of an event type, nil if it has none.
func shape(eventType string) any {
	switch eventType {
	case Alert:
		return &AlertDetail{}
	case Policy:
		return &PolicyDetail{}
	case Watchdog:
		return &WatchdogDetail{}
	case Boot, ContactLost, ContactBack, CheckFailed, CheckRecovered, Maintenance, TrialStarted, TrialCommitted,
		TrialRolledBack, CommitFailed, RestartPlanned, RestartRefused, RestartFailed,
		ComponentStaged, ComponentRefused, ComponentEnded:
		return &HealthDetail{}
	case WorkloadExit, WorkloadUnhealthy, WorkloadCompleted, WorkloadInstalled, WorkloadBack, WorkloadRefused,
		WorkloadDamaged, WorkloadUndone:
		return &WorkloadDetail{}
	case Drift, DriftRepaired, Fork, Stale, RestoreTrouble:
		return &DocumentDetail{}
	case RefusedMessage, KeyRefused:
		return &MessageDetail{}
	case KeyPinned, KeyDropped:
		return &KeysDetail{}
	case CertificateRenewed, CertificateNotRenewed, CertificateExpired:
		return &CertificateDetail{}
	case StateLost:
		return &StateDetail{}
	case ViewStale:
		return &ViewDetail{}
	}
	return nil
}
