package duty

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem.internal/shared/workload"
	"tandem.internal/testenv/proc"
)

// tap serves one content, without ETag and date, and holds each download where it is told to.
type tap struct {
	data []byte

	mu     sync.Mutex
	hold   int64 // bytes of the content after which a download stands still
	served int64 // bytes of bodies
	ranges []string
}

func (p *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.ranges = append(p.ranges, r.Header.Get("Range"))
	p.mu.Unlock()
	http.ServeContent(&dripping{w, r, p, 0}, r, "x.bin", time.Time{}, bytes.NewReader(p.data))
}

// dripping counts a body, and stands still at the tap's hold.
type dripping struct {
	http.ResponseWriter
	r    *http.Request
	tap  *tap
	from int64
}

func (d *dripping) WriteHeader(status int) {
	if status == http.StatusPartialContent {
		if _, err := fmt.Sscanf(d.Header().Get("Content-Range"), "bytes %d-", &d.from); err != nil {
			panic(err)
		}
	}
	d.ResponseWriter.WriteHeader(status)
}

func (d *dripping) Write(b []byte) (int, error) {
	d.tap.mu.Lock()
	room := d.tap.hold - d.from
	d.tap.mu.Unlock()
	n, err := d.ResponseWriter.Write(b[:min(int64(len(b)), max(room, 0))])
	d.from += int64(n)
	d.tap.mu.Lock()
	d.tap.served += int64(n)
	d.tap.mu.Unlock()
	if err != nil || n == len(b) {
		return n, err
	}
	if err := http.NewResponseController(d.ResponseWriter).Flush(); err != nil {
		return n, err
	}
	<-d.r.Context().Done()
	return n, d.r.Context().Err()
}

// A download goes on where it was when its agent was killed, and no byte is sent twice.
func TestKilledDownload(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.node("n1")
	text := s.start("one") + "# " + strings.Repeat("x", 3<<20) + "\n"
	p := &tap{data: []byte(text)}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	hook := strings.ReplaceAll(s.artifact("Resource", "start", text), s.server.URL, server.URL)
	offsets := []int64{1, 70_000, 1 << 20, 1<<20 + 1, 3 << 20}
	for i, at := range offsets {
		p.mu.Lock()
		p.hold = at
		p.mu.Unlock()
		if i == 0 {
			s.apply("1.0.0", instance("Instance", "web@n1", `"port":"1"`, named(workload.HookStart, hook)))
		} else {
			s.node("n1")
		}
		proc.Until(t, fmt.Sprintf("%d bytes have come", at), func() string {
			all, err := filepath.Glob(filepath.Join(s.StateDir("n1"), "resources", "parts", "*[0-9a-f]"))
			if err != nil || len(all) != 1 {
				return fmt.Sprint(all, err)
			}
			if info, err := os.Stat(all[0]); err != nil || info.Size() < at {
				return fmt.Sprint(info, err)
			}
			return ""
		})
		s.Nodes["n1"].Kill()
	}
	p.mu.Lock()
	p.hold = int64(len(text))
	p.mu.Unlock()
	s.node("n1")
	s.awaitSettled("web@n1")
	if p.served != int64(len(text)) {
		t.Errorf("%d bytes were sent of a content of %d: %q", p.served, len(text), p.ranges)
	}
	s.emptied("n1")
}
