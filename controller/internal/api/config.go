package api

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func (a *API) submit(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "mode", "confirmWithin", "dryRun", "offline", "id")
	s := view.Submission{
		Kind: wire.KindConfig, ID: q.text("id"), Mode: wire.Mode(q.text("mode")), ConfirmWithin: q.duration("confirmWithin"),
		DryRun: q.flag("dryRun"), Offline: q.flag("offline"),
	}
	switch s.Mode {
	case "":
		s.Mode = wire.ModeApply
	case wire.ModeApply, wire.ModeTry:
	default:
		q.fail("the parameter mode is apply or try")
	}
	if (s.Mode == wire.ModeTry) != (s.ConfirmWithin > 0) {
		q.fail("confirmWithin goes with mode=try, and only with it")
	}
	if err := q.done(); err != nil {
		return err
	}
	var err error
	if s.Document, err = a.body(w, r); err != nil {
		return err
	}
	if len(s.Document) == 0 {
		return wire.New(wire.CodeMissing, "", "the request body is the unit configuration, and it is empty")
	}
	return a.submission(w, r, s)
}

// submission submits what a caller gave.
func (a *API) submission(w http.ResponseWriter, r *http.Request, s view.Submission) error {
	s.Who, s.Via = whoAndVia(r)
	res, err := a.unit.Submit(r.Context(), s)
	return a.verdict(w, res, err)
}

// verdict answers with a Result: 200, or 400 when the document itself is wrong, or 409 when a rule
// or a node said no.
func (a *API) verdict(w http.ResponseWriter, res view.Result, err error) error {
	if err != nil {
		return err
	}
	status := http.StatusOK
	if res.State == "refused" {
		status = http.StatusConflict
		if len(res.Problems) > 0 {
			status = http.StatusBadRequest
		}
		if res.Error == nil {
			res.Error = refusal(res)
		}
	}
	a.write(w, status, res)
	return nil
}

// refusal finds the reason of a refusal that does not name one.
func refusal(res view.Result) *wire.Error {
	if len(res.Problems) > 0 {
		return res.Problems[0]
	}
	for _, n := range res.Checks.Refused {
		if len(n.Errors) > 0 {
			e := *n.Errors[0]
			e.Node = n.Node
			return &e
		}
	}
	return wire.New(wire.CodeNotAllowed, "", "the submission was refused")
}

func (a *API) confirm(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	if err := a.noBody(w, r); err != nil {
		return err
	}
	who, _ := whoAndVia(r)
	res, err := a.unit.Confirm(r.Context(), who)
	return a.verdict(w, res, err)
}

func (a *API) restore(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	if err := a.noBody(w, r); err != nil {
		return err
	}
	who, _ := whoAndVia(r)
	st, err := a.unit.Restore(r.Context(), who)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, st)
	return nil
}

func (a *API) rollback(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	var in op.Rollback
	if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err != nil {
		return wire.AsError(err)
	}
	for path, s := range map[string]string{"/version": in.Version, "/as": in.As} {
		if len(s) > 256 {
			return wire.New(wire.CodeTooLarge, path, "longer than 256 bytes")
		}
	}
	if in.Version == "" {
		return wire.New(wire.CodeMissing, "/version", "the version whose content comes back")
	}
	if in.As == "" {
		return wire.New(wire.CodeMissing, "/as", "the new version that it gets")
	}
	who, _ := whoAndVia(r)
	res, err := a.unit.Rollback(r.Context(), in.Version, in.As, who)
	return a.verdict(w, res, err)
}

func (a *API) config(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "version")
	version := q.text("version")
	if err := q.done(); err != nil {
		return err
	}
	doc, err := a.unit.Config(r.Context(), version)
	if err != nil {
		return err
	}
	a.raw(w, http.StatusOK, "application/json", doc)
	return nil
}

// status answers with how something stands, or with ?watch=1 follows it.
func status[T any](a *API, see func(context.Context) (T, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		q := newQuery(r, "watch")
		follow := q.flag("watch")
		if err := q.done(); err != nil {
			return err
		}
		if follow {
			return watch(a, w, r, changes(see))
		}
		st, err := see(r.Context())
		if err != nil {
			return err
		}
		a.write(w, http.StatusOK, st)
		return nil
	}
}

// history answers with what happened to the versions of a kind.
func (a *API) history(see func(context.Context) ([]view.Version, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := newQuery(r).done(); err != nil {
			return err
		}
		versions, err := see(r.Context())
		if err != nil {
			return err
		}
		a.write(w, http.StatusOK, op.History{Versions: versions})
		return nil
	}
}

func (a *API) resolved(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "node", "type")
	node, nodeType := q.node("node", true), q.text("type")
	if err := q.done(); err != nil {
		return err
	}
	res, err := a.unit.Resolved(r.Context(), node, nodeType)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, res)
	return nil
}

func (a *API) explain(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "node", "pointer")
	node, pointer := q.node("node", true), q.pointer("pointer")
	if err := q.done(); err != nil {
		return err
	}
	ex, err := a.unit.Explain(r.Context(), node, pointer)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, ex)
	return nil
}

func (a *API) unitStatus(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	st, err := a.unit.Status(r.Context())
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, st)
	return nil
}

// health answers whenever the process can answer.
func (a *API) health(w http.ResponseWriter, r *http.Request) error {
	a.write(w, http.StatusOK, op.Alive{Status: "ok", At: time.Now().UTC()})
	return nil
}

// ready answers 200 when submissions are taken and nodes can be reached.
func (a *API) ready(w http.ResponseWriter, r *http.Request) error {
	st, err := a.unit.Status(r.Context())
	if err != nil {
		return err
	}
	if !st.Broker.Up {
		return wire.New(wire.CodeUnavailable, "", "the broker cannot be reached")
	}
	a.write(w, http.StatusOK, op.Alive{Status: "ok", At: time.Now().UTC()})
	return nil
}
