package api

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

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
	in, err := options[op.Enroll](a, w, r)
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
	in, err := options[op.Revoke](a, w, r)
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

// required reads a body that must be there.
func required[T any](a *API, w http.ResponseWriter, r *http.Request) (in T, err error) {
	if err := newQuery(r).done(); err != nil {
		return in, err
	}
	body, err := a.body(w, r)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err != nil {
		return in, wire.AsError(err)
	}
	return in, nil
}

// Bounds of a Certification.
const (
	maxCSR   = 16 << 10
	maxHosts = 32
)

func (a *API) certify(w http.ResponseWriter, r *http.Request) error {
	in, err := required[view.Certification](a, w, r)
	if err != nil {
		return err
	}
	if len(in.CSR) > maxCSR || len(in.Hosts) > maxHosts {
		return wire.New(wire.CodeTooLarge, "", "a request of at most 16 KiB, and at most 32 hosts, are expected")
	}
	for i, h := range in.Hosts {
		if strings.ContainsFunc(h, func(r rune) bool { return r <= ' ' || r > '~' }) || h == "" || len(h) > 253 {
			return wire.New(wire.CodeInvalidArgument, fmt.Sprintf("/hosts/%d", i), "a host name or an address is expected")
		}
	}
	who, _ := whoAndVia(r)
	c, err := a.unit.Certify(r.Context(), in, who)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, c)
	return nil
}

func (a *API) disown(w http.ResponseWriter, r *http.Request) error {
	in, err := required[op.Disown](a, w, r)
	if err != nil {
		return err
	}
	if len(in.Reason) > 256 || len(in.Identity) > 256 {
		return wire.New(wire.CodeTooLarge, "", "longer than 256 bytes")
	}
	who, _ := whoAndVia(r)
	if err := a.unit.Disown(r.Context(), in.Identity, in.Reason, who); err != nil {
		return err
	}
	a.write(w, http.StatusOK, in)
	return nil
}
