package app

import (
	"context"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/view"
)

// What a program that runs a controller in its own process needs to name.
type (
	Unit         = api.Unit
	Submission   = view.Submission
	Request      = view.Certification
	Result       = view.Result
	Node         = view.Node
	Document     = view.Document
	ConfigStatus = view.ConfigStatus
	Version      = view.Version
	Entry        = view.Entry
	EntryFilter  = view.EntryFilter
	Scope        = view.Scope
	NodeHealth   = view.NodeHealth
	Tuning       = distribute.Config // what Deps.Tune is given
	Faults       = journal.Faults
)

// Audit replays the journal and compares the outcome with the state that the controller acts on;
// the error says where they differ. Nothing else happens in the meantime: it is for tests.
func (a *App) Audit(ctx context.Context) error { return a.core.Audit(ctx) }
