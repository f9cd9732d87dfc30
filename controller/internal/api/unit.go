package api

import (
	"context"
	"io"
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Unit is what the API serves: the controller's core. All methods are safe for concurrent use.
// Errors that a caller can act on are *wire.Error: CodeNotFound, CodeWrongState,
// CodeInvalidArgument, CodeUnavailable (not ready), CodeStorage.
type Unit interface {
	// Submit judges a unit configuration, or a set of workloads, and, unless DryRun, journals and
	// issues it. A refusal is a Result, not an error.
	Submit(ctx context.Context, s view.Submission) (view.Result, error)
	// Confirm keeps the unit configuration on trial.
	Confirm(ctx context.Context, who string) (view.Result, error)
	// Restore rewrites the readable copy from the journal and ends the failed state.
	Restore(ctx context.Context, who string) (view.ConfigStatus, error)
	// Rollback submits the content of an earlier version again, under a new version.
	Rollback(ctx context.Context, version, as, who string) (view.Result, error)

	ConfigStatus(ctx context.Context) (view.ConfigStatus, error)
	// Config returns the document of a version ("" means the installed one) as submitted.
	Config(ctx context.Context, version string) ([]byte, error)
	History(ctx context.Context) ([]view.Version, error)
	// Resolved returns what a node gets; nodeType "" takes the type that the node reported.
	Resolved(ctx context.Context, node, nodeType string) (view.Resolved, error)
	Explain(ctx context.Context, node, pointer string) (view.Explanation, error)

	Nodes(ctx context.Context) ([]view.Node, error)
	Node(ctx context.Context, node string) (view.Node, error)
	Status(ctx context.Context) (view.UnitStatus, error)

	// Enroll makes a token with which a node joins, once; life 0 means a day.
	Enroll(ctx context.Context, node string, life time.Duration, who string) (view.Enrolment, error)
	// Revoke ends a node's session, certificates and open tokens. To revoke again is no error.
	Revoke(ctx context.Context, node, reason, who string) (view.Node, error)
	// Certify certifies a key for somebody who is not a node, in the place of what it had.
	Certify(ctx context.Context, q view.Certification, who string) (view.Certificate, error)
	// Disown ends everything that somebody has who is not a node.
	Disown(ctx context.Context, identity, reason, who string) error

	// Remark writes a note into the journal and returns when it is durable.
	Remark(ctx context.Context, r view.Remark, who string) error

	// SigningKeys shows the unit's signing keys. RotateKey announces a new one, or has the announced
	// one sign; RetireKey takes one off the list. Force goes on although nodes would be left behind.
	SigningKeys(ctx context.Context) (view.Keys, error)
	RotateKey(ctx context.Context, force bool, who string) (view.Keys, error)
	RetireKey(ctx context.Context, kid string, force bool, who string) (view.Keys, error)

	// NodeHealth is what a node has told of its health. SetHealth sets what is wanted of the health of
	// some nodes (nil: unsets it) and issues the documents that follow; HealthSettings and
	// NodeSettings show what is set.
	NodeHealth(ctx context.Context, node string) (view.NodeHealth, error)
	SetHealth(ctx context.Context, scope view.Scope, settings *wire.HealthSettings, who string) (view.SettingsChange, error)
	HealthSettings(ctx context.Context) (view.HealthSettings, error)
	NodeSettings(ctx context.Context, node string) (view.NodeSettings, error)
	// Reboot, Try and Approve order one node to do something and return when it has answered; its
	// refusal is an error that names it. Nothing is kept for a node that is offline.
	Reboot(ctx context.Context, node, reason, who string) (view.Ordered, error)
	Try(ctx context.Context, node, component, version, who string) (view.Ordered, error)
	Approve(ctx context.Context, node, version, who string) (view.Ordered, error)
	// SetMaintenance announces one to the nodes for so long from now; 0 ends it. The answer is what
	// is announced now, nil: nothing.
	SetMaintenance(ctx context.Context, within time.Duration, reason, who string) (*view.Maintenance, error)

	// WorkloadStatus is the unit's set of workloads and how far nodes and slots have come with it; Slots
	// lists those of a node, or of the unit if node is "". Workloads is the set of a version ("" means
	// the newest) as submitted, or filled: the instances and jobs that it comes to.
	WorkloadStatus(ctx context.Context) (view.WorkloadStatus, error)
	Slots(ctx context.Context, node string) ([]view.Slot, error)
	Workloads(ctx context.Context, version string, filled bool) ([]byte, error)
	WorkloadHistory(ctx context.Context) ([]view.Version, error)
	// RestartSlot has a node start a slot's process anew; as Reboot.
	RestartSlot(ctx context.Context, node, service, who string) (view.Ordered, error)
	// SlotLogs asks a node for a piece of what a slot's processes have written.
	SlotLogs(ctx context.Context, node string, p wire.LogsParams, who string) (view.Logs, error)

	// Entries returns journal entries in order; Changed is closed at the next append, for
	// callers that follow.
	Entries(ctx context.Context, f view.EntryFilter) ([]view.Entry, error)
	Changed() <-chan struct{}
	// Verify checks the journal and says in words what it found; ok false means damage.
	Verify(ctx context.Context) (ok bool, report string, err error)
	// Export writes the journal as JSON lines; Backup writes a consistent copy of its file.
	Export(ctx context.Context, w io.Writer) error
	Backup(ctx context.Context, w io.Writer) error
}
