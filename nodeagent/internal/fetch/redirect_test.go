package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/wire"
)

// A redirect is followed, and whoever it leads to does not hear where it came from.
func TestRedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		data := content(1, 1000)
		w.file("/good", data)
		var mu sync.Mutex
		var headers []http.Header
		w.put("/end", func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			headers = append(headers, r.Header.Clone())
			mu.Unlock()
			w.pages["/good"](rw, r)
		})
		a := artifact(sha(data), 1000, w.put("/begin", func(rw http.ResponseWriter, r *http.Request) {
			http.SetCookie(rw, &http.Cookie{Name: "a", Value: "b"})
			http.Redirect(rw, r, "http://other.test/end?x=1", http.StatusTemporaryRedirect)
		})+"?token=secret")
		n := start(t, Config{Dir: filetest.MemoryDir(t), Client: w.client()})
		n.Want(wants{a})
		n.ready(a, data)
		mu.Lock()
		defer mu.Unlock()
		if len(headers) != 1 {
			t.Fatalf("%d requests", len(headers))
		}
		for k, v := range headers[0] {
			if strings.Contains(strings.Join(v, " "), "secret") || k == "Cookie" || k == "Authorization" ||
				k == "Referer" {
				t.Errorf("%s: %v", k, v)
			}
		}
	})
}

func TestRedirectRules(t *testing.T) {
	for _, c := range []struct {
		from, to string
		hops     int
		text     string
	}{
		{"http://h/", "https://h/", 1, ""},
		{"https://h/", "https://other/", 10, ""},
		{"https://h/", "https://h/", 11, "more than 10"},
		{"https://h/", "http://h/", 1, "from https to http"},
		{"http://h/", "ftp://h/", 1, `scheme "ftp"`},
		{"http://h/", "http://u@h/", 1, "user name"},
	} {
		req := func(s string) *http.Request {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			return &http.Request{URL: u, Header: http.Header{}}
		}
		var via []*http.Request
		for range c.hops {
			via = append(via, req(c.from))
		}
		err := redirect(req(c.to), via)
		if (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}

// Errors and logs show an address without what may be secret in it.
func TestShown(t *testing.T) {
	for in, want := range map[string]string{
		"http://h/a?token=x#y":     "http://h/a?%E2%80%A6",
		"https://h/a":              "https://h/a",
		"http://u:p@h/a":           "http://h/a",
		"rbtorrent:00":             "rbtorrent:00",
		"://":                      "the URL",
		"magnet:?xt=urn:btih:0011": "magnet:?xt=urn:btih:0011",
	} {
		if got := shown(in); strings.ReplaceAll(got, "…", "%E2%80%A6") != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	if got := shown("http://h/" + strings.Repeat("x", 5000)); len(got) > 210 {
		t.Errorf("%d bytes", len(got))
	}
}

// A server does not lead the node to what listens on the node itself, or on its link, by whatever name or
// form of address. Where the resource's own address is there, that is what was wanted.
func TestRedirectToTheNodeItself(t *testing.T) {
	asked := false
	inner := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { asked = true }))
	defer inner.Close()
	_, port, err := net.SplitHostPort(inner.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	outer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, r.URL.Query().Get("to"), http.StatusFound)
	}))
	defer outer.Close()
	get := func(from, to string) error {
		c := NewClient()
		c.Timeout = 20 * time.Second
		res, err := c.Get(from + "/?to=" + url.QueryEscape(to))
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	for _, host := range []string{"localhost", "127.0.0.2", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]",
		"169.254.169.254", "[fe80::1]", "224.0.0.1"} {
		asked = false
		err := get(outer.URL, "http://"+host+":"+port+"/")
		var f *failure
		if !errors.As(err, &f) || f.code != wire.CodeNotAllowed || f.kind != plan.Passing || asked {
			t.Errorf("%s: %v; it was asked: %v", host, err, asked)
		}
	}
	if err := get(outer.URL, inner.URL); err != nil || !asked {
		t.Errorf("on the host of its own address: %v", err)
	}
	for _, address := range []string{"192.0.2.1:80", "10.0.0.1:80", "[2001:db8::1]:80"} {
		none := func() ([]net.Addr, error) { return nil, nil }
		if err := away(none)(context.WithValue(t.Context(), led{}, "x"), "tcp", address, nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	broken := func() ([]net.Addr, error) { return nil, errors.New("no netlink") }
	if err := away(broken)(context.WithValue(t.Context(), led{}, "x"), "tcp", "192.0.2.1:80", nil); err == nil {
		t.Error("what is not known to be another machine's is dialled")
	}
}

// A name that leads to the node itself, or to its link, is not followed, at once or after a redirect to the same name.
func TestNameOfTheNodeItself(t *testing.T) {
	var asked atomic.Bool
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer inner.Close()
	_, port, err := net.SplitHostPort(inner.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	own := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(192, 0, 2, 7), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("2001:db8::7"), Mask: net.CIDRMask(64, 128)}}, nil
	}
	for _, c := range []struct {
		host string
		at   netip.Addr // what the name's server says
		away bool
	}{
		{"resources.example", netip.MustParseAddr("127.0.0.1"), true},
		{"resources.example", netip.MustParseAddr("::1"), true},
		{"resources.example", netip.MustParseAddr("169.254.169.254"), true},
		{"resources.example", netip.MustParseAddr("0.0.0.0"), true},
		{"resources.example", netip.MustParseAddr("192.0.2.7"), true}, // this node's, on its network
		{"resources.example", netip.MustParseAddr("2001:db8::7"), true},
		{"resources.example", netip.MustParseAddr("fd00:ec2::254"), true},
		{"resources.example", netip.MustParseAddr("100.100.100.200"), true},
		{"resources.example", netip.MustParseAddr("168.63.129.16"), true},
		{"resources.example", netip.MustParseAddr("fd20:ce::254"), true},
		{"resources.example", netip.MustParseAddr("64:ff9b::a9fe:a9fe"), true}, // behind a translator
		{"resources.example", netip.MustParseAddr("64:ff9b::7f00:1"), true},
		{"127.0.0.1", netip.Addr{}, false},
		{"localhost", netip.Addr{}, false},
	} {
		asked.Store(false)
		client := newClient(&net.Resolver{PreferGo: true, Dial: nameServer(t, c.at)}, own)
		client.Timeout = 20 * time.Second
		res, err := client.Get("http://" + c.host + ":" + port + "/")
		if err == nil {
			err = res.Body.Close()
		}
		var f *failure
		refused := errors.As(err, &f) && f.code == wire.CodeNotAllowed && strings.Contains(f.Error(), c.host+" is at ")
		if refused != c.away || asked.Load() == c.away {
			t.Errorf("%+v: %v; it was asked: %v", c, err, asked.Load())
		}
	}
}

// nameServer answers every question for addresses with one.
func nameServer(t *testing.T, at netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		buf := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			q := buf[:n] // RFC 1035, 4.1: a header of 12 bytes and one question; what follows, OPT, is left out
			end := 12
			for q[end] != 0 {
				end += int(q[end]) + 1
			}
			end += 5
			wanted := byte(1) // A
			if at.Is6() {
				wanted = 28 // AAAA
			}
			answer := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
			if q[end-3] == wanted {
				answer[7] = 1
				data := at.AsSlice()
				answer = append(answer, 0xc0, 12, 0, wanted, 0, 1, 0, 0, 0, 60, 0, byte(len(data)))
				answer = append(answer, data...)
			}
			if _, err := pc.WriteTo(answer, from); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		if err := pc.Close(); err != nil {
			t.Error(err)
		}
		done.Wait()
	})
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}
}
