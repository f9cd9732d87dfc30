package confine

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/nodeagent/internal/cgroup"
)

// TestLoopbackIsDenied: users of the range get nowhere on this machine's loopback addresses, in whatever form, but to
// the ports that were asked for; others do, and they do when it is closed.
func TestLoopbackIsDenied(t *testing.T) {
	top, err := cgroup.Top()
	if err != nil || top == "" || os.Geteuid() != 0 {
		t.Skipf("NOT TRIED: keeping users from loopback. It takes root and cgroup v2 (%q, %v)", top, err)
	}
	const first, last = 73000, 73001
	tcp := serveTCP(t)
	open := serveTCP(t)
	udp, err := net.ListenPacket("udp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	_, udpPort, _ := net.SplitHostPort(udp.LocalAddr().String())
	l, err := DenyLoopback(top, first, last, []uint16{9, uint16(open.Addr().(*net.TCPAddr).Port)})
	if err != nil {
		t.Fatal(err)
	}
	_, tcpPort, _ := net.SplitHostPort(tcp.Addr().String())
	_, openPort, _ := net.SplitHostPort(open.Addr().String())
	type try struct {
		network, address string
		denied           bool
	}
	tries := []try{
		{"tcp4", "127.0.0.1:" + tcpPort, true}, {"tcp4", "127.9.8.7:" + tcpPort, true},
		{"tcp4", "0.0.0.0:" + tcpPort, true}, {"tcp6", "[::1]:" + tcpPort, true}, {"tcp6", "[::]:" + tcpPort, true},
		{"tcp4", "127.0.0.1:" + openPort, false}, {"tcp6", "[::1]:" + openPort, false},
		{"udp4", "127.0.0.1:" + udpPort, true}, {"udp6", "[::1]:" + udpPort, true}, {"udp4", "127.0.0.1:9", false},
		{"send4", "127.0.0.1:" + udpPort, true}, {"send6", "[::1]:" + udpPort, true},
		{"mapped", "127.0.0.1:" + udpPort, true}, {"mapped-tcp", "127.0.0.1:" + tcpPort, true},
		{"fastopen", "127.0.0.1:" + tcpPort, true}, {"mptcp", "127.0.0.1:" + tcpPort, true},
	}
	if own := elsewhere(); own != "" {
		tries = append(tries, try{"udp4", net.JoinHostPort(own, udpPort), false})
	}
	for _, uid := range []int{first - 1, first, last, last + 1} {
		for _, c := range tries {
			err := connectAs(uid, c.network, c.address)
			denied := errors.Is(err, syscall.EPERM)
			if want := c.denied && (uid == first || uid == last); denied != want || !want && err != nil {
				t.Errorf("user %d, %s %s: %v, want refused: %v", uid, c.network, c.address, err, want)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := connectAs(first, "tcp4", "127.0.0.1:"+tcpPort); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// serveTCP listens on all addresses until the test's end.
func serveTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l
}

// elsewhere is an address of this machine that is no loopback address; "": it has none.
func elsewhere() string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}

// connectAs connects, or sends a datagram, on a thread of a user.
func connectAs(uid int, how, address string) (err error) {
	addr, rerr := net.ResolveUDPAddr("udp", address)
	if rerr != nil {
		return rerr
	}
	var four syscall.SockaddrInet4
	four.Port = addr.Port
	copy(four.Addr[:], addr.IP.To4())
	var six syscall.SockaddrInet6
	six.Port = addr.Port
	copy(six.Addr[:], addr.IP.To16()) // of an IPv4 address its form in IPv6
	Apart(func() {
		id := uintptr(uid)
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, id, id, id); e != 0 {
			err = e
			return
		}
		family, kind, protocol := syscall.AF_INET, syscall.SOCK_DGRAM, 0
		if strings.HasSuffix(how, "6") || strings.HasPrefix(how, "mapped") {
			family = syscall.AF_INET6
		}
		if strings.Contains(how, "tcp") || how == "fastopen" {
			kind = syscall.SOCK_STREAM
		}
		if how == "mptcp" {
			protocol = 262
		}
		fd, serr := syscall.Socket(family, kind, protocol)
		if serr != nil {
			err = serr
			return
		}
		defer func() { _ = syscall.Close(fd) }()
		to := syscall.Sockaddr(&four)
		if family == syscall.AF_INET6 {
			to = &six
		}
		switch how {
		case "send4", "send6", "mapped":
			err = syscall.Sendto(fd, []byte("x"), 0, to)
		case "fastopen":
			err = syscall.Sendto(fd, []byte("x"), 0x20000000, to)
		default:
			err = syscall.Connect(fd, to)
		}
	})
	return err
}
