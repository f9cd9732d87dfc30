package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"tandem.internal/nodeagent/internal/fetch/fetchtest"
	"tandem.internal/shared/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is an HTTP server in memory. Requests for host.test/PATH get what pages says.
type site struct {
	t      testing.TB
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}

	mu    sync.Mutex
	pages map[string]http.HandlerFunc
	seen  map[string]int // requests by path
}

func newSite(t testing.TB) *site {
	w := &site{t: t, conns: make(chan net.Conn), closed: make(chan struct{}), pages: map[string]http.HandlerFunc{},
		seen: map[string]int{}}
	w.server = &http.Server{Handler: w}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.server.Serve(w); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the site: %v", err)
		}
	}()
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return w
}

func (w *site) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *site) Close() error   { close(w.closed); return nil }
func (w *site) Addr() net.Addr { return &net.UnixAddr{Name: "site"} }

// client is the client of production, but for how it dials.
func (w *site) client() *http.Client {
	c := NewClient()
	tr := c.Transport.(byName).RoundTripper.(*http.Transport)
	tr.Proxy = nil
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		mine, its := net.Pipe()
		select {
		case w.conns <- its:
			return mine, nil
		case <-w.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c
}

func (w *site) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.seen[r.URL.Path]++
	h := w.pages[r.URL.Path]
	w.mu.Unlock()
	if h == nil {
		http.NotFound(rw, r)
		return
	}
	h(rw, r)
}

func (w *site) requests(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[path]
}

func (w *site) put(path string, h http.HandlerFunc) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[path] = h
	return "http://host.test" + path
}

// modified is when the files of a site were last changed: before every bubble begins.
var modified = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

// file serves data as a sound server does.
func (w *site) file(path string, data []byte) string {
	sum := sha256.Sum256(data)
	return w.put(path, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
		http.ServeContent(rw, r, "x.bin", modified, bytes.NewReader(data))
	})
}

// node is a store that runs.
type node struct {
	*Store
	t    testing.TB
	stop func()
}

// What the tests of BitTorrent use, too.
var (
	content  = fetchtest.Content
	sha      = fetchtest.SHA
	md       = fetchtest.MD
	artifact = fetchtest.Artifact
	named    = fetchtest.Named
	files    = fetchtest.Files
)

const plenty = fetchtest.Plenty

// start opens a store and lets it run until the test ends or stop is called.
func start(t testing.TB, c Config) *node {
	t.Helper()
	if c.Log == nil {
		c.Log = zaptest.NewLogger(t)
	}
	if c.Space == nil {
		c.Space = func(string) (uint64, error) { return plenty, nil }
	}
	if c.Chance == nil {
		c.Chance = func() float64 { return 0 }
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return &node{Store: s, t: t, stop: fetchtest.Run(t, s.Run)}
}

// where is the path that the copy of a has or would have.
func (n *node) where(a workload.Artifact) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.disk.copyPath(n.state.Look(a).Key)
}

// await waits until the status of a is as it should be.
func (n *node) await(a workload.Artifact, what string, ok func(Status) bool) Status {
	n.t.Helper()
	const late = 100 * time.Hour // in a bubble it costs nothing
	return fetchtest.Await(n.t, late, n.Updates(), func() Status { return n.Status(a) }, what, ok)
}

func (n *node) ready(a workload.Artifact, want []byte) Status {
	n.t.Helper()
	st := n.await(a, "ready", func(st Status) bool { return st.State == Ready })
	fetchtest.Whole(n.t, st.Path, want)
	if st.Size != int64(len(want)) || st.Done != st.Size || st.Err != nil {
		n.t.Fatalf("%+v", st)
	}
	return st
}

// fails waits for an error that has text in it.
func (n *node) fails(a workload.Artifact, text string) Status {
	n.t.Helper()
	st := n.await(a, "an error with "+text, func(st Status) bool {
		return st.Err != nil &&
			strings.Contains(st.Err.Error(), text)
	})
	if st.Path != "" {
		n.t.Fatalf("it fails and can be used: %+v", st)
	}
	return st
}
