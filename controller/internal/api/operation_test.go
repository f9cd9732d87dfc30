package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
)

// lacking is a core that leaves one operation out.
type lacking struct{ *apitest.Rig }

func (l lacking) Operations() []api.Operation { return l.Rig.Operations()[1:] }

// doubled is a core that does one operation twice.
type doubled struct{ *apitest.Rig }

func (d doubled) Operations() []api.Operation {
	all := d.Rig.Operations()
	return append(all, all[0])
}

// TestEveryOperationIsBound: an API that does not answer to all of the table is never made.
func TestEveryOperationIsBound(t *testing.T) {
	api.New(apitest.Start(t), api.Config{})
	unit := apitest.Start(t)
	for want, core := range map[string]api.Core{
		"0 things do unit.status": lacking{unit}, "2 things do unit.status": doubled{unit},
	} {
		func() {
			defer func() {
				if why, _ := recover().(string); !strings.Contains(why, want) {
					t.Errorf("%q, want %q", why, want)
				}
			}()
			api.New(core, api.Config{})
		}()
	}
}

// trying is a core that notes which node it is to try a version on.
type trying struct {
	*apitest.Rig
	nodes []string
}

func (c *trying) Operations() []api.Operation {
	others := slices.DeleteFunc(c.Rig.Operations(), func(o api.Operation) bool { return o.Name() == op.TryNode.Name })
	return append(others, api.Bind(op.TryNode, func(_ context.Context, in op.TryIn) (view.Ordered, error) {
		c.nodes = append(c.nodes, in.Node)
		return view.Ordered{}, nil
	}))
}

// TestOnlyWhoMayIsHeard: a path that is not written plainly leads nowhere, also where its clean form is a route, and a
// body never changes what the path says.
func TestOnlyWhoMayIsHeard(t *testing.T) {
	core := &trying{Rig: apitest.StartSample(t)}
	h := api.New(core, api.Config{Tokens: keys})
	for _, c := range []struct {
		role       tokens.Role
		path, body string
		status     int
	}{
		{tokens.View, "/v1/nodes/n1/try", "", http.StatusForbidden},
		{tokens.View, "/v1/nodes/%2e%2e/try", "", http.StatusNotFound},
		{tokens.Admin, "/v1/nodes/%2e%2e/try", "", http.StatusNotFound},
		{tokens.Admin, "/v1/nodes/%2e/try", "", http.StatusNotFound},
		{tokens.Admin, "/v1/nodes/n1/try", " null\n", http.StatusBadRequest},
		{tokens.Admin, "/v1/nodes/n1/try", `{}`, http.StatusOK},
	} {
		r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
		r.Header.Set("Authorization", "Bearer "+bearers[c.role])
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s by %s with %q: %d %s, want %d", c.path, c.role, c.body, w.Code, w.Body, c.status)
		}
	}
	if !slices.Equal(core.nodes, []string{"n1"}) {
		t.Errorf("the core was asked for %q", core.nodes)
	}
}

// TestUncleanPathsAreNotHandled: where the clean form of a path is a route, whose role nobody has checked, its handler
// does not even read the body.
func TestUncleanPathsAreNotHandled(t *testing.T) {
	h := api.New(apitest.StartSample(t), api.Config{Tokens: keys})
	for _, path := range []string{"/v1/tokens/%2e%2e/revoke", "/v1/tokens/%2e/revoke", "/v1//config/restore"} {
		body := &noted{}
		r := httptest.NewRequest(http.MethodPost, path, body)
		r.Header.Set("Authorization", "Bearer "+bearers[tokens.View])
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound || body.read {
			t.Errorf("%s: %d, its body was read: %v", path, w.Code, body.read)
		}
	}
}

// noted is an empty body that notes whether it is read.
type noted struct{ read bool }

func (n *noted) Read([]byte) (int, error) {
	n.read = true
	return 0, io.EOF
}
