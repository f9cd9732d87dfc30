package server

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// crowd is a broker with 20 nodes that read all messages, and three that are sent 200 KiB each time.
type crowd struct {
	*testServer
	arrived  [20]chan time.Time
	heavy    [3]*rawClient
	heavyGot [3]chan time.Time
}

func heavyNode(i int) string { return fmt.Sprintf("heavy%d", i) }

func newCrowd(t *testing.T, limits Limits) *crowd {
	c := &crowd{testServer: serve(t, Config{Limits: limits}, nil)}
	for i := range c.arrived {
		c.arrived[i] = make(chan time.Time, 1)
		c.consume(t, node(i), c.arrived[i])
	}
	for i := range c.heavy {
		c.heavyGot[i] = make(chan time.Time, 1024)
		c.heavy[i] = c.consume(t, heavyNode(i), c.heavyGot[i])
	}
	return c
}

// consume connects a node that signals each document, until reading fails.
func (c *crowd) consume(t *testing.T, name string, got chan<- time.Time) *rawClient {
	r := c.dial(t)
	if err := r.nc.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	r.mustConnect("node/" + name)
	r.subscribe(of(name).DesiredFilter())
	if err := r.nc.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(got)
		for {
			pk, err := readPacket(r.r, 4)
			if err != nil {
				return
			}
			got <- time.Now()
			b, _ := encode(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback},
				PacketID: pk.PacketID})
			if _, err := r.nc.Write(b); err != nil {
				return
			}
		}
	}()
	return r
}

func (c *crowd) feedHeavy(t *testing.T) {
	t.Helper()
	for i := range c.heavy {
		if err := c.Publish(of(heavyNode(i)).Desired("config"), make([]byte, 200<<10), true); err != nil {
			t.Fatal(err)
		}
	}
}

// stopReading makes the three stop reading.
func (c *crowd) stopReading(t *testing.T) {
	t.Helper()
	for i, r := range c.heavy {
		if err := r.nc.SetReadDeadline(longAgo); err != nil {
			t.Fatal(err)
		}
		for range c.heavyGot[i] {
		}
	}
}

// stall makes the three stop reading, and returns when the broker has more bytes for each than its socket takes.
func (c *crowd) stall(t *testing.T) {
	t.Helper()
	c.stopReading(t)
	eventually(t, "the broker cannot write to the three", func() bool {
		c.feedHeavy(t)
		return c.stuck() == len(c.heavy)
	})
}

// stuck returns the number of connections with buffered bytes behind those that are being written.
func (c *crowd) stuck() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for nc := range c.conns {
		nc.mu.Lock()
		if nc.flushing && len(nc.unwritten) > 0 {
			n++
		}
		nc.mu.Unlock()
	}
	return n
}

// measure publishes to all nodes in 20 rounds, and returns the 99th percentile of the times of the 20 nodes' documents.
func (c *crowd) measure(t *testing.T) (p99 time.Duration) {
	t.Helper()
	doc := make([]byte, 1024)
	var all []time.Duration
	for range 20 {
		c.feedHeavy(t)
		for i := range c.arrived {
			began := time.Now()
			if err := c.Publish(of(node(i)).Desired("config"), doc, true); err != nil {
				t.Fatal(err)
			}
			select {
			case at := <-c.arrived[i]:
				all = append(all, at.Sub(began))
			case <-time.After(patience):
				t.Fatal("a healthy node got nothing")
			}
		}
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

// TestStalledSubscriberDelaysNobody: nothing waits for the three. The broker is set to disconnect them after five
// minutes only, so anything that waited for them would wait that long. Their small remaining cost is measured: the 99th
// percentile of the others is compared with that of a broker of the same size where all read. The two are measured in
// turn, and the best turn counts, because the noise of a busy machine varies and a delay by the broker does not.
func TestStalledSubscriberDelaysNobody(t *testing.T) {
	limits := Limits{WriteTimeout: 5 * time.Minute, PendingBytes: 64 << 20}
	floor, c := newCrowd(t, limits), newCrowd(t, limits)
	c.stall(t)
	for turn := 1; ; turn++ {
		before, after := floor.measure(t), c.measure(t)
		t.Logf("p99 of the others: %s, with %d stalled %s", before, len(c.heavy), after)
		if stuck, cut := c.stuck(), c.Stats().Stalled; stuck != len(c.heavy) || cut != 0 {
			t.Fatalf("%d stalled and %d cut: the three must stall all the time", stuck, cut)
		}
		if after <= max(5*before, 20*time.Millisecond) {
			break
		}
		if turn == 5 {
			t.Fatalf("p99 went from %s to %s, the last of %d bad turns", before, after, turn)
		}
	}
}

// TestStalledSubscriberIsCut: a client is disconnected when it reads nothing, or when too many bytes wait for it.
func TestStalledSubscriberIsCut(t *testing.T) {
	for name, limits := range map[string]Limits{
		errStalled.Error(): {WriteTimeout: 300 * time.Millisecond, PendingBytes: 64 << 20},
		errBacklog.Error(): {WriteTimeout: 5 * time.Minute, Inflight: 1024},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, limits)
			c.stopReading(t)
			eventually(t, "all stalled clients are cut", func() bool {
				if c.Stats().Clients > len(c.arrived) {
					c.feedHeavy(t)
				}
				return c.Stats().Clients == len(c.arrived)
			})
			eventually(t, "each is told of", func() bool { return len(c.events.of(Stalled)) >= len(c.heavy) })
			for _, ev := range c.events.of(Stalled) {
				if !strings.HasPrefix(ev.ClientID, "node/heavy") || !strings.Contains(ev.Detail, name) {
					t.Errorf("%+v was told as stalled", ev)
				}
			}
			if n := c.Stats().Stalled; n != int64(len(c.heavy)) {
				t.Errorf("%d were counted as stalled, want %d", n, len(c.heavy))
			}
		})
	}
}
