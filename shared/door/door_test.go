package door

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

func TestAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1", "[::1]:80": "::1", "[fe80::1%eth0]:1": "fe80::1%eth0",
		"10.0.0.1": "invalid IP", "@": "invalid IP", "host:80": "invalid IP", "": "invalid IP",
	} {
		if got := Address(remote).String(); got != want {
			t.Errorf("%q is %s, want %s", remote, got, want)
		}
	}
}

func TestCrowd(t *testing.T) {
	c := Crowd[netip.Prefix]{Max: 3, Each: 2}
	one, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	third := netip.MustParseAddr("10.0.0.1")
	enter := func(a netip.Addr, want bool) func() {
		t.Helper()
		leave, ok := c.Enter(Network(a))
		if ok != want {
			t.Errorf("%s enters: %v", a, ok)
		}
		return leave
	}
	leave := enter(one, true)
	enter(other, true)
	enter(one, false) // the network has its two
	enter(third, true)
	enter(netip.Addr{}, false) // all have their three
	leave()
	leave() // counts once
	enter(third, true)
	enter(other, false)
	if len(c.from) != 2 {
		t.Errorf("%d networks are remembered", len(c.from))
	}
}

// A connection that is turned away is closed; one that ends makes room.
func TestBound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := Bound(l, 10, 1)
	defer b.Close()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	accept := func() net.Conn {
		t.Helper()
		c, err := b.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	dial()
	first := accept()
	second := dial()
	accepted := make(chan net.Conn)
	go func() {
		c, err := b.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	if n, err := second.Read(make([]byte, 1)); err == nil {
		t.Errorf("a second one from the same address is read from: %d", n)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	dial()
	if err := (<-accepted).Close(); err != nil {
		t.Error(err)
	}
}

// wrapped is a writer as handlers put around the server's own.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestBody: a caller who still sends what is too large reads the answer to its end; the connection is not reset under
// him, whether he wanted it closed or not, said the length or not.
func TestBody(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := Body(wrapped{w}, r, 10)
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		_, _ = w.Write(b)
	}))
	defer s.Close()
	long := strings.Repeat("x", 100_000)
	chunks := "Transfer-Encoding: chunked\r\n"
	for name, request := range map[string]string{
		"announced":            "Content-Length: 1000000\r\n\r\n" + long,
		"announced, to close":  "Content-Length: 1000000\r\nConnection: close\r\n\r\n" + long,
		"in chunks":            chunks + "\r\n186a0\r\n" + long + "\r\n0\r\n\r\n",
		"in chunks, to close":  chunks + "Connection: close\r\n\r\n186a0\r\n" + long + "\r\n0\r\n\r\n",
		"one too many":         "Content-Length: 11\r\n\r\n01234567890",
		"as long as it may be": "Content-Length: 10\r\nConnection: close\r\n\r\n0123456789",
	} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\n"+request); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		want := "HTTP/1.1 413 "
		if strings.HasPrefix(name, "as long") {
			want = "HTTP/1.1 200 "
		}
		if err != nil || !strings.HasPrefix(string(answer), want) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStatus(t *testing.T) {
	for code, want := range map[wire.Code]int{
		wire.CodeMalformed: http.StatusBadRequest, wire.CodeBadSignature: http.StatusBadRequest,
		wire.CodeTooLarge: http.StatusRequestEntityTooLarge, wire.CodeNotFound: http.StatusNotFound,
		wire.CodeAlreadyExists: http.StatusConflict, wire.CodeNotAllowed: http.StatusForbidden,
		wire.CodeWrongTarget: http.StatusForbidden, wire.CodeStorage: http.StatusServiceUnavailable,
		wire.CodeNoAnswer: http.StatusGatewayTimeout, wire.CodeInternal: http.StatusInternalServerError,
		"unheard-of": http.StatusInternalServerError,
	} {
		if got := Status(code); got != want {
			t.Errorf("%s is %d, want %d", code, got, want)
		}
	}
}
