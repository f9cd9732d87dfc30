package fetch

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/filetest"
)

// turns answers each request for a content by its own handler, and all further ones by the last.
type turns struct {
	mu       sync.Mutex
	handlers []http.HandlerFunc
	ranges   []string
}

func (s *turns) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.handlers[min(len(s.ranges), len(s.handlers)-1)]
	s.ranges = append(s.ranges, r.URL.Path+" "+r.Header.Get("Range")+" "+r.Header.Get("If-Range"))
	s.mu.Unlock()
	h(rw, r)
}

// serves answers with data; without a tag nothing proves what it is.
func serves(data []byte, tag string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if tag != "" {
			rw.Header().Set("ETag", tag)
		}
		http.ServeContent(rw, r, "x.bin", time.Time{}, bytes.NewReader(data))
	}
}

// breaks ends h's answer after some bytes.
func breaks(after int, h http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) { h(&breaking{rw, after}, r) }
}

// partly answers with body, as a part of some range, and without saying its length.
func partly(of string, body []byte) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Range", of)
		rw.WriteHeader(http.StatusPartialContent)
		write(rw, body)
	}
}

func refuses(of string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Range", of)
		rw.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	}
}

// Whatever a server answers to somebody who has a part already, what is taken is right, and it ends.
func TestResumedAnswers(t *testing.T) {
	data, other := content(1, 200_000), content(2, 200_000)
	const tag = `"a"`
	whole := serves(data, tag)
	broken := breaks(70_000, whole)
	unsized := func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("ETag", tag)
		for rest := data; len(rest) > 0; rest = rest[1000:] {
			write(rw, rest[:1000])
		}
		if err := http.NewResponseController(rw).Flush(); err != nil {
			panic(err)
		}
		panic(http.ErrAbortHandler)
	}
	const anew, on = "/f  ", `/f bytes=70000- "a"`
	refetched := strings.Join([]string{anew, on, anew}, ",")
	for _, c := range []struct {
		name   string
		second http.HandlerFunc
		want   string
		first  http.HandlerFunc // nil: broken
		none   bool             // there is no checksum
	}{
		{name: "goes on", second: whole, want: anew + "," + on},
		{name: "no part", second: func(rw http.ResponseWriter, r *http.Request) { write(rw, data) },
			want: anew + "," + on},
		{name: "nothing proves it", first: breaks(70_000, serves(data, "")), second: serves(data, ""),
			want: anew + ",/f bytes=70000- "},
		{name: "nothing proves it, no checksum", first: breaks(70_000, serves(data, "")), second: serves(data, ""),
			want: anew + "," + anew, none: true},
		{name: "lies that it is the same", second: serves(other, tag), want: refetched},
		{name: "another length", second: serves(data[:100_000], tag), want: refetched},
		{name: "another part", second: partly("bytes 60000-199999/200000", data[60_000:]), want: refetched},
		{name: "more than the part", want: refetched, none: true,
			second: partly("bytes 70000-199999/200000", append(data[70_000:200_000:200_000], 1))},
		{name: "less than the part", second: partly("bytes 70000-199999/200000", data[70_000:100_000]),
			want: refetched, none: true},
		{name: "nothing there", second: refuses("bytes */50000"), want: refetched},
		{name: "all was there", first: unsized, second: refuses("bytes */200000"),
			want: anew + `,/f bytes=200000- "a"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSite(t)
				s := &turns{handlers: []http.HandlerFunc{broken, c.second, whole}}
				if c.first != nil {
					s.handlers[0] = c.first
				}
				a := named("x", artifact(sha(data), 200_000, w.put("/f", s.ServeHTTP)))
				if c.none {
					a.Verification.Checksum = ""
				}
				n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
				n.Want(wants{a})
				n.ready(a, data)
				if got := strings.Join(s.ranges, ","); got != c.want {
					t.Errorf("asked for %s, not %s", got, c.want)
				}
			})
		})
	}
}

// With a checksum another address goes on, also behind a redirect, and a wrong one among them costs little.
func TestResumeFromAnotherAddress(t *testing.T) {
	data := content(1, 200_000)
	for _, c := range []struct {
		name, want string
		second     http.HandlerFunc
	}{
		{"the same", `/one  ,/two bytes=70000- `, serves(data, `"other"`)},
		{"behind a redirect", `/one  ,/two bytes=70000- ,/three bytes=70000- `,
			func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/three", http.StatusFound) }},
		{"another content", `/one  ,/two bytes=70000- ,/two  ,/one  `, serves(content(2, 200_000), `"a"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSite(t)
				whole := serves(data, `"a"`)
				s := &turns{handlers: []http.HandlerFunc{breaks(70_000, whole), c.second, c.second, whole}}
				if c.name == "behind a redirect" {
					s.handlers[2] = whole
				}
				w.put("/three", s.ServeHTTP)
				a := artifact(sha(data), 200_000, w.put("/one", s.ServeHTTP), w.put("/two", s.ServeHTTP))
				n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
				n.Want(wants{a})
				n.ready(a, data)
				if got := strings.Join(s.ranges, ","); got != c.want {
					t.Errorf("asked for %s, not %s", got, c.want)
				}
			})
		})
	}
}

// A content that is wrong and breaks off each time is not fetched for ever at full speed.
func TestWrongInSeveralGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		s := &turns{handlers: []http.HandlerFunc{breaks(70_000, serves(content(2, 100_000), `"a"`))}}
		a := artifact(sha(content(1, 100_000)), 100_000, w.put("/f", s.ServeHTTP))
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
		n.Want(wants{a})
		n.fails(a, "has the checksum")
		time.Sleep(7 * 24 * time.Hour) // of the bubble
		if got := w.requests("/f"); got < 40 || got > 200 {
			t.Errorf("%d requests in a week", got)
		}
	})
}

// What is no file where a part should be goes, and nothing behind it is touched.
func TestPartIsNoFile(t *testing.T) {
	data := content(1, 200_000)
	for _, how := range []string{"link", "directory"} {
		for _, restarted := range []bool{true, false} {
			t.Run(fmt.Sprint(how, restarted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newSite(t)
					s := &turns{handlers: []http.HandlerFunc{breaks(70_000, serves(data, `"a"`)), serves(data, `"a"`)}}
					a := artifact(sha(data), 200_000, w.put("/f", s.ServeHTTP))
					n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
					n.Want(wants{a})
					n.await(a, "broken", func(st Status) bool { return st.Err != nil })
					if restarted {
						n.stop()
					}
					part := n.disk.partPath(n.state.Look(a).Key)
					behind := n.Dir + "/behind"
					if err := os.Rename(part, behind); err != nil {
						t.Fatal(err)
					}
					var err error
					if how == "link" {
						err = os.Symlink(behind, part)
					} else {
						err = os.MkdirAll(part+"/full/of", 0o700)
					}
					if err != nil {
						t.Fatal(err)
					}
					if restarted {
						n = start(t, Config{Dir: n.Dir, Client: w.client()})
						n.Want(wants{a})
					}
					n.ready(a, data)
					if got, err := os.ReadFile(behind); err != nil || !bytes.Equal(got, data[:70_000]) {
						t.Errorf("%d bytes, %v", len(got), err)
					}
				})
			})
		}
	}
}
