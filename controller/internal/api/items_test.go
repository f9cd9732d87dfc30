package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// storeNothing puts the empty file into the store.
func storeNothing(t *testing.T, u *apitest.Rig) (digest string) {
	t.Helper()
	digest = wire.Hash(nil)
	if _, err := u.Artefacts().Begin(t.Context(), op.NewArtefact{Digest: digest}); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Artefacts().Complete(t.Context(), digest); err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestItemRoutes: what the routes about items and subjects take and answer, one after the other on one unit.
func TestItemRoutes(t *testing.T) {
	u, h := sample(t)
	digest := storeNothing(t, u)
	release := func(version, digest, more string) string {
		return `{"meta":{"codename":"s","type":"service","version":"` + version + `"},` +
			`"content":{"form":"file","builds":[{"blobs":[{"digest":"` + digest + `","size":0}]}]}` + more + `}`
	}
	const versions, line = "/v1/items/service/s/versions", `{"codename":"line","type":"group","priority":2}`
	for _, c := range []struct {
		method, target, body string
		status               int
		has                  string
	}{
		{"GET", "/v1/items", "", 200, `{"items":[]}`},
		{"GET", "/v1/items?type=thing", "", 400, `component, service or layer, not \"thing\"`},
		{"GET", "/v1/items?state=done", "", 400, `preparation, ready or deprecated, not \"done\"`},
		{"POST", "/v1/items?dryRun=1", `{"codename":"s","type":"service"}`, 200, `{}`},
		{"POST", "/v1/items", `{"codename":"s","type":"service","owner":"ann"}`, 200,
			`"id":"00000000-0000-4000-8000-000000000002","urn":"urn:uuid:00000000-0000-4000-8000-000000000002"`},
		{"POST", "/v1/items?dryRun=1", `{"codename":"s","type":"service"}`, 409, `already-exists`},
		{"POST", "/v1/items", `{"codename":"s","type":"servise"}`, 400, `"path":"/type"`},
		{"POST", "/v1/items", ``, 400, `malformed`},
		{"GET", "/v1/items/service/s", "", 200, `"owner":"ann"`},
		{"GET", "/v1/items/layer/s", "", 404, `there is no layer s`},
		{"GET", "/v1/items/thing/s", "", 400, `component, service or layer`},
		{"POST", versions, release("1.0.0", wire.Hash([]byte("x")), ""), 404, `/content/builds/0/blobs/0/digest`},
		{"POST", versions + "?dryRun=1", release("1.0.0", wire.Hash([]byte("x")), ""), 200, `"digest":"sha256:`},
		{"POST", versions, release("1.0", digest, ""), 400, `"path":"/meta/version"`},
		{"POST", versions, release("1.0.0", "x", ""), 400, `"path":"/content/builds/0/blobs/0/digest"`},
		{"POST", versions, `{"meta":{}}`, 400, `"path":"/content"`},
		{"POST", versions, `{}`, 400, `"path":"/meta"`},
		{"POST", versions, release("1.0.0", digest, `,"state":"done"`), 400, `"path":"/state"`},
		{"POST", "/v1/items/layer/s/versions", release("1.0.0", digest, ""), 404, `create it first`},
		{"POST", versions, release("1.0.0", digest, ""), 200, `"rev"`},
		{"POST", versions, release("1.0.0", digest, ""), 200, `"unchanged":true`},
		{"GET", "/v1/items?state=ready", "", 200, `{"items":[]}`},
		{"POST", versions + "/1.0.0/deprecate", "", 409, `wrong-state`},
		{"POST", versions + "/1.0.0/ready", "", 200, `"rev"`},
		{"GET", "/v1/items?state=ready&type=service", "", 200, `"state":"ready","digest"`},
		{"GET", "/v1/items?type=layer", "", 200, `{"items":[]}`},
		{"GET", "/v1/items/service/s", "", 200, `"content":{"form":"file"`},
		{"DELETE", versions + "/1.0.0", "", 409, `deprecate it first`},
		{"POST", versions + "/1.0.0/deprecate", "", 200, `"rev"`},
		{"POST", versions + "/one/ready", "", 400, `semantic`},
		{"DELETE", "/v1/items/service/s", "", 409, `has 1 version`},
		{"DELETE", versions + "/1.0.0", "", 200, `"rev"`},
		{"DELETE", "/v1/items/service/s", "", 200, `"rev"`},
		{"GET", "/v1/items/service/s/history", "", 200, `"version":"1.0.0","did":"removed"},{`},
		{"GET", "/v1/items/layer/s/history", "", 404, `not-found`},

		{"GET", "/v1/subjects", "", 200, `{"subjects":[]}`},
		{"POST", "/v1/subjects/line", line, 200, `"rev"`},
		{"POST", "/v1/subjects/line", line, 200, `"unchanged":true`},
		{"POST", "/v1/subjects/other", line, 400, `"path":"/codename"`},
		{"POST", "/v1/subjects/line", `{"codename":"line","type":"grup"}`, 400, `did you mean`},
		{"POST", "/v1/subjects/line?from=1", `{"codename":"line","type":"group"}`, 409, `changed since`},
		{"GET", "/v1/subjects", "", 200, `"codename":"line","type":"group","priority":2`},
		{"GET", "/v1/subjects/line", "", 200, `"document":{"codename":"line"`},
		{"GET", "/v1/subjects/lane", "", 404, `there is no subject lane`},
		{"DELETE", "/v1/subjects/line", "", 200, `"rev"`},
		{"DELETE", "/v1/subjects/line", "", 404, `not-found`},
		{"GET", "/v1/subjects/line/history", "", 200, `"did":"removed"`},
		{"GET", "/v1/subjects/lane/history", "", 404, `not-found`},
	} {
		w := call(h, c.method, c.target, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.target, c.body, w.Code, w.Body, c.status, c.has)
		}
		described(t, c.method, c.target, w)
	}
}

// TestReleasedFilesStay: what a version consists of is in use while the version is there, and only then.
func TestReleasedFilesStay(t *testing.T) {
	u, h := sample(t)
	digest := storeNothing(t, u)
	remove := func() *httptest.ResponseRecorder {
		return call(h, "POST", "/v1/artefacts/"+digest+"/remove", `{"reason":"x"}`)
	}
	for _, c := range []struct{ method, target, body string }{
		{"POST", "/v1/items", `{"codename":"s","type":"layer"}`},
		{"POST", "/v1/items/layer/s/versions", `{"meta":{"codename":"s","type":"layer","version":"1.0.0"},` +
			`"content":{"form":"file","builds":[{"blobs":[{"digest":"` + digest + `","size":0}]}]}}`},
	} {
		if w := call(h, c.method, c.target, c.body); w.Code != 200 {
			t.Fatalf("%s %s: %s", c.method, c.target, w.Body)
		}
	}
	if w := remove(); w.Code != 409 || !strings.Contains(w.Body.String(), "in use: layer s 1.0.0") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := call(h, "DELETE", "/v1/items/layer/s/versions/1.0.0", ""); w.Code != 200 {
		t.Fatal(w.Body)
	}
	if w := remove(); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
