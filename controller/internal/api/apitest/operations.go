package apitest

import (
	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/op"
)

// Operations binds every operation to the unit's methods.
func (u *Unit) Operations() []api.Operation {
	return []api.Operation{
		api.Ask(op.UnitStatus, u.Status),
		api.Ask(op.ListNodes, u.Nodes),
		api.WatchNodes(u.Nodes),
		api.Bind(op.ShowNode, u.Node),
		api.Bind(op.NodeHealth, u.NodeHealth),
		api.Ask(op.HealthSettings, u.HealthSettings),
		api.Bind(op.NodeSettings, u.NodeSettings),
		api.Bind(op.ShowConfig, u.Config),
		api.Ask(op.ConfigStatus, u.ConfigStatus),
		api.Watch(op.WatchConfig, u.ConfigStatus),
		api.Ask(op.ConfigHistory, u.History),
		api.Bind(op.ResolveConfig, u.Resolved),
		api.Bind(op.ExplainConfig, u.Explain),
		api.Bind(op.ShowWorkloads, u.Workloads),
		api.Ask(op.WorkloadStatus, u.WorkloadStatus),
		api.Watch(op.WatchWorkloads, u.WorkloadStatus),
		api.Ask(op.WorkloadHistory, u.WorkloadHistory),
		api.Bind(op.ListSlots, u.Slots),
		api.Bind(op.SlotLogs, u.SlotLogs),
		api.Ask(op.VerifyJournal, u.Verify),
		api.File(op.ExportJournal, "", u.Export),
		api.File(op.BackupJournal, "journal.db", u.Backup),

		api.Submit(op.ApplyConfig, u.Submit),
		api.Ask(op.ConfirmConfig, u.Confirm),
		api.Bind(op.RollBackConfig, u.Rollback),
		api.Ask(op.RestoreConfig, u.Restore),
		api.Submit(op.ApplyWorkloads, u.Submit),

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
	}
}
