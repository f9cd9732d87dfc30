package api_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// names are the nodes of an answer, and what comes after them.
func names(t *testing.T, body []byte) string {
	t.Helper()
	var v op.Nodes
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	var all []string
	for _, n := range v.Nodes {
		all = append(all, strings.TrimPrefix(n.Node, "node-"))
	}
	if v.Next != "" {
		all = append(all, "then", v.Next)
	}
	return strings.Join(all, " ")
}

func TestNodesAreSelected(t *testing.T) {
	u, h := sample(t)
	for _, c := range []struct{ query, want string }{
		{"", "1 2 3 4"}, {"name=node-[23]", "2 3"}, {"name=*4", "4"}, {"name=node", ""}, {"type=mainType", "1 2"},
		{"online=1", "1 2 3"}, {"offline=1", "4"}, {"behind=1", "2 3 4"}, {"behind=1&online=1&type=mainType", "2"},
		{"state=rejected", "2"}, {"state=installed&state=waiting", "1 4"}, {"state=none", ""}, {"online=0", "1 2 3 4"},
		{"limit=2", "1 2 then node-2"}, {"limit=2&after=node-2", "3 4"}, {"limit=1&behind=1", "2 then node-2"},
		{"q=", "1 2 3 4"}, {"q=state:rejected", "2"}, {"q=node-%3F+type:mainType+-class:in-step", "2"},
		{"q=class:offline,on-the-way&limit=1", "3 then node-3"}, {"q=class:offline&online=1", ""},
		{"sort=state", "2 4 3 1"}, {"sort=state&limit=2", "2 4"},
		{"sort=type&q=name:*", "1 2 3 4"}, {"sort=alerts", "1 2 3 4"},
		{"after=node-25", "3 4"}, {"after=z", ""}, {"limit=4", "1 2 3 4"}, {"watch=0&limit=1", "1 then node-1"},
	} {
		w := call(h, "GET", "/v1/nodes?"+c.query, "")
		if described(t, "GET", "/v1/nodes?"+c.query, w); w.Code != 200 {
			t.Errorf("%s: %d %s", c.query, w.Code, w.Body)
		} else if got := names(t, w.Body.Bytes()); got != c.want {
			t.Errorf("%s: %q, want %q", c.query, got, c.want)
		}
	}
	if _, err := u.Revoke(t.Context(), op.RevokeIn{NodeIn: op.NodeIn{Node: "node-2"}}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"behind=1": "3 4", "state=revoked": "2", "state=rejected": ""} {
		if got := names(t, call(h, "GET", "/v1/nodes?"+query, "").Body.Bytes()); got != want {
			t.Errorf("%s with a revoked node: %q, want %q", query, got, want)
		}
	}
	for query, why := range map[string]string{
		"name=[": "pattern", "online=1&offline=1": "exclude", "state=": "a state has", "limit=0": "whole number",
		strings.Repeat("state=a&", 33): "at most 32", "after=a/b": "after",
		"fields=node,told": `"told"`, "fields=": `""`,
		"watch=1&limit=3": "limit does not go with watch", "watch=1&fields=node": "does not go with",
	} {
		gone, leave := context.WithCancel(t.Context())
		leave() // who gets a stream all the same does not wait for its end
		r := httptest.NewRequestWithContext(gone, "GET", "/v1/nodes?"+query, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); !strings.HasPrefix(w.Body.String(), `{"error"`) {
			t.Errorf("%s: %d, no error", query, w.Code)
		} else if code(t, w.Body.Bytes()) != wire.CodeInvalidArgument || !strings.Contains(w.Body.String(), why) &&
			!strings.Contains(strings.ReplaceAll(w.Body.String(), `\"`, `"`), why) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

func TestFieldsOfNodes(t *testing.T) {
	u, h := sample(t)
	if _, err := u.Enroll(t.Context(), op.EnrollIn{NodeIn: op.NodeIn{Node: "node-9"}}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"fields=node,state&limit=2": `{"nodes":[{"node":"node-1","state":"installed"},` +
			`{"node":"node-2","state":"rejected"}],"next":"node-2"}`,
		"fields=type,online,node&after=node-3": `{"nodes":[{"node":"node-4","online":false,"type":"secondaryType"},` +
			`{"node":"node-9","online":false}]}`,
		"fields=state&after=node-4": `{"nodes":[{"state":"enrolled"}]}`, "fields=node&name=x": `{"nodes":[]}`,
	} {
		w := call(h, "GET", "/v1/nodes?"+query, "")
		if described(t, "GET", "/v1/nodes?"+query, w); strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// Pages stay whole when nodes come and go between them: each node that is there all the time is seen once.
func TestPagesWhileNodesCome(t *testing.T) {
	u, h := sample(t)
	seen, after := "", ""
	for range 10 {
		w := call(h, "GET", "/v1/nodes?limit=1"+after, "")
		var v op.Nodes
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		seen += v.Nodes[0].Node + " "
		u.Connect("node-0", true)
		u.Connect("node-25", true)
		if v.Next == "" {
			break
		}
		after = "&after=" + v.Next
	}
	if seen != "node-1 node-2 node-25 node-3 node-4 " {
		t.Errorf("%q", seen)
	}
}

// large answers with nodes that are like one of the sample, so many that the answer is large.
func large(t testing.TB, u *apitest.Rig, nodes int) *api.API {
	t.Helper()
	all, err := u.Nodes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var v op.Nodes
	for i := range nodes {
		n := all.Nodes[i%len(all.Nodes)]
		n.Node = fmt.Sprintf("press-%05d", i)
		n.Boot = fmt.Sprintf("%032x", uint64(i)*0x9E3779B97F4A7C15)
		v.Nodes = append(v.Nodes, n)
	}
	list := func(context.Context, op.NodesIn) (op.Nodes, error) { return v, nil }
	watch := func(context.Context) (op.Nodes, error) { return op.Nodes{Nodes: []view.Node{v.Nodes[0]}}, nil }
	return api.New(apitest.Instead(u, api.Bind(op.ListNodes, list), api.WatchNodes(watch)), api.Config{Tokens: keys})
}

func TestLargeAnswersAreCompressed(t *testing.T) {
	u := apitest.StartSample(t)
	many, few := large(t, u, 100), large(t, u, 2)
	plain := call(many, "GET", "/v1/nodes", "").Body.String()
	for _, c := range []struct {
		h        *api.API
		accept   string
		target   string
		gzip     bool
		vary, ok string
	}{
		{many, "gzip", "/v1/nodes", true, "Accept-Encoding", plain},
		{many, "br, GZIP;q=0.5", "/v1/nodes", true, "Accept-Encoding", plain},
		{many, "", "/v1/nodes", false, "Accept-Encoding", plain},
		{many, "gzip;q=0, deflate", "/v1/nodes", false, "Accept-Encoding", plain},
		{many, "gzip; q=0.5", "/v1/nodes", true, "Accept-Encoding", plain},
		{many, "br|gzip", "/v1/nodes", true, "Accept-Encoding", plain},
		{many, "gzip;q=x", "/v1/nodes", false, "Accept-Encoding", plain},
		{few, "gzip", "/v1/nodes", false, "", ""},
		{few, "gzip", "/v1/nodes?watch=x", false, "", ""},
		{few, "gzip", "/v1/openapi.json", true, "Accept-Encoding", ""},
	} {
		r := httptest.NewRequest("GET", c.target, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header["Accept-Encoding"] = strings.Split(c.accept, "|") // each on a line of its own
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Length"); got != fmt.Sprint(w.Body.Len()) {
			t.Errorf("%q %s: a length of %s, not %d", c.accept, c.target, got, w.Body.Len())
		}
		var from io.Reader = w.Body
		compressed := w.Header().Get("Content-Encoding") == "gzip"
		if compressed {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			from = z
		}
		body, err := io.ReadAll(from)
		if err != nil || compressed != c.gzip || w.Header().Get("Vary") != c.vary {
			t.Errorf("%q %s: gzip %v, Vary %q, %v", c.accept, c.target, compressed, w.Header().Get("Vary"), err)
		}
		if c.ok != "" && string(body) != c.ok {
			t.Errorf("%q %s: another body, of %d bytes", c.accept, c.target, len(body))
		}
	}
}

// BenchmarkNodes is the list of 10,000 nodes, as it is and in gzip.
func BenchmarkNodes(b *testing.B) {
	h := large(b, apitest.StartSample(b), 10_000)
	for _, accept := range []string{"", "gzip"} {
		b.Run("accept="+accept, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest("GET", "/v1/nodes", nil)
				r.Header.Set("Authorization", "Bearer "+token)
				r.Header.Set("Accept-Encoding", accept)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				b.ReportMetric(float64(w.Body.Len()), "bytes")
			}
		})
	}
}
