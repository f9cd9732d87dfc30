package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
	"go.etcd.io/bbolt"

	"tandem.internal/broker/server"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/fleet"
)

// floor is the reference on the product's own road (see lean for the least that anything can cost): a broker that
// publishes documents and
// takes statuses, each made durable by a group commit before its PUBACK, and nothing else.
type floor struct {
	publish func(topic string, payload []byte, retain bool) error
	commit  *committer // nil: nothing is durable
	at      net.Addr
	stop    func() error
}

func newFloor(cfg hostConfig, l net.Listener) (role, error) {
	f := &floor{at: l.Addr()}
	if cfg.Durable {
		var err error
		if f.commit, err = newCommitter(filepath.Join(cfg.Dir, "floor.db")); err != nil {
			return nil, err
		}
	}
	if cfg.Mochi {
		return f, f.serveMochi(l)
	}
	s, err := server.New(server.Config{Unit: unitName, Listeners: []net.Listener{l}})
	if err != nil {
		return nil, err
	}
	s.IntakeErr(func(m server.Message) error { return f.take(m.Topic, m.Payload) })
	f.publish, f.stop = s.Publish, s.Close
	return f, s.Start()
}

// take makes a status durable, and nothing else.
func (f *floor) take(name string, payload []byte) error {
	if f.commit == nil || !isStatus(name, payload) {
		return nil
	}
	return f.commit.add(payload)
}

// isStatus tells what a bare client echoes to a document from what it says when it connects, which is JSON, and
// from replies.
func isStatus(name string, payload []byte) bool {
	return !strings.HasSuffix(name, "/reply") && len(payload) > 0 && payload[0] != '{'
}

func (f *floor) serveMochi(l net.Listener) error {
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumMessageExpiryInterval, c.MaximumClientWritesPending, c.MaximumInflight, c.ReceiveMaximum = 0, 64, 64, 64
	s := mqtt.New(&mqtt.Options{Capabilities: c, InlineClient: true, SysTopicResendInterval: 3600, Logger: quiet()})
	if err := s.AddHook(&mochiHook{f: f}, nil); err != nil {
		return err
	}
	if err := s.AddListener(listeners.NewNet("l", l)); err != nil {
		return err
	}
	f.publish = func(name string, payload []byte, retain bool) error { return s.Publish(name, payload, retain, 1) }
	f.stop = s.Close
	return s.Serve()
}

type mochiHook struct {
	mqtt.HookBase
	f *floor
}

func (h *mochiHook) ID() string { return "floor" }
func (h *mochiHook) Provides(b byte) bool {
	return b == mqtt.OnConnectAuthenticate || b == mqtt.OnACLCheck || b == mqtt.OnPublish
}
func (h *mochiHook) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }
func (h *mochiHook) OnACLCheck(*mqtt.Client, string, bool) bool              { return true }
func (h *mochiHook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if !cl.Net.Inline {
		if err := h.f.take(pk.TopicName, pk.Payload); err != nil {
			return pk, packets.ErrRejectPacket
		}
	}
	return pk, nil
}

// burst is one message to each node.
type burst struct {
	Nodes   int
	Size    int
	Request bool // on the request topic, not retained; else the desired document, retained
}

func (f *floor) do(op string, args json.RawMessage) (any, error) {
	if op != "publish" {
		return nil, fmt.Errorf("the floor does not know %q", op)
	}
	var b burst
	if err := json.Unmarshal(args, &b); err != nil {
		return nil, err
	}
	for i := range b.Nodes {
		n := topic.ForNode(unitName, fleet.Name(i))
		to := n.Desired(wire.KindConfig)
		if b.Request {
			to = n.Request()
		}
		if err := f.publish(to, make([]byte, b.Size), !b.Request); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (f *floor) addr() net.Addr { return f.at }
func (f *floor) commits() int64 { return f.commit.commits() }

func (f *floor) close() error {
	err := f.stop()
	if f.commit != nil {
		err = errors.Join(err, f.commit.close())
	}
	return err
}

// committer is a group commit with as little around it as can be: while one transaction is on its
// way to the disk, values gather for the next. Like the product's queue it lets those who bring more
// run first, but not for long.
type committer struct {
	db   *bbolt.DB
	wake chan struct{}
	over chan struct{}
	made atomic.Int64 // commits

	mu    sync.Mutex
	batch *commitBatch
}

type commitBatch struct {
	values [][]byte
	then   []func(error) // called in order when the batch is durable, or cannot be
	done   chan struct{}
	err    error
}

var floorBucket = []byte("log")

func newCommitter(path string) (*committer, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 30,
	})
	if err != nil {
		return nil, err
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(floorBucket)
		return err
	}); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	c := &committer{db: db, wake: make(chan struct{}, 1), over: make(chan struct{}),
		batch: &commitBatch{done: make(chan struct{})}}
	go c.run()
	return c, nil
}

// add returns when the value is durable.
func (c *committer) add(value []byte) error {
	b := c.put(value, nil)
	<-b.done
	return b.err
}

// after calls then on the committer's goroutine when the value is durable, or cannot be.
func (c *committer) after(value []byte, then func(error)) { c.put(value, then) }

func (c *committer) put(value []byte, then func(error)) *commitBatch {
	c.mu.Lock()
	b := c.batch
	b.values = append(b.values, value)
	if then != nil {
		b.then = append(b.then, then)
	}
	first := len(b.values) == 1
	c.mu.Unlock()
	if first {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return b
}

// commits is the number of transactions so far.
func (c *committer) commits() int64 {
	if c == nil {
		return 0
	}
	return c.made.Load()
}

// maxTurns bounds how often others are let run before a batch is taken, as in the product.
const maxTurns = 4

// take returns what has gathered.
func (c *committer) take() *commitBatch {
	for before, turns := 0, 0; turns < maxTurns; turns++ {
		c.mu.Lock()
		now := len(c.batch.values)
		c.mu.Unlock()
		if now == before {
			break
		}
		before = now
		runtime.Gosched()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.batch
	c.batch = &commitBatch{done: make(chan struct{})}
	return b
}

func (c *committer) run() {
	defer close(c.over)
	seq := uint64(0)
	for range c.wake {
		b := c.take()
		if len(b.values) == 0 {
			continue
		}
		b.err = c.db.Update(func(tx *bbolt.Tx) error {
			log := tx.Bucket(floorBucket)
			log.FillPercent = 1
			var key [8]byte
			for _, v := range b.values {
				seq++
				binary.BigEndian.PutUint64(key[:], seq)
				if err := log.Put(key[:], v); err != nil {
					return err
				}
			}
			return nil
		})
		c.made.Add(1)
		for _, then := range b.then {
			then(b.err)
		}
		close(b.done)
	}
}

// close is called when nobody adds any more.
func (c *committer) close() error {
	close(c.wake)
	<-c.over
	return c.db.Close()
}
