package api

import (
	"net/http"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

func (a *API) nodeHealth(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	name := r.PathValue("node")
	if err := nodeName(name); err != nil {
		return err
	}
	h, err := a.unit.NodeHealth(r.Context(), name)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, h)
	return nil
}

func (a *API) healthSettings(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, "node")
	node := q.node("node", false)
	if err := q.done(); err != nil {
		return err
	}
	if node != "" {
		s, err := a.unit.NodeSettings(r.Context(), node)
		if err != nil {
			return err
		}
		a.write(w, http.StatusOK, s)
		return nil
	}
	s, err := a.unit.HealthSettings(r.Context())
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, s)
	return nil
}

func (a *API) setHealth(w http.ResponseWriter, r *http.Request) error {
	in, err := required[op.SetHealth](a, w, r)
	if err != nil {
		return err
	}
	if in.Settings == nil {
		return wire.New(wire.CodeMissing, "/settings", "required; to unset, POST /v1/health/settings/unset")
	}
	if err := in.Settings.Check(); err != nil {
		return wire.New(err.Code, "/settings"+err.Path, err.Message)
	}
	return a.changeHealth(w, r, in.Scope, in.Settings)
}

func (a *API) unsetHealth(w http.ResponseWriter, r *http.Request) error {
	in, err := required[view.Scope](a, w, r)
	if err != nil {
		return err
	}
	return a.changeHealth(w, r, in, nil)
}

func (a *API) changeHealth(w http.ResponseWriter, r *http.Request, scope view.Scope, settings *wire.HealthSettings) error {
	who, _ := whoAndVia(r)
	c, err := a.unit.SetHealth(r.Context(), scope, settings, who)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, c)
	return nil
}

func (a *API) reboot(w http.ResponseWriter, r *http.Request) error {
	in, err := options[op.Reboot](a, w, r)
	if err != nil {
		return err
	}
	who, _ := whoAndVia(r)
	o, err := a.unit.Reboot(r.Context(), r.PathValue("node"), in.Reason, who)
	return a.ordered(w, o, err)
}

func (a *API) try(w http.ResponseWriter, r *http.Request) error {
	in, err := options[op.Try](a, w, r)
	if err != nil {
		return err
	}
	who, _ := whoAndVia(r)
	o, err := a.unit.Try(r.Context(), r.PathValue("node"), in.Component, in.Version, who)
	return a.ordered(w, o, err)
}

func (a *API) approve(w http.ResponseWriter, r *http.Request) error {
	in, err := options[op.Approve](a, w, r)
	if err != nil {
		return err
	}
	who, _ := whoAndVia(r)
	o, err := a.unit.Approve(r.Context(), r.PathValue("node"), in.Version, who)
	return a.ordered(w, o, err)
}

func (a *API) ordered(w http.ResponseWriter, o view.Ordered, err error) error {
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, o)
	return nil
}

func (a *API) maintain(w http.ResponseWriter, r *http.Request) error {
	in, err := required[op.Maintain](a, w, r)
	if err != nil {
		return err
	}
	within, err := unitconfig.ParseDuration(in.For)
	if err != nil || within <= 0 {
		return wire.New(wire.CodeInvalidArgument, "/for", "an ISO 8601 duration above zero is expected, like PT2H")
	}
	if len(in.Reason) > 256 {
		return wire.New(wire.CodeTooLarge, "/reason", "longer than 256 bytes")
	}
	return a.setMaintenance(w, r, within, in.Reason)
}

func (a *API) endMaintenance(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	if err := a.noBody(w, r); err != nil {
		return err
	}
	return a.setMaintenance(w, r, 0, "")
}

func (a *API) setMaintenance(w http.ResponseWriter, r *http.Request, within time.Duration, reason string) error {
	who, _ := whoAndVia(r)
	m, err := a.unit.SetMaintenance(r.Context(), within, reason, who)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, op.Maintenance{Maintenance: m})
	return nil
}
