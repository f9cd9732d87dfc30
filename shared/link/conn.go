package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"tandem.internal/shared/pulse"
)

// linger bounds what an orderly close takes: writing what waits, and reading until the broker has
// closed too. A socket closed with unread input is reset, and the reset would overtake the
// DISCONNECT.
const linger = 500 * time.Millisecond

// conn stands between paho and the network. It
//   - writes from a goroutine of its own, so that what paho writes packet by packet reaches the
//     network in batches, at once while the network is idle;
//   - never blocks a paho goroutine in Write: publishers wait for room first (reserve), where
//     they can be called off, and everything else that paho writes is small;
//   - shows paho a healthy connection until release: after a failure it swallows writes and keeps
//     the reader waiting, so that no Publish is left behind in a client that has stopped listening;
//   - bounds silence, and every write, not only those of PUBLISH packets;
//   - lets only well-formed packets of a bounded size through (inspect, frame.go).
//
// paho's own deadlines are ignored. The first failure is told to fail, once or more often.
type conn struct {
	nc           net.Conn
	limit        int // bytes of a packet
	high         int // bytes that may wait before publishers do
	silence      time.Duration
	writeTimeout time.Duration
	watch        pulse.Watch
	fail         func(error)

	// owned by the goroutine that reads
	in   *bufio.Reader
	left int // bytes of the current packet that are not handed over yet

	mu       sync.Mutex
	out      []byte         // waits to be written
	flying   int            // bytes being written
	promised int            // bytes reserved by publishers
	room     chan struct{}  // closed when there is room; nil while nobody waits
	subs     map[uint16]int // filters of each SUBSCRIBE that has no SUBACK yet, by packet ID
	closing  bool           // in good order: write what waits, then close
	dead     bool           // failed: nothing more is written
	released bool           // the reader is let go

	wake chan struct{} // holds one token if the writer has something to look at
	gone chan struct{} // closed by release
	done chan struct{} // closed when the writer has ended and nc is closed
}

func newConn(nc net.Conn, cfg *Config, fail func(error)) *conn {
	c := &conn{
		nc:           nc,
		limit:        cfg.MaxPacket,
		high:         cfg.BufferSize,
		silence:      2 * cfg.KeepAlive,
		writeTimeout: cfg.WriteTimeout,
		watch:        cfg.Watch,
		fail:         fail,
		subs:         map[uint16]int{},
		wake:         make(chan struct{}, 1),
		gone:         make(chan struct{}),
		done:         make(chan struct{}),
	}
	c.in = bufio.NewReaderSize(silenceReader{c}, max(cfg.BufferSize, 64))
	go c.writeLoop()
	return c
}

// silenceReader reads from the network and ends the wait when the broker is silent for too long.
type silenceReader struct{ c *conn }

func (r silenceReader) Read(p []byte) (int, error) {
	c := r.c
	c.mu.Lock()
	if !c.closing && !c.dead { // then shutdown has set a shorter one, or nc is closed
		if err := c.nc.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
			c.mu.Unlock()
			return 0, err
		}
	}
	c.mu.Unlock()
	return c.nc.Read(p)
}

// Read hands paho the next bytes of the current packet.
func (c *conn) Read(p []byte) (int, error) {
	if c.left == 0 {
		n, err := c.inspect()
		if err != nil {
			return 0, c.readEnded(err)
		}
		c.left = n
	}
	n, err := c.in.Read(p[:min(len(p), c.left)])
	c.left -= n
	if err != nil && n == 0 {
		return 0, c.readEnded(err)
	}
	return n, nil
}

// readEnded reports why reading ended, keeps paho's reader until release and returns the error
// on which it ends without a word.
func (c *conn) readEnded(err error) error {
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if closing {
		c.release()
		return net.ErrClosed
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("the broker closed the connection: %w", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("nothing heard from the broker for %v: %w", c.silence, err)
	case errors.Is(err, errProtocol):
	default:
		err = fmt.Errorf("the connection broke: %w", err)
	}
	c.fail(err)
	<-c.gone
	return net.ErrClosed
}

// Write takes one packet; paho never splits one. It does not block.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.closing {
		return len(p), nil
	}
	if id, n, ok := subscribeFilters(p); ok {
		c.subs[id] = n
	}
	c.out = append(c.out, p...)
	c.poke()
	return len(p), nil
}

func (c *conn) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes to the network whatever waits, all of it at a time.
func (c *conn) writeLoop() {
	defer close(c.done)
	beat := c.watch.Start("link writer", c.writeTimeout)
	defer beat.End()
	var spare []byte
	for {
		beat.Beat()
		c.mu.Lock()
		if c.dead {
			c.mu.Unlock()
			return
		}
		batch, closing := c.out, c.closing
		c.out, c.flying = spare[:0], len(batch)
		c.opened()
		c.mu.Unlock()

		if len(batch) == 0 {
			spare = batch
			if closing {
				c.closeInOrder()
				return
			}
			select {
			case <-c.wake:
			case <-beat.C:
			}
			continue
		}
		if err := c.send(batch, closing); err != nil {
			c.fail(fmt.Errorf("cannot write to the broker: %w", err))
			c.discard()
			return
		}
		spare = batch
		if cap(spare) > 2*c.high { // grown by a large packet
			spare = nil
		}
	}
}

func (c *conn) send(batch []byte, closing bool) error {
	timeout := c.writeTimeout
	if closing {
		timeout = min(timeout, linger)
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(batch)
	return err
}

// closeInOrder says that nothing more comes, waits until the reader has read to the end, and
// closes.
func (c *conn) closeInOrder() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok {
		if half.CloseWrite() == nil { // else the broker was faster
			<-c.gone
		}
	} else {
		<-c.gone
	}
	c.discard()
}

// reserve waits until n more bytes may wait to be written, or until ctx, down or stop ends.
func (c *conn) reserve(ctx context.Context, n int, down, stop <-chan struct{}) error {
	for {
		c.mu.Lock()
		busy := len(c.out) + c.flying + c.promised
		if busy == 0 || busy+n <= c.high {
			c.promised += n
			c.mu.Unlock()
			return nil
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		case <-down:
			return ErrDown
		case <-stop:
			return ErrDown
		}
	}
}

// unreserve gives back what reserve took.
func (c *conn) unreserve(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.promised -= n
	c.opened()
}

// opened tells those who wait for room to look again. c.mu is held.
func (c *conn) opened() {
	if c.room != nil && (c.dead || len(c.out)+c.flying+c.promised < c.high) {
		close(c.room)
		c.room = nil
	}
}

// Close is paho's: after a DISCONNECT it ends the connection in good order. It returns at once.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.dead {
		return nil
	}
	c.closing = true
	c.poke()
	return c.nc.SetReadDeadline(time.Now().Add(linger))
}

// discard ends the connection to the network and keeps up appearances towards paho. It may be
// called more than once, from any goroutine.
func (c *conn) discard() {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return
	}
	c.dead, c.out = true, nil
	c.opened()
	c.poke()
	c.mu.Unlock()
	_ = c.nc.Close() // whatever it says, the connection is done for
}

// release lets paho's reader go. After discard, it is the end of the appearances.
func (c *conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.released {
		c.released = true
		close(c.gone)
	}
}

func (c *conn) LocalAddr() net.Addr              { return c.nc.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr             { return c.nc.RemoteAddr() }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
