package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/link/linktest"
)

// forgetful is a store in which paho finds nothing after a reconnect, as in package link. With paho's own store,
// messages that OnConnect sends while paho looks for older ones are sent twice.
type forgetful struct{ paho.Store }

func (forgetful) All() []string { return nil }

func done(t *testing.T, what string, token paho.Token) {
	t.Helper()
	if !token.WaitTimeout(time.Minute) || token.Error() != nil {
		t.Fatalf("%s: %v", what, token.Error())
	}
}

// TestPahoThroughBrokerRestart runs the agents' MQTT client on a pipe in virtual time: documents and statuses, an hour
// without messages, and a broker that restarts empty.
func TestPahoThroughBrokerRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := linktest.NewPipe()
		taken := make(chan Message, 16)
		s := startPiped(t, p, Config{}, func(m Message) { taken <- m })
		docs := make(chan string, 16)
		settled := make(chan struct{}, 16) // subscribed and acknowledged, once a connection
		o := paho.NewClientOptions().AddBroker("pipe://pipe").SetClientID("node/n1").SetUsername("node/n1").
			SetProtocolVersion(4).SetOrderMatters(false).SetMaxReconnectInterval(2*time.Second).
			SetStore(forgetful{paho.NewMemoryStore()}).
			SetBinaryWill(of("n1").Live(), []byte("down"), 1, true).
			SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn,
				error) {
				return p.Dial(context.Background())
			})
		o.SetOnConnectHandler(func(c paho.Client) {
			go func() {
				done(t, "subscribe", c.Subscribe(of("n1").DesiredFilter(), 1,
					func(_ paho.Client, m paho.Message) { docs <- string(m.Payload()) }))
				done(t, "publish", c.Publish(of("n1").Live(), 1, true, "up"))
				settled <- struct{}{}
			}()
		})
		c := paho.NewClient(o)
		done(t, "connect", c.Connect())
		<-settled
		if m := <-taken; string(m.Payload) != "up" {
			t.Errorf("%+v", m)
		}
		if err := s.Publish(of("n1").Desired("config"), []byte("one"), true); err != nil {
			t.Fatal(err)
		}
		if d := <-docs; d != "one" {
			t.Errorf("got %q", d)
		}
		time.Sleep(time.Hour)
		if !c.IsConnectionOpen() || s.Stats().Clients != 1 {
			t.Error("an hour of keep-alives did not keep the client")
		}
		s.Close()
		if len(taken) != 0 {
			t.Errorf("Close made %+v", <-taken)
		}
		time.Sleep(10 * time.Second)
		s = startPiped(t, p, Config{}, func(m Message) { taken <- m })
		if _, ok := s.Retained(of("n1").Desired("config")); ok {
			t.Error("a new broker remembers")
		}
		if err := s.Publish(of("n1").Desired("config"), []byte("one"), true); err != nil {
			t.Fatal(err)
		}
		if d, m := <-docs, <-taken; d != "one" || string(m.Payload) != "up" {
			t.Errorf("after the restart: %q, %+v", d, m)
		}
		<-settled
		c.Disconnect(100)
		s.Close()
		if len(taken) != 0 {
			t.Errorf("a goodbye made %+v", <-taken)
		}
	})
}

// TestTLS: Auth gets the client's certificate, writing works without a plain socket, and FirstReadTimeout includes the
// handshake.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node/n1"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	start := func(limits Limits) *testServer {
		return serve(t, Config{
			Listeners: []net.Listener{tls.NewListener(loopback(t), &tls.Config{Certificates: []tls.Certificate{cert},
				ClientAuth: tls.RequireAnyClientCert})},
			Auth: func(c ConnectInfo) (acl.Identity, error) {
				name := c.TLS.PeerCertificates[0].Subject.CommonName
				return acl.IdentityOf(name, c.Username)
			},
			Limits: limits,
		}, nil)
	}
	s := start(Limits{FirstReadTimeout: patience})
	nc, err := tls.Dial("tcp", s.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	c := rawOver(t, nc).mustConnect("node/n1")
	c.subscribe(of("n1").DesiredFilter())
	if err := s.Publish(of("n1").Desired("config"), make([]byte, 100<<10), true); err != nil {
		t.Fatal(err)
	}
	if pk := c.next(packets.Publish); len(pk.Payload) != 100<<10 {
		t.Errorf("%d bytes", len(pk.Payload))
	}
	began := time.Now()
	start(Limits{FirstReadTimeout: 100 * time.Millisecond}).dial(t).gone() // never begins the handshake
	if d := time.Since(began); d > 9*time.Second {                         // the default is 10
		t.Errorf("cut after %s", d)
	}
}

// FuzzConnection sends any bytes before and after CONNECT: there is no panic, and other clients are served.
func FuzzConnection(f *testing.F) {
	connect, err := encode(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 4,
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), Clean: true, Keepalive: 60, ClientIdentifier: "node/f", UsernameFlag: true,
			Username: []byte("node/f")}})
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{connect, truncatedSubscribe, {0x82, 6, 0, 1, 0, 1, 'a', 1}, {0x30, 3, 0, 1, 'a'},
		{0xc0, 0}, {0xe0, 0}, {0xa2, 5, 0, 1, 0, 1, 'a'},
		{0x62, 2, 0, 1}, {0x50, 2, 0, 1}, {0x40, 2, 0, 1}, {0x34, 5, 0, 1, 'a', 0, 1}, {0xf0, 0}, {0x10, 0}, {}} {
		f.Add(b, true)
		f.Add(b, false)
	}
	p := linktest.NewPipe()
	l, err := p.Listen()
	if err != nil {
		f.Fatal(err)
	}
	s := newUnstarted(f, Config{Listeners: []net.Listener{l}})
	s.Intake(func(Message) {})
	if err := s.Start(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, connected bool) {
		nc, err := p.Dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if connected {
			b = append(connect[:len(connect):len(connect)], b...)
		}
		read := make(chan struct{})
		go func() { // a pipe needs a reader
			defer close(read)
			for buf := make([]byte, 1024); ; {
				if _, err := nc.Read(buf); err != nil {
					return
				}
			}
		}()
		_, _ = nc.Write(b) // the broker may hang up in the middle
		if err := nc.Close(); err != nil {
			t.Fatal(err)
		}
		<-read
		eventually(t, "the connection's end", func() bool { return s.Stats().Connections == 0 })
		if got := s.events.of(Panicked); len(got) != 0 {
			t.Fatalf("%+v", got)
		}
		if n := s.mq.Clients.Len(); n != 1 {
			t.Fatalf("%d clients are left", n-1)
		}
	})
}
