package link_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
)

// listen serves s on a listener until the end of the test.
func (s *server) listen(t *testing.T, l net.Listener) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.serve(nc)
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		s.Close()
	})
}

func listenTCP(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T, ips ...net.IP) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: ips, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// signals is a Handler that sends its calls to channels.
type signals struct {
	linktest.Recorder
	up   chan uint64
	down chan error
	msg  chan link.Message
}

func newSignals() *signals {
	return &signals{up: make(chan uint64, 100), down: make(chan error, 100), msg: make(chan link.Message, 100)}
}

func (h *signals) Up(n uint64)            { h.up <- n }
func (h *signals) Down(_ uint64, e error) { h.down <- e }
func (h *signals) Message(m link.Message) { h.msg <- m }

// run runs a link over the real network and returns a function that stops it.
func run(t *testing.T, cfg link.Config, h link.Handler) (l *link.Dialled, stop func()) {
	t.Helper()
	l, err := link.Dial(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came within a minute")
		panic("unreachable")
	}
}

func TestSchemes(t *testing.T) {
	cert, pool := certificate(t, net.IPv4(127, 0, 0, 1))
	sock := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	tcp, secure := listenTCP(t), listenTCP(t)
	for broker, l := range map[string]net.Listener{
		"tcp://" + tcp.Addr().String(): tcp,
		"mqtts://" + secure.Addr().String(): tls.NewListener(secure,
			&tls.Config{Certificates: []tls.Certificate{cert}}),
		"unix://" + sock: unix,
	} {
		s := newServer(t)
		s.listen(t, l)
		h := newSignals()
		d, stop := run(t, link.Config{
			Broker: broker, ClientID: "x", Filters: []string{"t"}, TLS: &tls.Config{RootCAs: pool},
			Will: func(uint64) *link.Publication {
				return &link.Publication{Topic: "w", Payload: []byte("w"), Retain: true}
			},
		}, h)
		select {
		case <-h.up:
		case err := <-h.down:
			t.Fatalf("%s: %v", broker, err)
		}
		if err := d.Publish(context.Background(), "t", []byte("hello"), false); err != nil {
			t.Error(err)
		}
		if m := receive(t, h.msg); string(m.Payload) != "hello" {
			t.Errorf("%s: received %q", broker, m.Payload)
		}
		stop()
	}
}

func TestExposed(t *testing.T) {
	for broker, want := range map[string]bool{
		"tcp://10.0.0.5:1883": true, "mqtt://10.0.0.5": true, "TCP://gateway:1883": true,
		"mqtt://[2001:db8::1]:1883": true, "tcp://0.0.0.0:1883": true,
		"tcp://127.0.0.1:1883": false, "mqtt://localhost": false, "tcp://[::1]:1883": false,
		"tls://10.0.0.5:8883": false, "mqtts://10.0.0.5": false,
		"unix:///run/b": false, "": false, "http://10.0.0.5": false,
	} {
		if link.Exposed(broker) != want {
			t.Errorf("%q: exposed %v, want %v", broker, !want, want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	cert, _ := certificate(t, net.IPv4(127, 0, 0, 1))
	secure, plain, closed := listenTCP(t), listenTCP(t), listenTCP(t)
	newServer(t).listen(t, tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{cert}}))
	newServer(t).listen(t, plain)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	other, otherPool := certificate(t, net.IPv4(127, 0, 0, 2))
	wrong := listenTCP(t)
	newServer(t).listen(t, tls.NewListener(wrong, &tls.Config{Certificates: []tls.Certificate{other}}))
	for _, c := range []struct {
		name, broker, want string
		cfg                link.Config
	}{
		{"refused", "tcp://" + closed.Addr().String(), "nothing listens there", link.Config{}},
		{"no socket", "unix:///nonexistent/s", "its socket does not exist", link.Config{}},
		{"untrusted", "tls://" + secure.Addr().String(), "not signed by a trusted authority", link.Config{}},
		{"other host", "tls://" + wrong.Addr().String(), "for another host",
			link.Config{TLS: &tls.Config{RootCAs: otherPool}}},
		{"no TLS", "tls://" + plain.Addr().String(), "does it speak TLS", link.Config{ConnectTimeout: time.Second}},
		{"TLS only", "tcp://" + secure.Addr().String(), "the broker", link.Config{ConnectTimeout: time.Second}},
		{"no name", "", "host name cannot be looked up", link.Config{OpenConn: func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Name: "nowhere", IsNotFound: true}}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Broker, c.cfg.ClientID = c.broker, "x"
			h := newSignals()
			_, stop := run(t, c.cfg, h)
			err := receive(t, h.down)
			stop()
			t.Log(err)
			contains(t, err, c.want)
		})
	}
}

// A link that stops while many messages arrive still ends in good order: the socket is not reset before the broker has
// read the DISCONNECT. Otherwise the broker would publish the will after the goodbye.
func TestLeaveUnderLoad(t *testing.T) {
	for round := range 10 {
		s := newServer(t)
		l := listenTCP(t)
		s.listen(t, l)
		h := newSignals()
		h.msg = make(chan link.Message, 10_000)
		_, stop := run(t, link.Config{
			Broker: "tcp://" + l.Addr().String(), ClientID: "x", Filters: []string{"t"},
			Will: func(uint64) *link.Publication {
				return &link.Publication{Topic: "w", Payload: []byte("w"), Retain: true}
			},
			Goodbye: func(uint64) []link.Publication {
				return []link.Publication{{Topic: "g", Payload: []byte("g"), Retain: true}}
			},
		}, h)
		receive(t, h.up)
		p := s.peer("x")
		flood, loaded := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(flood)
			for i := 0; ; i++ {
				s.route("t", make([]byte, 1000), false)
				if i < 1000 {
					continue
				}
				select { // from here on, one for one
				case <-h.msg:
				case <-p.gone:
					return
				}
				if i == 2000 {
					close(loaded)
				}
			}
		}()
		receive(t, loaded)
		stop()
		receive(t, p.gone)
		<-flood
		if _, ok := s.Retained("w"); ok {
			t.Fatalf("round %d: the will was published", round)
		}
		if _, ok := s.Retained("g"); !ok {
			t.Fatalf("round %d: the goodbye is missing", round)
		}
	}
}

// BenchmarkPublish publishes 1 KiB messages to the test's server over loopback TCP; an
// operation is one message, acknowledged.
func BenchmarkPublish(b *testing.B) {
	for _, c := range []struct{ window, buffer int }{{64, 4096}, {1024, 64 << 10}} {
		b.Run(fmt.Sprintf("window=%d/buffer=%d", c.window, c.buffer), func(b *testing.B) {
			t := &testing.T{}
			s := newServer(t)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			accepted := make(chan struct{})
			go func() {
				defer close(accepted)
				if nc, err := l.Accept(); err == nil {
					s.serve(nc)
				}
			}()
			h := newSignals()
			d, err := link.Dial(link.Config{
				Broker: "tcp://" + l.Addr().String(), ClientID: "x", Window: c.window, BufferSize: c.buffer,
				Goodbye: func(uint64) []link.Publication { return []link.Publication{{Topic: "last"}} },
			}, h)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- d.Run(ctx) }()
			<-h.up
			payload := make([]byte, 1024)
			b.SetBytes(1024)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if err := d.Publish(context.Background(), "tandem/1/u1/node/ab/n1/desired/config", payload,
					false); err != nil {
					b.Fatal(err)
				}
			}
			cancel()
			if err := <-done; err != nil { // the goodbye is acknowledged after everything else
				b.Fatal(err)
			}
			b.StopTimer()
			<-accepted
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			s.wg.Wait()
		})
	}
}
