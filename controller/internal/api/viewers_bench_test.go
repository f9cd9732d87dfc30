package api_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// tenThousand is a unit of 10,000 nodes that are connected.
func tenThousand(tb testing.TB) (*apitest.Rig, *api.API) {
	tb.Helper()
	u := apitest.Start(tb)
	each(func(node string) { u.Connect(node, true) })
	return u, api.New(u, api.Config{Tokens: keys, MaxStreams: 256})
}

const largeNodes = 10_000

// each does something for each node, for many at once: they share the commits.
func each(do func(node string)) {
	var wg sync.WaitGroup
	for part := range 200 {
		wg.Go(func() {
			for i := part; i < largeNodes; i += 200 {
				do(fmt.Sprintf("node-%05d", i))
			}
		})
	}
	wg.Wait()
}

// used is the time that the processors have worked for the process.
func used(tb testing.TB) time.Duration {
	tb.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// reader is a caller who takes what comes, and does not look at it.
type reader struct {
	*httptest.ResponseRecorder
	stuck chan struct{} // not nil: it does not take anything until this is closed
}

func (r *reader) Write(b []byte) (int, error) {
	if r.stuck != nil {
		<-r.stuck
	}
	return len(b), nil
}

func (r *reader) Flush() {}

// readBy has readers follow a path until the returned function is called.
func readBy(h http.Handler, path string, readers ...*reader) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, r := range readers {
		req := httptest.NewRequestWithContext(ctx, "GET", path, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		r.ResponseRecorder = httptest.NewRecorder()
		wg.Go(func() { h.ServeHTTP(r, req) })
	}
	return func() { cancel(); wg.Wait() }
}

// BenchmarkViewers: what an apply to 10,000 nodes costs the processors without viewers, with a hundred, and with as
// many who do not read. There is no broker in it: tandem-bench viewers measures with one, and has the bound.
func BenchmarkViewers(b *testing.B) {
	u, h := tenThousand(b)
	version := 0
	apply := func() time.Duration {
		runtime.GC()
		before := used(b)
		version++
		u.Submit(view.Submission{Document: apitest.Document(fmt.Sprintf("1.%d.0", version)), Offline: true})
		for _, state := range []wire.State{wire.StateReceived, wire.StateApplying, wire.StateInstalled} {
			each(func(node string) { u.Report(node, wire.KindConfig, state, nil, nil) })
		}
		return used(b) - before
	}
	best := func() time.Duration { return min(apply(), apply(), apply()) }
	apply()
	for b.Loop() {
		alone := best()
		var readers []*reader
		for range 50 {
			readers = append(readers, &reader{}, &reader{})
		}
		leave := readBy(h, "/v1/live", readers...)
		watched := best()
		leave()
		stuck := make(chan struct{})
		for i := range readers {
			readers[i] = &reader{stuck: stuck}
		}
		leave = readBy(h, "/v1/live", readers...)
		blocked := best()
		close(stuck)
		leave()
		b.Logf("an apply: %s alone, %s with 100 viewers, %s with 100 that do not read", alone, watched, blocked)
		b.ReportMetric(float64(watched)/float64(alone), "watched/alone")
		b.ReportMetric(float64(blocked)/float64(alone), "blocked/alone")
	}
}

// BenchmarkFilteredNodes: a list of 10,000 nodes with a filter that selects few of them.
func BenchmarkFilteredNodes(b *testing.B) {
	_, h := tenThousand(b)
	for b.Loop() {
		if w := call(h, "GET", "/v1/nodes?q=state:unconfigured+name:node-0000%3F+-type:press", ""); w.Code != 200 {
			b.Fatal(w.Body)
		} else if n := bytes.Count(w.Body.Bytes(), []byte(`"node":`)); n != 10 {
			b.Fatal(n)
		}
	}
}

// heap is what is in use, without what pools keep for whoever comes next.
func heap() int64 {
	runtime.GC()
	runtime.GC() // a pool gives up what it has at the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkViewersMemory: what ten viewers, a watcher and a hundred listings make the process hold, and whether it is
// given back.
func BenchmarkViewersMemory(b *testing.B) {
	_, h := tenThousand(b)
	for b.Loop() {
		before := heap()
		readers := make([]*reader, 10)
		for i := range readers {
			readers[i] = &reader{}
		}
		leave, watcher := readBy(h, "/v1/live", readers...), &reader{}
		unwatch := readBy(h, "/v1/nodes?watch=1", watcher)
		peak, done := int64(0), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(20 * time.Millisecond):
					peak = max(peak, heap())
				}
			}
		})
		for range 100 {
			readBy(h, "/v1/nodes", &reader{})()
		}
		held := heap()
		close(done)
		wg.Wait()
		leave()
		unwatch()
		after := heap()
		const mib = 1 << 20
		b.Logf("held beside them: %d MiB, at most %d MiB; %d MiB stay",
			(held-before)/mib, (peak-before)/mib, (after-before)/mib)
		b.ReportMetric(float64(held-before)/mib, "MiB")
		b.ReportMetric(float64(peak-before)/mib, "MiB-peak")
	}
}
