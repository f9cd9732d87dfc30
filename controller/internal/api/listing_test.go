package api_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/race"
	"tandem.internal/shared/wire"
)

// crowd are nodes that are listed.
type crowd struct {
	nodes []view.Node
	next  string
	mark  string
	err   error // after the last one
}

func (c *crowd) EachNode(_ context.Context, _ op.NodesIn, fn func(*view.Node) error) (string, error) {
	for i := range c.nodes {
		if err := fn(&c.nodes[i]); err != nil {
			return "", err
		}
	}
	return c.next, c.err
}

func (c *crowd) EachPicked(_ context.Context, _ op.PickIn, fn func(op.PickedNode) error) (string, error) {
	for range c.nodes {
		if err := fn(op.PickedNode{"node": []byte(`"x"`)}); err != nil {
			return "", err
		}
	}
	return c.next, c.err
}

func (c *crowd) Mark() string { return c.mark }

// list asks for the nodes; compressed: in gzip.
func list(h http.Handler, target, tag string, compressed bool) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	if compressed {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestListing: a list that is written node by node is the same as one written at once, short or long, in gzip or not.
func TestListing(t *testing.T) {
	u := apitest.StartSample(t)
	sample, err := u.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 100, 1000} {
		for _, next := range []string{"", `press "1"`} {
			c := &crowd{mark: "1-2-3", next: next, nodes: []view.Node{}}
			for i := range n {
				one := sample.Nodes[i%len(sample.Nodes)]
				one.Node = fmt.Sprintf("press-%d", i)
				c.nodes = append(c.nodes, one)
			}
			want, err := json.Marshal(op.Nodes{Nodes: c.nodes, Next: next}, json.Deterministic(true))
			if err != nil {
				t.Fatal(err)
			}
			h := api.New(apitest.Instead(u, api.ListNodes(c), api.PickNodes(c)), api.Config{Tokens: keys})
			for _, compressed := range []bool{false, true} {
				w := list(h, "/v1/nodes", "", compressed)
				body := io.Reader(w.Body)
				packed := w.Header().Get("Content-Encoding") == "gzip"
				if packed != (compressed && len(want) >= 8<<10) {
					t.Errorf("%d nodes: gzip %v", n, packed)
				} else if vary := w.Header().Get("Vary"); (vary == "Accept-Encoding") != (len(want) >= 8<<10) {
					t.Errorf("%d nodes: Vary %q", n, vary)
				}
				if packed {
					if body, err = gzip.NewReader(w.Body); err != nil {
						t.Fatal(err)
					}
				}
				got, err := io.ReadAll(body)
				if err != nil || w.Code != 200 || !bytes.Equal(bytes.TrimSpace(got), want) ||
					w.Header().Get("ETag") != `W/"1-2-3"` || w.Header().Get("Content-Type") != "application/json" {
					t.Errorf("%d nodes: %v, %d %q, %d bytes, want %d", n, err, w.Code, w.Header(), len(got), len(want))
				}
			}
			var picked op.Picked
			w := list(h, "/v1/nodes?fields=node", "", false)
			err = json.Unmarshal(w.Body.Bytes(), &picked)
			if err != nil || len(picked.Nodes) != n || picked.Next != next {
				t.Errorf("%d nodes with fields: %d, %v", n, len(picked.Nodes), err)
			}
		}
	}
}

// TestListingHasATag: who has what is shown now is told so, and nothing else; who has something else gets all.
func TestListingHasATag(t *testing.T) {
	c := &crowd{mark: "1-2-3", nodes: []view.Node{{Node: "n"}}}
	h := api.New(apitest.Instead(apitest.StartSample(t), api.ListNodes(c), api.PickNodes(c)), api.Config{Tokens: keys})
	for _, target := range []string{"/v1/nodes", "/v1/nodes?fields=node"} {
		for tag, want := range map[string]int{"": 200, `W/"1-2-3"`: 304, `"1-2-3"`: 304, `"x", W/"1-2-3"`: 304,
			`W/"1-2-4"`: 200, "1-2-3": 200} {
			w := list(h, target, tag, true)
			if w.Code != want || (w.Body.Len() == 0) != (want == 304) || w.Header().Get("ETag") != `W/"1-2-3"` {
				t.Errorf("%s with %s: %d, %d bytes, %q", target, tag, w.Code, w.Body.Len(), w.Header())
			}
		}
	}
	r := httptest.NewRequest("GET", "/v1/nodes", nil)
	r.Header = http.Header{"Authorization": {"Bearer " + token}, "If-None-Match": {`"x"`, `W/"1-2-3"`}}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 304 {
		t.Errorf("with two lines of tags: %d", w.Code)
	}
	u := apitest.StartSample(t)
	h = api.New(u, api.Config{Tokens: keys})
	tag := list(h, "/v1/nodes", "", false).Header().Get("ETag")
	if w := list(h, "/v1/nodes", tag, false); w.Code != 304 {
		t.Errorf("nothing has changed: %d", w.Code)
	}
	u.Connect("node-9", true)
	if w := list(h, "/v1/nodes", tag, false); w.Code != 200 || w.Header().Get("ETag") == tag {
		t.Errorf("a node more: %d %s", w.Code, w.Header().Get("ETag"))
	}
}

// TestListingFails: what fails before anything has left is an error, later the answer is cut off.
func TestListingFails(t *testing.T) {
	c := &crowd{mark: "1", nodes: []view.Node{{Node: "n"}}, err: wire.New(wire.CodeStorage, "", "the disk is gone")}
	h := api.New(apitest.Instead(apitest.StartSample(t), api.ListNodes(c)), api.Config{Tokens: keys})
	w := list(h, "/v1/nodes", "", false)
	if code(t, w.Body.Bytes()) != wire.CodeStorage || w.Header().Get("ETag") != "" {
		t.Errorf("%d %s %q", w.Code, w.Body, w.Header())
	}
	for range 1000 {
		c.nodes = append(c.nodes, view.Node{Node: "n"})
	}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("the answer looks whole: %v", p)
		}
	}()
	list(h, "/v1/nodes", "", false)
}

// TestListingsAtOnce: those that are written at the same time do not get into each other.
func TestListingsAtOnce(t *testing.T) {
	var hs []http.Handler
	var wants []string
	u := apitest.Start(t)
	for i := range 4 {
		c := &crowd{mark: "1", nodes: slices.Repeat([]view.Node{{Node: fmt.Sprintf("node-%d", i)}}, 3000)}
		hs = append(hs, api.New(apitest.Instead(u, api.ListNodes(c)), api.Config{Tokens: keys}))
		wants = append(wants, list(hs[i], "/v1/nodes", "", false).Body.String())
	}
	var wg sync.WaitGroup
	for i, h := range hs {
		wg.Go(func() {
			for range 10 {
				z, err := gzip.NewReader(list(h, "/v1/nodes", "", true).Body)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := io.ReadAll(z); err != nil || string(got) != wants[i] {
					t.Errorf("list %d: %d bytes, want %d, %v", i, len(got), len(wants[i]), err)
				}
			}
		})
	}
	wg.Wait()
}

// leaving is a crowd of which somebody loses interest at a node.
type leaving struct {
	*crowd
	at   int
	gone func()
	seen int
}

func (l *leaving) EachNode(ctx context.Context, in op.NodesIn, fn func(*view.Node) error) (string, error) {
	return l.crowd.EachNode(ctx, in, func(n *view.Node) error {
		if l.seen++; l.seen == l.at {
			l.gone()
		}
		return fn(n)
	})
}

// TestListingsEndWithWhoReads: a list that cannot be written is cut off, also at its end, and no more nodes are read.
func TestListingsEndWithWhoReads(t *testing.T) {
	const nodes = 10_000
	for at, most := range map[int]int{100: 1000, nodes: nodes} {
		l := &leaving{at: at, crowd: &crowd{mark: "1", nodes: slices.Repeat([]view.Node{{Node: "n"}}, nodes)}}
		inBubble(t, apitest.Instead(apitest.Start(t), api.ListNodes(l)), api.Config{}, func(b *bubble) {
			var k taker
			l.gone = func() { k.fail(errors.New("gone")) }
			b.take(tokens.View, "GET", "/v1/nodes", &k)()
			if !k.over() || k.cut == nil || l.seen > most {
				t.Errorf("at %d: cut off %v, %d nodes are read", at, k.cut, l.seen)
			}
		})
	}
}

// lame is a caller who takes nothing until he is released, and says when he is to take something.
type lame struct {
	*httptest.ResponseRecorder
	asked   func()
	release chan struct{}
}

func (s *lame) Write(b []byte) (int, error) {
	s.asked()
	<-s.release
	return len(b), nil
}

// TestListingsHoldLittle: a hundred lists at once, for callers who do not read, hold far less than a hundred answers.
func TestListingsHoldLittle(t *testing.T) {
	if race.Enabled { // it measures memory
		t.Skip("without the race detector")
	}
	const nodes, lists = 1000, 100
	u := apitest.Start(t)
	var wg sync.WaitGroup
	for part := range 100 {
		wg.Go(func() {
			for i := part; i < nodes; i += 100 {
				u.Connect(fmt.Sprintf("node-%05d", i), true)
			}
		})
	}
	wg.Wait()
	many := &crowd{mark: "1", nodes: slices.Repeat([]view.Node{{Node: "node-00000", Type: "press"}}, 10_000)}
	for _, h := range []http.Handler{
		api.New(u, api.Config{Tokens: keys}),
		api.New(apitest.Instead(u, api.ListNodes(many)), api.Config{Tokens: keys}),
	} {
		for _, accept := range []string{"", "gzip"} {
			hold(t, h, accept, lists)
		}
	}
}

// hold has lists written at once for callers who do not read.
func hold(t *testing.T, h http.Handler, accept string, lists int) {
	t.Helper()
	one := list(h, "/v1/nodes", "", false).Body.Len()
	before := heap()
	release := make(chan struct{})
	var all, waiting sync.WaitGroup
	waiting.Add(lists)
	for range lists {
		r := httptest.NewRequest("GET", "/v1/nodes", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Accept-Encoding", accept)
		w := &lame{httptest.NewRecorder(), sync.OnceFunc(waiting.Done), release}
		all.Go(func() { h.ServeHTTP(w, r) })
	}
	waiting.Wait()
	held := heap() - before
	close(release)
	all.Wait()
	t.Logf("%q: %d lists of %d bytes hold %d KiB", accept, lists, one, held>>10)
	if held > int64(lists*one)/2 {
		t.Errorf("%q: %d lists of %d bytes hold %d", accept, lists, one, held)
	}
}
