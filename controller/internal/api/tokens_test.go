package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// The tokens of tests that do not change them: one of each role, and the one of the role admin.
var (
	keys    *tokens.Store
	bearers map[tokens.Role]string
	token   string
)

// ownKeys are tokens that a test may change.
func ownKeys(t *testing.T, now func() time.Time) (*tokens.Store, map[tokens.Role]string) {
	t.Helper()
	s, byRole, err := apitest.Keys(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	return s, byRole
}

func TestCredentials(t *testing.T) {
	u := apitest.StartSample(t)
	wrong := apitoken.New().Text()
	for _, c := range []struct {
		keys    *tokens.Store
		headers []string
		status  int
	}{
		{nil, nil, 401},
		{nil, []string{"Bearer "}, 401},
		{nil, []string{"Bearer " + token}, 401},
		{keys, nil, 401},
		{keys, []string{"Bearer"}, 401},
		{keys, []string{"Bearer "}, 401},
		{keys, []string{token}, 401},
		{keys, []string{"Basic " + token}, 401},
		{keys, []string{"Bearer " + wrong}, 401},
		{keys, []string{"Bearer " + token[:len(token)-1]}, 401},
		{keys, []string{"Bearer " + token + "A"}, 401},
		{keys, []string{"Bearer " + strings.ToUpper(token)}, 401},
		{keys, []string{"Bearer " + token + "," + token}, 401},
		{keys, []string{"Bearer " + token, "Bearer " + token}, 401},
		{keys, []string{"Bearer " + wrong, "Bearer " + token}, 401},
		{keys, []string{"Bearer " + token}, 200},
		{keys, []string{"bearer  " + token}, 200},
	} {
		h := api.New(u, api.Config{Tokens: c.keys})
		r := httptest.NewRequest("GET", "/v1/nodes", nil)
		r.Header["Authorization"] = c.headers
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%v: %d", len(c.headers), w.Code)
		}
		if w.Code == 401 && (w.Header().Get("WWW-Authenticate") == "" ||
			code(t, w.Body.Bytes()) != wire.CodeNotAllowed) {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
		if text := fmt.Sprint(w.Header(), w.Body); strings.Contains(text, token) || strings.Contains(text, wrong) {
			t.Error("the answer repeats a token")
		}
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
		if w.Code != 200 {
			t.Errorf("health needs a token: %d", w.Code)
		}
	}
}

// TestTokensAreMade: one with the role admin makes another, which counts at once; the journal knows
// both, and nobody can ask for a token a second time.
func TestTokensAreMade(t *testing.T) {
	u := apitest.StartSample(t)
	own, by := ownKeys(t, nil)
	h := api.New(u, api.Config{Tokens: own, URL: "https://gateway:8885", CA: func() string { return "sha256:00" }})
	ask := func(bearer, method, target, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+bearer)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	var g view.Grant
	w := ask(by[tokens.Admin], "POST", "/v1/tokens", `{"name":"ann","role":"operate","ttl":"PT1H"}`)
	if err := json.Unmarshal(w.Body.Bytes(), &g); err != nil || w.Code != 200 {
		t.Fatalf("%d %s %v", w.Code, w.Body, err)
	}
	if g.Name != "ann" || g.Role != "operate" || g.By != "token/admin" || g.URL != "https://gateway:8885" ||
		g.CA != "sha256:00" || g.Expires.Sub(g.Created) != time.Hour || g.Expired {
		t.Errorf("%+v", g.Token)
	}
	u.Damage()
	if w := ask(g.Secret, "POST", "/v1/config/restore", ""); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if who := newest(t, u, "state").Who; who != "token/ann" {
		t.Errorf("who is %q", who)
	}
	if w := ask(g.Secret, "POST", "/v1/tokens", `{"name":"bob","role":"view"}`); w.Code != 403 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	list := ask(by[tokens.Admin], "GET", "/v1/tokens", "").Body.String()
	if !strings.Contains(list, `"name":"ann"`) || strings.Contains(list, g.Secret) || strings.Contains(list, "hash") {
		t.Errorf("%s", list)
	}
	if w := ask(by[tokens.Admin], "POST", "/v1/tokens/ann/revoke", ""); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(g.Secret, "GET", "/v1/nodes", ""); w.Code != 401 {
		t.Errorf("revoked: %d %s", w.Code, w.Body)
	}
	entries, err := u.Entries(t.Context(), view.EntryFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, e := range entries {
		if e.Type == "note" {
			notes = append(notes, e.Who+" "+string(e.Data))
		}
		if strings.Contains(string(e.Data), g.Secret[5:20]) {
			t.Error("the token is in the journal")
		}
	}
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "token/admin ") ||
		!strings.Contains(notes[0], "with the role operate until 20") || !strings.Contains(notes[0], `"token":"ann"`) ||
		!strings.Contains(notes[1], "revoked") || !strings.Contains(notes[1], `"token":"ann"`) {
		t.Errorf("%q", notes)
	}
	// With the journal broken no token is made, but one is revoked.
	h = api.New(failing{u, wire.New(wire.CodeStorage, "", "the disk is full")}, api.Config{Tokens: own})
	if w := ask(by[tokens.Admin], "POST", "/v1/tokens", `{"name":"bob","role":"view"}`); w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(by[tokens.Admin], "POST", "/v1/tokens/view/revoke", ""); w.Code != 503 ||
		!strings.Contains(w.Body.String(), "was revoked") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(by[tokens.View], "GET", "/v1/nodes", ""); w.Code != 401 {
		t.Errorf("revoked with a broken journal: %d", w.Code)
	}
	if l := own.List(); len(l) != len(tokens.Roles)-1 {
		t.Errorf("%v", l)
	}
}

// TestLinkLogsInOnce: what a link brings does nothing but become a token of the same name, and that once.
func TestLinkLogsInOnce(t *testing.T) {
	u := apitest.StartSample(t)
	own, by := ownKeys(t, nil)
	h := api.New(u, api.Config{Tokens: own, URL: "https://gateway:8885", CA: func() string { return "sha256:00" }})
	ask := func(bearer, method, target, body string) (view.Grant, *httptest.ResponseRecorder) {
		t.Helper()
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+bearer)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var g view.Grant
		if w.Code == 200 && method == "POST" {
			if err := json.Unmarshal(w.Body.Bytes(), &g); err != nil {
				t.Error(err)
			}
		}
		return g, w
	}
	link, w := ask(by[tokens.Admin], "POST", "/v1/tokens", `{"name":"wall","role":"admin","ttl":"PT1H","once":true}`)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for _, target := range []string{"GET /v1/nodes", "GET /v1/tokens", "GET /v1/nothing", "POST /v1/tokens"} {
		method, path, _ := strings.Cut(target, " ")
		if _, w := ask(link.Secret, method, path, ""); w.Code != 401 ||
			!strings.Contains(w.Body.String(), "open the link") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	got, w := ask(link.Secret, "POST", "/v1/tokens/redeem", "")
	if w.Code != 200 || got.Secret == link.Secret || got.Name != "wall" || got.Role != "admin" ||
		!got.Expires.Equal(link.Expires) || got.URL != "https://gateway:8885" || got.CA != "sha256:00" {
		t.Fatalf("%d %+v", w.Code, got.Token)
	}
	if n := newest(t, u, "note"); n.Who != "token/wall" ||
		!strings.Contains(string(n.Data), "the link of token wall was used") {
		t.Errorf("%s %s", n.Who, n.Data)
	}
	if _, w := ask(got.Secret, "GET", "/v1/nodes", ""); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if _, w := ask(link.Secret, "POST", "/v1/tokens/redeem", ""); w.Code != 401 {
		t.Errorf("a second time: %d", w.Code)
	}
	if _, w := ask(got.Secret, "POST", "/v1/tokens/redeem", ""); w.Code != 409 {
		t.Errorf("no link: %d %s", w.Code, w.Body)
	}
}

// TestLinkCountsInTime: what a link is good for is in the journal, with its times; it counts until it had to be used,
// and the list says of what it became when it has expired.
func TestLinkCountsInTime(t *testing.T) {
	now := apitest.Now
	u := apitest.StartSample(t)
	own, by := ownKeys(t, func() time.Time { return now })
	var broken error
	h := api.New(replacedRemark{u, func(ctx context.Context, r view.Remark) error {
		if broken != nil {
			return broken
		}
		return u.Remark(ctx, r)
	}}, api.Config{Tokens: own})
	ask := func(bearer, method, target, body string, status int) (g view.Grant) {
		t.Helper()
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+bearer)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != status {
			t.Errorf("%s: %d %s, want %d", target, w.Code, w.Body, status)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &g); status == 200 && err != nil {
			t.Error(err)
		}
		return g
	}
	var secrets []string
	for _, name := range []string{"used", "late"} {
		body := `{"name":"` + name + `","role":"view","ttl":"PT1H","once":true,"within":"PT30S"}`
		secrets = append(secrets, ask(by[tokens.Admin], "POST", "/v1/tokens", body, 200).Secret)
	}
	want := "token late was made, with the role view, for a link that logs in once before " +
		now.Add(30*time.Second).Format(time.RFC3339) + " until " + now.Add(time.Hour).Format(time.RFC3339)
	if n := newest(t, u, "note"); !strings.Contains(string(n.Data), want) {
		t.Errorf("%s, want %s", n.Data, want)
	}
	broken = wire.New(wire.CodeStorage, "", "the disk is full")
	ask(secrets[0], "POST", "/v1/tokens/redeem", "", 503)
	broken = nil
	ask(secrets[0], "POST", "/v1/tokens/redeem", "", 200)
	now = now.Add(30 * time.Second)
	ask(secrets[1], "POST", "/v1/tokens/redeem", "", 401)
	expired := func(want bool) {
		t.Helper()
		var l op.Tokens
		if err := json.Unmarshal(askWith(h, by[tokens.Admin], "/v1/tokens").Body.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(l.Tokens, func(k view.Token) bool { return k.Name == "used" })
		if i < 0 || l.Tokens[i].Expired != want {
			t.Errorf("%+v, expired %v", l.Tokens, want)
		}
	}
	expired(false)
	now = now.Add(time.Hour)
	expired(true)
}

// replacedRemark is a core that takes notes otherwise.
type replacedRemark struct {
	api.Core
	remark func(context.Context, view.Remark) error
}

func (c replacedRemark) Remark(ctx context.Context, r view.Remark) error { return c.remark(ctx, r) }

// askWith asks with another token.
func askWith(h http.Handler, bearer, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("Authorization", "Bearer "+bearer)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
