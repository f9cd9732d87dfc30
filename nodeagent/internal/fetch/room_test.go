package fetch

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// A disk that is full in the middle of a download is told, gives the space back and is tried again;
// nothing else suffers.
func TestFullDisk(t *testing.T) {
	for _, size := range []int{0, 3 << 20} {
		for _, how := range []string{"keep", "enospc"} {
			t.Run(fmt.Sprint(how, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newSite(t)
					small, large := content(1, 1000), content(2, 3<<20)
					var full atomic.Bool
					var writes atomic.Int64
					c := Config{Dir: filetest.MemoryDir(t), Client: w.client(), Keep: 1 << 20, Parallel: 1}
					c.Space = func(string) (uint64, error) {
						if full.Load() && how != "enospc" && writes.Load() > 10 {
							return 1 << 20, nil
						}
						return 100 << 20, nil
					}
					c.Steps = func(s durable.Step) error {
						if s == durable.Write && full.Load() && writes.Add(1) > 10 && how == "enospc" {
							return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
						}
						return nil
					}
					n := start(t, c)
					a, b := artifact(sha(small), 1000, w.file("/small", small)),
						artifact(sha(large), size, w.file("/large", large))
					n.Want(wants{a})
					n.ready(a, small)
					full.Store(true)
					n.Want(wants{a, b})
					st := n.await(b, "full", func(st Status) bool {
						return st.Err != nil &&
							st.Err.Code == wire.CodeStorage
					})
					if st.State == Ready || strings.Contains(files(t, n.Dir), "parts/") {
						t.Errorf("%+v\n%s", st, files(t, n.Dir))
					}
					time.Sleep(24 * time.Hour) // of the bubble
					if got := w.requests("/large"); got > 24*60+10 {
						t.Errorf("%d requests in a day", got)
					}
					n.ready(a, small)
					full.Store(false)
					n.ready(b, large)
				})
			})
		}
	}
}

// quota is a file system of a fixed size that only the store uses.
func quota(t *testing.T, dir string, bytes int64) func(string) (uint64, error) {
	return func(string) (uint64, error) {
		used := int64(0)
		for line := range strings.Lines(files(t, dir)) {
			name := strings.TrimSpace(line)
			if strings.HasSuffix(name, asJSON) || strings.Contains(name, ".tmp") {
				continue
			}
			info, err := os.Lstat(dir + "/" + name)
			if err == nil {
				used += info.Size()
			} else if !errors.Is(err, os.ErrNotExist) {
				return 0, err
			}
		}
		return uint64(max(bytes-used, 0)), nil
	}
}

// Room is reserved before a download begins, and what is cached goes when it runs short: what was
// used longest ago first, of one day the smallest.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		dir := filetest.MemoryDir(t)
		const mib = 1 << 20
		n := start(t, Config{Dir: dir, Client: w.client(), Keep: mib, Space: quota(t, dir, 11*mib)}) // 10 MiB for us
		make := func(i, mibs int) wantsOne {
			data := content(uint64(i), mibs*mib)
			a := artifact(sha(data), len(data), w.file("/"+strconv.Itoa(i), data))
			a.Cached = true
			return wantsOne{a, data}
		}
		old, small, large, fresh := make(1, 3), make(2, 1), make(3, 2), make(4, 1)
		n.Want(wants{old.Artifact})
		n.ready(old.Artifact, old.data)
		n.Want(nil)
		time.Sleep(48 * time.Hour)
		n.Want(wants{small.Artifact, large.Artifact, fresh.Artifact})
		n.ready(small.Artifact, small.data)
		n.ready(large.Artifact, large.data)
		n.ready(fresh.Artifact, fresh.data)
		n.Want(wants{fresh.Artifact})
		there := func(want string, of ...wantsOne) {
			t.Helper()
			got := ""
			for _, o := range of {
				if _, err := os.Lstat(n.where(o.Artifact)); err == nil {
					got += "x"
				} else {
					got += "-"
				}
			}
			if got != want {
				t.Errorf("there is %s, not %s", got, want)
			}
		}
		there("xxxx", old, small, large, fresh) // 7 MiB
		next := make(5, 5)                      // 3 MiB are free: the oldest must go
		n.Want(wants{fresh.Artifact, next.Artifact})
		n.ready(next.Artifact, next.data)
		there("-xxx", old, small, large, fresh)
		more := make(6, 2) // 1 MiB is free: the smaller one is enough
		n.Want(wants{fresh.Artifact, next.Artifact, more.Artifact})
		n.ready(more.Artifact, more.data)
		there("--xx", old, small, large, fresh)

		// What would not fit even so costs nobody his place.
		huge := make(7, 9)
		n.Want(wants{fresh.Artifact, next.Artifact, more.Artifact, huge.Artifact})
		if st := n.fails(huge.Artifact, "there is no room for 9437184 bytes more"); st.State != Waiting ||
			st.Err.Code != wire.CodeStorage || st.Next.IsZero() {
			t.Errorf("%+v", st)
		}
		there("--xx", old, small, large, fresh)
		n.Want(wants{huge.Artifact})
		n.ready(huge.Artifact, huge.data)

		// Two that fit one at a time only.
		n.Want(nil)
		one, two := make(8, 6), make(9, 6)
		one.Cached, two.Cached = false, false
		n.Want(wants{one.Artifact, two.Artifact})
		first := n.await(one.Artifact, "one is there", func(st Status) bool {
			return st.State == Ready ||
				n.Status(two.Artifact).State == Ready
		})
		if first.State == Ready {
			n.fails(two.Artifact, "there is no room")
			n.Want(wants{two.Artifact})
			n.ready(two.Artifact, two.data)
		} else {
			n.fails(one.Artifact, "there is no room")
		}
	})
}

type wantsOne struct {
	workload.Artifact
	data []byte
}

// A server that says nothing of the size fills no more than the room there is, and takes cached
// copies one by one.
func TestUnknownSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		dir := filetest.MemoryDir(t)
		const mib = 1 << 20
		n := start(t, Config{Dir: dir, Client: w.client(), Keep: mib, Space: quota(t, dir, 9*mib)})
		var cached wants
		for i := range 4 {
			data := content(uint64(i), mib)
			a := artifact(sha(data), mib, w.file(fmt.Sprint("/", i), data))
			a.Cached = true
			cached = append(cached, a)
		}
		n.Want(cached)
		for i, a := range cached {
			n.ready(a, content(uint64(i), mib))
		}
		data := content(10, 6*mib)
		url := w.put("/unknown", func(rw http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(data) && write(rw, data[i:i+1024]); i += 1024 {
			}
		})
		a := artifact(sha(data), 0, url)
		n.Want(wants{a})
		n.ready(a, data)
		left := 0
		for _, a := range cached {
			if _, err := os.Lstat(n.where(a)); err == nil {
				left++
			}
		}
		if left == 0 || left == len(cached) {
			t.Errorf("%d of %d cached copies are left", left, len(cached))
		}
		if free, err := n.Space(""); err != nil || free < mib || free > math.MaxInt64 {
			t.Errorf("%d bytes are free: %v", free, err)
		}
	})
}
