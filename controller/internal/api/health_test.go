package api_test

import (
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// set sets something for a type of nodes.
func set(t *testing.T, u *apitest.Rig) {
	t.Helper()
	in := op.SetHealth{Scope: view.Scope{Types: []string{"mainType"}},
		Settings: &wire.HealthSettings{FormatVersion: wire.HealthFormat}}
	if _, err := u.SetHealth(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// The routes about health: what they take, and what they answer.
func TestHealthRoutes(t *testing.T) {
	all := `{"all":true,"settings":{"formatVersion":"1","reset":"P7D"}}`
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/nodes/node-1/health", "", 200, `"waitsFor":[{"code":"approval"`},
		{"GET", "/v1/nodes/node-3/health", "", 200, `"state":"ok"`},
		{"GET", "/v1/nodes/node-9/health", "", 404, `not-found`},
		{"GET", "/v1/nodes/no%20de/health", "", 400, `invalid-argument`},
		{"GET", "/v1/nodes/node-1/health?x=1", "", 400, `invalid-argument`},
		{"GET", "/v1/health/settings", "", 200, `"rev":0`},
		{"GET", "/v1/health/settings?node=node-1", "", 200, `"inEffect":{`},
		{"GET", "/v1/health/settings?node=", "", 400, `invalid-argument`},
		{"POST", "/v1/health/settings", all, 200, `"issued":4`},
		{"POST", "/v1/health/settings", `{"nodes":["node-1","node-9"],"settings":{"formatVersion":"1"}}`,
			200, `"unknown":["node-9"]`},
		{"POST", "/v1/health/settings", ``, 400, `malformed`},
		{"POST", "/v1/health/settings", `{"all":true}`, 400, `"path":"/settings"`},
		{"POST", "/v1/health/settings", `{"all":true,"settings":{}}`, 400, `/settings/formatVersion`},
		{"POST", "/v1/health/settings", `{"all":true,"settings":{"formatVersion":"2"}}`, 400, `wrong-version`},
		{"POST", "/v1/health/settings", `{"all":true,"settings":{"formatVersion":"1","reset":"PT1M"}}`, 400,
			`/settings/reset`},
		{"POST", "/v1/health/settings", `{"all":true,"settings":{"formatVersion":"1","reset":"P1Y"}}`, 400,
			`/settings/reset`},
		{"POST", "/v1/health/settings", `{"all":true,"settings":{"formatVersion":"1","rest":"P1D"}}`, 400,
			`unknown-field`},
		{"POST", "/v1/health/settings", `{"everybody":true,"settings":{"formatVersion":"1"}}`, 400, `unknown-field`},
		{"POST", "/v1/health/settings?all=1", all, 400, `invalid-argument`},
		{"POST", "/v1/health/settings/unset", `{"all":true}`, 404, `not-found`},
		{"POST", "/v1/health/settings/unset", `{"types":["mainType"]}`, 200, `"rev"`},
		{"POST", "/v1/health/settings/unset", all, 400, `unknown-field`},
		{"POST", "/v1/nodes/node-1/reboot", `{"reason":"kernel"}`, 200, `"method":"reboot"`},
		{"POST", "/v1/nodes/node-1/reboot", ``, 400, `/reason`},
		{"POST", "/v1/nodes/node-1/reboot", `{"force":true}`, 400, `unknown-field`},
		{"POST", "/v1/nodes/node-4/reboot", `{"reason":"kernel"}`, 409, `nothing was sent`},
		{"POST", "/v1/nodes/node-9/reboot", `{"reason":"kernel"}`, 404, `not-found`},
		{"POST", "/v1/nodes/no%20de/reboot", `{"reason":"kernel"}`, 400, `invalid-argument`},
		{"POST", "/v1/nodes/node-1/try", ``, 200, `"method":"try"`},
		{"POST", "/v1/nodes/node-1/try", `{"version":"1.5.0"}`, 200, `"method":"try"`},
		{"POST", "/v1/nodes/node-1/try", `{"version":"1.6.0"}`, 409, `"node":"node-1"`},
		{"POST", "/v1/nodes/node-1/approve", `{"version":"1.5.0"}`, 200, `"method":"approve"`},
		{"POST", "/v1/nodes/node-1/approve", ``, 400, `/version`},
		{"POST", "/v1/unit/maintenance", `{"for":"PT2H","reason":"switch"}`, 200, `"until":"2026-11-20T12:00:00Z"`},
		{"POST", "/v1/unit/maintenance", `{"for":"P2D","reason":"switch"}`, 400, `/for`},
		{"POST", "/v1/unit/maintenance", `{"for":"2h","reason":"switch"}`, 400, `/for`},
		{"POST", "/v1/unit/maintenance", `{"reason":"switch"}`, 400, `/for`},
		{"POST", "/v1/unit/maintenance", `{"for":"PT0S","reason":"switch"}`, 400, `/for`},
		{"POST", "/v1/unit/maintenance", `{"for":"PT1H"}`, 400, `/reason`},
		{"POST", "/v1/unit/maintenance", `{"for":"PT1H","reason":"` + strings.Repeat("x", 257) + `"}`, 413, `/reason`},
		{"POST", "/v1/unit/maintenance/end", ``, 409, `wrong-state`},
		{"POST", "/v1/unit/maintenance/end", `{"for":"PT1H"}`, 400, `invalid-argument`},
	} {
		u, h := sample(t)
		u.Healthy()
		if strings.HasPrefix(c.body, `{"types"`) {
			set(t, u)
		}
		w := call(h, c.method, c.path, c.body)
		described(t, c.method, c.path, w)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", c.method, c.path, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
	u, h := sample(t)
	if w := call(h, "POST", "/v1/unit/maintenance", `{"for":"PT2H","reason":"switch"}`); w.Code != 200 {
		t.Fatal(w.Body)
	}
	if w := call(h, "GET", "/v1/unit/status", ""); !strings.Contains(w.Body.String(), `"maintenance":{`) {
		t.Error(w.Body)
	}
	if w := call(h, "POST", "/v1/unit/maintenance/end", ""); w.Code != 200 ||
		strings.TrimSpace(w.Body.String()) != "{}" {
		t.Error(w.Code, w.Body)
	}
	st, err := u.Status(t.Context())
	if who := newest(t, u).Who; err != nil || st.Maintenance != nil || who == "" {
		t.Errorf("%+v, ordered by %q", st.Maintenance, who)
	}
}
