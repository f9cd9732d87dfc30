package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	runtimepprof "runtime/pprof"
	"strconv"

	"tandem.internal/shared/wire"
)

// profile answers with a profile of this process, as package net/http/pprof does: heap, goroutine, profile (of the
// processor), trace and the others of package runtime/pprof. By the unix socket only: over TCP there is nothing.
// The command line is not among them, because it may hold a password. A measurement takes at most a minute, and ends
// when the API stops.
func (a *API) profile(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("profile")
	if !isLocal(r) {
		return wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is nothing at %.128q", r.URL.Path))
	}
	if s := r.FormValue("seconds"); s != "" {
		if n, err := strconv.Atoi(s); err != nil || n < 1 || n > 60 {
			return wire.New(wire.CodeInvalidArgument, "", "seconds is a whole number from 1 to 60")
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.stopping, cancel)()
	r = r.WithContext(ctx)
	switch {
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
