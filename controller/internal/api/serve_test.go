package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// served is an API on a real unix socket.
type served struct {
	t      *testing.T
	unit   *apitest.Unit
	path   string
	client *http.Client
	stop   func() error // stops serving and returns what Serve did
}

func serve(t *testing.T, cfg api.Config) *served {
	t.Helper()
	s := &served{t: t, unit: apitest.New(apitest.Sample()), path: filepath.Join(t.TempDir(), "c.sock")}
	l, err := api.ListenUnix(s.path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	a := api.New(s.unit, cfg)
	go func() { result <- a.Serve(ctx, l) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.path)
	}}
	s.client = &http.Client{Transport: tr}
	s.stop = sync.OnceValue(func() error {
		cancel()
		err := <-result
		tr.CloseIdleConnections()
		return err
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *served) get(path string) *http.Response {
	s.t.Helper()
	res, err := s.client.Get("http://tandem" + path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := res.Body.Close(); err != nil {
			s.t.Error(err)
		}
	})
	if res.StatusCode != 200 {
		body, err := io.ReadAll(res.Body)
		s.t.Fatalf("%s: %s %s %v", path, res.Status, body, err)
	}
	return res
}

// next reads the next line of a stream that is not blank.
func next[T any](t *testing.T, r *bufio.Reader) (v T) {
	t.Helper()
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			t.Fatalf("stream ended: %v", err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &v, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		return v
	}
}

func TestUnixSocketKnowsItsCaller(t *testing.T) {
	s := serve(t, api.Config{})
	for _, user := range []string{"", "alice", "bad name"} {
		req, err := http.NewRequest("POST", "http://tandem/v1/config/restore", nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			req.Header.Set(op.UserHeader, user)
		}
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != 200 {
			t.Fatal(res.Status, err)
		}
		s.unit.Do(func(st *apitest.State) {
			if !strings.HasPrefix(st.Who, "uid:") || strings.HasSuffix(st.Who, " for alice") != (user == "alice") ||
				strings.Contains(st.Who, "bad") {
				t.Errorf("%q: who is %q", user, st.Who)
			}
		})
	}
	stat, err := os.Stat(s.path)
	if err != nil || stat.Mode().Perm() != 0o660 {
		t.Errorf("%v %v", stat.Mode(), err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
}

func TestEventsAreFollowed(t *testing.T) {
	s := serve(t, api.Config{KeepAlive: 5 * time.Millisecond})
	res := s.get("/v1/events?after=9&follow=1")
	r := bufio.NewReader(res.Body)
	for seq := uint64(10); seq <= 14; seq++ {
		if e := next[view.Entry](t, r); e.Seq != seq {
			t.Fatalf("entry %d, want %d", e.Seq, seq)
		}
	}
	for seq := uint64(15); seq <= 20; seq++ {
		s.unit.Do(func(st *apitest.State) {
			st.Entries = append(st.Entries, view.Entry{Seq: seq, At: apitest.Now, Type: "note"})
		})
		if e := next[view.Entry](t, r); e.Seq != seq {
			t.Fatalf("entry %d, want %d", e.Seq, seq)
		}
	}
	if line, err := r.ReadString('\n'); err != nil || line != "\n" { // a keep-alive
		t.Errorf("%q %v", line, err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if p := next[op.Problem](t, r); p.Error == nil || p.Error.Code != wire.CodeUnavailable {
		t.Errorf("the stream's last line: %+v", p)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the stream was cut off: %v", err)
	}
}

func TestFilteredFollowersSeeEveryMatch(t *testing.T) {
	s := serve(t, api.Config{})
	r := bufio.NewReader(s.get("/v1/events?type=live&node=node-4&follow=1").Body)
	if e := next[view.Entry](t, r); e.Seq != 14 {
		t.Fatal(e)
	}
	for seq := uint64(15); seq < 200; seq++ {
		e := view.Entry{Seq: seq, At: apitest.Now, Type: "note"}
		if seq%20 == 0 {
			e.Type, e.Node = "live", "node-4"
		}
		s.unit.Do(func(st *apitest.State) { st.Entries = append(st.Entries, e) })
		if seq%20 == 0 {
			if got := next[view.Entry](t, r); got.Seq != seq {
				t.Fatalf("entry %d, want %d", got.Seq, seq)
			}
		}
	}
}

func TestNewestFirst(t *testing.T) {
	s := serve(t, api.Config{})
	r := bufio.NewReader(s.get("/v1/events?newest=1&limit=2").Body)
	if a, b := next[view.Entry](t, r), next[view.Entry](t, r); a.Seq != 14 || b.Seq != 13 {
		t.Errorf("%d %d", a.Seq, b.Seq)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("%s %v", rest, err)
	}
}

func TestNodesAreWatched(t *testing.T) {
	s := serve(t, api.Config{WatchEvery: time.Millisecond})
	r := bufio.NewReader(s.get("/v1/nodes?watch=1").Body)
	for _, name := range []string{"node-1", "node-2", "node-3", "node-4"} {
		if c := next[op.NodeChange](t, r); c.Node == nil || c.Node.Node != name {
			t.Fatalf("%+v", c)
		}
	}
	if c := next[op.NodeChange](t, r); !c.Complete {
		t.Fatalf("%+v", c)
	}
	s.unit.Do(func(*apitest.State) {}) // nothing changed: nothing to say
	s.unit.Do(func(st *apitest.State) {
		st.Nodes[3].Online = true
		st.Nodes = append(st.Nodes[:1:1], st.Nodes[2:]...)
	})
	if c := next[op.NodeChange](t, r); c.Node == nil || c.Node.Node != "node-4" || !c.Node.Online {
		t.Errorf("%+v", c)
	}
	if c := next[op.NodeChange](t, r); c.Gone != "node-2" {
		t.Errorf("%+v", c)
	}
	if c := next[op.NodeChange](t, r); !c.Complete {
		t.Errorf("%+v", c)
	}
	s.unit.Do(func(st *apitest.State) {
		st.Fail = map[string]error{"Nodes": wire.New(wire.CodeUnavailable, "", "broken")}
	})
	if p := next[op.Problem](t, r); p.Error == nil || p.Error.Message != "broken" {
		t.Errorf("%+v", p)
	}
}

func TestStatusIsWatched(t *testing.T) {
	s := serve(t, api.Config{WatchEvery: time.Millisecond})
	r := bufio.NewReader(s.get("/v1/config/status?watch=1").Body)
	if st := next[view.SourceStatus](t, r); st.Progress.Installed != 1 {
		t.Errorf("%+v", st)
	}
	s.unit.Do(func(st *apitest.State) { st.Config.Progress.Installed = 2 })
	if st := next[view.SourceStatus](t, r); st.Progress.Installed != 2 {
		t.Errorf("%+v", st)
	}
}

func TestStreamsAreLimited(t *testing.T) {
	s := serve(t, api.Config{MaxStreams: 1})
	first := s.get("/v1/nodes?watch=1")
	res, err := s.client.Get("http://tandem/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Error(res.Status)
	}
	if err := errors.Join(res.Body.Close(), first.Body.Close()); err != nil {
		t.Error(err)
	}
}

func TestDownloadsThatFailAreCutOff(t *testing.T) {
	s := serve(t, api.Config{})
	whole, err := io.ReadAll(s.get("/v1/journal/backup").Body)
	if err != nil || len(whole) != 8*4096 {
		t.Fatal(len(whole), err)
	}
	s.unit.Do(func(st *apitest.State) {
		st.Fail = map[string]error{"Backup": errors.New("disk"), "Export": errors.New("disk")}
	})
	for _, path := range []string{"/v1/journal/backup", "/v1/journal/export"} {
		res, err := s.client.Get("http://tandem" + path)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			err = errors.Join(err, res.Body.Close())
		}
		if err == nil {
			t.Errorf("%s: half of it looks whole", path)
		}
	}
}

// TestStopWaitsForWork: what was being worked on when the API stops still gets its answer.
func TestStopWaitsForWork(t *testing.T) {
	u := &slow{Unit: apitest.New(apitest.Sample()), began: make(chan struct{}), done: make(chan struct{})}
	path := filepath.Join(t.TempDir(), "c.sock")
	l, err := api.ListenUnix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	a := api.New(u, api.Config{Grace: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	served, answered := make(chan error, 1), make(chan error, 1)
	go func() { served <- a.Serve(ctx, l) }()
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}
	defer tr.CloseIdleConnections()
	go func() {
		res, err := (&http.Client{Transport: tr}).Get("http://tandem/v1/nodes")
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			err = errors.Join(err, res.Body.Close())
		}
		answered <- err
	}()
	<-u.began
	cancel()
	select {
	case err := <-served:
		t.Fatalf("Serve returned while it worked: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(u.done)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// slow takes its time for Nodes.
type slow struct {
	*apitest.Unit
	began, done chan struct{}
}

func (s *slow) Operations() []api.Operation { return instead(s.Unit, s.Nodes) }

func (s *slow) Nodes(ctx context.Context) (op.Nodes, error) {
	close(s.began)
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	return s.Unit.Nodes(ctx)
}

// TestStopEndsWhatDoesNot: after the grace period the request's context ends, and Serve returns.
func TestStopEndsWhatDoesNot(t *testing.T) {
	u := &slow{Unit: apitest.New(apitest.Sample()), began: make(chan struct{}), done: make(chan struct{})}
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
	a := api.New(apitest.New(apitest.Sample()), api.Config{Tokens: keys})
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
	if err := api.New(apitest.New(apitest.State{}), api.Config{}).Serve(context.Background(), l); err == nil {
		t.Error("served on a closed listener")
	}
}
