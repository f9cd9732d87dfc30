package browser

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"
)

// What is allowed with 10,000 nodes to others than a page.
const (
	filterTakes = 100 * time.Millisecond // the nodes of a filter
	scrapeTakes = 50 * time.Millisecond
	viewersHold = 60 << 20 // bytes: ten tabs, a watcher and a hundred listings that nobody reads
	givenBack   = 8 << 20  // bytes that may be left of it
	settles     = 1 << 20  // bytes that may come or go in a second when nothing is going on
)

// TestTenThousandAsked takes the times of a filter and of a scrape, and the memory of many viewers, with -ship.
func TestTenThousandAsked(t *testing.T) {
	if !*ship {
		t.Skip("it takes a minute: -ship")
	}
	r := newRig(t, manyNodes)
	r.median("a filter", "/v1/nodes?q=state:in-step+type:mill+name:node-00*", 200, filterTakes)
	r.median("a filter of all", "/v1/nodes?q=state:in-step&limit=1000", 100_000, filterTakes)
	r.median("a scrape", "/metrics", 5000, scrapeTakes)

	r.reader("/v1/live", true)() // the table of nodes is there, and stays for a minute
	r.apply("1.5.0", 2)          // as with viewers
	before := r.settled()
	var ends []func()
	for range 10 {
		ends = append(ends, r.reader("/v1/live", true))
	}
	ends = append(ends, r.reader("/v1/nodes?watch=1", true))
	for range 100 {
		ends = append(ends, r.reader("/v1/nodes", false))
	}
	r.apply("2.0.0", 3)
	held := r.settled() - before
	for _, end := range ends {
		end()
	}
	left := r.settled() - before
	t.Logf("ten tabs, a watcher and a hundred listings hold %.1f MB (%d); %.1f MB are left of it", float64(held)/1e6,
		viewersHold/1_000_000, float64(left)/1e6)
	if held > viewersHold || left > givenBack {
		t.Error("that is too much")
	}
}

// median reports how long an answer of at least some bytes takes to come whole.
func (r *rig) median(what, path string, least int64, most time.Duration) {
	r.t.Helper()
	var took []time.Duration
	for range 15 {
		began := time.Now()
		res := r.get(r.ctx, path)
		n, err := io.Copy(io.Discard, res.Body)
		took = append(took, time.Since(began))
		if err != nil || res.StatusCode != http.StatusOK || n < least {
			r.t.Fatalf("%s: %d, %d bytes, %v", path, res.StatusCode, n, err)
		}
		if err := res.Body.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
	slices.Sort(took)
	report(r.t, what+", the median of 15", took[len(took)/2], most)
}

// reader asks, and reads what comes or, but for the head, nothing, until it is ended.
func (r *rig) reader(path string, reads bool) (end func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	res := r.get(ctx, path)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if reads {
			_, _ = io.Copy(io.Discard, bufio.NewReader(res.Body)) // it ends with the context
		} else {
			<-ctx.Done()
		}
	}()
	return func() {
		cancel()
		<-done
		_ = res.Body.Close() // it was cut off
	}
}

func (r *rig) get(ctx context.Context, path string) *http.Response {
	r.t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true,
		ReadBufferSize: 1 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", r.socket)
		}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://tandem"+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// settled is what is in use when that does not change any more: for some seconds an apply is still being sent, looked
// at and acknowledged.
func (r *rig) settled() int64 {
	r.t.Helper()
	for was := inUse(); ; {
		select {
		case <-time.After(time.Second):
		case <-r.ctx.Done():
			r.t.Fatal("memory does not settle")
		}
		now := inUse()
		if d := now - was; -settles < d && d < settles {
			return now
		}
		was = now
	}
}

// inUse is the memory that is in use once what is not needed was thrown away, with stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
