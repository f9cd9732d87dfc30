package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// node is one node of the fleet. Its goroutine connects, reads and answers.
type node struct {
	f      *Fleet
	name   string
	typ    string
	topics topic.Node
	key    []byte // that its messages are proved with; nil: they are not

	hold    atomic.Pointer[chan struct{}] // not nil: the node takes nothing in until it is closed
	ackedAt atomic.Int64                  // when the newest status was acknowledged, Unix nanoseconds
	reports atomic.Uint64                 // number of the newest report by Say
	events  atomic.Uint64                 // number of the newest event

	mu      sync.Mutex
	c       *conn // nil: not connected
	session uint64
	seqs    [2]uint64 // of the newest info and config report
	running wire.DocRef
	last    wire.Attempt
	heard   wire.Heard // the newest beacon
	early   []byte     // the newest document that came before the first beacon
	arrived bool       // the greeting of this connection was acknowledged

	// The reader's own, for the connection that it reads.
	status uint16 // packet ID of the status that is not acknowledged yet
	news   bool   // it says something that was not said before
	greet  uint16 // packet ID of the last message of the greeting
}

// Index into node.seqs.
const (
	seqInfo = iota
	seqConfig
)

// live runs the node until ctx ends.
func (n *node) live(ctx context.Context) {
	for failures := 0; ; failures++ {
		gate := n.f.gate()
		select {
		case <-gate:
		case <-ctx.Done():
			return
		}
		started := time.Now()
		err := n.attend(ctx)
		if ctx.Err() != nil {
			return
		}
		n.f.count.disconnects.Add(1)
		if gate == n.f.gate() { // nobody dropped the fleet on purpose
			n.f.note(n.name, err)
			if time.Since(started) > n.f.cfg.Backoff.Max {
				failures = 0
			}
			if !sleep(ctx, n.f.pause(failures)) {
				return
			}
		} else {
			failures = -1
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attend is one connection, from dialling to its end.
func (n *node) attend(ctx context.Context) error {
	c, err := n.open(ctx)
	if err != nil {
		return err
	}
	defer n.close(c)
	n.status, n.greet = 0, 0
	if err := c.subscribe(topic.ForController(n.f.cfg.Unit), n.topics.DesiredFilter(), n.topics.Request()); err != nil {
		return err
	}
	var pk packets.Packet
	for {
		if _, err := c.r.Peek(1); err != nil { // an idle node holds no buffer
			return err
		}
		if hold := n.hold.Load(); hold != nil {
			select {
			case <-*hold:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		buf := payloads.Get().(*[]byte)
		err := c.read(&pk, buf)
		if err == nil {
			err = n.packet(c, &pk)
		}
		payloads.Put(buf)
		if err != nil {
			return err
		}
	}
}

// open dials and connects; at most Config.Dials nodes do so at a time.
func (n *node) open(ctx context.Context) (*conn, error) {
	select {
	case n.f.dials <- struct{}{}:
		defer func() { <-n.f.dials }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	nc, err := n.f.cfg.DialAs(ctx, n.name)
	if err != nil {
		return nil, err
	}
	c := newConn(nc)
	n.mu.Lock()
	n.c = c
	n.session++
	n.arrived = false
	n.mu.Unlock()
	if ctx.Err() != nil { // Close may have looked before n.c was set
		n.close(c)
		return nil, ctx.Err()
	}
	if err := c.connect("node/"+n.name, message{n.topics.Live(), n.liveMessage(false), true}); err != nil {
		n.close(c)
		return nil, err
	}
	n.f.count.connected.Add(1)
	return c, nil
}

func (n *node) close(c *conn) {
	_ = c.nc.Close() // the peer may have closed it
	n.mu.Lock()
	defer n.mu.Unlock()
	n.c = nil
	if n.arrived {
		n.f.count.arrived.Add(-1)
		n.arrived = false
	}
}

// cut breaks the connection from outside.
func (n *node) cut() {
	n.mu.Lock()
	c := n.c
	n.mu.Unlock()
	if c != nil {
		_ = c.nc.Close() // the reader notices, and the peer may have closed it
	}
}

var errDenied = errors.New("a subscription was denied")

// packet takes one packet in.
func (n *node) packet(c *conn, pk *packets.Packet) error {
	switch pk.FixedHeader.Type {
	case packets.Suback:
		for _, code := range pk.ReasonCodes {
			if code > 2 {
				return errDenied
			}
		}
		id, err := n.send(c, 0, n.greeting()...)
		n.greet = id
		return err
	case packets.Puback:
		n.f.count.pubacks.Add(1)
		switch pk.PacketID {
		case n.status:
			n.status = 0
			n.ackedAt.Store(time.Now().UnixNano())
			n.f.count.statuses.Add(1)
			if n.news {
				n.f.newsAcked()
			}
		case n.greet:
			n.greet = 0
			n.mu.Lock()
			n.arrived = true
			n.mu.Unlock()
			n.f.count.arrived.Add(1)
			n.f.poke()
		}
	case packets.Publish:
		return n.publish(c, pk)
	}
	return nil
}

// publish answers a message and acknowledges it with the same write.
func (n *node) publish(c *conn, pk *packets.Packet) error {
	var out []message
	status, news := false, n.f.cfg.Echo > 0
	switch leaf := pk.TopicName; {
	case len(pk.Payload) == 0: // a retained message was taken away
	case leaf == n.topics.Desired(wire.KindConfig):
		if m, fresh, ok := n.document(pk.Payload); ok {
			out, status, news = []message{m}, true, fresh
		}
	case leaf == n.topics.Request():
		out = n.request(pk.Payload)
	case leaf == n.f.beacon:
		if out = n.hear(pk.Payload); len(out) > 0 {
			status, news = true, true
		}
	}
	id, err := n.send(c, pk.PacketID, out...)
	if status || n.f.cfg.Echo > 0 {
		n.news = news || n.status != 0 && n.news // a report that says the same again takes its place
		n.status = id
	}
	return err
}

// send is conn.send, with proofs if the node has a key.
func (n *node) send(c *conn, ack uint16, all ...message) (last uint16, err error) {
	if n.key != nil {
		n.mu.Lock()
		heard := n.heard
		n.mu.Unlock()
		for i := range all {
			all[i].payload = wire.Prove(n.key, all[i].topic, all[i].payload, heard)
		}
	}
	return c.send(ack, all...)
}

// greeting is what a node says on every connect: live, then everything it reports.
func (n *node) greeting() []message {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.seqs {
		n.seqs[i] = max(n.seqs[i], 1)
	}
	return n.everything()
}

// everything is live and all reports, under mu.
func (n *node) everything() []message {
	return []message{
		{n.topics.Live(), n.liveLocked(true), true},
		{n.topics.Reported(wire.KindInfo), n.infoLocked(), true},
		{n.topics.Reported(wire.KindConfig), n.configLocked(), true},
	}
}

// beat says live again, if the node is online and takes part.
func (n *node) beat() {
	n.mu.Lock()
	c, here := n.c, n.arrived && n.hold.Load() == nil
	live := message{n.topics.Live(), n.liveLocked(true), true}
	n.mu.Unlock()
	if !here {
		return
	}
	if _, err := n.send(c, 0, live); err != nil && n.f.ctx.Err() == nil {
		n.f.note(n.name, err)
	}
}

func (n *node) liveMessage(up bool) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.liveLocked(up)
}

func (n *node) liveLocked(up bool) []byte {
	l := wire.Live{V: wire.Version, Node: n.name, Boot: n.f.boot, Session: n.session, Up: up}
	if up {
		l.Seqs = map[wire.Kind]uint64{wire.KindInfo: n.seqs[seqInfo], wire.KindConfig: n.seqs[seqConfig]}
	}
	return wire.Encode(&l)
}

func (n *node) infoLocked() []byte {
	info := wire.NodeInfo{
		Type: n.typ, OS: "linux", Arch: "arm64", CPUs: 4, RAM: 2 << 30, AgentVersion: "1.0.0",
		Partitions: []wire.Partition{{Name: "services", Path: "/var/services", Size: 8 << 30}},
	}
	return wire.Encode(&wire.Reported{
		V: wire.Version, Node: n.name, Kind: wire.KindInfo, Boot: n.f.boot, Seq: n.seqs[seqInfo],
		Detail: jsontext.Value(wire.Encode(&info)),
	})
}

func (n *node) configLocked() []byte {
	r := wire.Reported{V: wire.Version, Node: n.name, Kind: wire.KindConfig, Boot: n.f.boot, Seq: n.seqs[seqConfig]}
	if n.running.Rev != 0 {
		r.Running = &n.running
	}
	if n.last.Rev != 0 {
		r.Last = &n.last
	}
	if n.last.Error != nil || !plain(n.last.Version) {
		return wire.Encode(&r)
	}
	return appendReport(make([]byte, 0, 512), &r)
}

// plain reports whether a string needs no escape.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// pause is how long a node waits after so many failures: full jitter, as in package link.
func (f *Fleet) pause(failures int) time.Duration {
	c := f.cfg.Backoff.Min
	for ; failures > 0 && c < f.cfg.Backoff.Max; failures-- {
		c *= 2
	}
	return rand.N(min(c, f.cfg.Backoff.Max) + 1)
}
