package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/tokens"
)

// TestSecretProperties: who may only view the unit sees that a secret is there and that it changes, and not its value.
func TestSecretProperties(t *testing.T) {
	u := apitest.StartSample(t)
	h := api.New(u, api.Config{Tokens: keys})
	ask := func(role tokens.Role, method, path, body string) string {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+bearers[role])
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	for _, word := range []string{"first-word", "second-word"} {
		ask(tokens.Operate, "POST", "/v1/workloads", strings.Replace(instance, `"resources"`,
			`"properties":{"secret.word":"`+word+`"},"resources"`, 1))
	}
	for _, path := range []string{"/v1/workloads", "/v1/workloads?filled=1", "/v1/workloads/diff?from=1.0.0&to=1.0.1"} {
		for _, role := range tokens.Roles[1:] { // metrics reads no documents at all
			got := ask(role, "GET", path, "")
			open, hidden := strings.Contains(got, "-word\""), strings.Contains(got, `"(hidden)"`)
			views := role == tokens.View
			if !strings.Contains(got, "secret.word") || open == views || hidden != views {
				t.Errorf("%s as %s: %s", path, role, got)
			}
		}
	}
}
