package api

import (
	"embed"
	"net/http"
)

// files is the dashboard: a page that reads what a token may view, and nothing else.
//
//go:embed static
var files embed.FS

// static answers with one of the dashboard's files.
func (a *API) static(name, contentType string) func(http.ResponseWriter, *http.Request) error {
	body, err := files.ReadFile("static/" + name)
	if err != nil {
		panic("api: the dashboard lacks a file: " + err.Error())
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := new(route).query(r); err != nil {
			return err
		}
		// Its own files, its own origin, nothing inline and nowhere to send a form: whatever a node
		// gets into the page stays text.
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'")
		a.raw(w, http.StatusOK, contentType, body)
		return nil
	}
}
