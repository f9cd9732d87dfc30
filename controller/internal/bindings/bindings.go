// Package bindings says which method of the core does each operation of package op. The program and the
// tests of the API serve the same table.
package bindings

import (
	"context"
	"slices"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/notify/deliver"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Core is the core as package api serves it.
type Core struct {
	*distribute.Core
	Notices  *deliver.Manager // nil: nobody is told
	Settings []view.Setting   // with which the controller was started
}

// Operations binds every operation that the API does not do by itself to a method of the core.
func (b Core) Operations() []api.Operation {
	c := b.Core
	return slices.Concat([]api.Operation{
		api.Bind(op.UnitStatus, c.UnitStatus),
		api.Ask(op.UnitSettings, func(context.Context) (op.Settings, error) {
			return op.Settings{Settings: append([]view.Setting{}, b.Settings...)}, nil
		}),
		api.Ask(op.ShowFleet, c.Fleet),
		api.Live(c.Live),
		api.ListNodes(c),
		api.PickNodes(c),
		api.WatchNodes(c.Nodes),
		api.Ask(op.ListAlerts, c.Alerts),
		api.Bind(op.ShowNode, c.Node),
		api.Bind(op.NodeHealth, c.NodeHealth),
		api.Ask(op.HealthSettings, c.HealthSettings),
		api.Bind(op.NodeSettings, c.NodeSettings),
		api.Bind(op.ResolveConfig, c.Resolved),
		api.Bind(op.ExplainConfig, c.Explain),
		api.Bind(op.FillWorkloads, c.Filled),
		api.Bind(op.ListSlots, c.Slots),
		api.Bind(op.WhySlot, c.WhySlot),
		api.Bind(op.WhyNode, c.WhyNode),
		api.Bind(op.WhyDocument, c.WhyDocument),
		api.Bind(op.WhyRollout, c.WhyRollout),
		api.Bind(op.DiffNode, c.DiffNode),
		api.Bind(op.SlotLogs, c.SlotLogs),
		api.Bind(op.NodeLog, c.NodeLog),
		api.Bind(op.NodeSamples, c.Samples),
		api.Ask(op.ShowLogLevel, c.LogLevel),
		api.Ask(op.VerifyJournal, c.Verify),
		api.Ask(op.TrimPlan, c.TrimPlan),
		api.File(op.ExportJournal, "", c.Export),
		api.File(op.BackupJournal, "journal.db", c.Backup),
		api.FileOf(op.BackupUnit, "tandem.backup", c.BackupUnit),

		api.Bind(op.SetHealthSettings, c.SetHealth),
		api.Bind(op.UnsetHealthSettings, c.UnsetHealth),
		api.Bind(op.AnnounceMaintenance, c.Maintain),
		api.Ask(op.EndMaintenance, c.EndMaintenance),
		api.Ask(op.ConfirmClock, c.ConfirmClock),
		api.Bind(op.RebootNode, c.Reboot),
		api.Bind(op.TryNode, c.Try),
		api.Bind(op.ApproveNode, c.Approve),
		api.Bind(op.OrderNodes, c.OrderNodes),
		api.Bind(op.SetNodeLogLevel, c.SetNodeLogLevel),
		api.Bind(op.SetLogLevel, c.SetLogLevel),
		api.Bind(op.RestartSlot, c.RestartSlot),
		api.Bind(op.StopSlot, c.StopSlot),
		api.Bind(op.StartSlot, c.StartSlot),

		api.Ask(op.ListArtefacts, c.Artefacts().List),
		api.Bind(op.ShowArtefact, c.Artefacts().Show),
		api.Bind(op.BeginUpload, c.Artefacts().Begin),
		api.Bind(op.ShowUpload, c.Artefacts().ShowUpload),
		api.Upload(op.WriteUpload, func(ctx context.Context, in op.UploadIn, body api.Body) (view.Upload, error) {
			return c.Artefacts().Write(ctx, in.Digest, int64(in.Offset), body)
		}),
		api.Bind(op.CompleteUpload, func(ctx context.Context, in op.CompleteIn) (view.Upload, error) {
			return c.Artefacts().Complete(ctx, in.Digest)
		}),
		api.Bind(op.RemoveArtefact, c.Artefacts().Remove),

		api.Bind(op.EnrollNode, c.Enroll),
		api.Bind(op.RevokeNode, c.Revoke),
		api.Bind(op.ForgetNodes, c.Forget),
		api.Bind(op.CertifyIdentity, c.Certify),
		api.Bind(op.RevokeIdentity, c.Disown),
		api.Ask(op.ShowKeys, c.SigningKeys),
		api.Bind(op.RotateKeys, c.RotateKey),
		api.Bind(op.RetireKeys, c.RetireKey),
		api.Ask(op.ShowCAs, c.ShowCAs),
		api.Bind(op.RotateCAs, c.RotateCA),
		api.Bind(op.RetireCAs, c.RetireCA),
		api.Bind(op.ExportCA, c.ExportCAs),
		api.Bind(op.ImportCA, c.ImportCAs),
	}, b.enrolment(), b.policies(), b.items(), b.desired(), b.notices(), api.Verbs(c.Kinds().Documents(), c))
}

// enrolment binds the operations about many nodes at once.
func (b Core) enrolment() []api.Operation {
	return []api.Operation{
		api.Bind(op.EnrolNodes, b.EnrolNodes),
		api.Ask(op.ListBatches, b.Batches),
		api.Bind(op.CreateBatch, b.CreateBatch),
		api.Bind(op.RevokeBatch, b.RevokeBatch),
		api.Ask(op.ListPending, b.Pending),
		api.Bind(op.ApproveJoin, b.ApproveJoin),
		api.Bind(op.RefuseJoin, b.RefuseJoin),
	}
}

// notices binds the operations about who is told what the journal has.
func (b Core) notices() []api.Operation {
	n := b.Notices
	return []api.Operation{
		api.Ask(op.ListNotices, func(ctx context.Context) (op.Notices, error) {
			if n == nil {
				return op.Notices{Receivers: []view.NoticeReceiver{}}, errNoNotices
			}
			return n.List(ctx)
		}),
		ofNotices(op.ShowNotice, n, (*deliver.Manager).Show),
		ofNotices(op.AddNotice, n, (*deliver.Manager).Add),
		ofNotices(op.TestNotice, n, (*deliver.Manager).Test),
		ofNotices(op.RemoveNotice, n, (*deliver.Manager).Remove),
	}
}

var errNoNotices = wire.New(wire.CodeNotSupported, "", "this controller sends no notices")

func ofNotices[In, Out any](o op.Op[In, Out], n *deliver.Manager,
	do func(*deliver.Manager, context.Context, In) (Out, error)) api.Operation {

	return api.Bind(o, func(ctx context.Context, in In) (out Out, err error) {
		if n == nil {
			return out, errNoNotices
		}
		return do(n, ctx, in)
	})
}

// desired binds the operations about what should run where.
func (b Core) desired() []api.Operation {
	return []api.Operation{
		api.Bind(op.PlanDesired, b.PlanDesired),
		api.Bind(op.WhyDesired, b.WhyDesired),
		api.Bind(op.ShowDesired, b.ShowDesired),
		api.Bind(op.ApplyDesired, b.ApplyDesired),
	}
}

// policies binds the operations about policies, versions of the agent and rollouts.
func (b Core) policies() []api.Operation {
	c := b.Core
	return []api.Operation{
		api.Ask(op.ListPolicies, c.Policies),
		api.Bind(op.ShowPolicy, c.Policy),
		api.Bind(op.HistoryOfPolicy, c.PolicyHistory),
		api.Bind(op.DiffPolicy, c.DiffPolicy),
		api.Bind(op.WhyPolicy, c.WhyPolicy),
		api.Bind(op.RollBackPolicy, c.RollBackPolicy),
		api.Bind(op.StatusOfPolicy, c.PolicyStatus),
		api.Bind(op.ApplyPolicy, c.ApplyPolicy),
		api.Bind(op.EnablePolicy, c.EnablePolicy),
		api.Bind(op.DisablePolicy, c.DisablePolicy),
		api.Bind(op.RemovePolicy, c.RemovePolicy),
		api.Bind(op.SetProperty, c.SetProperty),
		api.Bind(op.UnsetProperty, c.UnsetProperty),
		api.Bind(op.ShowProperties, c.NodeProperties),
		api.Ask(op.ListRollouts, c.Rollouts),
		api.Bind(op.ShowRollout, c.Rollout),
		api.Follow(op.WatchRollout, func(ctx context.Context, in op.RolloutWatchIn) (view.RolloutDetail, error) {
			return c.Rollout(ctx, in.RolloutNodesIn)
		}),
		api.Bind(op.PauseRollout, c.PauseRollout),
		api.Bind(op.ResumeRollout, c.ResumeRollout),
		api.Bind(op.AbortRollout, c.AbortRollout),
		api.Ask(op.ListReleases, c.AgentReleases),
		api.Bind(op.ReleaseAgent, c.ReleaseAgent),
		api.Bind(op.WithdrawAgent, c.WithdrawAgent),
	}
}

// items binds the operations about update items and subjects.
func (b Core) items() []api.Operation {
	c := b.Core
	return []api.Operation{
		api.Bind(op.ListItems, c.Items),
		api.Bind(op.ShowItem, c.Item),
		api.Bind(op.HistoryOfItem, c.ItemHistory),
		api.Bind(op.CreateItem, c.CreateItem),
		api.Bind(op.ReleaseItem, c.ReleaseItem),
		api.Bind(op.ReadyItem, c.ReadyItem),
		api.Bind(op.DeprecateItem, c.DeprecateItem),
		api.Bind(op.RemoveItemVersion, c.RemoveItemVersion),
		api.Bind(op.RemoveItem, c.RemoveItem),
		api.Ask(op.ListSubjects, c.Subjects),
		api.Bind(op.ShowSubject, c.Subject),
		api.Bind(op.HistoryOfSubject, c.SubjectHistory),
		api.Bind(op.ApplySubject, c.ApplySubject),
		api.Bind(op.RemoveSubject, c.RemoveSubject),
	}
}
