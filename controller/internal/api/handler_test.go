package api_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// TestDeadlines: each answer has one to leave by (the taker sees to that), and a request that is read none any more.
func TestDeadlines(t *testing.T) {
	core := apitest.Instead(apitest.Start(t), api.ListNodes(&crowd{mark: "1", nodes: make([]view.Node, 10_000)}),
		apitest.Fixed(op.ConfirmClock, view.ClockJump{}))
	inBubble(t, core, api.Config{}, func(b *bubble) {
		for _, path := range []string{"/", "/v1/self", "/v1/nodes", "/v1/nothing", "/v1/openapi.json"} {
			var k taker
			b.take(tokens.View, "GET", path, &k)()
			if !k.over() || len(k.sizes()) == 0 || len(k.unread()) != 1 || !k.unread()[0].IsZero() {
				t.Errorf("%s: %d writes, deadlines of reading %v", path, len(k.sizes()), k.unread())
			}
		}
		for _, fails := range []error{nil, io.ErrUnexpectedEOF} {
			var k taker
			body := &watchedBody{fails: fails, read: func() {
				if len(k.unread()) > 0 {
					t.Error("a body has no deadline")
				}
			}}
			r := httptest.NewRequest("POST", "/v1/clock/confirm", body)
			r.ContentLength = 2
			r.Header.Set("Authorization", "Bearer "+b.by[tokens.Admin])
			b.send(r, &k)
			got := k.got()
			if k.code() == 0 || strings.Contains(got, "could not be read") != (fails != nil) ||
				(len(k.unread()) == 1) != (fails == nil) {
				t.Errorf("%v: %d %s, deadlines of reading %v", fails, k.code(), got, k.unread())
			}
		}
	})
}

// watchedBody is a body, {}, of which it is noted that it is read.
type watchedBody struct {
	read  func()
	fails error
	done  bool
}

func (n *watchedBody) Read(p []byte) (int, error) {
	n.read()
	if n.fails != nil || n.done {
		return 0, cmp.Or(n.fails, io.EOF)
	}
	n.done = true
	return copy(p, "{}"), nil
}

// TestPanics: one after the answer has begun cuts it off; each is in the log; and who is told of answers is told of
// those only that were begun.
func TestPanics(t *testing.T) {
	var text string
	var p any
	fill := func(_ context.Context, w io.Writer) error {
		if text != "" {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
		}
		panic(p)
	}
	core, logs := observer.New(zap.WarnLevel)
	answered := 0
	h := api.New(apitest.Instead(apitest.Start(t), api.File(op.ExportJournal, "", fill)), api.Config{Tokens: keys,
		Log: zap.New(core), Answered: func(_ string, status int, took time.Duration) {
			if answered++; status == 0 || took < 0 {
				t.Errorf("%d after %s", status, took)
			}
		}})
	w := httptest.NewRecorder()
	ask := func() (cut any) {
		defer func() { cut = recover() }()
		r := httptest.NewRequest("GET", "/v1/journal/export", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return nil
	}
	text, p = "half", "told to"
	if cut := ask(); cut != http.ErrAbortHandler || w.Body.String() != "half" || answered != 1 {
		t.Errorf("cut off by %v after %q, %d answered", cut, w.Body, answered)
	}
	if all := logs.TakeAll(); len(all) != 1 || all[0].Message != "request handler panicked" {
		t.Errorf("%v", all)
	}
	p = http.ErrAbortHandler
	if cut := ask(); cut != http.ErrAbortHandler || logs.Len() != 0 || answered != 2 {
		t.Errorf("cut off by %v, %d answered, log %v", cut, answered, logs.All())
	}
	text = ""
	if cut := ask(); cut != http.ErrAbortHandler || answered != 2 {
		t.Errorf("cut off by %v before it has begun, %d answered", cut, answered)
	}
}

// TestEndsOfRequests: what failed unexpectedly is in the log, unless nobody waits for it any more; the line about a
// request has its status and size; and what was begun for somebody ends with the request.
func TestEndsOfRequests(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	var fails error
	var within context.Context
	nodes := func(ctx context.Context, _ op.NodesIn) (op.Nodes, error) {
		within = ctx
		return op.Nodes{}, fails
	}
	h := api.New(apitest.Instead(apitest.Start(t), api.Bind(op.ListNodes, nodes)), api.Config{Tokens: keys,
		Log: zap.New(core)})
	for _, c := range []struct {
		err    error
		gone   bool
		status int
		logged int
	}{{nil, false, 200, 0}, {errors.New("broken"), false, 500, 1}, {errors.New("broken"), true, 500, 0},
		{context.Canceled, false, 504, 0}} {
		fails = c.err
		ctx, leave := context.WithCancel(t.Context())
		if c.gone {
			leave()
		}
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/nodes", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.status || within.Err() == nil || ctx.Err() != nil != c.gone {
			t.Errorf("%+v: %d, ended %v", c, w.Code, within.Err())
		}
		leave()
		lines := logs.FilterMessage("request").All()
		if n := logs.FilterMessage("request failed").Len(); n != c.logged || len(lines) != 1 {
			t.Errorf("%+v: %v", c, logs.All())
		} else if got := lines[0].ContextMap(); got["status"] != int64(c.status) ||
			got["bytes"] != int64(w.Body.Len()) {
			t.Errorf("%+v: %v, %d bytes", c, got, w.Body.Len())
		}
		logs.TakeAll()
	}
}

// TestWrongRequests: what is not there is named, but no more of it than fits a line; of a path it is said what may be
// done there; and routes are told by what they are, not by what was asked.
func TestWrongRequests(t *testing.T) {
	var routes []string
	h := api.New(apitest.Start(t), api.Config{Tokens: keys,
		Answered: func(route string, _ int, _ time.Duration) { routes = append(routes, route) }})
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/" + strings.Repeat("x", 5000), ""}, {strings.Repeat("X", 5000), "/v1/nodes", "GET, HEAD"},
		{"GET", "/v1/nodes//", ""}, {"GET", "/v1//nodes", ""},
	} {
		w := call(h, c.method, c.path, "")
		if got := w.Header().Get("Allow"); w.Body.Len() > 400 || got != c.allow || (w.Code == 405) != (c.allow != "") {
			t.Errorf("%.20s %.20s: %d, allowed %q, %d bytes", c.method, c.path, w.Code, got, w.Body.Len())
		}
	}
	if all := strings.Join(routes, ""); all != "" {
		t.Errorf("routes %q", routes)
	}
}

// TestAnswersAreTheSame: an answer to the same is the same to the byte, and one that cannot be written is an error.
func TestAnswersAreTheSame(t *testing.T) {
	types := map[string]int{}
	for i := range 20 {
		types[fmt.Sprint("type-", i)] = i
	}
	u := apitest.Start(t)
	h := api.New(apitest.Instead(u, api.Ask(op.ShowFleet, func(context.Context) (view.Fleet, error) {
		return view.Fleet{Types: maps.Clone(types)}, nil
	})), api.Config{Tokens: keys})
	first := call(h, "GET", "/v1/fleet", "").Body.String()
	for range 20 {
		if got := call(h, "GET", "/v1/fleet", "").Body.String(); got != first {
			t.Fatalf("%s, before %s", got, first)
		}
	}
	core, logs := observer.New(zap.ErrorLevel)
	h = api.New(apitest.Instead(u, apitest.Fixed(op.ExplainConfig, view.Explanation{Value: []byte("{")})),
		api.Config{Tokens: keys, Log: zap.New(core)})
	if w := call(h, "GET", "/v1/config/explain?node=n", ""); w.Code != 500 ||
		code(t, w.Body.Bytes()) != wire.CodeInternal || logs.Len() != 1 {
		t.Errorf("%d %s, log %v", w.Code, w.Body, logs.All())
	}
}
