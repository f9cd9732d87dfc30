package api

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	runtimepprof "runtime/pprof"

	"tandem.internal/shared/wire"
)

// profile answers with a profile of this process, as package net/http/pprof does: heap, goroutine, profile (of the
// processor), trace and the others of package runtime/pprof. By the unix socket only: over TCP there is nothing.
// The command line is not among them, because it may hold a password.
func (a *API) profile(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("profile")
	switch {
	case !isLocal(r):
		return wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is nothing at %.128q", r.URL.Path))
	case name == "profile":
		pprof.Profile(w, r)
	case name == "trace":
		pprof.Trace(w, r)
	case runtimepprof.Lookup(name) != nil:
		pprof.Handler(name).ServeHTTP(w, r)
	default:
		return wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no profile %.64q", name))
	}
	return nil
}
