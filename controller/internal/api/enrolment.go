package api

import (
	"bytes"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Enroll is the body of POST /v1/nodes/{node}/enroll; it may be left out.
type Enroll struct {
	TTL string `json:"ttl,omitempty"` // ISO 8601: how long the token counts; a day
}

// Revoke is the body of POST /v1/nodes/{node}/revoke; it may be left out.
type Revoke struct {
	Reason string `json:"reason,omitempty"` // for the journal, at most 256 bytes
}

// options reads a body that may be left out.
func options[T any](a *API, w http.ResponseWriter, r *http.Request) (in T, err error) {
	if err := newQuery(r).done(); err != nil {
		return in, err
	}
	if err := nodeName(r.PathValue("node")); err != nil {
		return in, err
	}
	body, err := a.body(w, r)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return in, err
	}
	if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err != nil {
		return in, wire.AsError(err)
	}
	return in, nil
}

func (a *API) enroll(w http.ResponseWriter, r *http.Request) error {
	in, err := options[Enroll](a, w, r)
	if err != nil {
		return err
	}
	life := time.Duration(0)
	if in.TTL != "" {
		if life, err = unitconfig.ParseDuration(in.TTL); err != nil || life <= 0 {
			return wire.New(wire.CodeInvalidArgument, "/ttl", "an ISO 8601 duration above zero is expected, like PT12H")
		}
	}
	who, _ := whoAndVia(r)
	e, err := a.unit.Enroll(r.Context(), r.PathValue("node"), life, who)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, e)
	return nil
}

func (a *API) revoke(w http.ResponseWriter, r *http.Request) error {
	in, err := options[Revoke](a, w, r)
	if err != nil {
		return err
	}
	if len(in.Reason) > 256 {
		return wire.New(wire.CodeTooLarge, "/reason", "longer than 256 bytes")
	}
	who, _ := whoAndVia(r)
	n, err := a.unit.Revoke(r.Context(), r.PathValue("node"), in.Reason, who)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, n)
	return nil
}
