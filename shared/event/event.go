// Package event owns what nodes tell in events: their types and the shapes of their details. Nodes write
// these, the controller keeps them as they came, and commands print them. An event of another type, or with
// members that are not named here, is a newer node's.
//
//tandem:pure
package event

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// The types of events, with what their detail is.
const (
	Alert    = "alert"    // AlertDetail: a parameter crossed a threshold
	Watchdog = "watchdog" // WatchdogDetail: a loop of the agent or a watched program does not make progress

	Boot            = "boot"              // HealthDetail: the agent has started, and why
	ContactLost     = "contact-lost"      // HealthDetail: the newest word from the controller is too old
	ContactBack     = "contact-back"      // HealthDetail: the controller is heard again
	CheckFailed     = "check-failed"      // HealthDetail: a functional check fails, or is silent
	CheckRecovered  = "check-recovered"   // HealthDetail: it is good again
	Maintenance     = "maintenance"       // HealthDetail: the clocks stand still, or run again
	TrialStarted    = "trial-started"     // HealthDetail: a version runs on trial
	TrialCommitted  = "trial-committed"   // HealthDetail: it is the good one now
	TrialRolledBack = "trial-rolled-back" // HealthDetail: the version from before runs again
	CommitFailed    = "commit-failed"     // HealthDetail: the commit could not be written; it is tried again
	RestartPlanned  = "restart-planned"   // HealthDetail: a restart was decided, and why
	RestartRefused  = "restart-refused"   // HealthDetail: one is due, and is not made, and why
	RestartFailed   = "restart-failed"    // HealthDetail: one was asked for and did not happen

	ComponentStaged  = "component-staged"  // HealthDetail: a version is installed, and may be tried
	ComponentRefused = "component-refused" // HealthDetail: it was to be tried and is not, and why
	ComponentEnded   = "component-ended"   // HealthDetail: an update ended before its trial, and why

	WorkloadExit      = "workload-exit"      // WorkloadDetail: a process ended that was to stay, or a job failed
	WorkloadCompleted = "workload-completed" // WorkloadDetail: a job has succeeded
	WorkloadInstalled = "workload-installed" // WorkloadDetail: a new configuration is in force
	WorkloadBack      = "workload-back"      // WorkloadDetail: a new one did not stay up, the one before is back
	WorkloadRefused   = "workload-refused"   // WorkloadDetail: a configuration cannot be taken into force
	WorkloadUndone    = "workload-undone"    // WorkloadDetail: an uninstall hook failed and is given up

	DriftRepaired  = "drift-repaired"  // DocumentDetail: what a committed document put in place was altered
	Fork           = "fork"            // DocumentDetail: another document with the stamp of the newest one was refused
	Stale          = "stale"           // DocumentDetail: an older document was refused
	RestoreTrouble = "restore-trouble" // DocumentDetail: the last good one is back, its on-apply command failed

	RefusedMessage = "refused-message" // MessageDetail: a message was malformed, foreign or not signed as it should be
	KeyRefused     = "key-refused"     // MessageDetail or none: a beacon by a key that is not pinned, or not any more
	KeyPinned      = "key-pinned"      // KeysDetail: the unit's keys were learned or added to
	KeyDropped     = "key-dropped"     // KeysDetail: a retired key is not believed any more
	ClockSkew      = "clock-skew"      // none: the node's clock and the controller's differ too much

	CertificateRenewed    = "certificate-renewed"     // CertificateDetail
	CertificateNotRenewed = "certificate-not-renewed" // CertificateDetail: at first, for a new reason, and daily
	CertificateExpired    = "certificate-expired"     // CertificateDetail: the node has to join again
)

// AlertDetail is what is read of an alert: the cloud's item, and what Tandem adds (shared/docs/alerts.md). A
// node tells more.
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

// WatchdogDetail says what the watchdog saw.
type WatchdogDetail struct {
	Name    string            `json:"name"`
	Program bool              `json:"program,omitzero"` // beside the agent; else one of its loops
	Verdict string            `json:"verdict"`          // "late", "hung", "died", "unreadable", "back" or "gone"
	For     duration.Duration `json:"for,omitzero"`     // without a sign of life
	Text    string            `json:"text,omitempty"`
}

// HealthDetail is what an event about health or an update tells (shared/docs/health.md).
type HealthDetail struct {
	Slot      string          `json:"slot,omitempty"` // of the agent
	Component string          `json:"component,omitempty"`
	Version   string          `json:"version,omitempty"`
	Check     string          `json:"check,omitempty"`
	Reason    wire.BootReason `json:"reason,omitempty"`
	Text      string          `json:"text,omitempty"`
	Restarts  uint64          `json:"restarts,omitzero"`
}

// WorkloadDetail is what an event about a slot of workloads tells.
type WorkloadDetail struct {
	Slot string             `json:"slot"` // service@node
	ID   string             `json:"id"`   // configurationId
	Exit *wire.WorkloadExit `json:"exit,omitempty"`
	Text string             `json:"text,omitempty"`
}

// DocumentDetail is what an event about a document tells.
type DocumentDetail struct {
	Kind wire.Kind `json:"kind"`
	*wire.DocRef
	Suppressed uint64 `json:"suppressed,omitzero"` // events of this type that were not told before it
}

// MessageDetail is what an event about a refused message tells.
type MessageDetail struct {
	Topic      string `json:"topic"`
	Suppressed uint64 `json:"suppressed,omitzero"` // events of this type that were not told before it
}

// KeysDetail says which of the unit's keys a node believes.
type KeysDetail struct {
	Keys    []string `json:"keys"` // that are believed, the oldest first
	Dropped []string `json:"dropped,omitempty"`
	Rev     uint64   `json:"rev,omitzero"` // of the controller's list
}

// CertificateDetail is what an event about the node's certificate tells.
type CertificateDetail struct {
	Expires time.Time `json:"expires"`
}

// Decode reads the detail of an event of this type; the result is a pointer to the type that is named
// there. nil without an error: the type has no detail, or is not known.
func Decode(eventType string, detail jsontext.Value) (any, error) {
	d := shape(eventType)
	if d == nil || len(detail) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(detail, d); err != nil {
		return nil, err
	}
	return d, nil
}

// Types lists every type.
func Types() []string {
	return []string{
		Alert, Watchdog,
		Boot, ContactLost, ContactBack, CheckFailed, CheckRecovered, Maintenance, TrialStarted, TrialCommitted,
		TrialRolledBack, CommitFailed, RestartPlanned, RestartRefused, RestartFailed,
		ComponentStaged, ComponentRefused, ComponentEnded,
		WorkloadExit, WorkloadCompleted, WorkloadInstalled, WorkloadBack, WorkloadRefused, WorkloadUndone,
		DriftRepaired, Fork, Stale, RestoreTrouble,
		RefusedMessage, KeyRefused, KeyPinned, KeyDropped, ClockSkew,
		CertificateRenewed, CertificateNotRenewed, CertificateExpired,
	}
}

// shape returns an empty detail of an event type, nil if it has none.
func shape(eventType string) any {
	switch eventType {
	case Alert:
		return &AlertDetail{}
	case Watchdog:
		return &WatchdogDetail{}
	case Boot, ContactLost, ContactBack, CheckFailed, CheckRecovered, Maintenance, TrialStarted, TrialCommitted,
		TrialRolledBack, CommitFailed, RestartPlanned, RestartRefused, RestartFailed,
		ComponentStaged, ComponentRefused, ComponentEnded:
		return &HealthDetail{}
	case WorkloadExit, WorkloadCompleted, WorkloadInstalled, WorkloadBack, WorkloadRefused, WorkloadUndone:
		return &WorkloadDetail{}
	case DriftRepaired, Fork, Stale, RestoreTrouble:
		return &DocumentDetail{}
	case RefusedMessage, KeyRefused:
		return &MessageDetail{}
	case KeyPinned, KeyDropped:
		return &KeysDetail{}
	case CertificateRenewed, CertificateNotRenewed, CertificateExpired:
		return &CertificateDetail{}
	}
	return nil
}
