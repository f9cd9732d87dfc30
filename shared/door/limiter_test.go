package door

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tandem.internal/shared/flow"
)

var day = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestLimiter(t *testing.T) {
	var l Limiter
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	now := day
	try := func(from netip.Addr, n int) (ok int) {
		for range n {
			if _, yes := l.Take(now, from); yes {
				ok++
			}
		}
		return ok
	}
	if got := try(a, 50); float64(got) != ofAddress.Burst {
		t.Errorf("%d at once, want %v", got, ofAddress.Burst)
	}
	wait, ok := l.Take(now, a)
	if ok || wait <= 0 || wait > ofAddress.Every {
		t.Errorf("wait %v, %v", wait, ok)
	}
	if got := try(b, 1); got != 1 {
		t.Error("another address has to pay")
	}
	now = now.Add(wait)
	if got := try(a, 50); got != 1 {
		t.Errorf("%d after the wait, want 1", got)
	}
	now = now.Add(time.Hour)
	if got := try(a, 50); float64(got) != ofAddress.Burst {
		t.Errorf("%d after an hour, want %v", got, ofAddress.Burst)
	}
	l.Return(a)
	if got := try(a, 50); got != 1 {
		t.Errorf("%d after one was given back", got)
	}
	now = now.Add(-24 * time.Hour) // the clock went back
	try(a, 1)
	now = now.Add(ofAddress.Every)
	if got := try(a, 50); got != 1 {
		t.Errorf("%d after the clock went back, want 1", got)
	}
}

func TestLimiterOfAll(t *testing.T) {
	var l Limiter
	now, ok := day, 0
	for i := range 1000 {
		if _, yes := l.Take(now, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})); yes {
			ok++
		}
	}
	if float64(ok) != ofAll.Burst {
		t.Errorf("%d from everywhere, want %v", ok, ofAll.Burst)
	}
}

// A node that joins well costs its neighbours behind the same address nothing.
func TestLimiterForgetsWhatWentWell(t *testing.T) {
	var l Limiter
	a := netip.MustParseAddr("10.0.0.1")
	for i := range 5000 {
		if _, ok := l.Take(day, a); !ok {
			t.Fatalf("the %dth was refused", i)
		}
		l.Return(a)
	}
}

// Nor does it those addresses that there is no room to tell apart.
func TestLimiterForgetsWhatWentWellInACrowd(t *testing.T) {
	var l Limiter
	now := day
	for i := range maxAddresses { // each fails once, within the half minute that its bucket needs
		if _, ok := l.Take(now, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})); !ok {
			t.Fatalf("the %dth was refused", i)
		}
		l.all = flow.Bucket{} // which is not what this is about
		now = now.Add(time.Millisecond)
	}
	for i := range 50 {
		from := netip.AddrFrom4([4]byte{10, 2, 0, byte(i)})
		if _, ok := l.Take(now, from); !ok {
			t.Fatalf("the %dth of the crowd was refused", i)
		}
		l.Return(from)
	}
	if len(l.from) != maxAddresses {
		t.Fatalf("%d addresses are told apart, so this was no crowd", len(l.from))
	}
}

func TestNetworks(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"2001:db8::1", "2001:db8::ffff:2", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1%eth0", "fe80::1%eth1", true},
	} {
		if got := Network(netip.MustParseAddr(c.a)) == Network(netip.MustParseAddr(c.b)); got != c.same {
			t.Errorf("%s and %s: one network %v, want %v", c.a, c.b, got, c.same)
		}
	}
	if Network(netip.Addr{}) != (netip.Prefix{}) {
		t.Error("no address")
	}
}

func TestLimiterIsBounded(t *testing.T) {
	var l Limiter
	now := day
	for i := range 3 * maxAddresses {
		l.Take(now, netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff)))
		now = now.Add(time.Millisecond)
	}
	if len(l.from) > maxAddresses {
		t.Errorf("%d addresses are remembered", len(l.from))
	}
	// An address that comes when there is room again is told apart from the crowd.
	now = now.Add(time.Hour)
	for i := range 2 * maxAddresses {
		l.Take(now, netip.MustParseAddr(fmt.Sprintf("2001:db9:%x::1", i)))
	}
	now = now.Add(time.Hour)
	if _, ok := l.Take(now, netip.MustParseAddr("10.9.9.9")); !ok || len(l.from) > maxAddresses {
		t.Errorf("after an hour: %v, %d addresses", ok, len(l.from))
	}
}
