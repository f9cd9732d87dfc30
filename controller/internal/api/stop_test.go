package api_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// slow takes its time for Nodes.
type slow struct {
	*apitest.Rig
	began, done chan struct{}
}

func (s *slow) Operations() []api.Operation {
	return apitest.Instead(s.Rig, api.Bind(op.ListNodes, s.Nodes)).Operations()
}

func (s *slow) Nodes(ctx context.Context, _ op.NodesIn) (op.Nodes, error) {
	close(s.began)
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	return s.Rig.Nodes(ctx)
}

// TestStopEndsWhatDoesNot: after the grace period the request's context ends, and Serve returns.
func TestStopEndsWhatDoesNot(t *testing.T) {
	u := &slow{Rig: apitest.StartSample(t), began: make(chan struct{}), done: make(chan struct{})}
	path := filepath.Join(t.TempDir(), "c.sock")
	l, err := api.ListenUnix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	a := api.New(u, api.Config{Grace: time.Millisecond, Log: zap.New(core)})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx, l) }()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /v1/nodes HTTP/1.1\r\nHost: tandem\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-u.began
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if logs.FilterMessage("request").Len() != 1 || logs.FilterMessageSnippet("cutting off").Len() != 1 {
		t.Errorf("%v", logs.All())
	}
}

func TestServeOverTCPNeedsTheToken(t *testing.T) {
	l, err := api.ListenTCP("127.0.0.1:0", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	a := api.New(apitest.StartSample(t), api.Config{Tokens: keys})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx, l) }()
	tr := &http.Transport{}
	for header, want := range map[string]int{"": 401, "Bearer " + token: 200} {
		req, err := http.NewRequest("GET", "http://"+l.Addr().String()+"/v1/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", header)
		res, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != want {
			t.Errorf("%q: %s %v", header, res.Status, err)
		}
	}
	tr.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	// A handler whose API has stopped says so.
	if w := call(a, "GET", "/v1/nodes", ""); w.Code != 503 {
		t.Errorf("%d after the end", w.Code)
	}
}

func TestServeFailsWithItsListener(t *testing.T) {
	l, err := api.ListenUnix(filepath.Join(t.TempDir(), "s"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := api.New(apitest.Start(t), api.Config{}).Serve(context.Background(), l); err == nil {
		t.Error("served on a closed listener")
	}
}

// TestVia: the journal says "cli" only of who names a user on the socket; over TCP anybody can.
func TestVia(t *testing.T) {
	var via string
	u := apitest.StartSample(t)
	core := apitest.Submitting(u, func(ctx context.Context, s view.Submission) (view.Result, error) {
		via = s.Via
		return view.Result{State: "accepted"}, nil
	})
	s := serveCore(t, u, core, api.Config{})
	tcp := api.New(core, api.Config{Tokens: keys})
	for _, c := range []struct {
		socket bool
		user   string
		want   string
	}{{true, "alice", "cli"}, {true, "", "http"}, {false, "alice", "http"}, {false, "", "http"}} {
		req := httptest.NewRequest("POST", "http://tandem/v1/config", strings.NewReader("{}"))
		if c.user != "" {
			req.Header.Set(op.UserHeader, c.user)
		}
		if c.socket {
			req.RequestURI = ""
			res, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			req.Header.Set("Authorization", "Bearer "+token)
			tcp.ServeHTTP(httptest.NewRecorder(), req)
		}
		if via != c.want {
			t.Errorf("%+v: %q", c, via)
		}
		via = ""
	}
}
