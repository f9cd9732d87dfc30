package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/dashboard"
)

// pagePolicy lets the dashboard have its own files from its own origin, nothing inline and nowhere to send a form:
// whatever a node gets into the page stays text.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types 'none'"

// file answers with one of the dashboard's files; a browser that has it already is told so.
func (a *API) file(f dashboard.File) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := new(route).query(r); err != nil {
			return err
		}
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Cache-Control", "no-cache") // keep it, and ask each time whether it is still the same
		h.Set("ETag", f.Tag)
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("If-None-Match"), f.Tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		body := f.Body
		if rec, ok := w.(*recorder); ok && rec.gzip && f.Gzip != nil {
			h.Set("Content-Encoding", "gzip")
			body = f.Gzip
		}
		h.Set("Content-Type", f.Type)
		h.Set("Content-Length", fmt.Sprint(len(body)))
		if err := writeDeadline(w, time.Now().Add(a.cfg.WriteTimeout)); err != nil {
			return err
		}
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodHead {
			return nil
		}
		if _, err := w.Write(body); err != nil {
			a.log.Debug("caller left before the answer", zap.Error(err))
		}
		return nil
	}
}
