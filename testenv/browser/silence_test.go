package browser

import (
	"io"
	"net"
	"sync"
	"testing"
)

// cable is a line to an address that can be cut: what is sent then neither arrives nor fails.
type cable struct {
	mu  sync.Mutex
	cut bool
	ok  *sync.Cond
}

// newCable returns a line and the address of its near end.
func newCable(t *testing.T, to string) (*cable, string) {
	t.Helper()
	c := &cable{}
	c.ok = sync.NewCond(&c.mu)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var open []net.Conn
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				_ = near.Close() // its end is seen by who asked
				continue
			}
			c.mu.Lock()
			open = append(open, near, far)
			c.mu.Unlock()
			all.Go(func() { c.copy(far, near) })
			all.Go(func() { c.copy(near, far) })
		}
	})
	t.Cleanup(func() {
		c.set(false)
		_ = l.Close() // ends the loop
		c.mu.Lock()
		for _, conn := range open {
			_ = conn.Close() // ends its copy
		}
		c.mu.Unlock()
		all.Wait()
	})
	return c, l.Addr().String()
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	c.ok.Broadcast()
}

func (c *cable) copy(to, from net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		c.mu.Lock()
		for c.cut {
			c.ok.Wait()
		}
		c.mu.Unlock()
		if _, e := to.Write(b[:n]); e != nil || err != nil {
			if err == io.EOF || err == nil {
				_ = to.Close() // the other side sees it
			}
			return
		}
	}
}

// TestSilence: a page to which nothing comes any more says so, though its connection has not failed, and goes on when
// the line is back.
func TestSilence(t *testing.T) {
	r := newRig(t, 4)
	ctx, _ := chromium(t)
	line, address := newCable(t, r.url[len("http://"):])
	r.url = "http://" + address
	page(t, ctx, r, "view", "#/fleet", "Live")
	line.set(true)
	eval[int](t, ctx, `import("/app/api.mjs").then((m) => m.limits.silence = 1)`)
	has(t, ctx, "NOT LIVE: nothing comes from the controller")
	eval[int](t, ctx, `import("/app/api.mjs").then((m) => m.limits.silence = 45000)`)
	line.set(false)
	until(t, ctx, `document.querySelector(".live").innerText === "Live"`)
}
