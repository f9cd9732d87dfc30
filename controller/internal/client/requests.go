package client

import (
	"context"
	"io"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

func iso(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return duration.Format(d)
}

// Submit submits a document; ID, Mode, ConfirmWithin, DryRun and Offline of s count.
func (c *Client) Submit(ctx context.Context, s view.Submission) (view.Result, error) {
	in := op.ConfigIn{Document: s.Document, Submitted: op.Submitted{ID: s.ID, DryRun: s.DryRun, Offline: s.Offline}}
	if s.Mode == wire.ModeTry {
		in.Mode, in.ConfirmWithin = s.Mode, s.ConfirmWithin
	}
	return Call(ctx, c, op.ApplyConfig, in)
}

// Confirm keeps the unit configuration on trial.
func (c *Client) Confirm(ctx context.Context) (view.Result, error) {
	return Call(ctx, c, op.ConfirmConfig, op.None{})
}

// Rollback submits the content of version again, under the version as.
func (c *Client) Rollback(ctx context.Context, version, as string) (view.Result, error) {
	return Call(ctx, c, op.RollBackConfig, op.Rollback{Version: version, As: as})
}

// Restore ends the failed state.
func (c *Client) Restore(ctx context.Context) (view.ConfigStatus, error) {
	return Call(ctx, c, op.RestoreConfig, op.None{})
}

// ConfigStatus returns the unit configuration's state.
func (c *Client) ConfigStatus(ctx context.Context) (view.ConfigStatus, error) {
	return Call(ctx, c, op.ConfigStatus, op.None{})
}

// Config returns the document of a version, or of the installed one.
func (c *Client) Config(ctx context.Context, version string) ([]byte, error) {
	return Call(ctx, c, op.ShowConfig, op.VersionIn{Version: version})
}

// History returns what became of every submission, oldest first.
func (c *Client) History(ctx context.Context) (op.History, error) {
	return Call(ctx, c, op.ConfigHistory, op.None{})
}

// Resolved returns what a node gets.
func (c *Client) Resolved(ctx context.Context, node, nodeType string) (view.Resolved, error) {
	return Call(ctx, c, op.ResolveConfig, op.ResolveIn{Node: node, Type: nodeType})
}

// Explain says where a value comes from.
func (c *Client) Explain(ctx context.Context, node, pointer string) (view.Explanation, error) {
	return Call(ctx, c, op.ExplainConfig, op.ExplainIn{Node: node, Pointer: pointer})
}

// Nodes returns every node, sorted by name.
func (c *Client) Nodes(ctx context.Context) (op.Nodes, error) {
	return Call(ctx, c, op.ListNodes, op.None{})
}

// Node returns one node.
func (c *Client) Node(ctx context.Context, node string) (view.Node, error) {
	return Call(ctx, c, op.ShowNode, op.NodeIn{Node: node})
}

// Enroll makes a token for a node; ttl 0 leaves its life to the controller.
func (c *Client) Enroll(ctx context.Context, node string, ttl time.Duration) (view.Enrolment, error) {
	return Call(ctx, c, op.EnrollNode, op.EnrollIn{NodeIn: op.NodeIn{Node: node}, Enroll: op.Enroll{TTL: iso(ttl)}})
}

// Revoke ends all that a node has.
func (c *Client) Revoke(ctx context.Context, node, reason string) (view.Node, error) {
	return Call(ctx, c, op.RevokeNode, op.RevokeIn{NodeIn: op.NodeIn{Node: node}, Revoke: op.Revoke{Reason: reason}})
}

// Certify certifies the key of a request.
func (c *Client) Certify(ctx context.Context, q view.Certification) (view.Certificate, error) {
	return Call(ctx, c, op.CertifyIdentity, op.CertifyIn{Certification: q})
}

// Disown ends all that somebody has who is not a node.
func (c *Client) Disown(ctx context.Context, in op.Disown) error {
	_, err := Call(ctx, c, op.RevokeIdentity, in)
	return err
}

// Status returns the unit at a glance.
func (c *Client) Status(ctx context.Context) (view.UnitStatus, error) {
	return Call(ctx, c, op.UnitStatus, op.None{})
}

// Verify has the journal checked.
func (c *Client) Verify(ctx context.Context) (op.Verification, error) {
	return Call(ctx, c, op.VerifyJournal, op.None{})
}

// Entries selects journal entries for Events.
type Entries struct {
	Node   string
	Types  []string
	After  uint64 // only newer ones
	Limit  int    // 0: the API's default, or none when following
	Newest bool   // newest first; not with Follow
	Follow bool   // go on with what comes
}

// Events calls each for every entry that e selects, in the order in which they come.
func (c *Client) Events(ctx context.Context, e Entries, each func(view.Entry) error) error {
	if !e.Follow {
		var cancel context.CancelFunc
		ctx, cancel = c.timed(ctx)
		defer cancel()
	}
	return Follow(ctx, c, op.Events, op.EventsIn(e), each)
}

// WatchNodes calls each for what changes on the nodes, beginning with what they are now.
func (c *Client) WatchNodes(ctx context.Context, each func(op.NodeChange) error) error {
	return Follow(ctx, c, op.WatchNodes, op.Watched{Watch: true}, each)
}

// WatchConfig calls each with the unit configuration's state, now and whenever it changes.
func (c *Client) WatchConfig(ctx context.Context, each func(view.ConfigStatus) error) error {
	return Follow(ctx, c, op.WatchConfig, op.Watched{Watch: true}, each)
}

// Export writes the journal to w as JSON lines.
func (c *Client) Export(ctx context.Context, w io.Writer) error {
	return Download(ctx, c, op.ExportJournal, op.None{}, w)
}

// Backup writes a copy of the journal's file to w.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	return Download(ctx, c, op.BackupJournal, op.None{}, w)
}

// CreateToken makes a token; ttl 0 means until it is revoked.
func (c *Client) CreateToken(ctx context.Context, name, role string, ttl time.Duration) (view.Grant, error) {
	return Call(ctx, c, op.CreateToken, op.NewToken{Name: name, Role: role, TTL: iso(ttl)})
}

// Tokens returns every token, sorted by name.
func (c *Client) Tokens(ctx context.Context) (op.Tokens, error) {
	return Call(ctx, c, op.ListTokens, op.None{})
}

// RevokeToken ends a token.
func (c *Client) RevokeToken(ctx context.Context, name string) (view.Token, error) {
	return Call(ctx, c, op.RevokeToken, op.TokenIn{Token: name})
}

// NodeHealth returns what a node has told of its health.
func (c *Client) NodeHealth(ctx context.Context, node string) (view.NodeHealth, error) {
	return Call(ctx, c, op.NodeHealth, op.NodeIn{Node: node})
}

// HealthSettings returns what is set.
func (c *Client) HealthSettings(ctx context.Context) (view.HealthSettings, error) {
	return Call(ctx, c, op.HealthSettings, op.None{})
}

// NodeSettings returns what is set for one node.
func (c *Client) NodeSettings(ctx context.Context, node string) (view.NodeSettings, error) {
	return Call(ctx, c, op.NodeSettings, op.OfNode{Node: node})
}

// SetHealth sets what is wanted of some nodes.
func (c *Client) SetHealth(ctx context.Context, in op.SetHealth) (view.SettingsChange, error) {
	return Call(ctx, c, op.SetHealthSettings, in)
}

// UnsetHealth takes it back.
func (c *Client) UnsetHealth(ctx context.Context, scope view.Scope) (view.SettingsChange, error) {
	return Call(ctx, c, op.UnsetHealthSettings, scope)
}

// Maintain announces a maintenance for so long from now.
func (c *Client) Maintain(ctx context.Context, within time.Duration, reason string) (op.Announced, error) {
	return Call(ctx, c, op.AnnounceMaintenance, op.Maintain{For: duration.Format(within), Reason: reason})
}

// EndMaintenance ends it.
func (c *Client) EndMaintenance(ctx context.Context) (op.Announced, error) {
	return Call(ctx, c, op.EndMaintenance, op.None{})
}

// SigningKeys returns the unit's signing keys.
func (c *Client) SigningKeys(ctx context.Context) (view.Keys, error) {
	return Call(ctx, c, op.ShowKeys, op.None{})
}

// RotateKey does the next step of a rotation.
func (c *Client) RotateKey(ctx context.Context, in op.RotateKey) (view.Keys, error) {
	return Call(ctx, c, op.RotateKeys, in)
}

// RetireKey takes a key off the list.
func (c *Client) RetireKey(ctx context.Context, in op.RetireKey) (view.Keys, error) {
	return Call(ctx, c, op.RetireKeys, in)
}

// SubmitWorkloads submits a set; ID, Version, Lenient, DryRun and Offline of s count.
func (c *Client) SubmitWorkloads(ctx context.Context, s view.Submission) (view.Result, error) {
	return Call(ctx, c, op.ApplyWorkloads, op.WorkloadSet{
		Version: s.Version, Lenient: s.Lenient, Document: s.Document,
		Submitted: op.Submitted{ID: s.ID, DryRun: s.DryRun, Offline: s.Offline},
	})
}

// Workloads returns the set of a version, or the newest; filled: what it comes to.
func (c *Client) Workloads(ctx context.Context, version string, filled bool) ([]byte, error) {
	return Call(ctx, c, op.ShowWorkloads, op.WorkloadsIn{Version: version, Filled: filled})
}

// WorkloadHistory returns what became of every set, oldest first.
func (c *Client) WorkloadHistory(ctx context.Context) (op.History, error) {
	return Call(ctx, c, op.WorkloadHistory, op.None{})
}

// WorkloadStatus returns how far nodes and slots have come.
func (c *Client) WorkloadStatus(ctx context.Context) (view.WorkloadStatus, error) {
	return Call(ctx, c, op.WorkloadStatus, op.None{})
}

// WatchWorkloads calls each with it, now and whenever it changes.
func (c *Client) WatchWorkloads(ctx context.Context, each func(view.WorkloadStatus) error) error {
	return Follow(ctx, c, op.WatchWorkloads, op.Watched{Watch: true}, each)
}

// Slots lists the slots of the unit, or of one node.
func (c *Client) Slots(ctx context.Context, node string) (op.Slots, error) {
	return Call(ctx, c, op.ListSlots, op.SlotsIn{Node: node})
}

// RestartSlot has a node start a slot's process anew.
func (c *Client) RestartSlot(ctx context.Context, node, service string) (view.Ordered, error) {
	return Call(ctx, c, op.RestartSlot, op.SlotIn{Node: node, Service: service})
}

// SlotLogs returns a piece of what a slot's processes have written.
func (c *Client) SlotLogs(ctx context.Context, node string, p wire.LogsParams) (view.Logs, error) {
	of := op.SlotIn{Node: node, Service: p.Service}
	return Call(ctx, c, op.SlotLogs, op.LogsIn{SlotIn: of, Cursor: p.Cursor, Tail: p.Tail})
}

// Order has a node do something: in is an op.Reboot, op.Try or op.Approve.
func (c *Client) Order(ctx context.Context, node, _ string, in any) (view.Ordered, error) {
	of := op.NodeIn{Node: node}
	switch in := in.(type) {
	case op.Reboot:
		return Call(ctx, c, op.RebootNode, op.RebootIn{NodeIn: of, Reboot: in})
	case op.Try:
		return Call(ctx, c, op.TryNode, op.TryIn{NodeIn: of, Try: in})
	case op.Approve:
		return Call(ctx, c, op.ApproveNode, op.ApproveIn{NodeIn: of, Approve: in})
	}
	panic("client: no such order")
}
