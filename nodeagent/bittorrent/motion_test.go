package bittorrent

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/fetch"
)

// A torrent of which nothing comes is begun anew after 10 s, then after 20; one that moves, however slowly, is not.
func TestMotion(t *testing.T) {
	const kib = 1024
	at := func(seconds int) time.Time { return time.Unix(1000, 0).Add(time.Duration(seconds) * time.Second) }
	for _, c := range []struct {
		name  string
		moved func(second int) int64
		came  int64 // a second
		want  map[int]verdict
	}{
		{"nothing", func(int) int64 { return 7 }, 0, map[int]verdict{10: stands, 31: stands, 60: tooSlow}},
		{"a byte every 9 s, content fast enough", func(s int) int64 { return int64(s / 9) }, kib, nil},
		{"bytes without content", func(s int) int64 { return int64(s) }, 0, map[int]verdict{60: tooSlow}},
		{"half a minute, then nothing", func(s int) int64 { return int64(min(s, 30)) }, kib,
			map[int]verdict{40: stands, 61: stands}},
	} {
		m := &motion{slow: kib, patience: time.Minute, still: stillAfter}
		for s := range 65 {
			if got := m.look(at(s), c.moved(s), c.came); got != c.want[s] {
				t.Errorf("%s: %v at %d s, not %v", c.name, got, s, c.want[s])
			}
			if c.want[s] == tooSlow {
				break
			}
		}
	}
}

// relay leads to another address. Of its first connection no more comes back than some bytes.
type relay struct {
	net.Listener
	to   string
	most int64
	all  sync.WaitGroup

	accepted atomic.Int64
	back     atomic.Int64 // bytes
}

func newRelay(t *testing.T, to string, most int64) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to, most: most}
	r.all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return // closed
			}
			limited := r.accepted.Add(1) == 1
			r.all.Go(func() { r.lead(t, near, limited) })
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		r.all.Wait()
	})
	return r
}

// lead copies both ways until the near end closes. What it cannot copy is not there any more.
func (r *relay) lead(t *testing.T, near net.Conn, limited bool) {
	far, err := net.Dial("tcp", r.to)
	if err != nil {
		t.Error(err)
		return
	}
	r.all.Go(func() {
		var from io.Reader = far
		if limited {
			from = io.LimitReader(far, r.most)
		}
		n, _ := io.Copy(near, from)
		r.back.Add(n)
	})
	_, _ = io.Copy(far, near)
	_, _ = near.Close(), far.Close()
}

// A node that is connected and says nothing any more is left soon, and what has come of its pieces stays.
func TestStillTorrentBeginsAnew(t *testing.T) {
	data := content(7, 6<<20)
	_, one := serving(t, data, fetch.Peers{Allow: []string{"127.0.0.1"}})
	r := newRelay(t, one, 4<<20)
	n := begin(t, fetch.Config{Dir: t.TempDir()}, fetch.Peers{Addresses: []string{r.Addr().String()}})
	n.swarm.still = 2 * time.Second
	a := artifact(sha(data), len(data), plainURL(t, data))
	n.Want(wants{a})
	st := n.await(a, "ready or failed", func(st fetch.Status) bool { return st.State == fetch.Ready || st.Err != nil })
	if st.State != fetch.Ready || r.accepted.Load() < 2 {
		t.Fatalf("%+v by %d connections", st, r.accepted.Load())
	}
	n.stop()
	if got := r.back.Load(); got > 8<<20 {
		t.Errorf("%d bytes came for a content of %d", got, len(data))
	}
}
