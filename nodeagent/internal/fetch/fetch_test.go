package fetch

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

type wants = []workload.Artifact

func TestFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		one, two, three := content(1, 300_000), content(2, 10), content(3, 0)
		a, b, c := artifact(sha(one), 300_000, w.file("/one", one)), artifact(md(two), 0, w.file("/two", two)),
			named("x", artifact("EMPTY:", 5, w.file("/three", three)))
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
		n.Want(wants{a, b, c})
		n.ready(a, one)
		n.ready(b, two)
		n.ready(c, three)
		info, err := os.Lstat(n.Dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v %v", info, err)
		}

		// What nobody wants is removed, with everything about it.
		n.Want(nil)
		synctest.Wait()
		if got := files(t, n.Dir); got != "" {
			t.Errorf("files:\n%s", got)
		}
		if st := n.Status(a); st.State != Waiting || st.Path != "" {
			t.Errorf("%+v", st)
		}
	})
}

// Whatever a uuid or a URL says, it names nothing on the disk.
func TestNamesStayInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		root := filetest.MemoryDir(t)
		var all wants
		for i, uuid := range []string{"../../escape", "/etc/passwd", "..", ".", "copies/x",
			strings.Repeat("long/", 800), "a\x00b", "uuid:x", "sha256:" + strings.Repeat("0", 64)} {
			data := content(uint64(i), 100)
			path := fmt.Sprintf("/%d/../..%%2f..%%2fescape", i)
			w.file(strings.ReplaceAll(path, "%2f", "/"), data)
			all = append(all, named(uuid, artifact("", 0, w.file(fmt.Sprint("/", i), data), "http://host.test"+path)))
		}
		n := start(t, Config{Dir: filepath.Join(root, "store"), Client: w.client()})
		n.Want(all)
		seen := map[string]bool{}
		for i, a := range all {
			st := n.ready(a, content(uint64(i), 100))
			if filepath.Dir(st.Path) != filepath.Join(root, "store", "copies") || seen[st.Path] {
				t.Errorf("%q is at %s", a.UUID, st.Path)
			}
			seen[st.Path] = true
		}
		for line := range strings.Lines(files(t, root)) {
			if !strings.HasPrefix(line, "store/copies/") {
				t.Errorf("there is %s", line)
			}
		}
	})
}

// What is the same is fetched once and kept once, and has the addresses of all.
func TestOneCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		data, other := content(1, 1000), content(2, 1000)
		good := w.file("/good", data)
		summed := artifact(sha(data), 1000, "http://host.test/none")
		alike := named("u", artifact(strings.ToUpper(sha(data)[:7])+strings.ToUpper(sha(data)[7:]), 10, good))
		nameOnly := named("u", artifact("", 0, "http://host.test/none2"))
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
		n.Want(wants{nameOnly, summed, alike})
		one := n.ready(summed, data).Path
		if n.ready(alike, data).Path != one || n.ready(nameOnly, data).Path != one || w.requests("/good") != 1 {
			t.Errorf("several copies, or %d requests", w.requests("/good"))
		}
		if got := strings.Count(files(t, n.Dir), "\n"); got != 2 {
			t.Errorf("files:\n%s", files(t, n.Dir))
		}

		// The uuid alone goes on meaning the copy that it meant, also after a restart.
		n.Want(wants{nameOnly})
		if st := n.ready(nameOnly, data); st.Path != one {
			t.Errorf("it is at %s now", st.Path)
		}
		n.stop()
		asked := w.requests("/none2")
		n = start(t, Config{Dir: n.Dir, Client: w.client()})
		n.Want(wants{nameOnly})
		if st := n.ready(nameOnly, data); st.Path != one || w.requests("/none2") != asked {
			t.Errorf("it is at %s now, after %d requests", st.Path, w.requests("/none2"))
		}

		// Two contents of one uuid are kept apart, and told.
		rival := named("u", artifact(sha(other), 0, w.file("/other", other)))
		n.Want(wants{alike, rival})
		for a, want := range map[*workload.Artifact]string{&alike: string(data), &rival: string(other)} {
			st := n.await(*a, "ready", func(st Status) bool { return st.State == Ready })
			got, err := os.ReadFile(st.Path)
			if err != nil || string(got) != want || st.Err == nil || st.Err.Code != wire.CodeDuplicate {
				t.Errorf("%+v %v", st, err)
			}
		}
		third := named("v", artifact(sha(content(3, 10)), 0, w.file("/3", content(3, 10))))
		fourth := named("v", artifact(sha(content(4, 10)), 0, w.file("/4", content(4, 10))))
		unclear := named("v", artifact("", 0, w.file("/5", content(5, 10))))
		n.Want(wants{third, fourth, unclear})
		n.await(third, "ready", func(st Status) bool { return st.State == Ready })
		if st := n.fails(unclear, "several contents"); st.State != Failed || w.requests("/5") != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAddressesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		data := content(1, 1000)
		gone := w.put("/gone", http.NotFound)
		cut := w.put("/cut", func(rw http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
		no := w.put("/no", func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(http.StatusForbidden) })
		var late atomic.Bool
		end := w.put("/end", func(rw http.ResponseWriter, r *http.Request) {
			if !late.Load() {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			if _, err := rw.Write(data); err != nil {
				t.Error(err)
			}
		})
		a := artifact(sha(data), 1000, gone, cut, no, end, "rbtorrent:00", "ftp://host.test/x")
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
		n.Want(wants{a})
		st := n.await(a, "all have failed", func(st Status) bool {
			return st.State == Failed &&
				w.requests("/end") > 0 && !st.Next.IsZero()
		})
		if st.Err == nil || st.Next.Before(time.Now()) {
			t.Errorf("%+v", st)
		}
		begun := time.Now()
		time.Sleep(24 * time.Hour) // of the bubble
		for _, p := range []string{"/gone", "/cut", "/no", "/end"} {
			if got := w.requests(p); got < 100 || got > 200 { // ten minutes apart, once they are
				t.Errorf("%s: %d requests in %v", p, got, time.Since(begun))
			}
		}
		late.Store(true)
		n.ready(a, data)
	})
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		one, two := content(1, 1<<20), content(2, 1<<20)
		a, b := artifact(sha(one), 1<<20, w.file("/one", one)), artifact(sha(two), 1<<20, w.file("/two", two))
		// Slower than what is too slow of a server: the limit is not the server's fault.
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client(), Rate: 10_000, Slow: 20_000,
			Patience: 5 * time.Second})
		begun := time.Now()
		n.Want(wants{a, b})
		n.await(a, "progress", func(st Status) bool {
			return st.State == Fetching && st.Done > 200_000 && st.Done < st.Size && st.Size == 1<<20 &&
				st.URL == a.URLs[0]
		})
		n.ready(a, one)
		n.ready(b, two)
		if took := time.Since(begun).Seconds(); took < 2*(1<<20)/10_000.0-2*burst/10_000.0 || took > 2*(1<<20)/10_000.0+
			20 {
			t.Errorf("it took %v s", took)
		}
		if w.requests("/one")+w.requests("/two") != 2 {
			t.Error("it was given up")
		}
	})
}

// What is not wanted any more ends in the middle, and leaves nothing.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		data := content(1, 1<<20)
		a := artifact(sha(data), 1<<20, w.file("/one", data))
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client(), Rate: 100_000})
		for range 2 {
			n.Want(wants{a})
			n.await(a, "progress", func(st Status) bool { return st.Done > 300_000 })
			n.Want(nil)
			synctest.Wait()
			if got := files(t, n.Dir); got != "" {
				t.Errorf("files:\n%s", got)
			}
		}
		n.Want(wants{a})
		n.await(a, "progress", func(st Status) bool { return st.Done > 300_000 })
		n.Want(nil)
		n.Want(wants{a})
		n.ready(a, data)
	})
}

// TestMixedAddresses: without BitTorrent its addresses are passed over; what has no others says so.
func TestMixedAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, data := newSite(t), content(1, 1000)
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
		a := artifact(sha(data), len(data), "rbtorrent:0123456789012345678901234567890123456789", w.file("/x", data),
			"magnet:?xt=urn:btih:0123456789012345678901234567890123456789")
		n.Want(wants{a})
		n.await(a, "ready at the first attempt", func(st Status) bool {
			if st.Err != nil {
				t.Fatalf("%+v", st)
			}
			return st.State == Ready
		})
		if slices.Contains(a.URLs, "") || a.URLs[0] == a.URLs[1] {
			t.Errorf("the caller's list is changed: %q", a.URLs)
		}
	})
}

func TestWithoutBitTorrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, Config{Dir: filetest.MemoryDir(t)})
		a := artifact(sha(nil), 0, "rbtorrent:0123456789012345678901234567890123456789")
		n.Want(wants{a})
		st := n.fails(a, "built without BitTorrent: use an http or https URL, or the full agent")
		if st.Err.Code != wire.CodeNotSupported || st.State != Failed {
			t.Errorf("%+v", st)
		}
	})
}
