package deliver

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"tandem.internal/controller/internal/notify"
)

// TestMayReach: of what a name was looked up to, after that.
func TestMayReach(t *testing.T) {
	for _, c := range []struct {
		address string
		local   bool
		want    bool
	}{
		{"10.0.0.9:443", false, true}, {"10.0.0.9:80", true, false}, {"127.0.0.1:80", true, true},
		{"[::1]:80", true, true}, {"[::ffff:127.0.0.1]:80", true, true}, {"[::ffff:169.254.169.254]:80", false, false},
		{"169.254.169.254:80", false, false}, {"[fe80::1%eth0]:80", false, false}, {"0.0.0.0:80", false, false},
		{"[::]:80", false, false}, {"[ff02::1]:80", false, false}, {"nowhere", false, false},
		{"[::ffff:0.0.0.0]:80", false, false}, {"169.254.42.42:80", false, false},
		{"[fe80::a9fe:a9fe]:80", false, false},
		// Metadata that is not link-local, also with a zone, mapped or behind a translator.
		{"100.100.100.200:80", false, false}, {"[::ffff:100.100.100.200]:80", false, false},
		{"168.63.129.16:80", false, false}, {"192.0.0.192:80", false, false}, {"[fd00:ec2::254]:80", false, false},
		{"[fd00:ec2::254%eth0]:80", false, false}, {"[fd00:ec2::23]:80", false, false},
		{"[fd20:ce::254]:80", false, false}, {"[fd00:c1::a9fe:a9fe]:80", false, false},
		{"[fd00:a9fe:a9fe::1]:80", false, false}, {"[fd00:42::42]:80", false, false},
		{"[fd00:100::100:200]:80", false, false}, {"[64:ff9b::a9fe:a9fe]:80", false, false},
		{"[64:ff9b:1::6464:64c8]:80", false, false}, {"[64:ff9b::]:80", false, false},
		{"[64:ff9b::7f00:1]:80", true, false}, // this is not this machine
		// Around them are private networks, and receivers.
		{"100.100.100.201:443", false, true}, {"100.64.0.1:443", false, true}, {"192.168.1.1:443", false, true},
		{"172.16.0.1:443", false, true}, {"[fd00:ec3::254]:443", false, true}, {"[fd20:ce::255]:443", false, true},
		{"[fc00::1]:443", false, true}, {"[64:ff9b::a00:9]:443", false, true}, {"192.0.2.1:443", false, true},
	} {
		if err := mayReach(c.address, c.local); (err == nil) != c.want {
			t.Errorf("%s local %v: %v", c.address, c.local, err)
		}
	}
}

// A name is looked up when the controller connects, and what it leads to then counts.
func TestNamesOfMetadata(t *testing.T) {
	for _, to := range []string{"169.254.169.254", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254"} {
		ip := netip.MustParseAddr(to)
		nameServer(t, ip)
		a := send(t, notify.Receiver{URL: "https://hooks.example/secret"})
		if !strings.HasSuffix(a.Err, "cloud's metadata, where no receiver is") {
			t.Errorf("a name of %s: %+v", to, a)
		}
	}
}

// nameServer has all names lead to one address for the rest of a test.
func nameServer(t *testing.T, to netip.Addr) {
	t.Helper()
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
			if _, err := pc.WriteTo(answer(buf[:n], to), from); err != nil {
				return
			}
		}
	})
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = was
		if err := pc.Close(); err != nil {
			t.Error(err)
		}
		done.Wait()
	})
}

// answer is that of a server of names (RFC 1035, 4.1): the header, the question, and its answer if its type is that of
// the address.
func answer(question []byte, to netip.Addr) []byte {
	end := 12 + bytes.IndexByte(question[12:], 0) + 5
	kind, data := byte(1), to.AsSlice() // A
	if to.Is6() {
		kind = 28 // AAAA
	}
	out := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[12:end]...)
	if question[end-3] == kind {
		out[7] = 1
		out = append(out, 0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, byte(len(data)))
		out = append(out, data...)
	}
	return out
}
