package app

import (
	"context"

	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/clock"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// What a program that runs a controller in its own process needs to name.
type (
	Unit           = *distribute.Core
	Submission     = view.Submission
	Request        = view.Certification
	Result         = view.Result
	Node           = view.Node
	PolicyStatus   = view.PolicyStatus
	PolicyNode     = view.PolicyNode
	PolicyChange   = view.PolicyChange
	ApplyPolicy    = op.ApplyPolicyIn
	PolicyIn       = op.PolicyIn
	PolicyHow      = op.PolicyStatusIn
	ReleaseAgent   = op.ReleaseIn
	AgentBuild     = view.AgentBuild
	RolloutIn      = op.RolloutNodesIn
	Document       = view.Document
	SourceStatus   = view.SourceStatus
	Version        = view.Version
	Entry          = view.Entry
	EntryFilter    = view.EntryFilter
	Scope          = view.Scope
	NodeIn         = op.NodeIn
	ResolveIn      = op.ResolveIn
	SlotsIn        = op.SlotsIn
	SlotIn         = op.SlotIn
	LogsIn         = op.LogsIn
	SetHealth      = op.SetHealth
	Reboot         = op.Reboot
	RebootIn       = op.RebootIn
	Try            = op.Try
	TryIn          = op.TryIn
	NodesOrder     = op.NodesOrder
	NodesOrdered   = op.NodesOrdered
	Approve        = op.Approve
	ApproveIn      = op.ApproveIn
	Maintain       = op.Maintain
	Rollback       = op.Rollback
	Enroll         = op.Enroll
	EnrollIn       = op.EnrollIn
	EnrolList      = op.EnrolList
	ListedNode     = op.ListedNode
	NewBatch       = op.NewBatch
	RevokeBatchIn  = op.RevokeBatchIn
	JoinOrder      = op.JoinOrder
	JoinRefusal    = op.JoinRefusal
	NodeKey        = op.NodeKey
	Revoke         = op.Revoke
	RevokeIn       = op.RevokeIn
	Forget         = op.Forget
	CertifyIn      = op.CertifyIn
	Disown         = op.Disown
	RotateKey      = op.RotateKey
	RetireKey      = op.RetireKey
	NewArtefact    = op.NewArtefact
	RotateCA       = op.RotateCA
	RetireCA       = op.RetireCA
	ExportCAs      = op.ExportCAs
	ImportCAs      = op.ImportCAs
	SignedList     = op.SignedList
	BackupIn       = op.BackupIn
	Restore        = backup.Restore
	NodeHealth     = view.NodeHealth
	NoticeReceiver = view.NoticeReceiver
	Batch          = view.Batch
	Pending        = view.Pending
	RolloutDetail  = view.RolloutDetail
	RolloutData    = record.RolloutData // of journal entries of the type rollout
	IssuedData     = record.IssuedData  // of those of the type issued
	Tuning         = distribute.Config  // what Deps.Tune is given
	Faults         = journal.Faults
)

// ThisMachine is the machine that the program runs on.
func ThisMachine() clock.Machine { return clock.ThisMachine() }

// As returns a context in which somebody asks, by the name that the journal gets.
func As(ctx context.Context, who string) context.Context { return caller.Named(ctx, who, "http") }

// Audit replays the journal and compares the outcome with the state that the controller acts on;
// the error says where they differ. Nothing else happens in the meantime: it is for tests.
func (a *App) Audit(ctx context.Context) error { return a.core.Audit(ctx) }
