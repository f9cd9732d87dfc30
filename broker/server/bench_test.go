//go:build unix

package server

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/shared/wire"
)

const benchNodes = 2000

// BenchmarkFanOut publishes a 1 KiB retained document to each of 2,000 nodes on loopback TCP,
// which acknowledge it and answer with a 200-byte retained status; one operation ends with the
// last status taken. "bare" is mochi by itself with the same capabilities; "wrapped" is Server.
func BenchmarkFanOut(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		l := loopback(b)
		limits, err := Limits{}.withDefaults()
		if err != nil {
			b.Fatal(err)
		}
		h := &bareHook{taken: newTally()}
		mq := mqtt.New(&mqtt.Options{Capabilities: capabilities(limits), InlineClient: true,
			SysTopicResendInterval: 3600, Logger: newDropLog(nil)})
		if err := mq.AddHook(h, nil); err != nil {
			b.Fatal(err)
		}
		if err := mq.AddListener(listeners.NewNet("l", l)); err != nil {
			b.Fatal(err)
		}
		if err := mq.Serve(); err != nil {
			b.Fatal(err)
		}
		defer mq.Close()
		fanOut(b, l.Addr(), h.taken, func(name string, doc []byte) error { return mq.Publish(name, doc, true, 1) })
	})
	b.Run("wrapped", func(b *testing.B) {
		taken := newTally()
		s := serve(b, Config{}, func(Message) { taken.add() })
		fanOut(b, s.Addr(), taken, func(name string, doc []byte) error { return s.Publish(name, doc, true) })
		if st := s.Stats(); st.Dropped+st.Stalled+st.DeniedPublishes != 0 {
			b.Fatalf("%+v", st)
		}
	})
}

// tally counts statuses and signals when those of all nodes have arrived.
type tally struct {
	n   atomic.Int64
	all chan struct{}
}

func newTally() *tally { return &tally{all: make(chan struct{}, 1)} }

func (t *tally) add() {
	if t.n.Add(1)%benchNodes == 0 {
		t.all <- struct{}{}
	}
}

type bareHook struct {
	mqtt.HookBase
	taken *tally
}

func (h *bareHook) ID() string { return "bare" }
func (h *bareHook) Provides(b byte) bool {
	return b == mqtt.OnConnectAuthenticate || b == mqtt.OnACLCheck || b == mqtt.OnPublish
}
func (h *bareHook) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }
func (h *bareHook) OnACLCheck(*mqtt.Client, string, bool) bool              { return true }
func (h *bareHook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if !cl.Net.Inline {
		h.taken.add()
	}
	return pk, nil
}

func fanOut(b *testing.B, addr net.Addr, taken *tally, publish func(string, []byte) error) {
	var wg sync.WaitGroup
	topics := make([]string, benchNodes)
	clients := make([]*rawClient, benchNodes)
	for i := range benchNodes {
		name := node(i)
		topics[i] = of(name).Desired(wire.KindConfig)
		c := rawDial(b, addr).mustConnect("node/" + name)
		c.subscribe(of(name).DesiredFilter())
		clients[i] = c
		if err := c.nc.SetReadDeadline(time.Time{}); err != nil {
			b.Fatal(err)
		}
		status := of(name).Reported(wire.KindConfig)
		wg.Go(func() { answer(c, status) })
	}
	doc := make([]byte, 1024)
	b.ResetTimer()
	cpu := cpuTime(b)
	for b.Loop() {
		for _, name := range topics {
			if err := publish(name, doc); err != nil {
				b.Fatal(err)
			}
		}
		<-taken.all
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N)/benchNodes, "cpu-µs/node")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/benchNodes, "µs/node")
	for _, c := range clients {
		c.nc.Close()
	}
	wg.Wait()
}

// answer acknowledges every publish and sends a status with it, in one write.
func answer(c *rawClient, status string) {
	r := bufio.NewReaderSize(c.nc, 2048)
	payload := make([]byte, 200)
	var id uint16
	for {
		pk, err := readPacket(r, 4)
		if err != nil {
			return
		}
		if pk.FixedHeader.Type != packets.Publish {
			continue
		}
		if id++; id == 0 {
			id = 1
		}
		ack, err := encode(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback},
			PacketID: pk.PacketID})
		if err != nil {
			return
		}
		report, err := encode(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1,
			Retain: true}, PacketID: id, TopicName: status, Payload: payload})
		if err != nil {
			return
		}
		if _, err := c.nc.Write(append(ack, report...)); err != nil {
			return
		}
	}
}

// cpuTime returns the processor time of this process, with the clients: on a shared machine it varies less than the
// clock.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
