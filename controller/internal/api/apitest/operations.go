package apitest

import (
	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/op"
)

// Operations binds every operation to the unit's methods.
func (u *Unit) Operations() []api.Operation {
	return append([]api.Operation{
		api.Ask(op.UnitStatus, u.Status),
		api.Ask(op.ListNodes, u.Nodes),
		api.WatchNodes(u.Nodes),
		api.Bind(op.ShowNode, u.Node),
		api.Bind(op.NodeHealth, u.NodeHealth),
		api.Ask(op.HealthSettings, u.HealthSettings),
		api.Bind(op.NodeSettings, u.NodeSettings),
		api.Bind(op.ResolveConfig, u.Resolved),
		api.Bind(op.ExplainConfig, u.Explain),
		api.Bind(op.FillWorkloads, u.Filled),
		api.Bind(op.ListSlots, u.Slots),
		api.Bind(op.SlotLogs, u.SlotLogs),
		api.Ask(op.VerifyJournal, u.Verify),
		api.File(op.ExportJournal, "", u.Export),
		api.File(op.BackupJournal, "journal.db", u.Backup),

		api.Bind(op.SetHealthSettings, u.SetHealth),
		api.Bind(op.UnsetHealthSettings, u.UnsetHealth),
		api.Bind(op.AnnounceMaintenance, u.Maintain),
		api.Ask(op.EndMaintenance, u.EndMaintenance),
		api.Bind(op.RebootNode, u.Reboot),
		api.Bind(op.TryNode, u.Try),
		api.Bind(op.ApproveNode, u.Approve),
		api.Bind(op.RestartSlot, u.RestartSlot),

		api.Bind(op.EnrollNode, u.Enroll),
		api.Bind(op.RevokeNode, u.Revoke),
		api.Bind(op.CertifyIdentity, u.Certify),
		api.Bind(op.RevokeIdentity, u.Disown),
		api.Ask(op.ShowKeys, u.SigningKeys),
		api.Bind(op.RotateKeys, u.RotateKey),
		api.Bind(op.RetireKeys, u.RetireKey),
	}, api.Verbs(kinds.All().Documents(), u)...)
}
