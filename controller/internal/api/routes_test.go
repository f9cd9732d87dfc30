package api_test

import (
	"context"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/dashboard"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/wire"
)

// roles is who may do what, written down a second time: a route that is added, or moved to another
// role, has to be thought about here as well.
var roles = map[tokens.Role][]string{
	"":             {"GET /healthz", "GET /readyz"},
	tokens.Metrics: {"GET /metrics"},
	tokens.View: {
		"GET /v1/config", "GET /v1/config/status", "GET /v1/config/history", "GET /v1/config/diff",
		"GET /v1/config/resolved", "GET /v1/config/explain",
		"GET /v1/nodes", "GET /v1/nodes/{node}", "GET /v1/fleet", "GET /v1/live", "GET /v1/events",
		"GET /v1/journal/verify", "GET /v1/journal/trim", "GET /v1/unit/status",
		"GET /v1/keys", "GET /v1/ca", "GET /v1/ca/export", "GET /v1/openapi.json", "POST /v1/tokens/redeem",
		"GET /v1/self", "GET /v1/alerts",
		"GET /v1/nodes/{node}/health", "GET /v1/health/settings",
		"GET /v1/workloads", "GET /v1/workloads/status", "GET /v1/workloads/slots", "GET /v1/workloads/history",
		"GET /v1/artefacts", "GET /v1/artefacts/{digest}",
		"GET /v1/workloads/diff", "GET /v1/nodes/{node}/slots/{service}/why",
		"GET /v1/policies", "GET /v1/policies/{policy}", "GET /v1/policies/{policy}/status",
		"GET /v1/policies/{policy}/history", "GET /v1/policies/{policy}/diff",
		"GET /v1/nodes/{node}/policies/{policy}/why",
		"GET /v1/nodes/{node}/properties", "GET /v1/agent/releases",
		"GET /v1/rollouts", "GET /v1/rollouts/{rollout}", "GET /v1/rollouts/{rollout}/why",
		"GET /v1/nodes/{node}/why", "GET /v1/nodes/{node}/documents/{kind}/why", "GET /v1/nodes/{node}/diff",
		"GET /v1/items", "GET /v1/items/{type}/{item}", "GET /v1/items/{type}/{item}/history",
		"GET /v1/subjects", "GET /v1/subjects/{subject}", "GET /v1/subjects/{subject}/history",
		"GET /v1/components", "GET /v1/components/status", "GET /v1/components/history", "GET /v1/components/diff",
		"GET /v1/desired", "GET /v1/desired/plan", "GET /v1/nodes/{node}/items/{item}/why",
		"GET /v1/notices", "GET /v1/notices/{receiver}", "GET /v1/log-level",
		"GET /v1/nodes/{node}/samples",
	},
	tokens.Operate: {
		"POST /v1/config", "POST /v1/config/confirm", "POST /v1/config/restore", "POST /v1/config/rollback",
		"POST /v1/config/retry", "POST /v1/workloads/retry",
		"GET /v1/unit/settings", "POST /v1/health/settings", "POST /v1/health/settings/unset",
		"POST /v1/unit/maintenance",
		"POST /v1/unit/maintenance/end", "POST /v1/clock/confirm",
		"POST /v1/nodes/{node}/reboot", "POST /v1/nodes/{node}/try", "POST /v1/nodes/{node}/approve",
		"POST /v1/nodes/order",
		"POST /v1/workloads", "POST /v1/workloads/rollback", "POST /v1/nodes/{node}/slots/{service}/restart",
		"GET /v1/nodes/{node}/slots/{service}/logs", "GET /v1/nodes/{node}/log",
		"POST /v1/nodes/{node}/log-level", "POST /v1/log-level",
		"POST /v1/artefacts", "GET /v1/artefacts/{digest}/upload", "PATCH /v1/artefacts/{digest}/upload",
		"POST /v1/artefacts/{digest}/complete", "POST /v1/artefacts/{digest}/remove",
		"POST /v1/nodes/{node}/slots/{service}/stop", "POST /v1/nodes/{node}/slots/{service}/start",
		"POST /v1/policies/{policy}", "POST /v1/policies/{policy}/enable", "POST /v1/policies/{policy}/disable",
		"POST /v1/policies/{policy}/rollback",
		"DELETE /v1/policies/{policy}", "POST /v1/nodes/{node}/properties/{property}",
		"DELETE /v1/nodes/{node}/properties/{property}", "POST /v1/agent/releases/{version}",
		"DELETE /v1/agent/releases/{version}",
		"POST /v1/rollouts/{rollout}/pause", "POST /v1/rollouts/{rollout}/resume",
		"POST /v1/rollouts/{rollout}/abort",
		"POST /v1/items", "POST /v1/items/{type}/{item}/versions",
		"POST /v1/items/{type}/{item}/versions/{version}/ready",
		"POST /v1/items/{type}/{item}/versions/{version}/deprecate",
		"DELETE /v1/items/{type}/{item}/versions/{version}", "DELETE /v1/items/{type}/{item}",
		"POST /v1/subjects/{subject}", "DELETE /v1/subjects/{subject}",
		"POST /v1/components", "POST /v1/components/retry", "POST /v1/components/rollback", "POST /v1/desired",
		"POST /v1/notices/{receiver}/test",
	},
	tokens.Admin: {
		"POST /v1/nodes/{node}/enroll", "POST /v1/nodes/{node}/revoke", "POST /v1/nodes/forget",
		"POST /v1/identities/certify", "POST /v1/identities/revoke",
		"GET /v1/journal/export", "GET /v1/journal/backup", "GET /v1/backup", "GET /v1/tokens", "POST /v1/tokens",
		"POST /v1/tokens/{token}/revoke",
		"POST /v1/keys/rotate", "POST /v1/keys/retire", "POST /v1/ca/rotate", "POST /v1/ca/retire",
		"POST /v1/ca/import",
		"GET /debug/pprof/{profile}",
		"POST /v1/enrol/list", "GET /v1/enrol/batches", "POST /v1/enrol/batches", "GET /v1/enrol/pending",
		"POST /v1/enrol/batches/{batch}/revoke", "POST /v1/enrol/approve", "POST /v1/enrol/refuse",
		"POST /v1/notices", "DELETE /v1/notices/{receiver}",
	},
}

// TestRoles asks for every route as everybody: nothing is open to a role that is not meant to have
// it, and nothing shut to one that is.
func TestRoles(t *testing.T) {
	u := apitest.StartSample(t)
	before := newest(t, u, "accepted", "refused")
	h := api.New(u, api.Config{Tokens: keys})
	want := map[string]string{}
	for _, f := range dashboard.Files() {
		want["GET "+f.Path] = ""
	}
	for role, patterns := range roles {
		for _, p := range patterns {
			want[p] = string(role)
		}
	}
	if got := h.Routes(); !maps.Equal(got, want) {
		for r, role := range got {
			if w, ok := want[r]; !ok || w != role {
				t.Errorf("%s needs the role %q; this test knows it with %q (%v)", r, role, w, ok)
			}
		}
		t.Fatalf("%d routes, want %d", len(got), len(want))
	}
	for pattern, need := range want {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer(
			"{node}", "nobody", "{token}", "nobody", "{service}", "none", "{digest}", "none",
			"{profile}", "none").Replace(path)
		if path == "/v1/live" {
			path += "?after=0" // which is refused: the stream has no end
		}
		if need == string(tokens.View) && method != "GET" && pattern != "POST /v1/tokens/redeem" { // for links alone
			t.Errorf("%s changes something, and may be done with the role view", pattern)
		}
		for _, role := range append([]tokens.Role{""}, tokens.Roles...) {
			r := httptest.NewRequest(method, path, nil)
			ctx, cancel := context.WithCancel(r.Context())
			if role != "" {
				r.Header.Set("Authorization", "Bearer "+bearers[role])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(ctx))
			cancel()
			allowed := need == "" || slices.Index(tokens.Roles, role) >= slices.Index(tokens.Roles, tokens.Role(need))
			switch {
			case allowed && (w.Code == 401 || w.Code == 403):
				t.Errorf("%s as %q: %d %s", pattern, role, w.Code, w.Body)
			case !allowed && role == "" && w.Code != 401:
				t.Errorf("%s without a token: %d", pattern, w.Code)
			case !allowed && role != "" &&
				(w.Code != 403 || code(t, w.Body.Bytes()) != wire.CodeNotAllowed ||
					!strings.Contains(w.Body.String(), need)):
				t.Errorf("%s as %q: %d %s", pattern, role, w.Code, w.Body)
			}
		}
	}
	if got := newest(t, u, "accepted", "refused"); got.Seq != before.Seq {
		t.Errorf("%+v", got)
	}
}

// TestRolesRise: each role may do what the ones before it may, and what is no role may do nothing.
func TestRolesRise(t *testing.T) {
	for i, a := range tokens.Roles {
		for j, b := range tokens.Roles {
			if a.May(b) != (i >= j) {
				t.Errorf("%s may what needs %s: %v", a, b, a.May(b))
			}
		}
		if a.May("") || a.May("root") || tokens.Role("").May(a) || tokens.Role("root").May(a) {
			t.Errorf("%s and no role", a)
		}
	}
}
