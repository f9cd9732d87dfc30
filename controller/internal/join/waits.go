package join

import (
	"errors"
	"net/http"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// waits reports whether somebody has a secret that counts and is to ask again, so that it was no guess: many nodes may
// wait for approval behind one address.
func waits(r *http.Request, err error) bool {
	return r.URL.Path == jointoken.JoinPath && errors.Is(err, &wire.Error{Code: wire.CodeUnavailable})
}
