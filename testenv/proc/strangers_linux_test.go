package proc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crypto "crypto/rand"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
)

// memory reads a field of /proc/PID/status, in MiB.
func memory(t *testing.T, pid int, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	t.Fatalf("no %s in %s", field, text)
	return 0
}

// unfinished is a connection below TLS that sends all of a client's first message, and of its certificate as much as
// the other side takes: what comes after the hello is encrypted, and so what an attacker does is what a client does
// whose certificate is as long as TLS allows.
func unfinished(t *testing.T) *tls.Config {
	t.Helper()
	long := make([]byte, 200<<10)
	key, err := ecdsa.GenerateKey(elliptic.P256(), crypto.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{long}, PrivateKey: key}, nil
		}}
}

// short is a connection that sends no more than some bytes, and then nothing, without an end.
type short struct {
	net.Conn
	left int
	done chan struct{}
}

// Write sends what may still be sent, and waits for the end of the test with the rest.
func (s *short) Write(p []byte) (int, error) {
	n := min(len(p), s.left)
	s.left -= n
	if _, err := s.Conn.Write(p[:n]); err != nil {
		return 0, err
	}
	if n < len(p) {
		<-s.done
		return n, net.ErrClosed
	}
	return n, nil
}

// siege keeps n connections with unfinished certificates open at an address until stop is called.
func siege(t *testing.T, at string, n, bytes int) (stop func()) {
	conf, done := unfinished(t), make(chan struct{})
	var all sync.WaitGroup
	slots := make(chan struct{}, 32) // this machine has the attackers, too: their handshakes one after the other
	for range n {
		all.Go(func() {
			select {
			case slots <- struct{}{}:
			case <-done:
				return
			}
			c, err := net.Dial("tcp", at)
			<-slots
			if err != nil {
				return // turned away: as it should be
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			_ = tls.Client(&short{c, bytes, done}, conf).Handshake()
			<-done
		})
	}
	return sync.OnceFunc(func() { close(done); all.Wait() })
}

// besieged is a unit with TLS at every door and one node, and the doors by name.
func besieged(t *testing.T) (u *Unit, doors map[string]string, join func(name string) (door string)) {
	u = NewUnit(t)
	web := "127.0.0.1:" + strconv.Itoa(Port(t))
	mqtt := "127.0.0.1:" + strconv.Itoa(u.Port)
	u.StartController("--listen", "", "--listen-tls", mqtt, "--advertise", "127.0.0.1", "--http", "https://"+web)
	join = func(name string) string {
		token, door := enrolled(t, u, name)
		if o := joinAs(t, u, name, door, token); o.Status != 0 {
			t.Fatalf("join: %+v", o)
		}
		u.Nodes[name] = Start(t, name, nil, Binary(t, "tandem-node"), "--type", "main", "--state-dir", u.StateDir(name))
		u.AwaitOnline(name, true)
		return strings.TrimPrefix(door, "https://")
	}
	return u, map[string]string{"MQTT": mqtt, "join": join("n1"), "HTTP": web}, join
}

// online fails the test if a node is not.
func (u *Unit) online(name string) {
	u.t.Helper()
	if n, err := Get[controller.Node](u, "/v1/nodes/"+name); err != nil || !n.Online {
		u.t.Errorf("%s is offline during the siege: %v", name, err)
	}
}

// Somebody without credentials sends certificates that never end, to every door with TLS. The controller's memory stays
// bounded, its nodes stay online, and another one can join afterwards. Without the limit on bytes it grows by 75 MiB;
// without that on connections as well it is above the bound by far.
func TestUnfinishedCertificates(t *testing.T) {
	u, doors, join := besieged(t)
	pid := u.Controller.PID()
	before := memory(t, pid, "VmHWM")
	for what, at := range doors {
		began := time.Now()
		stop := siege(t, at, 2500, 190<<10)
		Until(t, what+": the first of them have had their time", func() string { // memory is at its most then
			if time.Since(began) < 6*time.Second {
				return "the siege is young"
			}
			return ""
		})
		now := memory(t, pid, "VmHWM")
		t.Logf("%s: VmHWM %d MiB before, %d MiB with 2,500 unfinished certificates", what, before, now)
		if now-before > 40 {
			t.Errorf("%s: the controller has grown by %d MiB", what, now-before)
		}
		u.online("n1")
		stop()
	}
	join("n2")
}

var (
	hostile = flag.Int("hostile", 2000, "hostile connections of TestHostileMany")
	garbage = flag.Duration("garbage", 2*time.Second, "time of garbage of TestHostileMany")
)

// annoy makes one hostile connection to a door, from one of a thousand addresses.
func annoy(chance *rand.Rand, at string, conf *tls.Config) {
	var from net.Dialer
	from.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+chance.IntN(4)), byte(1+chance.IntN(250)))}
	c, err := from.Dial("tcp", at)
	if err != nil {
		return // turned away: as it should be
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Duration(50+chance.IntN(500)) * time.Millisecond))
	switch chance.IntN(4) {
	case 0: // garbage
		junk := make([]byte, 1+chance.IntN(64<<10))
		for i := range junk {
			junk[i] = byte(chance.Uint32())
		}
		_, _ = c.Write(junk)
	case 1: // a certificate that does not end
		_ = tls.Client(c, conf).Handshake()
	case 2: // the beginning of a TLS record of the greatest length, with garbage
		_, _ = c.Write(append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, chance.IntN(16<<10))...))
	case 3: // HTTP and MQTT in the clear
		_, _ = c.Write([]byte("POST /v1/config HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n"))
		_, _ = c.Write([]byte{0x10, 0xff, 0xff, 0xff, 0x7f, 0, 4, 'M', 'Q', 'T', 'T'})
	}
	_, _ = io.Copy(io.Discard, c) // until it is cut off, or the time is up
}

// However many come, one after the other and at once, and however long: the controller stays below 100 MiB above its
// start, with its nodes online.
func TestHostileMany(t *testing.T) {
	u, doors, join := besieged(t)
	pid, seed := u.Controller.PID(), Seed(t)
	before := memory(t, pid, "VmHWM")
	addresses := slices.Sorted(maps.Values(doors))
	var made atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	conf := unfinished(t)
	for range 200 {
		chance := rand.New(rand.NewPCG(seed.Uint64(), seed.Uint64()))
		all.Go(func() {
			for made.Add(1) <= int64(*hostile) || time.Since(began) < *garbage {
				annoy(chance, addresses[chance.IntN(len(addresses))], conf)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	look := time.NewTicker(5 * time.Second)
	defer look.Stop()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-look.C:
		}
		u.online("n1")
	}
	now := memory(t, pid, "VmHWM")
	t.Logf("%d hostile connections in %s: VmHWM %d MiB before, %d MiB now", made.Load()-200,
		time.Since(began).Round(time.Second), before, now)
	if now-before > 100 {
		t.Errorf("the controller has grown by %d MiB", now-before)
	}
	join("n2")
}
