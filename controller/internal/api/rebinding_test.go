package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/dashboard"
	"tandem.internal/controller/internal/tokens"
)

// TestRebinding: a page whose name leads to this address once it is open is of the same origin for a browser, and so
// for the check of origins. The token is what it lacks: a browser keeps that of the dashboard for the dashboard's own
// origin, and nothing that it sends by itself counts as one. So it gets what everybody gets, which says nothing of the
// unit. The name in Host is not looked at: proxies and tunnels have others.
func TestRebinding(t *testing.T) {
	r := serveTCP(t, false, api.Config{})
	before := newest(t, r.unit)
	status, err := r.unit.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := func(q *http.Request) {
		q.Host = "attacker.example"
		q.Header.Set("Origin", "http://attacker.example")
		q.Header.Set("Sec-Fetch-Site", "same-origin")
		q.Header.Set("Cookie", "tandem="+r.by[tokens.Admin]+"; Authorization=Bearer "+r.by[tokens.Admin])
	}
	open := []string{"GET /healthz", "GET /readyz"}
	for _, f := range dashboard.Files() {
		open = append(open, "GET "+f.Path)
	}
	names := strings.NewReplacer("{", "", "}", "")
	for pattern := range api.New(r.unit, api.Config{}).Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		res := r.ask(method, names.Replace(path), "", func(q *http.Request) {
			if page(q); !slices.Contains(open, pattern) {
				q.URL.RawQuery = url.Values{"access_token": {r.by[tokens.Admin]}}.Encode()
			}
		})
		body, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			t.Fatal(err)
		}
		switch {
		case !slices.Contains(open, pattern):
			if res.StatusCode != 401 {
				t.Errorf("%s from another name: %d %s", pattern, res.StatusCode, body)
			}
		case res.StatusCode >= 400 && res.StatusCode < 500, strings.Contains(string(body), status.Unit):
			t.Errorf("%s, which says nothing of the unit: %d %s", pattern, res.StatusCode, body)
		}
		for name := range res.Header {
			if name == "Set-Cookie" || strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s sets %s", pattern, name)
			}
		}
	}
	if got, _ := r.status("GET", "/v1/nodes", "", func(q *http.Request) {
		page(q)
		q.SetBasicAuth("tandem", r.by[tokens.Admin])
	}); got != 401 {
		t.Errorf("a password: %d", got)
	}
	if got := newest(t, r.unit); got.Seq != before.Seq {
		t.Errorf("something was done: %+v", got)
	}
}
