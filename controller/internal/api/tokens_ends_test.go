package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// TestTokensAndWhoLeaves: what was begun with a token is ended although the caller leaves, but does not wait for a
// journal for ever.
func TestTokensAndWhoLeaves(t *testing.T) {
	var remark atomic.Pointer[func(context.Context) error]
	core := replacedRemark{apitest.Start(t), func(ctx context.Context, _ view.Remark) error {
		return (*remark.Load())(ctx)
	}}
	inBubble(t, core, api.Config{}, func(b *bubble) {
		_, link, err := b.keys.Create(context.Background(), "wall", tokens.View, 0, &tokens.Link{}, "",
			func(tokens.Token) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		b.by["link"] = link.Text()
		for _, c := range []struct {
			role tokens.Role
			path string
		}{{"link", "/v1/tokens/redeem"}, {tokens.Admin, "/v1/tokens/operate/revoke"}} {
			remark.Store(new(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
			var k, left taker
			began := time.Now()
			b.take(c.role, "POST", c.path, &k)
			if <-k.ended; k.code()/100 != 5 || time.Since(began) != writeTimeout {
				t.Errorf("%s: %d after %s", c.path, k.code(), time.Since(began))
			}
			if c.role != "link" {
				continue // it is revoked all the same
			}
			going, cancel := make(chan struct{}), make(chan struct{})
			remark.Store(new(func(ctx context.Context) error { close(going); <-cancel; return ctx.Err() }))
			leave := b.take(c.role, "POST", c.path, &left)
			<-going
			leave()
			synctest.Wait()
			close(cancel)
			if <-left.ended; left.code() != 200 {
				t.Errorf("%s: %d", c.path, left.code())
			}
		}
	})
}

// TestRevokedOnAFullDisk: the token does not count, whoever revoked it hears what the disk did, and the journal has it.
func TestRevokedOnAFullDisk(t *testing.T) {
	dir, full := t.TempDir(), false
	_, by, err := apitest.Keys(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, err := tokens.Open(tokens.Config{Path: filepath.Join(dir, tokens.FileName), Steps: func(durable.Step) error {
		if full {
			return syscall.ENOSPC
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	u := apitest.StartSample(t)
	h := api.New(u, api.Config{Tokens: own})
	full = true
	r := httptest.NewRequest("POST", "/v1/tokens/view/revoke", nil)
	r.Header.Set("Authorization", "Bearer "+by[tokens.Admin])
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 503 || !strings.Contains(w.Body.String(), "the disk did not take that") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if n := newest(t, u, "note"); !strings.Contains(string(n.Data), "token view was revoked") {
		t.Errorf("%s", n.Data)
	}
	if w := askWith(h, by[tokens.View], "/v1/nodes"); w.Code != 401 {
		t.Errorf("%d", w.Code)
	}
}

// TestWithoutTokens: whoever comes by the socket may do everything and hears that there are no tokens; who comes with
// one hears what it is good for.
func TestWithoutTokens(t *testing.T) {
	s := serve(t, api.Config{})
	for _, request := range []string{"GET /v1/tokens", "POST /v1/tokens", "POST /v1/tokens/a/revoke",
		"POST /v1/tokens/redeem"} {
		method, path, _ := strings.Cut(request, " ")
		body := ""
		if request == "POST /v1/tokens" {
			body = `{"name":"ann","role":"view"}`
		}
		req, err := http.NewRequest(method, "http://tandem"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil || code(t, text) != wire.CodeNotSupported {
			t.Errorf("%s: %d %s %v", request, res.StatusCode, text, err)
		}
	}
	var self view.Self
	err := json.UnmarshalRead(s.get("/v1/self").Body, &self)
	if err != nil || self.Role != "admin" || self.Name != "" || !strings.HasPrefix(self.Who, "uid:") {
		t.Errorf("%+v %v", self, err)
	}
	w := askWith(api.New(s.unit, api.Config{Tokens: keys}), bearers[tokens.View], "/v1/self")
	self = view.Self{}
	if err := json.Unmarshal(w.Body.Bytes(), &self); err != nil || self.Role != "view" || self.Name != "view" ||
		self.Who != "token/view" {
		t.Errorf("%+v %v", self, err)
	}
}
