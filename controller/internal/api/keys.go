package api

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

func (a *API) keys(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	k, err := a.unit.SigningKeys(r.Context())
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, k)
	return nil
}

func (a *API) rotateKey(w http.ResponseWriter, r *http.Request) error {
	if err := newQuery(r).done(); err != nil {
		return err
	}
	var in op.RotateKey
	body, err := a.body(w, r)
	if err == nil && len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err != nil {
			return wire.AsError(err)
		}
	}
	if err != nil {
		return err
	}
	who, _ := whoAndVia(r)
	k, err := a.unit.RotateKey(r.Context(), in.Force, who)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, k)
	return nil
}

func (a *API) retireKey(w http.ResponseWriter, r *http.Request) error {
	in, err := required[op.RetireKey](a, w, r)
	if err != nil {
		return err
	}
	if !wire.ValidName(in.ID) {
		return wire.New(wire.CodeInvalidArgument, "/kid", "the ID of a key is expected; see GET /v1/keys")
	}
	who, _ := whoAndVia(r)
	k, err := a.unit.RetireKey(r.Context(), in.ID, in.Force, who)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, k)
	return nil
}
