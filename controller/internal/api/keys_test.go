package api_test

import (
	"net/url"
	"strings"
	"testing"

	"tandem.internal/shared/publisher/publishertest"
)

// The routes about signing keys: what they take, and what they answer.
func TestSigningKeys(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/keys", "", 200, `"state":"announced"`},
		{"GET", "/v1/keys?rev=1", "", 400, `invalid-argument`},
		{"POST", "/v1/keys/rotate", "", 409, `wrong-state`},
		{"POST", "/v1/keys/rotate", `{}`, 409, `node-3`},
		{"POST", "/v1/keys/rotate", `{"force":true}`, 200, `"state":"leaving"`},
		{"POST", "/v1/keys/rotate", `{"force":1}`, 400, `/force`},
		{"POST", "/v1/keys/rotate", `{"all":true}`, 400, `unknown-field`},
		{"POST", "/v1/keys/rotate", `[]`, 400, `bad-value`},
		{"POST", "/v1/keys/rotate?force=1", ``, 400, `invalid-argument`},
		{"POST", "/v1/keys/retire", ``, 400, `malformed`},
		{"POST", "/v1/keys/retire", `{}`, 400, `/kid`},
		{"POST", "/v1/keys/retire", `{"kid":"a/b"}`, 400, `/kid`},
		{"POST", "/v1/keys/retire", `{"kid":"nokey"}`, 404, `not-found`},
		{"POST", "/v1/keys/retire", `{"kid":"139e3940e64b5491"}`, 409, `wrong-state`},
		{"POST", "/v1/keys/retire", `{"kid":"fa4d86c3b551aa6c","force":true}`, 200, `"keys":[{`},
		{"GET", "/v1/keys/retire", "", 405, `POST`},
	} {
		u, h := sample(t)
		u.Rotating()
		w := call(h, c.method, c.path, c.body)
		described(t, c.method, c.path, w)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", c.method, c.path, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
}

// The routes about CAs. What they do is tested with a CA of its own, in distribute.
func TestCAs(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/ca", "", 200, `"state":"signing"`},
		{"GET", "/v1/ca?rev=1", "", 400, `invalid-argument`},
		{"POST", "/v1/ca/rotate", `{"force":1}`, 400, `/force`},
		{"POST", "/v1/ca/rotate", `{"all":true}`, 400, `unknown-field`},
		{"POST", "/v1/ca/retire", ``, 400, `malformed`},
		{"POST", "/v1/ca/retire", `{"id":"a/b"}`, 400, `/id`},
		{"POST", "/v1/ca/retire", `{"id":"noca"}`, 404, `not-found`},
		{"GET", "/v1/ca/export", "", 400, `/root`},
		{"GET", "/v1/ca/export?root=x", "", 400, `/root`},
		{"GET", "/v1/ca/export?root=" + url.QueryEscape(publishertest.New(1).Public()), "", 200, `{"list":`},
		{"POST", "/v1/ca/import", `{"lists":[]}`, 400, `/lists`},
		{"POST", "/v1/ca/import", `{"lists":[{"list":"{}","signature":""}]}`, 400, `/lists`},
		{"POST", "/v1/ca/import", `{"list":"{}"}`, 400, `unknown-field`},
	} {
		_, h := sample(t)
		w := call(h, c.method, c.path, c.body)
		described(t, c.method, c.path, w)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", c.method, c.path, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
}
