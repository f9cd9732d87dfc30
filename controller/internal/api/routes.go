package api

import (
	"context"
	"net/http"
	"slices"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// operations binds every operation to what does it. A test holds the routes against what each role may do.
func (a *API) operations() []binding {
	return slices.Concat(a.reading(), a.following(), a.submitting(), a.ordering(), a.admitting())
}

func (a *API) reading() []binding {
	u := a.unit
	return []binding{
		bind(op.Health, a.health),
		bind(op.Ready, a.ready),
		bind(op.ShowAPI, openapi),
		bind(op.UnitStatus, func(ctx context.Context, _ op.None) (view.UnitStatus, error) { return u.Status(ctx) }),
		bind(op.ListNodes, func(ctx context.Context, _ op.None) (op.Nodes, error) {
			nodes, err := u.Nodes(ctx)
			return op.Nodes{Nodes: nodes}, err
		}),
		serve(op.WatchNodes, func(a *API, w http.ResponseWriter, r *http.Request, _ op.Watched) error {
			return watch(a, w, r, a.nodeWatch())
		}),
		bind(op.ShowNode, func(ctx context.Context, in op.NodeIn) (view.Node, error) { return u.Node(ctx, in.Node) }),
		bind(op.NodeHealth, func(ctx context.Context, in op.NodeIn) (view.NodeHealth, error) {
			return u.NodeHealth(ctx, in.Node)
		}),
		bind(op.HealthSettings, func(ctx context.Context, _ op.None) (view.HealthSettings, error) {
			return u.HealthSettings(ctx)
		}),
		bind(op.NodeSettings, func(ctx context.Context, in op.OfNode) (view.NodeSettings, error) {
			return u.NodeSettings(ctx, in.Node)
		}),
		bind(op.ShowConfig, func(ctx context.Context, in op.VersionIn) ([]byte, error) {
			return u.Config(ctx, in.Version)
		}),
		bind(op.ConfigStatus, func(ctx context.Context, _ op.None) (view.ConfigStatus, error) {
			return u.ConfigStatus(ctx)
		}),
		serve(op.WatchConfig, watched[view.ConfigStatus](u.ConfigStatus)),
		bind(op.ConfigHistory, history(u.History)),
		bind(op.ResolveConfig, func(ctx context.Context, in op.ResolveIn) (view.Resolved, error) {
			return u.Resolved(ctx, in.Node, in.Type)
		}),
		bind(op.ExplainConfig, func(ctx context.Context, in op.ExplainIn) (view.Explanation, error) {
			return u.Explain(ctx, in.Node, in.Pointer)
		}),
	}
}

func (a *API) following() []binding {
	u := a.unit
	return []binding{
		bind(op.ShowWorkloads, func(ctx context.Context, in op.WorkloadsIn) ([]byte, error) {
			return u.Workloads(ctx, in.Version, in.Filled)
		}),
		bind(op.WorkloadStatus, func(ctx context.Context, _ op.None) (view.WorkloadStatus, error) {
			return u.WorkloadStatus(ctx)
		}),
		serve(op.WatchWorkloads, watched[view.WorkloadStatus](u.WorkloadStatus)),
		bind(op.WorkloadHistory, history(u.WorkloadHistory)),
		bind(op.ListSlots, func(ctx context.Context, in op.SlotsIn) (op.Slots, error) {
			all, err := u.Slots(ctx, in.Node)
			return op.Slots{Slots: all}, err
		}),
		bind(op.SlotLogs, func(ctx context.Context, in op.LogsIn) (view.Logs, error) {
			p := wire.LogsParams{Service: in.Service, Cursor: in.Cursor, Tail: in.Tail}
			return u.SlotLogs(ctx, in.Node, p, caller.From(ctx).Who())
		}),
		serve(op.Events, (*API).events),
		serve(op.VerifyJournal, (*API).verify),
		serve(op.ExportJournal, func(a *API, w http.ResponseWriter, r *http.Request, _ op.None) error {
			return a.download(w, r, streamType, u.Export)
		}),
		serve(op.BackupJournal, func(a *API, w http.ResponseWriter, r *http.Request, _ op.None) error {
			w.Header().Set("Content-Disposition", `attachment; filename="journal.db"`)
			return a.download(w, r, "application/octet-stream", u.Backup)
		}),
	}
}

func (a *API) submitting() []binding {
	u := a.unit
	return []binding{
		bind(op.ApplyConfig, func(ctx context.Context, in op.ConfigIn) (view.Result, error) {
			return a.submit(ctx, view.Submission{
				Kind: wire.KindConfig, Mode: in.Mode, ConfirmWithin: in.ConfirmWithin, Document: in.Document,
				DryRun: in.DryRun, Offline: in.Offline, ID: in.ID,
			})
		}),
		bind(op.ConfirmConfig, func(ctx context.Context, _ op.None) (view.Result, error) {
			return u.Confirm(ctx, caller.From(ctx).Who())
		}),
		bind(op.RollBackConfig, func(ctx context.Context, in op.Rollback) (view.Result, error) {
			return u.Rollback(ctx, in.Version, in.As, caller.From(ctx).Who())
		}),
		bind(op.RestoreConfig, func(ctx context.Context, _ op.None) (view.ConfigStatus, error) {
			return u.Restore(ctx, caller.From(ctx).Who())
		}),
		bind(op.ApplyWorkloads, func(ctx context.Context, in op.WorkloadSet) (view.Result, error) {
			return a.submit(ctx, view.Submission{
				Kind: wire.KindWorkloads, Mode: wire.ModeApply, Version: in.Version, Lenient: in.Lenient,
				Document: in.Document, DryRun: in.DryRun, Offline: in.Offline, ID: in.ID,
			})
		}),
	}
}

func (a *API) ordering() []binding {
	u := a.unit
	return []binding{
		bind(op.SetHealthSettings, func(ctx context.Context, in op.SetHealth) (view.SettingsChange, error) {
			return u.SetHealth(ctx, in.Scope, in.Settings, caller.From(ctx).Who())
		}),
		bind(op.UnsetHealthSettings, func(ctx context.Context, in view.Scope) (view.SettingsChange, error) {
			return u.SetHealth(ctx, in, nil, caller.From(ctx).Who())
		}),
		bind(op.AnnounceMaintenance, func(ctx context.Context, in op.Maintain) (op.Announced, error) {
			m, err := u.SetMaintenance(ctx, in.Within(), in.Reason, caller.From(ctx).Who())
			return op.Announced{Maintenance: m}, err
		}),
		bind(op.EndMaintenance, func(ctx context.Context, _ op.None) (op.Announced, error) {
			m, err := u.SetMaintenance(ctx, 0, "", caller.From(ctx).Who())
			return op.Announced{Maintenance: m}, err
		}),
		bind(op.RebootNode, func(ctx context.Context, in op.RebootIn) (view.Ordered, error) {
			return u.Reboot(ctx, in.Node, in.Reason, caller.From(ctx).Who())
		}),
		bind(op.TryNode, func(ctx context.Context, in op.TryIn) (view.Ordered, error) {
			return u.Try(ctx, in.Node, in.Component, in.Version, caller.From(ctx).Who())
		}),
		bind(op.ApproveNode, func(ctx context.Context, in op.ApproveIn) (view.Ordered, error) {
			return u.Approve(ctx, in.Node, in.Version, caller.From(ctx).Who())
		}),
		bind(op.RestartSlot, func(ctx context.Context, in op.SlotIn) (view.Ordered, error) {
			return u.RestartSlot(ctx, in.Node, in.Service, caller.From(ctx).Who())
		}),
	}
}

func (a *API) admitting() []binding {
	u := a.unit
	return []binding{
		bind(op.EnrollNode, func(ctx context.Context, in op.EnrollIn) (view.Enrolment, error) {
			return u.Enroll(ctx, in.Node, in.Life(), caller.From(ctx).Who())
		}),
		bind(op.RevokeNode, func(ctx context.Context, in op.RevokeIn) (view.Node, error) {
			return u.Revoke(ctx, in.Node, in.Reason, caller.From(ctx).Who())
		}),
		bind(op.CertifyIdentity, func(ctx context.Context, in op.CertifyIn) (view.Certificate, error) {
			return u.Certify(ctx, in.Certification, caller.From(ctx).Who())
		}),
		bind(op.RevokeIdentity, func(ctx context.Context, in op.Disown) (op.Disown, error) {
			return in, u.Disown(ctx, in.Identity, in.Reason, caller.From(ctx).Who())
		}),
		bind(op.ShowKeys, func(ctx context.Context, _ op.None) (view.Keys, error) { return u.SigningKeys(ctx) }),
		bind(op.RotateKeys, func(ctx context.Context, in op.RotateKey) (view.Keys, error) {
			return u.RotateKey(ctx, in.Force, caller.From(ctx).Who())
		}),
		bind(op.RetireKeys, func(ctx context.Context, in op.RetireKey) (view.Keys, error) {
			return u.RetireKey(ctx, in.ID, in.Force, caller.From(ctx).Who())
		}),
		bind(op.ListTokens, a.listTokens),
		bind(op.CreateToken, a.createToken),
		bind(op.RevokeToken, a.revokeToken),
	}
}

// submit submits what a caller gave.
func (a *API) submit(ctx context.Context, s view.Submission) (view.Result, error) {
	who := caller.From(ctx)
	s.Who, s.Via = who.Who(), who.Via()
	return a.unit.Submit(ctx, s)
}

// history lists what became of submissions.
func history(see func(context.Context) ([]view.Version, error)) func(context.Context, op.None) (op.History, error) {
	return func(ctx context.Context, _ op.None) (op.History, error) {
		versions, err := see(ctx)
		return op.History{Versions: versions}, err
	}
}

// watched follows what see sees.
func watched[T any](
	see func(context.Context) (T, error),
) func(*API, http.ResponseWriter, *http.Request, op.Watched) error {
	return func(a *API, w http.ResponseWriter, r *http.Request, _ op.Watched) error {
		return watch(a, w, r, changes(see))
	}
}
