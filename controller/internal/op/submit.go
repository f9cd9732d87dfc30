package op

import (
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// What is submitted.
var (
	ApplyConfig = define(Op[ConfigIn, view.Result]{
		Name: "config.apply", Route: "POST /v1/config", Role: Operate, Form: Verdict,
		About: "Submits a unit configuration. It is judged by the controller and by the nodes that are online.",
	})
	ConfirmConfig = define(Op[None, view.Result]{
		Name: "config.confirm", Route: "POST /v1/config/confirm", Role: Operate, Form: Verdict,
		About: "Keeps the unit configuration that is on trial.",
	})
	RollBackConfig = define(Op[Rollback, view.Result]{
		Name: "config.rollback", Route: "POST /v1/config/rollback", Role: Operate, Form: Verdict,
		About: "Submits the content of an earlier version again, under a new version.",
	})
	RestoreConfig = define(Op[None, view.ConfigStatus]{
		Name: "config.restore", Route: "POST /v1/config/restore", Role: Operate,
		About: "Writes the readable copy of the unit configuration again, from the journal, and ends the failed state.",
	})
	ApplyWorkloads = define(Op[WorkloadSet, view.Result]{
		Name: "workloads.apply", Route: "POST /v1/workloads", Role: Operate, Form: Verdict,
		About: "Submits the unit's whole set of workloads. The answer has placed: what it comes to.",
	})
)

// Submitted are the parameters of every submission.
type Submitted struct {
	DryRun  bool   `query:"dryRun" json:"-"`  // judge only
	Offline bool   `query:"offline" json:"-"` // do not ask the nodes: they still judge what they receive
	ID      string `query:"id" json:"-"`      // the submitter's own; one is made if it is left out
}

// ConfigIn is a unit configuration, and how it is submitted.
type ConfigIn struct {
	Mode          wire.Mode     `query:"mode" json:"-"`          // "apply", which is the default, or "try"
	ConfirmWithin time.Duration `query:"confirmWithin" json:"-"` // how long a trial lasts; with mode=try only
	Submitted
	Document []byte `body:"application/json" json:"-"` // the unit configuration
}

// Check sets the default of the mode, and judges what goes with it.
func (in *ConfigIn) Check() *wire.Error {
	switch in.Mode {
	case "":
		in.Mode = wire.ModeApply
	case wire.ModeApply, wire.ModeTry:
	default:
		return invalid("the parameter mode is apply or try")
	}
	if (in.Mode == wire.ModeTry) != (in.ConfirmWithin > 0) {
		return invalid("confirmWithin goes with mode=try, and only with it")
	}
	if len(in.Document) == 0 {
		return wire.New(wire.CodeMissing, "", "the request body is the unit configuration, and it is empty")
	}
	return nil
}

// Submission is what it is to the core, but for who submits it.
func (in *ConfigIn) Submission() view.Submission {
	return view.Submission{
		Kind: wire.KindConfig, Mode: in.Mode, ConfirmWithin: in.ConfirmWithin, Document: in.Document,
		DryRun: in.DryRun, Offline: in.Offline, ID: in.ID,
	}
}

// WorkloadSet is a set of workloads, and how it is submitted.
type WorkloadSet struct {
	Version string `query:"version" empty:"leave it out to have one derived" json:"-"` // it gets; default: the next
	Lenient bool   `query:"lenient" json:"-"`                                          // take what is left out as meant
	Submitted
	Document []byte `body:"application/json" json:"-"` // an array of seed 004's format
}

// Check judges that there is a set.
func (in *WorkloadSet) Check() *wire.Error {
	if len(in.Document) == 0 {
		return wire.New(wire.CodeMissing, "",
			"the request body is the set of workloads, and it is empty; [] stops everything")
	}
	return nil
}

// Submission is what it is to the core, but for who submits it.
func (in *WorkloadSet) Submission() view.Submission {
	return view.Submission{
		Kind: wire.KindWorkloads, Mode: wire.ModeApply, Version: in.Version, Lenient: in.Lenient,
		Document: in.Document, DryRun: in.DryRun, Offline: in.Offline, ID: in.ID,
	}
}

// Rollback says which content comes back, and as what.
type Rollback struct {
	Version string `json:"version"` // whose content comes back
	As      string `json:"as"`      // the version it gets, above the installed one
}

// Check judges that both versions are there.
func (in *Rollback) Check() *wire.Error {
	switch {
	case len(in.Version) > 256:
		return wire.New(wire.CodeTooLarge, "/version", "longer than 256 bytes")
	case len(in.As) > 256:
		return wire.New(wire.CodeTooLarge, "/as", "longer than 256 bytes")
	case in.Version == "":
		return wire.New(wire.CodeMissing, "/version", "the version whose content comes back")
	case in.As == "":
		return wire.New(wire.CodeMissing, "/as", "the new version that it gets")
	}
	return nil
}
