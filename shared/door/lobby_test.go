package door

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestLobby(t *testing.T) {
	l := Lobby[string]{Each: 2, Max: 3, Waiting: 4, Patience: time.Second, Longest: 10 * time.Second}
	one, two, three := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("2001::1")
	now := day
	same := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	enter := func(who string, from netip.Addr, want ...string) (drop []string) {
		t.Helper()
		start, drop := l.Enter(now, who, from)
		same(who+" starts", start, want...)
		return drop
	}
	leave := func(who string, want ...string) (drop []string) {
		t.Helper()
		start, drop := l.Leave(now, who)
		same("after "+who, start, want...)
		return drop
	}
	enter("a1", one, "a1")
	enter("a2", one, "a2")
	enter("a3", one) // its network has its two
	enter("a4", one)
	enter("b1", two, "b1")
	enter("c1", three) // all have their three
	leave("b1", "c1")  // the first network still has its two
	leave("a1", "a3")  // in the order in which they came
	leave("a1")        // counts once
	leave("nobody here")
	enter("a5", one)
	enter("b2", two)
	leave("c1", "b2")
	now = now.Add(2 * time.Second)
	same("gives way", enter("b3", two, "b3"), "a2") // all places are taken: the one that has had its for the longest
	same("gives way", enter("a6", one, "a4"), "a3")
	same("gives way", enter("a7", one, "a5"), "b2")
	same("nobody gives way: all are young", enter("b4", two))
	now = now.Add(500 * time.Millisecond)
	same("nobody gives way: all are young", enter("c2", three))
	l.Drop("c2")
	leave("b3", "b4")
	now = now.Add(20 * time.Second)
	if late := leave("a4"); len(late) != 2 { // a6, a7 waited for too long
		t.Errorf("%q were late", late)
	}
	for _, who := range []string{"a5", "b4"} {
		leave(who)
	}
	if len(l.guests)+len(l.networks)+l.served.Len()+l.turns.Len()+l.waiting != 0 {
		t.Errorf("left behind: %+v", l)
	}
}

// Whatever comes, what is remembered is bounded, and nobody is lost.
func TestLobbyIsBounded(t *testing.T) {
	l := Lobby[int]{Each: 2, Max: 8, Waiting: 16, Patience: time.Second, Longest: 10 * time.Second}
	now, here := day, map[int]bool{}
	gone := func(start, drop []int) {
		for _, who := range drop {
			if !here[who] {
				t.Fatalf("%d is dropped and is not here", who)
			}
			delete(here, who)
		}
	}
	for i := range 5000 {
		now = now.Add(time.Duration(i%7) * 100 * time.Millisecond)
		here[i] = true
		start, drop := l.Enter(now, i, netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i*i%97)))
		gone(start, drop)
		if i%3 == 0 {
			delete(here, i-5)
			gone(l.Leave(now, i-5))
		}
		waiting := 0
		for e := l.turns.Front(); e != nil; e = e.Next() {
			waiting += e.Value.(*network).queue.Len()
		}
		if len(l.guests) != len(here) || len(here) > 24 || len(l.networks) > 24 || waiting > 16 || l.served.Len() > 8 {
			t.Fatalf("after %d: %d here, %d known, %d networks", i, len(here), len(l.guests), len(l.networks))
		}
	}
}

// A handshake of more bytes than one takes ends, whatever they promise; after Lift nothing is counted.
func TestHandshakeBytes(t *testing.T) {
	for _, lifted := range []bool{false, true} {
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer inner.Close()
		l := TLS(inner, &tls.Config{}, 100)
		client, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if lifted {
			Lift(c)
		}
		below := c.(*tls.Conn).NetConn()
		go func() { _, _ = client.Write(make([]byte, 20<<10)) }() // ends with the connection
		n := 0
		for err == nil && n < 20<<10 {
			var m int
			m, err = below.Read(make([]byte, 4096))
			n += m
		}
		if want := HandshakeBytes + 100; !lifted && (n != want || !errors.Is(err, errHandshake)) {
			t.Errorf("%d bytes were read, want %d: %v", n, want, err)
		}
		if lifted && (n != 20<<10 || err != nil) {
			t.Errorf("%d bytes were read after the limit was lifted: %v", n, err)
		}
	}
}
