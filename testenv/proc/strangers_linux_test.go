package proc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
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

// Somebody without credentials sends certificates that never end, to every door with TLS. The controller's memory stays
// bounded, its nodes stay online, and another one can join meanwhile from elsewhere.
func TestUnfinishedCertificates(t *testing.T) {
	u := NewUnit(t)
	web := Port(t)
	u.StartController("--listen", "", "--listen-tls", "127.0.0.1:"+strconv.Itoa(u.Port), "--advertise", "127.0.0.1",
		"--http", "https://127.0.0.1:"+strconv.Itoa(web))
	join := func(name string) string {
		token, door := enrolled(t, u, name)
		if o := joinAs(t, u, name, door, token); o.Status != 0 {
			t.Fatalf("join: %+v", o)
		}
		u.Nodes[name] = Start(t, name, nil, Binary(t, "tandem-node"), "--type", "main", "--state-dir", u.StateDir(name))
		u.AwaitOnline(name, true)
		return strings.TrimPrefix(door, "https://")
	}
	door := join("n1")
	pid := u.Controller.PID()
	before := memory(t, pid, "VmHWM")
	for what, at := range map[string]string{"MQTT": "127.0.0.1:" + strconv.Itoa(u.Port), "join": door,
		"HTTP": "127.0.0.1:" + strconv.Itoa(web)} {
		began := time.Now()
		stop := siege(t, at, 2500, 190<<10)
		Until(t, what+": what the controller has is read", func() string { // it is at its most when the first time is up
			if time.Since(began) < 6*time.Second {
				return "the siege is young"
			}
			return ""
		})
		now := memory(t, pid, "VmHWM")
		t.Logf("%s: VmHWM %d MiB before, %d MiB with 2,500 unfinished certificates", what, before, now)
		if now-before > 100 {
			t.Errorf("%s: the controller has grown by %d MiB", what, now-before)
		}
		n, err := Get[controller.Node](u, "/v1/nodes/n1")
		if err != nil || !n.Online {
			t.Errorf("%s: n1 is offline during the siege: %v", what, err)
		}
		stop()
	}
	join("n2")
}
