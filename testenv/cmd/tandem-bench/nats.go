package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tandem.internal/testenv/fleet"
)

// The subjects of NATS: a stream in memory keeps the newest document of each node, as a broker's retained messages
// would, and a stream on the disk takes the statuses. Nodes subscribe to their documents without the help of JetStream,
// which is the least that it costs; through NATS's MQTT gateway every node would be a consumer of its own.
const (
	natsDesired  = "desired."
	natsReported = "reported."
	natsInbox    = "inbox."
	natsStream   = "$JS.API.STREAM.CREATE."
)

// newNATS runs nats-server; cfg.Durable: a status is acknowledged after its fsync.
func newNATS(cfg hostConfig) (role, error) {
	at, err := freeAddress()
	if err != nil {
		return nil, err
	}
	every := "2m" // NATS's own default
	if cfg.Durable {
		every = "always"
	}
	conf := filepath.Join(cfg.Dir, "nats.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "listen: %q\njetstream { store_dir: %q, sync_interval: %s }\n", at,
		filepath.Join(cfg.Dir, "jetstream"), every), 0o600); err != nil {
		return nil, err
	}
	p, err := newPeer(cfg, at, publishNATS, "-c", conf)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		natsMake(at, "DESIRED", `"subjects":["desired.*"],"storage":"memory","max_msgs_per_subject":1`),
		natsMake(at, "REPORTED", `"subjects":["reported.*"],"storage":"file"`)); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// natsConn is a connection in the protocol of NATS: lines, and payloads after them.
type natsConn struct {
	net.Conn
	r   *bufio.Reader
	out []byte // of the write under way
}

func dialNATS(ctx context.Context, at string) (*natsConn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	c := &natsConn{Conn: nc, r: bufio.NewReaderSize(nc, 2048)}
	if _, err := c.r.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, errors.Join(err, nc.Close()) // INFO
	}
	hello := `CONNECT {"verbose":false,"pedantic":false,"protocol":1,"headers":false}` + "\r\n"
	if err := c.say([]byte(hello)); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return c, nil
}

func (c *natsConn) say(b []byte) error {
	_, err := c.Write(b)
	return err
}

// natsPut appends a message; no reply is asked for if reply is empty.
func natsPut(b []byte, subject, reply string, payload []byte) []byte {
	b = append(append(b, "PUB "...), subject...)
	if reply != "" {
		b = append(append(b, ' '), reply...)
	}
	b = strconv.AppendInt(append(b, ' '), int64(len(payload)), 10)
	b = append(append(b, "\r\n"...), payload...)
	return append(b, "\r\n"...)
}

// next reads until a message, whose subscription it returns, or a PONG (sid 0). The payload counts until the next
// call.
func (c *natsConn) next(payload *[]byte) (sid int, err error) {
	for {
		line, err := c.r.ReadSlice('\n')
		switch {
		case err != nil:
			return 0, err
		case bytes.HasPrefix(line, []byte("MSG ")):
			sid, size, err := natsMessage(line)
			if err != nil {
				return 0, err
			}
			if cap(*payload) < size+2 {
				*payload = make([]byte, size+2)
			}
			*payload = (*payload)[:size+2]
			if _, err := io.ReadFull(c.r, *payload); err != nil {
				return 0, err
			}
			*payload = (*payload)[:size]
			return sid, nil
		case bytes.HasPrefix(line, []byte("PONG")):
			return 0, nil
		case bytes.HasPrefix(line, []byte("PING")):
			if err := c.say([]byte("PONG\r\n")); err != nil {
				return 0, err
			}
		case bytes.HasPrefix(line, []byte("INFO")): // servers of a cluster
		default:
			return 0, fmt.Errorf("nats-server says %.200q", line)
		}
	}
}

// natsMessage reads "MSG subject sid [reply] size".
func natsMessage(line []byte) (sid, size int, err error) {
	f := bytes.Fields(line)
	if len(f) != 4 && len(f) != 5 {
		return 0, 0, fmt.Errorf("not a message's line: %.200q", line)
	}
	sid, err = strconv.Atoi(string(f[2]))
	if err == nil {
		size, err = strconv.Atoi(string(f[len(f)-1]))
	}
	if err == nil && (sid < 1 || size < 0 || size > maxLeanPacket) {
		err = fmt.Errorf("a message of subscription %d with %d bytes", sid, size)
	}
	return sid, size, err
}

// natsMake makes a stream; config are the members of its configuration beside the name.
func natsMake(at, name, config string) (err error) {
	ctx, cancel := patient()
	defer cancel()
	c, err := dialNATS(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ask := natsPut([]byte("SUB "+natsInbox+"make 1\r\n"), natsStream+name, natsInbox+"make",
		fmt.Appendf(nil, `{"name":%q,%s}`, name, config))
	if err := errors.Join(c.SetReadDeadline(time.Now().Add(patience)), c.say(ask)); err != nil {
		return err
	}
	var answer []byte
	if _, err = c.next(&answer); err == nil && bytes.Contains(answer, []byte(`"error"`)) {
		err = fmt.Errorf("stream %s: %s", name, answer)
	}
	return err
}

// publishNATS publishes the documents and returns when the server has taken them.
func publishNATS(at string, b burst) (err error) {
	ctx, cancel := patient()
	defer cancel()
	c, err := dialNATS(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	payload := make([]byte, b.Size)
	for i := range b.Nodes {
		c.out = natsPut(c.out, natsDesired+fleet.Name(i), "", payload)
		if len(c.out) >= 64<<10 {
			if err := c.say(c.out); err != nil {
				return err
			}
			c.out = c.out[:0]
		}
	}
	if err := c.say(append(c.out, "PING\r\n"...)); err != nil {
		return err
	}
	_, err = c.next(&payload)
	return err
}

// natsNodes are bare clients of NATS, as many as nodes; each answers a document with a status.
type natsNodes struct {
	at     string
	n      int
	status []byte
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup
	dials  chan struct{}

	online, acked, target atomic.Int64
	failed                chan error // the first

	mu      sync.Mutex
	reached chan struct{}
}

func newNATSNodes(cfg hostConfig) *natsNodes {
	f := &natsNodes{at: cfg.Connect, n: cfg.Nodes, status: bytes.Repeat([]byte{'s'}, cfg.Echo),
		dials: make(chan struct{}, 256), failed: make(chan error, 1)}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// live is one node, until its connection ends.
func (f *natsNodes) live(name string) error {
	f.dials <- struct{}{}
	c, err := dialNATS(f.ctx, f.at)
	if err == nil {
		err = c.say([]byte("SUB " + natsDesired + name + " 1\r\nSUB " + natsInbox + name + " 2\r\nPING\r\n"))
	}
	<-f.dials
	if c == nil {
		return err
	}
	end := context.AfterFunc(f.ctx, func() { _ = c.Close() }) // its reader ends
	defer end()
	defer c.Close()
	var payload []byte
	for sid := 0; err == nil; {
		if sid, err = c.next(&payload); err != nil {
			break
		}
		switch sid {
		case 0:
			f.online.Add(1)
		case 1:
			c.out = natsPut(c.out[:0], natsReported+name, natsInbox+name, f.status)
			err = c.say(c.out)
		case 2:
			if bytes.Contains(payload, []byte(`"error"`)) {
				err = fmt.Errorf("JetStream did not take a status: %s", payload)
			} else if f.acked.Add(1) == f.target.Load() {
				f.mu.Lock()
				close(f.reached)
				f.mu.Unlock()
			}
		}
	}
	return err
}

func (f *natsNodes) do(op string, args json.RawMessage) (any, error) {
	ctx, cancel := patient()
	defer cancel()
	var count int
	if err := json.Unmarshal(args, &count); err != nil {
		return nil, err
	}
	switch op {
	case "start":
		for i := range f.n {
			f.wg.Go(func() {
				if err := f.live(fleet.Name(i)); err != nil && f.ctx.Err() == nil {
					select {
					case f.failed <- err:
					default:
					}
				}
			})
		}
	case "online": // args: how many
		for f.online.Load() != int64(count) {
			if len(f.failed) > 0 || !pause(ctx, viewEvery) {
				return nil, f.late("are online", f.online.Load())
			}
		}
	case "expect": // args: how many statuses are to be acknowledged
		f.mu.Lock()
		f.reached = make(chan struct{})
		f.mu.Unlock()
		f.target.Store(f.acked.Load() + int64(count))
	case "await": // the outcome is when they were, Unix nanoseconds
		select {
		case <-f.reached:
			return time.Now().UnixNano(), nil
		case err := <-f.failed:
			return nil, err
		case <-ctx.Done():
			return nil, f.late("were acknowledged in all", f.acked.Load())
		}
	default:
		return nil, errors.New("the nodes of NATS do not know " + op)
	}
	return nil, nil
}

func (f *natsNodes) late(what string, n int64) error {
	err := fmt.Errorf("%d of %d nodes %s", n, f.n, what)
	select {
	case first := <-f.failed:
		return errors.Join(err, first)
	default:
		return err
	}
}

func (f *natsNodes) addr() net.Addr { return nil }

func (f *natsNodes) close() error {
	f.stop()
	f.wg.Wait()
	return nil
}
