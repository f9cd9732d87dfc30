package fetch

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
)

// write writes as long as somebody reads.
func write(rw io.Writer, b []byte) bool {
	_, err := rw.Write(b)
	return err == nil
}

// endless writes until nobody reads any more, and counts.
func endless(count *atomic.Int64, kind string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", kind)
		for b := make([]byte, 32<<10); write(rw, b); count.Add(int64(len(b))) {
		}
	}
}

// Every way in which a server may lie or fail is bounded, told, and does not keep the next
// address from being asked.
func TestBadServers(t *testing.T) {
	data := content(1, 200_000)
	raw := func(head string, body []byte) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			c, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				panic(err)
			}
			if write(c, []byte("HTTP/1.1 200 OK\r\n"+head+"\r\n")) {
				write(c, body)
			}
			if err := c.Close(); err != nil {
				panic(err)
			}
		}
	}
	slowly := func(step time.Duration, bytes int) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Length", "200000")
			for i := 0; i+bytes <= len(data) && write(rw, data[i:i+bytes]); i += bytes {
				if err := http.NewResponseController(rw).Flush(); err != nil {
					return
				}
				select {
				case <-r.Context().Done():
					return
				case <-time.After(step):
				}
			}
		}
	}
	html := func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		write(rw, []byte("<html>please log in</html>"))
	}
	var sent atomic.Int64
	for _, c := range []struct {
		name    string
		h       http.HandlerFunc
		size    int
		unknown bool // there is no checksum
		code    wire.Code
		text    string
		within  time.Duration
	}{
		{"announces more than it sends", raw("Content-Length: 300000\r\n", data), 200_000, false, wire.CodeUnavailable,
			"ended early, after 200000 bytes", time.Minute},
		{"announces less than there is", raw("Content-Length: 100000\r\n", data), 200_000, false, wire.CodeHashMismatch,
			"has the checksum", time.Minute},
		{"announces far more than the size", raw("Content-Length: 99999999\r\n", data), 200_000, false,
			wire.CodeTooLarge, "has 99999999 bytes, and this resource may have 1448576", time.Minute},
		{"never ends", endless(&sent, "application/octet-stream"), 200_000, false, wire.CodeTooLarge,
			"correct its size", time.Minute},
		{"never ends, no size", endless(&sent, "application/octet-stream"), 0, false, wire.CodeTooLarge,
			"correct its size", time.Minute},
		{"never ends, no size, no checksum", endless(&sent, "application/octet-stream"), 0, true, wire.CodeTooLarge,
			"correct its size", time.Minute},
		{"announces a negative length", raw("Content-Length: -5\r\n", data), 200_000, false, wire.CodeUnavailable,
			"no answer", time.Minute},
		{"says nothing of the length and breaks", raw("Connection: close\r\n", data[:1000]), 200_000, true,
			wire.CodeUnavailable, "ended after 1000 of 200000 bytes", time.Minute},
		{"endless headers", raw(strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 200), data), 200_000,
			false, wire.CodeUnavailable, "no answer", time.Minute},
		{"resets", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Length", "200000")
			write(rw, data[:50_000])
			panic(http.ErrAbortHandler)
		}, 200_000, false, wire.CodeUnavailable, "after", time.Minute},
		{"one byte a second", slowly(time.Second, 1), 200_000, false, wire.CodeTimeout, "less than 1024 bytes a " +
			"second for 1m0s", 3 * time.Minute},
		{"a little every 50 s", slowly(50*time.Second, 1000), 200_000, false, wire.CodeTimeout, "less than 1024 " +
			"bytes a second for 1m0s", 3 * time.Minute},
		{"silent after the header", slowly(time.Hour, 0), 200_000, false, wire.CodeTimeout, "less than 1024 bytes a " +
			"second for 1m0s", 2 * time.Minute},
		{"silent", func(rw http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 200_000, false,
			wire.CodeTimeout, "no answer", 2 * time.Minute},
		{"redirects for ever", func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/bad?again",
				http.StatusFound)
		}, 200_000, false, wire.CodeUnavailable, "redirects more than 10 times", time.Minute},
		{"redirects to a file", func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "file:///etc/passwd", http.StatusFound)
		}, 200_000, false, wire.CodeNotAllowed, `redirects to the scheme "file"`, time.Minute},
		{"redirects with a password", func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://u:p@host.test/good", http.StatusFound)
		}, 200_000, false, wire.CodeNotAllowed, "user name", time.Minute},
		{"a web page, no checksum", html, 200_000, true, wire.CodeBadValue, "answers with a web page", time.Minute},
		{"a web page", html, 200_000, false, wire.CodeHashMismatch, "the server calls it a web page", time.Minute},
		{"a wrong checksum", func(rw http.ResponseWriter, r *http.Request) { write(rw, content(2, 200_000)) }, 200_000,
			false, wire.CodeHashMismatch, "has the checksum", time.Minute},
		{"encoded, no checksum", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			write(rw, data)
		}, 200_000, true, wire.CodeBadValue, "encoded", time.Minute},
		{"a part that nobody asked for", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Range", "bytes 5-9/10")
			rw.WriteHeader(http.StatusPartialContent)
			write(rw, data[:5])
		}, 200_000, false, wire.CodeUnavailable, "206", time.Minute},
		{"no content", func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(http.StatusNoContent) }, 200_000,
			true, wire.CodeUnavailable, "204", time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent.Store(0)
				w := newSite(t)
				bad, good := w.put("/bad", c.h), w.file("/good", data)
				a := artifact(sha(data), c.size, bad)
				if c.unknown {
					a = named("x", artifact("", c.size, bad))
				}
				n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client(), Most: 3 << 20})
				begun := time.Now()
				n.Want(wants{a})
				st := n.fails(a, c.text)
				if st.Err.Code != c.code || time.Since(begun) > c.within {
					t.Errorf("%+v after %v", st, time.Since(begun))
				}
				if strings.Contains(st.Err.Message, "again") {
					t.Errorf("a query is shown: %v", st.Err)
				}
				if n := sent.Load(); n > 4<<20 {
					t.Errorf("%d bytes were taken", n)
				}
				a.URLs = append(a.URLs, good)
				n.Want(wants{a})
				n.ready(a, data)
			})
		})
	}
}

// A content that is always wrong is fetched ever less often.
func TestNeverMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		a := artifact(sha(content(1, 10)), 1000, w.file("/wrong", content(2, 1000)))
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
		n.Want(wants{a})
		n.fails(a, "has the checksum SHA256:")
		time.Sleep(7 * 24 * time.Hour) // of the bubble
		if got := w.requests("/wrong"); got < 20 || got > 60 {
			t.Errorf("%d requests in a week", got)
		}
		if got := files(t, n.Dir); got != "" {
			t.Errorf("left:\n%s", got)
		}
	})
}

// flaky breaks after some bytes, until it has none left to break.
type flaky struct {
	mu     sync.Mutex
	data   []byte
	tag    string
	breaks int
	ranges []string
}

func (f *flaky) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranges = append(f.ranges, r.Header.Get("Range"))
	if f.tag != "" {
		rw.Header().Set("ETag", f.tag)
	}
	if f.breaks--; f.breaks >= 0 {
		http.ServeContent(&breaking{rw, 70_000}, r, "x.bin", modified, bytes.NewReader(f.data))
		return
	}
	http.ServeContent(rw, r, "x.bin", modified, bytes.NewReader(f.data))
}

type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) > b.left {
		if _, err := b.ResponseWriter.Write(p[:b.left]); err == nil {
			if err := http.NewResponseController(b.ResponseWriter).Flush(); err != nil {
				panic(err)
			}
		}
		panic(http.ErrAbortHandler)
	}
	b.left -= len(p)
	return b.ResponseWriter.Write(p)
}

func TestResume(t *testing.T) {
	data := content(1, 200_000)
	for _, c := range []struct {
		name   string
		change func(f *flaky) // after the first break
		tag    string
		sum    string
		ranges []string
	}{
		{"goes on", func(*flaky) {}, `"a"`, sha(data), []string{"", "bytes=70000-", "bytes=140000-"}},
		{"goes on by date", func(*flaky) {}, "", sha(data), []string{"", "bytes=70000-", "bytes=140000-"}},
		{"goes on without a checksum", func(*flaky) {}, `"a"`, "", []string{"", "bytes=70000-", "bytes=140000-"}},
		{"something else is there now", func(f *flaky) { f.tag = `"b"` }, `"a"`, sha(data),
			[]string{"", "bytes=70000-", "bytes=70000-"}},
		{"nothing proves that it is the same", func(*flaky) {}, `W/"a"`, sha(data), nil},
		{"something else pretends to be the same", func(f *flaky) { f.data = data }, `"a"`, sha(data),
			[]string{"", "bytes=70000-", "bytes=140000-", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSite(t)
				f := &flaky{data: data, tag: c.tag, breaks: 2}
				if strings.Contains(c.name, "pretends") {
					f.data = content(9, 200_000)
				}
				a := named("x", artifact(c.sum, 200_000, w.put("/f", f.ServeHTTP)))
				n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
				n.Want(wants{a})
				n.await(a, "broken", func(st Status) bool { return st.Err != nil })
				f.mu.Lock()
				c.change(f)
				f.mu.Unlock()
				n.ready(a, data)
				if c.ranges != nil && strings.Join(f.ranges, ",") != strings.Join(c.ranges, ",") {
					t.Errorf("asked for %q", f.ranges)
				}
			})
		})
	}
}

// A restart goes on, too, but not without a checksum: nothing would show what a power cut did.
func TestResumeAfterRestart(t *testing.T) {
	for _, summed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newSite(t)
			data := content(1, 200_000)
			f := &flaky{data: data, tag: `"a"`, breaks: 1}
			a := named("x", artifact("", 200_000, w.put("/f", f.ServeHTTP)))
			second := ""
			if summed {
				a.Verification.Checksum = sha(data)
				second = "bytes=70000-"
			}
			n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
			n.Want(wants{a})
			n.await(a, "broken", func(st Status) bool { return st.Err != nil })
			n.stop()
			n = start(t, Config{Dir: n.Dir, Client: w.client()})
			n.Want(wants{a})
			n.ready(a, data)
			if len(f.ranges) != 2 || f.ranges[1] != second {
				t.Errorf("checksum %v: asked for %q", summed, f.ranges)
			}
		})
	}
}
