package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tandem-api-")
	if err == nil {
		keys, bearers, err = apitest.Keys(dir, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	token = bearers[tokens.Admin]
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(status)
	}))
}

// call makes a request with a token, without a network.
func call(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// instance is a set of one instance.
const instance = `[{"@class":"Instance","slot":"web@node-1","resources":{"iss_hook_start":{"@class":"Resource",` +
	`"uuid":"u","urls":["http://127.0.0.1/w"],"size":0,"verification":{"checksum":"EMPTY:","checkPeriod":"0d0h0m"}}}}]`

func sample(t testing.TB) (*apitest.Rig, *api.API) {
	t.Helper()
	u := apitest.StartSample(t)
	u.Working()
	if err := u.Enrolment(t.Context(), enrol.Certify{Subject: "cloud/eu", Key: "k", Serial: "1",
		Expires: apitest.Now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	return u, api.New(u, api.Config{Tokens: keys, MaxBody: 64 << 10})
}

func code(t *testing.T, body []byte) wire.Code {
	t.Helper()
	var p struct {
		Error *wire.Error `json:"error"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if p.Error == nil {
		return ""
	}
	if p.Error.Message == "" {
		t.Errorf("error without a message: %s", body)
	}
	return p.Error.Code
}

func TestAnswers(t *testing.T) {
	good := string(apitest.Document("2.1.0"))
	_, looked := sample(t) // of those who change nothing
	for _, c := range []struct {
		method, target, body string
		status               int
		code                 wire.Code
		has                  string
	}{
		{"GET", "/healthz", "", 200, "", `"status":"ok"`},
		{"POST", "/v1/workloads", instance, 200, "", `"placed":{"slots":1,"nodes":1`},
		{"POST", "/v1/workloads?dryRun=1&version=1.2.3", instance, 200, "", `"version":"1.2.3"`},
		{"POST", "/v1/workloads?version=1.0.0", instance, 409, wire.CodeWrongState, `"state":"refused"`},
		{"POST", "/v1/workloads?version=", instance, 400, wire.CodeInvalidArgument, "derived"},
		{"POST", "/v1/workloads?version=two", instance, 400, wire.CodeInvalidArgument, "semantic version"},
		{"POST", "/v1/workloads?version=%00", instance, 400, wire.CodeInvalidArgument, "control character"},
		{"POST", "/v1/workloads?id=a%0A", instance, 400, wire.CodeInvalidArgument, "control character"},
		{"GET", "/v1/workloads?version=1.0.0%7F", "", 400, wire.CodeInvalidArgument, "control character"},
		{"GET", "/v1/events?type=a%1B", "", 400, wire.CodeInvalidArgument, "control character"},
		{"GET", "/v1/nodes?state=a%C2%9B", "", 400, wire.CodeInvalidArgument, "control character"},
		{"GET", "/v1/config/explain?node=node-1&pointer=/a%00", "", 400, wire.CodeInvalidArgument, "control"},
		{"POST", "/v1/tokens/a%00/revoke", "", 400, wire.CodeInvalidArgument, "control character"},
		{"POST", "/v1/workloads/rollback", `{"version":"1.0.0","as":"two"}`, 400, wire.CodeInvalidArgument, "/as"},
		{"POST", "/v1/workloads?mode=try", instance, 400, wire.CodeInvalidArgument, "no such parameter"},
		{"POST", "/v1/workloads", instance[:len(instance)-1], 400, wire.CodeMalformed, `"line":1`},
		{"POST", "/v1/workloads?lenient=1", strings.Replace(instance, `,"size":0`, "", 1), 200, "",
			`"warnings":[{"line":1`},
		{"POST", "/v1/workloads", strings.Replace(instance, `,"size":0`, "", 1), 400, wire.CodeMissing, "size"},
		{"POST", "/v1/workloads", "", 400, wire.CodeMissing, "[]"},
		{"POST", "/v1/workloads", strings.Repeat(" ", 64<<10+1), 413, wire.CodeTooLarge, ""},
		{"GET", "/v1/workloads", "", 200, "", `"slot":"web@node-1"`},
		{"GET", "/v1/workloads?version=9.9.9", "", 404, wire.CodeNotFound, ""},
		{"GET", "/v1/workloads/diff?from=9.9.9", "", 404, wire.CodeNotFound, ""},
		{"POST", "/v1/workloads/rollback", `{"version":"9.9.9","as":"9.9.10"}`, 404, wire.CodeNotFound, ""},
		{"POST", "/v1/workloads/rollback", `{"version":"1.0.0"}`, 400, wire.CodeMissing, ""},
		{"GET", "/v1/workloads?filled=yes", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/workloads/status", "", 200, "", `"onlineMissing":2`},
		{"HEAD", "/v1/workloads/status?watch=1", "", 200, "", ""},
		{"GET", "/v1/workloads/status?x=1", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/workloads/history", "", 200, "", `"version":"1.0.1"`},
		{"GET", "/v1/workloads/slots", "", 200, "", `"slot":"map@node-2"`},
		{"GET", "/v1/workloads/slots?node=node-3", "", 200, "", `{"slots":[]}`},
		{"GET", "/v1/workloads/slots?node=nobody", "", 404, wire.CodeNotFound, ""},
		{"GET", "/v1/workloads/slots?node=a%2Fb", "", 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/nodes/node-1/slots/web/restart", "", 200, "", `"method":"restart"`},
		{"POST", "/v1/nodes/node-1/slots/web/restart", "x", 400, wire.CodeInvalidArgument, "no body"},
		{"POST", "/v1/nodes/node-1/slots/web/restart?x=1", "", 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/nodes/node-1/slots/none/restart", "", 404, wire.CodeNotFound, `"node":"node-1"`},
		{"POST", "/v1/nodes/node-4/slots/web/restart", "", 409, wire.CodeWrongState, ""},
		{"POST", "/v1/nodes/node-1/slots/a%2Fb/restart", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/nodes/node-1/slots/web/logs", "", 200, "", `"cursor":"26"`},
		{"GET", "/v1/nodes/node-1/slots/web/logs?tail=5", "", 200, "", `"data":"ODA4MAo="`},
		{"GET", "/v1/nodes/node-1/slots/web/logs?cursor=26", "", 200, "", `"cursor":"26"`},
		{"GET", "/v1/nodes/node-1/slots/web/logs?cursor=26&tail=5", "", 400, wire.CodeInvalidArgument, "exclude"},
		{"GET", "/v1/nodes/node-1/slots/web/logs?hook=iss_hook_validate", "", 200, "", `"hook":"iss_hook_validate"`},
		{"GET", "/v1/nodes/node-1/slots/web/logs?hook=validate", "", 400, wire.CodeInvalidArgument, "iss_hook_install"},
		{"GET", "/v1/nodes/node-1/slots/web/logs?tail=32769", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/nodes/node-1/slots/web/logs?follow=1", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/nodes/node-1/slots/none/logs", "", 404, wire.CodeNotFound, ""},
		{"GET", "/v1/nodes/node-1/log?lines=1", "", 200, "", `"cursor":"b:3"`},
		{"GET", "/v1/nodes/node-1/log?lines=1&cursor=b:3", "", 400, wire.CodeBadValue, "only without cursor"},
		{"GET", "/v1/nodes/node-1/log?level=loud", "", 400, wire.CodeBadValue, "the parameter level"},
		{"GET", "/v1/nodes/node-1/log?lines=1001", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/nodes/node-2/log", "", 400, wire.CodeNotSupported, "older than that"},
		{"GET", "/v1/nodes/nobody/log", "", 404, wire.CodeNotFound, ""},
		{"POST", "/v1/nodes/node-1/log-level", `{"level":"debug","for":"PT10M"}`, 200, "", `"method":"log-level"`},
		{"POST", "/v1/nodes/node-1/log-level", "", 200, "", `"method":"log-level"`},
		{"POST", "/v1/nodes/node-1/log-level", `{"level":"debug"}`, 400, wire.CodeBadValue, "/for"},
		{"GET", "/v1/log-level", "", 200, "", `{"level":"info"}`},
		{"GET", "/v1/nodes/node-1/samples", "", 200, "", `"values":[[0.25,0.314,0.9],`},
		{"GET", "/v1/nodes/node-1/samples?x=1", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/nodes/node-2/samples", "", 400, wire.CodeNotSupported, "older than that"},
		{"POST", "/v1/log-level", `{"level":"debug","for":"PT10M"}`, 200, "", `"until"`},
		{"POST", "/v1/log-level", `{"level":"loud","for":"PT10M"}`, 400, wire.CodeBadValue, "/level"},
		{"POST", "/v1/log-level", `{"level":"debug","for":"PT25H"}`, 400, wire.CodeBadValue, "/for"},
		{"GET", "/readyz", "", 200, "", `"status":"ok"`},
		{"GET", "/readyz?probe=1", "", 200, "", `"status":"ok"`},
		{"GET", "/v1/nodes?watch=0", "", 200, "", `{"nodes":[`},
		{"GET", "/v1/nodes?watch=2", "", 400, wire.CodeInvalidArgument, "1 or 0"},
		{"GET", "/v1/health/settings?node=", "", 400, wire.CodeInvalidArgument, "name is needed"},
		{"GET", "/v1/openapi.json", "", 200, "", `"openapi": "3.1.0"`},
		{"POST", "/v1/config", good, 200, "", `"state":"accepted"`},
		{"POST", "/v1/config?dryRun=1", good, 200, "", `"state":"acceptable"`},
		{"POST", "/v1/config?offline=1", good, 200, "", `"asked":0`},
		{"POST", "/v1/config?mode=try&confirmWithin=PT2M", good, 200, "", `"deadline":"2026-11-20T10:02:00Z"`},
		{"POST", "/v1/config?mode=apply", string(apitest.Document("2.0.0")), 409, wire.CodeAlreadyExists,
			`"state":"refused"`},
		{"POST", "/v1/config", string(apitest.Document("1.0.0")), 409, wire.CodeWrongState, `"checks"`},
		{"POST", "/v1/config", `{"formatVersion":"7"`, 400, wire.CodeMalformed, `"line":1`},
		{"POST", "/v1/config", `{"formatVersion":"7","version":"3.0.0","nodes":[],"x":1}`, 400, wire.CodeUnknownField,
			`"path":"/x"`},
		{"POST", "/v1/config", "", 400, wire.CodeMissing, ""},
		{"POST", "/v1/config", strings.Repeat(" ", 64<<10+1), 413, wire.CodeTooLarge, ""},
		{"POST", "/v1/config?mode=try", good, 400, wire.CodeInvalidArgument, "confirmWithin"},
		{"POST", "/v1/config?confirmWithin=PT2M", good, 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/config?mode=try&confirmWithin=2m", good, 400, wire.CodeInvalidArgument, "ISO 8601"},
		{"POST", "/v1/config?mode=try&confirmWithin=PT0S", good, 400, wire.CodeInvalidArgument, "above zero"},
		{"POST", "/v1/config?mode=now", good, 400, wire.CodeInvalidArgument, "apply or try"},
		{"POST", "/v1/config?version=1.0.0", good, 400, wire.CodeInvalidArgument,
			"known here: mode, confirmWithin, dryRun, rollout, offline, force, id"},
		{"POST", "/v1/config?lenient=1", good, 400, wire.CodeInvalidArgument, "no such parameter"},
		{"POST", "/v1/config?dryrun=1", good, 400, wire.CodeInvalidArgument, "dryRun"},
		{"POST", "/v1/config?dryRun=yes", good, 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/config?dryRun=", good, 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/config?dryRun=1&dryRun=0", good, 400, wire.CodeInvalidArgument, "twice"},
		{"POST", "/v1/config?%zz", good, 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/config?id=" + strings.Repeat("a", 300), good, 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/nodes/node-1/enroll", "", 200, "", `"token":"tdm1.`},
		{"POST", "/v1/nodes/node-1/enroll", `{"ttl":"PT1H"}`, 200, "", `"expires":"2026-11-20T11:00:00Z"`},
		{"POST", "/v1/nodes/node-1/enroll", `{"ttl":"1h"}`, 400, wire.CodeInvalidArgument, "ISO 8601"},
		{"POST", "/v1/nodes/node-1/enroll", `{"ttl":"PT0S"}`, 400, wire.CodeInvalidArgument, "above zero"},
		{"POST", "/v1/nodes/node-1/enroll", `{"life":"PT1H"}`, 400, wire.CodeUnknownField, ""},
		{"POST", "/v1/nodes/node-1/enroll", `[]`, 400, wire.CodeBadValue, ""},
		{"POST", "/v1/nodes/node-1/enroll?ttl=PT1H", "", 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/nodes/no%2fde/enroll", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/nodes/node-1/enroll", "", 405, wire.CodeNotSupported, ""},
		{"POST", "/v1/nodes/node-1/revoke", "", 200, "", `"state":"revoked"`},
		{"POST", "/v1/nodes/node-1/revoke", `{"reason":"stolen"}`, 200, "", `"revokedBy":"token/admin`},
		{"POST", "/v1/nodes/node-1/revoke", `{"reason":"` + strings.Repeat("x", 257) + `"}`, 413, wire.CodeTooLarge,
			"/reason"},
		{"POST", "/v1/nodes/nobody/revoke", "", 404, wire.CodeNotFound, ""},
		{"POST", "/v1/identities/certify", `{"identity":"cloud/eu","csr":` + csr(t) + `}`, 200, "",
			`"certificate":"-----BEGIN`},
		{"POST", "/v1/identities/certify", `{"identity":"cloud/eu","csr":"` + strings.Repeat("x", 16<<10+1) + `"}`, 413,
			wire.CodeTooLarge, ""},
		{"POST", "/v1/identities/certify", `{"identity":"broker/b","csr":"x","hosts":["a b"]}`, 400,
			wire.CodeInvalidArgument, "/hosts/0"},
		{"POST", "/v1/identities/certify", `{"identity":"cloud/eu","csr":"x","role":"admin"}`, 400,
			wire.CodeUnknownField, ""},
		{"POST", "/v1/identities/certify", "", 400, wire.CodeMalformed, ""},
		{"POST", "/v1/identities/revoke", `{"identity":"cloud/eu"}`, 200, "", `"identity":"cloud/eu"`},
		{"POST", "/v1/identities/revoke", `{"identity":"cloud/eu","reason":"` + strings.Repeat("x", 257) + `"}`,
			413, wire.CodeTooLarge, ""},
		{"POST", "/v1/identities/revoke", "", 400, wire.CodeMalformed, ""},
		{"POST", "/v1/config/confirm", "", 404, wire.CodeNotFound, ""},
		{"POST", "/v1/config/confirm", "{}", 404, wire.CodeNotFound, ""},
		{"POST", "/v1/config/confirm", `{"version":"2.0.0"}`, 400, wire.CodeInvalidArgument, "no body"},
		{"POST", "/v1/config/confirm?x=1", "", 400, wire.CodeInvalidArgument, "none"},
		{"POST", "/v1/config/retry", "", 200, "", `"issued":1`},
		{"POST", "/v1/config/retry", "x", 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/workloads/retry", "", 200, "", `"issued":0`},
		{"POST", "/v1/config/restore", "", 200, "", `"state":"installed"`},
		{"POST", "/v1/config/restore", "x", 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/config/rollback", `{"version":"1.9.0","as":"2.0.1"}`, 200, "", `"version":"2.0.1"`},
		{"POST", "/v1/config/rollback", `{"version":"1.9.0","as":"1.9.5"}`, 409, wire.CodeWrongState, ""},
		{"POST", "/v1/config/rollback", `{"version":"1.9.0","as":"two"}`, 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/config/rollback", `{"version":"0.0.1","as":"2.0.1"}`, 404, wire.CodeNotFound, ""},
		{"POST", "/v1/config/rollback", `{"version":"1.9.0"}`, 400, wire.CodeMissing, `"/as"`},
		{"POST", "/v1/config/rollback", `{"as":"1.9.0"}`, 400, wire.CodeMissing, `"/version"`},
		{"POST", "/v1/config/rollback", `{"version":"1.9.0","as":"2.0.1","a":1}`, 400, wire.CodeUnknownField, ""},
		{"POST", "/v1/config/rollback", `{"version":"1.9.0","version":"2.0.1"}`, 400, wire.CodeDuplicate, ""},
		{"POST", "/v1/config/rollback", `{"version":"` + strings.Repeat("1", 300) + `","as":"2.0.1"}`, 413,
			wire.CodeTooLarge, ""},
		{"POST", "/v1/config/rollback", ``, 400, wire.CodeMalformed, ""},
		{"GET", "/v1/config", "", 200, "", `"version": "2.0.0"`},
		{"GET", "/v1/config?version=1.9.0", "", 200, "", `"version": "1.9.0"`},
		{"GET", "/v1/config?version=9.9.9", "", 404, wire.CodeNotFound, ""},
		{"GET", "/v1/config/diff?from=1.9.0", "", 200, "", `"pointer":"/version","before":"1.9.0","after":"2.0.0"`},
		{"GET", "/v1/config/diff?from=1.9.0&to=1.9.0", "", 200, "", `"changes":[]`},
		{"GET", "/v1/config/diff?from=9.9.9", "", 404, wire.CodeNotFound, ""},
		{"GET", "/v1/config/diff", "", 400, wire.CodeInvalidArgument, "from"},
		{"GET", "/v1/config/status", "", 200, "", `"onlineMissing":1`},
		{"GET", "/v1/config/history", "", 200, "", `"versions":[{`},
		{"GET", "/v1/config/resolved?node=node-1", "", 200, "", `"rule":"node"`},
		{"GET", "/v1/config/resolved?node=new&type=mainType", "", 200, "", `"entry":"/nodes/1"`},
		{"GET", "/v1/config/resolved?node=new", "", 200, "", `"rule":"default"`},
		{"GET", "/v1/config/resolved?node=node-1&version=1.9.0", "", 200, "", `"version":"1.9.0"`},
		{"GET", "/v1/config/resolved?node=node-1&version=9.9.9", "", 404, wire.CodeNotFound, "never accepted"},
		{"GET", "/v1/config/resolved", "", 400, wire.CodeInvalidArgument, "node"},
		{"GET", "/v1/config/resolved?node=a%20b", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/config/explain?node=node-1&pointer=/alertRules/ram/maxThreshold", "", 200, "",
			`"source":"/nodes/0/alertRules/ram/maxThreshold"`},
		{"GET", "/v1/config/explain?node=node-1&pointer=/nope", "", 404, wire.CodeNotFound, ""},
		{"GET", "/v1/config/explain?node=node-1&pointer=nope", "", 400, wire.CodeInvalidArgument, "JSON pointer"},
		{"GET", "/v1/nodes", "", 200, "", `{"nodes":[{"node":"node-1"`},
		{"GET", "/v1/nodes/node-2", "", 200, "", `"rejected"`},
		{"GET", "/v1/nodes/nobody", "", 404, wire.CodeNotFound, ""},
		{"GET", "/v1/nodes/a%2Fb", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/nodes/node-2?x=1", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/events?limit=2", "", 200, "", `"opened"`},
		{"GET", "/v1/events?limit=0", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/events?after=-1", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/events?after=18446744073709551615", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/events?newest=1&follow=1", "", 400, wire.CodeInvalidArgument, "exclude"},
		{"GET", "/v1/events?slot=web@node-1", "", 200, "", ""},
		{"GET", "/v1/events?slot=web@node-1&node=node-2", "", 400, wire.CodeInvalidArgument, "leave node out"},
		{"GET", "/v1/events?slot=web", "", 400, wire.CodeInvalidArgument, "slot"},
		{"GET", "/v1/nodes/node-1/slots/web/why", "", 200, "", `"reason":"runs"`},
		{"GET", "/v1/nodes/node-1/slots/wob/why", "", 404, wire.CodeNotFound, "wob@node-1"},
		{"GET", "/v1/events?type=", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/events?node=", "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/events?" + strings.Repeat("type=a&", 33), "", 400, wire.CodeInvalidArgument, ""},
		{"GET", "/v1/events?follow=1&limit=3&after=8", "", 200, "", `"accepted"`},
		{"HEAD", "/v1/events?follow=1", "", 200, "", ""},
		{"HEAD", "/v1/nodes?watch=1", "", 200, "", ""},
		{"HEAD", "/v1/journal/backup", "", 200, "", ""},
		{"GET", "/v1/journal/verify", "", 200, "", `"ok":true`},
		{"GET", "/v1/journal/trim", "", 200, "", `"keepRecords":`},
		{"GET", "/v1/journal/export", "", 200, "", `"opened"`},
		{"GET", "/v1/journal/backup", "", 200, "", "\x07"},
		{"GET", "/v1/journal/backup", "x", 400, wire.CodeInvalidArgument, "no body"},
		{"GET", "/v1/unit/status", "", 200, "", `"unit":"u1"`},
		{"GET", "/v1/unit/status?x", "", 400, wire.CodeInvalidArgument, ""},
		{"DELETE", "/v1/config", "", 405, wire.CodeNotSupported, "GET, HEAD, POST"},
		{"GET", "/v1/nothing", "", 404, wire.CodeNotFound, ""},
		{"GET", "/", "", 200, "", "<!doctype html>"},
		{"GET", "/?x=1", "", 400, wire.CodeInvalidArgument, ""},
		{"POST", "/", "", 405, wire.CodeNotSupported, ""},
		{"GET", "/index.html", "", 404, wire.CodeNotFound, ""},
		{"GET", "/static/index.html", "", 404, wire.CodeNotFound, ""},
		{"GET", "/../dashboard.js", "", 404, wire.CodeNotFound, ""},
		{"GET", "/v1/tokens", "", 200, "", `"name":"operate","role":"operate"`},
		{"GET", "/v1/tokens?x=1", "", 400, wire.CodeInvalidArgument, ""},
		{"POST", "/v1/tokens", `{"name":"view","role":"view"}`, 409, wire.CodeAlreadyExists, `"/name"`},
		{"POST", "/v1/tokens", `{"name":"a b","role":"view"}`, 400, wire.CodeBadValue, `"/name"`},
		{"POST", "/v1/tokens", `{"name":"` + strings.Repeat("x", 64) + `","role":"view"}`, 400, wire.CodeBadValue,
			`"/name"`},
		{"POST", "/v1/tokens", `{"name":"ann","role":"root"}`, 400, wire.CodeBadValue, `"/role"`},
		{"POST", "/v1/tokens", `{"name":"ann"}`, 400, wire.CodeBadValue, `"/role"`},
		{"POST", "/v1/tokens", `{"name":"ann","role":"view","ttl":"1h"}`, 400, wire.CodeInvalidArgument, "/ttl"},
		{"POST", "/v1/tokens", `{"name":"ann","role":"view","ttl":"PT1S"}`, 400, wire.CodeBadValue, "/ttl"},
		{"POST", "/v1/tokens", `{"name":"ann","role":"view","hash":"sha256:00"}`, 400, wire.CodeUnknownField, ""},
		{"POST", "/v1/tokens", "", 400, wire.CodeMalformed, ""},
		{"POST", "/v1/tokens/nobody/revoke", "", 404, wire.CodeNotFound, ""},
		{"POST", "/v1/tokens/view/revoke", "x", 400, wire.CodeInvalidArgument, "no body"},
		{"GET", "/v1//config", "", 404, wire.CodeNotFound, ""},
		{"GET", "/v1/config/../config", "", 404, wire.CodeNotFound, ""},
	} {
		t.Run(c.method+" "+c.target[:min(len(c.target), 60)], func(t *testing.T) {
			t.Parallel()
			h := looked
			if c.method == "POST" && c.status == 200 {
				var u *apitest.Rig
				if u, h = sample(t); c.target == "/v1/config/restore" {
					u.Damage()
				}
			}
			w := call(h, c.method, c.target, c.body)
			described(t, c.method, c.target, w)
			body := w.Body.Bytes()
			if w.Code != c.status {
				t.Fatalf("status %d, want %d: %s", w.Code, c.status, body)
			}
			if c.status >= 300 || c.code != "" {
				if got := code(t, body); got != c.code {
					t.Errorf("code %q, want %q: %s", got, c.code, body)
				}
				if ct := w.Header().Get("Content-Type"); ct != "application/json" {
					t.Errorf("an error of type %q", ct)
				}
			}
			if !strings.Contains(string(body), c.has) {
				t.Errorf("no %q in %s", c.has, body)
			}
		})
	}
}

func TestSubmissionArrivesWhole(t *testing.T) {
	var got view.Submission
	u := apitest.StartSample(t)
	submit := func(ctx context.Context, s view.Submission) (view.Result, error) {
		got = s
		return u.Core.Submit(ctx, s)
	}
	h := api.New(apitest.Submitting(u, submit), api.Config{Tokens: keys})
	doc := apitest.Document("3.0.0")
	w := call(h, "POST", "/v1/config?mode=try&confirmWithin=PT90S&offline=1&id=mine", string(doc))
	if w.Code != 200 {
		t.Fatal(w.Body)
	}
	if !bytes.Equal(got.Document, doc) || got.ID != "mine" || got.Mode != wire.ModeTry ||
		got.ConfirmWithin != 90*time.Second || !got.Offline || got.DryRun || got.Via != "http" {
		t.Errorf("%+v", got)
	}
	if got.Who != "token/admin" {
		t.Errorf("who is %q", got.Who)
	}
}

// FuzzAPI: no request panics, none is answered with 500, all answers but 2xx are errors in JSON.
func FuzzAPI(f *testing.F) {
	for _, s := range [][3]string{
		{"GET", "/v1/nodes", ""}, {"POST", "/v1/config?mode=try&confirmWithin=PT2M", string(apitest.Document("3.0.0"))},
		{"POST", "/v1/config/rollback", `{"version":"1.9.0","as":"2.0.1"}`},
		{"GET", "/v1/events?after=1&limit=2&type=a&type=b&node=n", ""},
		{"GET", "/v1/config/explain?node=node-1&pointer=/alertRules/ram", ""}, {"GET", "/v1/nodes/%2e%2e", ""},
		{"CONNECT", "*", ""},
		{"OPTIONS", "*", ""}, {"GET", "//v1/config", ""}, {"PUT", "/v1/config", "x"},
		{"GET", "/v1/config/resolved?node=n&type=\xff", ""},
		{"POST", "/v1/workloads?version=2.0.0&lenient=1", instance},
		{"GET", "/v1/nodes/node-1/slots/web/logs?tail=5", ""}, {"POST", "/v1/nodes/node-1/slots/web/restart", ""},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		r, err := http.NewRequest(method, "http://tandem", io.NopCloser(strings.NewReader(body)))
		if err != nil {
			return
		}
		u, err := r.URL.Parse(target)
		if err != nil {
			return
		}
		r.URL, r.RequestURI, r.ContentLength = u, target, int64(len(body))
		r.Header.Set("Authorization", "Bearer "+token)
		if q := u.Query(); q.Has("watch") || q.Has("follow") {
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			r = r.WithContext(ctx)
		}
		_, h := sample(t)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch {
		case w.Code == 500:
			t.Fatalf("%s %q: %s", method, target, w.Body)
		case w.Code >= 300 || w.Code < 200:
			if code(t, w.Body.Bytes()) == "" {
				t.Fatalf("%d without an error: %s", w.Code, w.Body)
			}
		}
	})
}
