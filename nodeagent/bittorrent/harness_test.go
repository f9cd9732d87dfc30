package bittorrent

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/fetch/fetchtest"
	"tandem.internal/shared/workload"
)

// These tests use the loopback and real time: the client is not ours to be put into a bubble. It ends without waiting
// for all its goroutines (ADR 021), so this does, for as long as any test may wait.
func TestMain(m *testing.M) {
	status := m.Run()
	left := goleak.Find()
	for end := time.Now().Add(late); status == 0 && left != nil && time.Now().Before(end); {
		left = goleak.Find()
	}
	if status == 0 && left != nil {
		fmt.Fprintln(os.Stderr, left)
		status = 1
	}
	os.Exit(status)
}

// late is when a test that waits gives up.
const late = 5 * time.Minute

type wants = []workload.Artifact

// What the tests of the store use, too.
var (
	content  = fetchtest.Content
	sha      = fetchtest.SHA
	md       = fetchtest.MD
	artifact = fetchtest.Artifact
	named    = fetchtest.Named
	files    = fetchtest.Files
)

// node is a store with BitTorrent that runs.
type node struct {
	*fetch.Store
	t     testing.TB
	swarm *swarm
	stop  func()
}

// begin starts a node that runs until the test ends or stop is called.
func begin(t testing.TB, c fetch.Config, peers fetch.Peers) *node {
	t.Helper()
	torrents, err := New(fetch.TorrentsConfig{Peers: peers, Limit: fetch.NewLimiter(c.Rate)})
	if err != nil {
		t.Fatal(err)
	}
	n := beginIn(t, c, torrents)
	stop := n.stop
	n.stop = func() { stop(); torrents.Close() }
	t.Cleanup(n.stop)
	return n
}

// beginIn starts a node that shares a client with others.
func beginIn(t testing.TB, c fetch.Config, torrents fetch.Torrents) *node {
	t.Helper()
	n := &node{t: t}
	c.Log = zaptest.NewLogger(t)
	c.Chance = func() float64 { return 0 }
	if c.Space == nil {
		c.Space = func(string) (uint64, error) { return fetchtest.Plenty, nil }
	}
	c.Torrents = joined{torrents, n}
	var err error
	if n.Store, err = fetch.Open(c); err != nil {
		t.Fatal(err)
	}
	n.stop = fetchtest.Run(t, n.Run)
	return n
}

// joined tells a node of its part.
type joined struct {
	fetch.Torrents
	node *node
}

func (j joined) Join(h *fetch.Host) fetch.Swarm {
	j.node.swarm = j.Torrents.Join(h).(*swarm)
	return j.node.swarm
}

// await waits until the status of a is as it should be.
func (n *node) await(a workload.Artifact, what string, ok func(fetch.Status) bool) fetch.Status {
	n.t.Helper()
	return fetchtest.Await(n.t, late, n.Updates(), func() fetch.Status { return n.Status(a) }, what, ok)
}

func (n *node) ready(a workload.Artifact, want []byte) fetch.Status {
	n.t.Helper()
	st := n.await(a, "ready", func(st fetch.Status) bool { return st.State == fetch.Ready })
	fetchtest.Whole(n.t, st.Path, want)
	if st.Size != int64(len(want)) || st.Done != st.Size || st.Err != nil {
		n.t.Fatalf("%+v", st)
	}
	return st
}

// fails waits for an error that has text in it.
func (n *node) fails(a workload.Artifact, text string) fetch.Status {
	n.t.Helper()
	st := n.await(a, "an error with "+text, func(st fetch.Status) bool {
		return st.Err != nil && strings.Contains(st.Err.Error(), text)
	})
	if st.Path != "" {
		n.t.Fatalf("it fails and can be used: %+v", st)
	}
	return st
}

// serves waits until the number of torrents that the node serves is as it should be.
func (n *node) serves(what string, ok func(int) bool) {
	n.t.Helper()
	s := n.swarm
	for deadline := time.Now().Add(late); ; time.Sleep(5 * time.Millisecond) { // nothing tells of it
		s.at.Lock()
		served := len(s.served)
		s.at.Unlock()
		if ok(served) {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s: never; now %d", what, served)
		}
	}
}

// served waits until a node serves something, and returns where.
func served(n *node) string {
	n.t.Helper()
	n.serves("something is served", func(n int) bool { return n > 0 })
	n.swarm.mu.Lock() // of the client
	defer n.swarm.mu.Unlock()
	return fmt.Sprintf("127.0.0.1:%d", n.swarm.client.LocalPort())
}

// plainURL is what an operator would write for a content.
func plainURL(t *testing.T, data []byte) string {
	t.Helper()
	info, err := workload.PlainTorrent(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return workload.TorrentURL(info)
}

// serving starts a node that holds data, fetched by HTTP, and waits until it serves it.
func serving(t *testing.T, data []byte, peers fetch.Peers) (n *node, address string) {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.bin", time.Time{}, bytes.NewReader(data))
	}))
	defer site.Close()
	a := artifact(sha(data), len(data), site.URL+"/f", plainURL(t, data))
	peers.Listen = "127.0.0.1:0"
	n = begin(t, fetch.Config{Dir: t.TempDir()}, peers)
	n.Want(wants{a})
	n.ready(a, data)
	return n, served(n)
}
