package api

import (
	"net/http"

	"tandem.internal/shared/wire"
)

// metrics answers with the figures of the unit and of this process.
func (a *API) metrics(w http.ResponseWriter, r *http.Request) error {
	if _, err := new(route).query(r); err != nil {
		return err
	}
	if a.cfg.Metrics == nil {
		return wire.New(wire.CodeNotFound, "", "there are no metrics here")
	}
	text, contentType, err := a.cfg.Metrics(r.Context())
	if err != nil {
		return err
	}
	a.raw(w, http.StatusOK, contentType, text)
	return nil
}
