package api

import (
	"net/http"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func (a *API) submitWorkloads(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "version", "lenient", "dryRun", "offline", "id")
	s := view.Submission{
		Kind: wire.KindWorkloads, Version: q.text("version"), Lenient: q.flag("lenient"),
		ID: q.text("id"), Mode: wire.ModeApply, DryRun: q.flag("dryRun"), Offline: q.flag("offline"),
	}
	if s.Version == "" && q.values.Has("version") {
		q.fail("the parameter version is empty; leave it out to have one derived")
	}
	if err := q.done(); err != nil {
		return err
	}
	var err error
	if s.Document, err = a.body(w, r); err != nil {
		return err
	}
	if len(s.Document) == 0 {
		return wire.New(wire.CodeMissing, "", "the request body is the set of workloads, and it is empty; [] stops everything")
	}
	return a.submission(w, r, s)
}

func (a *API) workloads(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "version", "filled")
	version, filled := q.text("version"), q.flag("filled")
	if err := q.done(); err != nil {
		return err
	}
	doc, err := a.unit.Workloads(r.Context(), version, filled)
	if err != nil {
		return err
	}
	a.raw(w, http.StatusOK, "application/json", doc)
	return nil
}

func (a *API) slots(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "node")
	node := q.node("node", false)
	if err := q.done(); err != nil {
		return err
	}
	all, err := a.unit.Slots(r.Context(), node)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, op.Slots{Slots: all})
	return nil
}

// slot reads the slot that a path names.
func slot(r *http.Request) (s workload.Slot, err error) {
	s, err = workload.ParseSlot(r.PathValue("service") + "@" + r.PathValue("node"))
	if err != nil {
		return s, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	return s, nil
}

func (a *API) restartSlot(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	s, err := slot(r)
	if err != nil {
		return err
	}
	if err := a.noBody(w, r); err != nil {
		return err
	}
	who, _ := whoAndVia(r)
	o, err := a.unit.RestartSlot(r.Context(), s.Node, s.Service, who)
	return a.ordered(w, o, err)
}

func (a *API) slotLogs(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "cursor", "tail")
	p := wire.LogsParams{Cursor: q.text("cursor"), Tail: int(q.number("tail", 1, wire.MaxLogs, 0))}
	if p.Cursor != "" && p.Tail > 0 {
		q.fail("cursor and tail exclude each other")
	}
	if err := q.done(); err != nil {
		return err
	}
	s, err := slot(r)
	if err != nil {
		return err
	}
	p.Service = s.Service
	who, _ := whoAndVia(r)
	l, err := a.unit.SlotLogs(r.Context(), s.Node, p, who)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, l)
	return nil
}
