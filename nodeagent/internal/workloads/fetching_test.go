package workloads

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// server is an HTTP server in memory, whose answers change.
type server struct {
	conns chan net.Conn
	done  chan struct{}

	mu       sync.Mutex
	pages    map[string]http.HandlerFunc
	requests map[string]int
}

func (s *server) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *server) Close() error   { close(s.done); return nil }
func (s *server) Addr() net.Addr { return &net.UnixAddr{Name: "server"} }

func (s *server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests[r.URL.Path]++
	page := s.pages[r.URL.Path]
	s.mu.Unlock()
	page(rw, r)
}

func (s *server) put(path string, page http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = page
}

func (s *server) asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[path]
}

// serve serves until end is called.
func serve(t *testing.T) (s *server, client *http.Client, end func()) {
	s = &server{conns: make(chan net.Conn), done: make(chan struct{}), pages: map[string]http.HandlerFunc{},
		requests: map[string]int{}}
	h := &http.Server{Handler: s}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(s) }()
	tr := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	client = &http.Client{Transport: tr}
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		mine, its := net.Pipe()
		select {
		case s.conns <- its:
			return mine, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s, client, func() {
		tr.CloseIdleConnections()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}

func sound(data []byte) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		http.ServeContent(rw, r, "x.bin", time.Time{}, bytes.NewReader(data))
	}
}

// store is a fetch.Store as the manager wants it.
type store struct{ *fetch.Store }

func (store) Free(string) {}

func (s store) Use(_ context.Context, _ string, all map[string]workload.Artifact) (map[string]string, error) {
	return pathsOf(s, all), nil
}

func (store) Used(string, map[string]workload.Artifact) {}
func (store) Outdated(string) string                    { return "" }

func (s store) Look(a workload.Artifact) Resource {
	st := s.Status(a)
	r := Resource{State: string(st.State), Path: st.Path, Done: st.Done, Size: st.Size, Err: st.Err,
		Next: st.Next}
	if st.State == fetch.Ready {
		r.State = ""
	}
	return r
}

// fetched is a configuration of one resource that is to be fetched.
func fetched(id, path string, data []byte) []workload.Config {
	sum := sha256.Sum256(data)
	return []workload.Config{{Class: workload.Instance, ConfigurationID: id,
		Slot: workload.Slot{Service: "web", Node: "n1"}, Resources: map[string]workload.Artifact{
			workload.HookStart: {Class: workload.Resource, URLs: []string{"http://host.test" + path},
				Size:         int64(len(data)),
				Verification: workload.Verification{Checksum: "SHA256:" + hex.EncodeToString(sum[:])}}}}}
}

// on is how many bytes the store has on the disk.
func on(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

// Whatever keeps the resource of a new version from coming, a full disk or a bad server: the attempts and what they
// leave on the disk are bounded, the node tells of the trouble, and the old version keeps running as if nothing
// were. When the trouble is over, the new one takes its place.
func TestTroubleWithFetching(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	length := func(rw http.ResponseWriter) { rw.Header().Set("Content-Length", "320000") }
	for name, c := range map[string]struct {
		page http.HandlerFunc // nil: sound
		disk string           // what is wrong with it
		code wire.Code
		most int // attempts in six hours
	}{
		"full in the middle": {disk: "full", code: wire.CodeStorage, most: 60},
		"no room":            {disk: "room", code: wire.CodeStorage, most: 0},
		"ends early": {code: wire.CodeUnavailable, most: 60, page: func(rw http.ResponseWriter, _ *http.Request) {
			length(rw)
			_, _ = rw.Write(data[:100_000])
			panic(http.ErrAbortHandler)
		}},
		"resets": {code: wire.CodeUnavailable, most: 60, page: func(rw http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler)
		}},
		"sends more than it said": {code: wire.CodeTooLarge, most: 15,
			page: func(rw http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					if _, err := rw.Write(data); err != nil {
						return
					}
				}
			}},
		"one byte a second": {code: wire.CodeTimeout, most: 60, page: func(rw http.ResponseWriter, r *http.Request) {
			length(rw)
			for i := range data {
				if _, err := rw.Write(data[i : i+1]); err != nil || http.NewResponseController(rw).Flush() != nil {
					return
				}
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
					return
				}
			}
		}},
		"never matches": {code: wire.CodeHashMismatch, most: 15, page: sound(bytes.ToUpper(data))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, client, end := serve(t)
				w := newWorld(t)
				dir := filepath.Join(w.dir, "resources")
				trouble, written := false, 0 // of the disk
				var mu sync.Mutex
				files, err := fetch.Open(fetch.Config{Dir: dir, Client: client, Keep: 1 << 20,
					Chance: func() float64 { return 0 },
					Space: func(string) (uint64, error) {
						mu.Lock()
						defer mu.Unlock()
						if trouble && c.disk == "room" {
							return 1<<20 + 100_000, nil
						}
						return 100 << 20, nil
					},
					Steps: func(step durable.Step) error {
						mu.Lock()
						defer mu.Unlock()
						if trouble && c.disk == "full" && step == durable.Write {
							if written++; written%8 > 3 { // after some that went well
								return &os.PathError{Op: "write", Path: "part", Err: syscall.ENOSPC}
							}
						}
						return nil
					}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ran := make(chan error, 1)
				go func() { ran <- files.Run(ctx) }()
				w.fetches = store{files}
				a := w.agent()
				defer func() {
					a.end()
					cancel()
					if err := <-ran; err != nil {
						t.Error(err)
					}
					end()
				}()
				s.put("/one", sound(data[:1000]))
				a.Manager.Want(fetched("one", "/one", data[:1000]))
				settled(time.Minute)
				w.only(map[string]string{"web": "one"})

				mu.Lock()
				trouble = true
				mu.Unlock()
				if c.page == nil {
					c.page = sound(data)
				}
				s.put("/two", c.page)
				a.Manager.Want(fetched("two", "/two", data))
				settled(6 * time.Hour)
				r := a.world.report().Slots[0]
				if r.State != wire.WorkloadRunning || r.ID != "one" || r.Wanted != "two" || r.Doing != "fetch" ||
					r.Restarts != 0 {
					t.Errorf("told of the slot: %+v", r)
				}
				if r.Error == nil || r.Error.Code != c.code || len(r.Resources) != 1 || r.Resources[0].Error == nil ||
					r.Resources[0].Name != workload.HookStart || r.Resources[0].Next.IsZero() {
					t.Errorf("told of the trouble: %v, %+v; want %s", r.Error, r.Resources, c.code)
				}
				if got := w.hooks("web"); got != "start" {
					t.Errorf("the old version was touched: %s", got)
				}
				if n := s.asked("/two"); n > c.most || n < min(2, c.most) {
					t.Errorf("asked %d times in six hours, and %d are bound to be enough", n, c.most)
				}
				if n := on(t, dir); n > 2<<20 {
					t.Errorf("%d bytes are on the disk", n)
				}

				mu.Lock()
				trouble = false
				mu.Unlock()
				s.put("/two", sound(data))
				settled(7 * time.Hour)
				w.only(map[string]string{"web": "two"})
				if r := a.world.report().Slots[0]; r.Error != nil || r.Wanted != "" || r.Doing != "" {
					t.Errorf("after the trouble: %+v", r)
				}
			})
		})
	}
}
