package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func TestUnixSocketKnowsItsCaller(t *testing.T) {
	s := serve(t, api.Config{})
	for _, user := range []string{"", "alice", "bad name"} {
		s.unit.Damage()
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
		who := newest(t, s.unit, "state").Who
		if !strings.HasPrefix(who, "uid:") || strings.HasSuffix(who, " for alice") != (user == "alice") ||
			strings.Contains(who, "bad") {
			t.Errorf("%q: who is %q", user, who)
		}
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
	last := newest(t, s.unit).Seq
	res := s.get(fmt.Sprintf("/v1/events?after=%d&follow=1", last-5))
	r := bufio.NewReader(res.Body)
	for seq := last - 4; seq <= last; seq++ {
		if e := next[view.Entry](t, r); e.Seq != seq {
			t.Fatalf("entry %d, want %d", e.Seq, seq)
		}
	}
	for seq := last + 1; seq <= last+6; seq++ {
		remark(t, s.unit)
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
	for _, up := range []bool{true, false} {
		if e := next[view.Entry](t, r); e.Type != "live" || strings.Contains(string(e.Data), `"up":true`) != up {
			t.Fatal(e)
		}
	}
	for i := range 185 {
		if i%20 != 0 {
			remark(t, s.unit)
			continue
		}
		s.unit.Connect("node-4", i%40 == 0)
		if got, want := next[view.Entry](t, r), newest(t, s.unit, "live").Seq; got.Seq != want {
			t.Fatalf("entry %d, want %d", got.Seq, want)
		}
	}
}

func TestNewestFirst(t *testing.T) {
	s := serve(t, api.Config{})
	last := newest(t, s.unit).Seq
	r := bufio.NewReader(s.get("/v1/events?newest=1&limit=2").Body)
	if a, b := next[view.Entry](t, r), next[view.Entry](t, r); a.Seq != last || b.Seq != last-1 {
		t.Errorf("%d %d", a.Seq, b.Seq)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("%s %v", rest, err)
	}
}

func TestNodesAreWatched(t *testing.T) {
	u := apitest.StartSample(t)
	var broken atomic.Pointer[wire.Error]
	nodes := func(ctx context.Context) (op.Nodes, error) {
		if err := broken.Load(); err != nil {
			return op.Nodes{}, err
		}
		all, err := u.Nodes(ctx)
		if err == nil && all.Nodes[3].Online { // with it node-2 is gone
			all.Nodes = slices.Delete(all.Nodes, 1, 2)
		}
		return all, err
	}
	s := serveCore(t, u, apitest.Instead(u, api.WatchNodes(nodes)), api.Config{WatchEvery: time.Millisecond})
	r := bufio.NewReader(s.get("/v1/nodes?watch=1").Body)
	for _, name := range []string{"node-1", "node-2", "node-3", "node-4"} {
		if c := next[op.NodeChange](t, r); c.Node == nil || c.Node.Node != name {
			t.Fatalf("%+v", c)
		}
	}
	if c := next[op.NodeChange](t, r); !c.Complete {
		t.Fatalf("%+v", c)
	}
	remark(t, u) // nothing changed: nothing to say
	u.Connect("node-4", true)
	if c := next[op.NodeChange](t, r); c.Node == nil || c.Node.Node != "node-4" || !c.Node.Online {
		t.Errorf("%+v", c)
	}
	if c := next[op.NodeChange](t, r); c.Gone != "node-2" {
		t.Errorf("%+v", c)
	}
	if c := next[op.NodeChange](t, r); !c.Complete {
		t.Errorf("%+v", c)
	}
	broken.Store(wire.New(wire.CodeUnavailable, "", "broken"))
	remark(t, u)
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
	s.unit.Report("node-3", wire.KindConfig, wire.StateInstalled, nil, nil)
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
	u := apitest.StartSample(t)
	var disk atomic.Pointer[error]
	fill := func(_ context.Context, w io.Writer) error {
		for i := range 8 {
			if err := disk.Load(); err != nil && i == 4 {
				return *err
			}
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return err
			}
		}
		return nil
	}
	s := serveCore(t, u, apitest.Instead(u, api.File(op.BackupJournal, "journal.db", fill),
		api.File(op.ExportJournal, "", fill)), api.Config{})
	whole, err := io.ReadAll(s.get("/v1/journal/backup").Body)
	if err != nil || len(whole) != 8*4096 {
		t.Fatal(len(whole), err)
	}
	disk.Store(new(errors.New("disk")))
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
	u := &slow{Rig: apitest.StartSample(t), began: make(chan struct{}), done: make(chan struct{})}
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
